package execpolicy

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// mounted returns the source that a policy's engine would be told to mount, or why there
// is none.
func (p DockerPolicy) mounted(e *dockercli.Engine, source string) (string, error) {
	p.Mounts = []dockercli.Mount{{Source: source, Target: "/data"}}
	argv, err := p.argv(e, Spec{}, "cofferdam-name")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(argv, func(word string) bool { return strings.HasPrefix(word, "--mount=") })
	fields := strings.Split(argv[i], ",")
	return strings.TrimPrefix(fields[1], "source="), nil
}

func refuses(t *testing.T, p DockerPolicy, e *dockercli.Engine, source, why string) {
	t.Helper()
	_, err := p.mounted(e, source)
	assert.ErrorIs(t, err, ErrInvalid, source)
	assert.ErrorContains(t, err, why, source)
	assert.ErrorContains(t, err, "AllowUnsafeMounts")
}

func mounts(t *testing.T, p DockerPolicy, e *dockercli.Engine, source, want string) {
	t.Helper()
	got, err := p.mounted(e, source)
	assert.NilError(t, err, source)
	assert.Equal(t, got, want)
}

// The names that are refused stand here apart from the lists that are tested.
const (
	wantGuarded = "/proc /sys /dev /etc /boot /var/lib/docker /var/lib/containers /var/lib/containerd " +
		"/run/docker.sock /run/docker /run/podman /run/containerd /run/crio /run/dbus /run/systemd /run/user"
	wantCredentials = ".ssh .aws .azure .gnupg .docker .kube .config .netrc .git-credentials .npmrc .pypirc .pgpass .my.cnf .password-store " +
		".vault-token .terraform.d .mozilla .local/share/containers .local/share/docker .local/share/keyrings Library/Keychains"
)

