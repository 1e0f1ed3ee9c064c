package mountguard

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

func refuses(t *testing.T, g *Guard, source, why string) {
	t.Helper()
	_, _, err := g.Check("the source", source)
	assert.ErrorContains(t, err, why, source)
	assert.ErrorContains(t, err, "AllowUnsafeMounts")
}

func allows(t *testing.T, g *Guard, source, want string) {
	t.Helper()
	got, _, err := g.Check("the source", source)
	assert.NilError(t, err, source)
	assert.Equal(t, got, want)
}

// The names that are refused stand here apart from the lists that are tested.
const (
	wantGuarded = "/proc /sys /dev /etc /boot /var/lib/docker /var/lib/containers /var/lib/containerd " +
		"/var/lib/nerdctl " +
		"/run/docker.sock /run/docker /run/podman /run/containerd /run/crio /run/k3s /run/dbus /run/systemd /run/user"
	wantCredentials = ".ssh .aws .azure .gnupg .docker .kube .config .netrc .git-credentials .npmrc .pypirc " +
		".pgpass .my.cnf .password-store " +
		".vault-token .terraform.d .mozilla .local/share/containers .local/share/docker .local/share/keyrings " +
		"Library/Keychains"
)

func TestNoMountOfWhatGivesTheHostAway(t *testing.T) {
	t.Setenv("HOME", "/srv/people/me")
	t.Setenv("XDG_RUNTIME_DIR", "/srv/runtime")
	assert.DeepEqual(t, strings.Fields(guarded), strings.Fields(wantGuarded))
	assert.Equal(t, strings.ReplaceAll(credentials, "/.", "."), strings.Replace(wantCredentials, "Library", "/Library", 1))
	for _, remote := range []bool{false, true} {
		g := &Guard{Remote: remote, Socket: "/srv/engine/its.sock", Protected: []string{"/srv/keys"}}
		for _, path := range slices.Concat(strings.Fields(wantGuarded),
			[]string{"/srv/keys", g.Socket, "/srv/runtime/docker.sock", "/srv/runtime/podman"}) {
			refuses(t, g, path, "would show "+path)
			refuses(t, g, path+"/below", "would show "+path)
			refuses(t, g, filepath.Dir(path), "would show")
		}
		for _, path := range []string{
			"/", "//", "/.", "/srv/..", "/var/run", "/var/run/docker.sock", "/var/run/docker.sock/",
			"//var//run/./docker.sock", "/srv/../run/docker.sock",
			"/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
			"/run/k3s/containerd/containerd.sock", "/var/lib/nerdctl/1935db59",
			"/run/user/1000/podman/podman.sock", "/run/user/1000/docker.sock",
			"/run/user/1000", "/run", "/var", "/var/lib", "/srv", "/srv/engine", "/srv/runtime",
			"/proc/self/root", "/proc/1/cwd", "/sys/fs/cgroup", "/dev/kmsg", "/dev/null", "/etc/shadow",
			"/var/lib/docker/volumes/x/_data",
		} {
			refuses(t, g, path, "would show /")
		}
		for _, home := range []string{"/srv/people/me", "/root", "/home/some body", "/Users/somebody"} {
			refuses(t, g, home, "would show "+home)
			refuses(t, g, home+"/", "would show "+home)
			refuses(t, g, filepath.Dir(home), "would show")
			for _, name := range strings.Fields(wantCredentials) {
				refuses(t, g, home+"/"+name, "would show "+home+"/"+name)
				refuses(t, g, home+"/"+name+"/below", "would show "+home+"/"+name)
			}
			refuses(t, g, home+"/.local", "would show")
			if remote || home != "/root" {
				allows(t, g, home+"/project", home+"/project")
				allows(t, g, home+"/project/.ssh", home+"/project/.ssh")
			}
		}
		for _, path := range []string{"/usr", "/opt/data", "/srv/people/you", "/srv/keys.txt", "/etcetera",
			"/var/lib/dockers", "/run/docker.sock.d", "/run/mine"} {
			allows(t, g, path, path)
		}
		// What is not there is the engine's to refuse.
		for name, cleaned := range map[string]string{"/no/such//path/": "/no/such/path", "/no/such/../path": "/no/path"} {
			if remote {
				cleaned = name
			}
			allows(t, g, name, cleaned)
		}
	}
}

// What code inside could do to the FIFOs of sessions, and to what is at their places, is
// kept from it.
func TestTemporaryFilesAreNotShown(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	temp := filepath.Join(dir, "project", ".tmp")
	assert.NilError(t, os.MkdirAll(filepath.Join(temp, "mine"), 0o755))
	link := filepath.Join(dir, "link")
	assert.NilError(t, os.Symlink(temp, link))
	for _, name := range []string{temp, link} {
		t.Setenv("TMPDIR", name)
		refuses(t, &Guard{}, temp, "where the streams of sessions are")
		refuses(t, &Guard{}, filepath.Dir(temp), "where the streams of sessions are")
		allows(t, &Guard{}, filepath.Join(temp, "mine"), filepath.Join(temp, "mine"))
		allows(t, &Guard{Allowed: []string{temp}}, temp, temp)
		allows(t, &Guard{Remote: true}, temp, temp)
		allows(t, &Guard{Copied: true}, temp, temp)
		assert.Assert(t, (&Guard{}).Holds(filepath.Dir(temp), name))
		assert.Assert(t, !(&Guard{}).Holds(filepath.Join(temp, "mine"), name))
	}
}

// Where nothing is known of a home or of a socket, that is not the working directory, and
// what was found stays found.
func TestMountsAreJudgedWithoutAHomeOrASocket(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(dir, name) }
	assert.NilError(t, os.MkdirAll(in("keys/deep"), 0o755))
	assert.NilError(t, os.Mkdir(in("work"), 0o755))
	g := &Guard{Protected: []string{in("keys")}}
	for _, cwd := range []string{"/", dir, in("keys"), in("keys/deep"), in("work")} {
		t.Chdir(cwd)
		for _, source := range []string{"/", "/etc", "/proc", "/proc/self", dir, in("keys"), in("keys/deep")} {
			refuses(t, g, source, "would show /")
		}
		allows(t, g, in("work"), in("work"))
	}
}

func TestMountsAreWhereLinksLead(t *testing.T) {
	if runtime.GOOS == "windows" {
		leftout.Skip(t, "links need rights on Windows")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"work/deep", "keys", "run/podman", "people/me/project", "people/me/.ssh",
		"people/other/.aws", "disk/home/.kube", "disk/home/project"} {
		assert.NilError(t, os.MkdirAll(in(dir), 0o755))
	}
	assert.NilError(t, os.WriteFile(in("keys/one"), nil, 0o600))
	assert.NilError(t, os.Link(in("keys/one"), in("work/hard")))
	for name, to := range map[string]string{
		"work/etc": "/etc", "work/up": "../keys", "work/twice": "up", "work/deep/one": "../up/one",
		"work/home": in("people/me"), "work/.ssh": in("people/me/.ssh"),
		"work/loop": "loop", "work/nothing": "/no/such", "work/fine": "deep", "work/root": "/", "keylink": "keys",
		"people/me/out": in("work/deep"), "people/me/in": ".ssh",
		"people/moved": in("disk/home"), "peoplelink": "people",
		"work/linked": in("people/other"),
	} {
		assert.NilError(t, os.Symlink(to, in(name)))
	}
	l, err := net.Listen("unix", in("work/s"))
	assert.NilError(t, err)
	defer l.Close()
	assert.NilError(t, os.Symlink("s", in("work/slink")))
	t.Setenv("HOME", in("people/me"))
	t.Setenv("XDG_RUNTIME_DIR", in("run"))

	g := &Guard{Protected: []string{in("keylink")}}
	for source, why := range map[string]string{
		"work/etc": "would show /etc", "work/etc/ssl": "would show /etc", "work/up": "would show " + in("keylink"),
		"work/twice":    "would show " + in("keylink"),
		"work/deep/one": "would show " + in("keylink"), "work/up/one": "would show", "keys": "would show " +
			in("keylink"), "keys/one": "would show",
		"work/home": "would show", "work/home/.ssh": "would show", "work/.ssh": "would show",
		"work/root": "would show", "people/me/in": "would show",
		"work/loop": "too many links", "work/nothing": "no such file", "work/nothing/below": "no such file",
		"work/s": "would show a socket or a device", "work/slink": "would show a socket or a device",
		"run": "would show", "run/podman": "would show", ".": "would show",
	} {
		refuses(t, g, in(source), why)
	}
	refuses(t, g, in("work")+"/gone/../s", "would show a socket or a device") // as engines read it
	// A file is the same under another name.
	refuses(t, &Guard{Protected: []string{in("keys/one")}}, in("work/hard"), "would show "+in("keys/one"))
	// A home of somebody else's may be a link.
	defer func(dirs string) { homeDirs = dirs }(homeDirs)
	homeDirs = in("peoplelink")
	for source, why := range map[string]string{
		"people": "would show " + in("peoplelink"), "people/other": "would show", "people/moved": "would show",
		"people/moved/.aws": "would show", "people/moved/.aws/x": "would show", "people/moved/.kube": "would show",
		"people/moved/.kube/x": "would show", "work/linked/.aws": "would show",
	} {
		refuses(t, g, in(source), why)
	}
	allows(t, g, in("people/moved/project"), in("disk/home/project"))
	homeDirs = ""
	for source, leads := range map[string]string{
		"work": "work", "work/": "work", "work/fine": "work/deep", "work/fine/../fine": "work/deep",
		"people/me/out": "work/deep", "people/me/project": "people/me/project",
		"people/other": "people/other",
	} {
		allows(t, g, root+"/"+source, in(leads))
	}
	// Where it is not known to which file a name leads, the name alone counts.
	allows(t, &Guard{Remote: true}, in("work/up"), in("work/up"))
	// ".." means what is above where a link leads, as it does to the kernel.
	allows(t, g, in("people")+"/me/out/..", in("work"))

	// A name allows what is there, and neither what a link leads to nor anything else.
	g.Allowed = []string{in("keys"), in("people/me") + "/", in("work/s"), "/no/such/path", in("work/home/.ssh"),
		in("work/etc"), in("work/nothing"), in("work/loop")}
	for source, leads := range map[string]string{
		"keys": "keys", "work/up": "keys", "work/twice": "keys", "people/me": "people/me", "work/home": "people/me",
		"work/s": "work/s", "work/slink": "work/s",
	} {
		allows(t, g, in(source), in(leads))
	}
	for _, source := range []string{"keys/one", "people/me/.ssh", "work/home/.ssh", "people", ".", "work/etc"} {
		refuses(t, g, in(source), "would show /")
	}
	for _, source := range []string{"work/nothing", "work/loop"} {
		refuses(t, g, in(source), "would show nobody knows what")
	}
}