func TestNoMountOfWhatGivesTheHostAway(t *testing.T) {
	t.Setenv("HOME", "/srv/people/me")
	t.Setenv("XDG_RUNTIME_DIR", "/srv/runtime")
	assert.DeepEqual(t, strings.Fields(guarded), strings.Fields(wantGuarded))
	assert.Equal(t, strings.ReplaceAll(credentials, "/.", "."), strings.Replace(wantCredentials, "Library", "/Library", 1))
	p := DockerPolicy{ProtectedPaths: []string{"/srv/keys"}}
	for _, e := range []*dockercli.Engine{{}, {Kind: dockercli.Podman}, {Remote: true}} {
		e.Socket = "/srv/engine/its.sock"
		for _, path := range slices.Concat(strings.Fields(wantGuarded), []string{"/srv/keys", e.Socket, "/srv/runtime/docker.sock", "/srv/runtime/podman"}) {
			refuses(t, p, e, path, "would show "+path)
			refuses(t, p, e, path+"/below", "would show "+path)
			refuses(t, p, e, filepath.Dir(path), "would show")
		}
		for _, path := range []string{
			"/", "//", "/.", "/srv/..", "/var/run", "/var/run/docker.sock", "/var/run/docker.sock/", "//var//run/./docker.sock", "/srv/../run/docker.sock",
			"/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/user/1000/podman/podman.sock", "/run/user/1000/docker.sock",
			"/run/user/1000", "/run", "/var", "/var/lib", "/srv", "/srv/engine", "/srv/runtime",
			"/proc/self/root", "/proc/1/cwd", "/sys/fs/cgroup", "/dev/kmsg", "/dev/null", "/etc/shadow", "/var/lib/docker/volumes/x/_data",
		} {
			refuses(t, p, e, path, "would show /")
		}
		for _, home := range []string{"/srv/people/me", "/root", "/home/some body", "/Users/somebody"} {
			refuses(t, p, e, home, "would show "+home)
			refuses(t, p, e, home+"/", "would show "+home)
			refuses(t, p, e, filepath.Dir(home), "would show")
			for _, name := range strings.Fields(wantCredentials) {
				refuses(t, p, e, home+"/"+name, "would show "+home+"/"+name)
				refuses(t, p, e, home+"/"+name+"/below", "would show "+home+"/"+name)
			}
			refuses(t, p, e, home+"/.local", "would show")
			if e.Remote || home != "/root" {
				mounts(t, p, e, home+"/project", home+"/project")
				mounts(t, p, e, home+"/project/.ssh", home+"/project/.ssh")
			}
		}
		for _, path := range []string{"/usr", "/opt/data", "/srv/people/you", "/srv/keys.txt", "/etcetera", "/var/lib/dockers", "/run/docker.sock.d", "/run/mine"} {
			mounts(t, p, e, path, path)
		}
		// What is not there is the engine's to refuse.
		mounts(t, p, e, "/no/such//path/", "/no/such//path/")
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
	p := DockerPolicy{ProtectedPaths: []string{in("keys")}}
	e := &dockercli.Engine{Kind: dockercli.Podman}
	for _, cwd := range []string{"/", dir, in("keys"), in("keys/deep"), in("work")} {
		t.Chdir(cwd)
		for _, source := range []string{"/", "/etc", "/proc", "/proc/self", dir, in("keys"), in("keys/deep")} {
			refuses(t, p, e, source, "would show /")
		}
		mounts(t, p, e, in("work"), in("work"))
	}
}

func TestMountsAreWhereLinksLead(t *testing.T) {
	if runtime.GOOS == "windows" {
		leftout.Skip(t, "links need rights on Windows")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"work/deep", "keys", "run/podman", "people/me/project", "people/me/.ssh", "people/other/.aws", "disk/home/.kube", "disk/home/project"} {
		assert.NilError(t, os.MkdirAll(in(dir), 0o755))
	}
	assert.NilError(t, os.WriteFile(in("keys/one"), nil, 0o600))
	assert.NilError(t, os.Link(in("keys/one"), in("work/hard")))
	for name, to := range map[string]string{
		"work/etc": "/etc", "work/up": "../keys", "work/twice": "up", "work/deep/one": "../up/one", "work/home": in("people/me"), "work/.ssh": in("people/me/.ssh"),
		"work/loop": "loop", "work/nothing": "/no/such", "work/fine": "deep", "work/root": "/", "keylink": "keys", "people/me/out": in("work/deep"), "people/me/in": ".ssh",
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

	e := &dockercli.Engine{}
	p := DockerPolicy{ProtectedPaths: []string{in("keylink")}}
	for source, why := range map[string]string{
		"work/etc": "would show /etc", "work/etc/ssl": "would show /etc", "work/up": "would show " + in("keylink"), "work/twice": "would show " + in("keylink"),
		"work/deep/one": "would show " + in("keylink"), "work/up/one": "would show", "keys": "would show " + in("keylink"), "keys/one": "would show",
		"work/home": "would show", "work/home/.ssh": "would show", "work/.ssh": "would show", "work/root": "would show", "people/me/in": "would show",
		"work/loop": "too many links", "work/nothing": "no such file", "work/nothing/below": "no such file", "work/s": "would show a socket or a device", "work/slink": "would show a socket or a device",
		"run": "would show", "run/podman": "would show", ".": "would show",
	} {
		refuses(t, p, e, in(source), why)
	}
	// A file is the same under another name.
	refuses(t, DockerPolicy{ProtectedPaths: []string{in("keys/one")}}, e, in("work/hard"), "would show "+in("keys/one"))
	// A home of somebody else's may be a link.
	defer func(dirs string) { homeDirs = dirs }(homeDirs)
	homeDirs = in("peoplelink")
	for source, why := range map[string]string{
		"people": "would show " + in("peoplelink"), "people/other": "would show", "people/moved": "would show",
		"people/moved/.aws": "would show", "people/moved/.aws/x": "would show", "people/moved/.kube": "would show",
		"people/moved/.kube/x": "would show", "work/linked/.aws": "would show",
	} {
		refuses(t, p, e, in(source), why)
	}
	mounts(t, p, e, in("people/moved/project"), in("disk/home/project"))
	homeDirs = ""
	for source, leads := range map[string]string{
		"work": "work", "work/": "work", "work/fine": "work/deep", "work/fine/../fine": "work/deep", "people/me/out": "work/deep", "people/me/project": "people/me/project",
		"people/other": "people/other",
	} {
		mounts(t, p, e, root+"/"+source, in(leads))
	}
	// Where it is not known to which file a name leads, the name alone counts.
	mounts(t, p, &dockercli.Engine{Remote: true}, in("work/up"), in("work/up"))
	// ".." means what is above where a link leads, as it does to the kernel.
	mounts(t, p, e, in("people")+"/me/out/..", in("work"))

	// The same goes for a workspace. What is mounted is what was looked at, but for
	// LangChain's words.
	workspace := func(p DockerPolicy, dir, word string) {
		t.Helper()
		if !p.compat {
			p.User = "somebody" // who may use what others made
		}
		argv, err := p.argv(e, Spec{Workspace: dir}, "cofferdam-name")
		if word == "" {
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, "AllowUnsafeMounts if you mean it")
			return
		}
		assert.NilError(t, err)
		assert.Assert(t, slices.Contains(argv, word), "%q", argv)
	}
	for _, dir := range []string{"/etc", in("people/me"), in("work/home"), in("work/up"), in("keys"), in("work/.ssh"), root, "/dev/shm"} {
		workspace(p, dir, "")
		compat := Compat()
		compat.ProtectedPaths = p.ProtectedPaths
		workspace(compat, dir, "")
	}
	workspace(p, in("work/fine"), "--mount=type=bind,source="+in("work/deep")+",target=/workspace")
	workspace(Compat(), in("work/fine"), in("work/fine")+":"+in("work/fine"))
	t.Chdir(in("people/me"))
	workspace(p, ".", "")
	workspace(p, "project", "--mount=type=bind,source="+in("people/me/project")+",target=/workspace")

	// A name allows what is there, and neither what a link leads to nor anything else.
	p.AllowUnsafeMounts = []string{in("keys"), in("people/me") + "/", in("work/s"), "/no/such/path", in("work/home/.ssh"), in("work/etc"), in("work/nothing"), in("work/loop")}
	compat := Compat()
	compat.ProtectedPaths, compat.AllowUnsafeMounts = p.ProtectedPaths, p.AllowUnsafeMounts
	for source, leads := range map[string]string{
		"keys": "keys", "work/up": "keys", "work/twice": "keys", "people/me": "people/me", "work/home": "people/me", "work/s": "work/s", "work/slink": "work/s",
	} {
		mounts(t, p, e, in(source), in(leads))
	}
	workspace(p, in("keys"), "--mount=type=bind,source="+in("keys")+",target=/workspace")
	workspace(compat, in("work/up"), in("work/up")+":"+in("work/up"))
	for _, source := range []string{"keys/one", "people/me/.ssh", "work/home/.ssh", "people", ".", "work/etc"} {
		refuses(t, p, e, in(source), "would show /")
	}
	for _, source := range []string{"work/nothing", "work/loop"} {
		refuses(t, p, e, in(source), "would show nobody knows what")
	}
}

func TestCheckWorkspace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"me/.ssh", "me/project", "keys/deep"} {
		assert.NilError(t, os.MkdirAll(in(name), 0o755))
	}
	assert.NilError(t, os.WriteFile(in("file"), nil, 0o644))
	t.Setenv("HOME", in("me"))
	for _, e := range []*dockercli.Engine{nil, {}, {Remote: true}, {Kind: dockercli.Podman, Socket: in("keys/deep/s")}} {
		p := DockerPolicy{Engine: e, ProtectedPaths: []string{in("keys")}}
		for name, why := range map[string]string{
			in("me"): "would show " + in("me"), in("me/.ssh"): "would show " + in("me/.ssh"), in("keys/deep"): "would show " + in("keys"), "/etc": "would show /etc",
			in("nothing"): "can't be used", in("file"): "no directory", "/": "the root",
		} {
			err := p.CheckWorkspace(name)
			assert.ErrorIs(t, err, ErrInvalid, name)
			assert.ErrorContains(t, err, why)
		}
		assert.NilError(t, p.CheckWorkspace(in("me/project")))
		assert.NilError(t, p.CheckWorkspace(""))
		p.AllowUnsafeMounts = []string{in("me/.ssh")}
		assert.NilError(t, p.CheckWorkspace(in("me/.ssh")))
	}
	assert.ErrorContains(t, DockerPolicy{Engine: &dockercli.Engine{Socket: in("me/project/s")}}.CheckWorkspace(in("me/project")), "would show "+in("me/project/s"))
}

func TestNamesOfMountsAreAbsolute(t *testing.T) {
	p := DockerPolicy{ProtectedPaths: []string{"keys", "/ok"}, AllowUnsafeMounts: []string{"", "./x", "/ok"}}
	_, err := p.argv(&dockercli.Engine{}, Spec{}, "cofferdam-name")
	assert.ErrorIs(t, err, ErrInvalid)
	for _, text := range []string{`"keys" in ProtectedPaths or AllowUnsafeMounts has to be an absolute path`, `"" in Pro`, `"./x" in Pro`} {
		assert.ErrorContains(t, err, text)
	}
	assert.Assert(t, !strings.Contains(err.Error(), "ok"), err)
}

func TestMountsByDrive(t *testing.T) {
	if runtime.GOOS != "windows" {
		return // no other system has drives
	}
	p := DockerPolicy{ProtectedPaths: []string{`\\host\share`}, AllowUnsafeMounts: []string{`c:\Users`}}
	e := &dockercli.Engine{Remote: true}
	for _, path := range []string{`D:\dev`, `D:\etc\x`, `D:\root`} {
		mounts(t, p, e, path, path)
	}
	mounts(t, p, e, `C:\Users`, `C:\Users`)
	refuses(t, p, e, `D:\Users`, "would show")
	refuses(t, p, e, "/etc", "would show /etc")
	// The look for a drive that is not there comes to an end.
	_, err := follow(&dockercli.Engine{}, `B:\no\such`)
	assert.ErrorContains(t, err, "B:")
}

// A link that was planted where a mount is to come from leads to the engine's socket, or
// to another where the engine has none.
func TestPlantedLinkToASocketIsNotMounted(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		if e.Remote {
			return // its files are not here
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		assert.NilError(t, err)
		socket := e.Socket
		if socket == "" {
			socket = filepath.Join(dir, "s")
			l, err := net.Listen("unix", socket)
			assert.NilError(t, err)
			defer l.Close()
		}
		planted := filepath.Join(dir, "data")
		assert.NilError(t, os.Symlink(socket, planted))
		p := DockerPolicy{Engine: e.Engine, Image: e.Image, Mounts: []dockercli.Mount{{Source: planted, Target: "/data"}}}
		_, err = Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "AllowUnsafeMounts")

		p.AllowUnsafeMounts = []string{socket}
		s, err := Start(t.Context(), p, Spec{Labels: e.Labels})
		assert.NilError(t, err)
		r, err := s.Run(t.Context(), Command{Script: "[ -S /data ]"})
		assert.NilError(t, err)
		assert.Equal(t, r.ExitCode, 0, r.Text())
		assert.NilError(t, s.Close())
	})
}