func TestWorkspace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(dir, name) }
	assert.NilError(t, os.Mkdir(in("work"), 0o755))
	assert.NilError(t, os.WriteFile(in("file"), nil, 0o644))
	t.Chdir(dir)
	for name, want := range map[string]string{"": "", "work": in("work"), in("work") + "/../work": in("work")} {
		path, err := Workspace(name)
		assert.NilError(t, err)
		assert.Equal(t, path, want)
	}
	for name, why := range map[string]string{
		in("nothing"): "can't be used", in("file"): "is not a directory", "/": "the root",
	} {
		_, err := Workspace(name)
		assert.ErrorContains(t, err, why)
	}
}

func TestAbsoluteNames(t *testing.T) {
	for name, want := range map[string]bool{"/ok": true, "/": true, "//x": true, "keys": false, "": false, "./x": false} {
		assert.Equal(t, IsAbs(name), want, name)
	}
}

func TestMountsByDrive(t *testing.T) {
	if runtime.GOOS != "windows" {
		return // no other system has drives
	}
	g := &Guard{Remote: true, Protected: []string{`\\host\share`}, Allowed: []string{`c:\Users`}}
	for _, path := range []string{`D:\dev`, `D:\etc\x`, `D:\root`} {
		allows(t, g, path, path)
	}
	allows(t, g, `C:\Users`, `C:\Users`)
	refuses(t, g, `D:\Users`, "would show")
	refuses(t, g, "/etc", "would show /etc")
	// The look for a drive that is not there comes to an end.
	_, err := (&Guard{}).follow(`B:\no\such`)
	assert.ErrorContains(t, err, "B:")
}

// Relabelling what the host needs would do it harm, which nothing allows.
func TestCheckRelabel(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	fine := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	assert.NilError(t, os.Symlink("/usr", link))
	for _, remote := range []bool{false, true} {
		g := &Guard{Remote: remote, Protected: []string{"/srv/keys"}}
		refused := []string{"/", "/usr", "/usr/local/lib", "/bin", "/etc", "/etc/ssl", "/home", "/root", "/srv/keys", "/srv",
			"/proc", "/sys/fs", "/dev", "/var", "/var/lib/docker", "/tmp", "/var/tmp", "/run", "/opt", home, home + "/.ssh"}
		if !remote {
			refused = append(refused, link, link+"/share", fine+"/none")
		}
		for _, path := range refused {
			g.Allowed = append(g.Allowed, path)
			assert.Check(t, g.CheckRelabel("the source", path) != nil, path)
		}
		for _, path := range []string{fine, "/tmp/" + filepath.Base(fine)} {
			if _, err := os.Stat(path); err == nil || remote {
				assert.Check(t, g.CheckRelabel("the source", path), path)
			}
		}
	}
}
