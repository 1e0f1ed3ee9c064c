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

// What package mountguard refuses, a policy refuses, whatever its engine.
func TestMountsAreGuarded(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	p := DockerPolicy{ProtectedPaths: []string{in("keys")}}
	for _, e := range []*dockercli.Engine{{}, {Kind: dockercli.Podman}, {Remote: true}} {
		e.Socket = in("engine/its.sock")
		for _, path := range []string{"/", "/proc", "/etc/shadow", "/root", in("keys"), in("keys/below"),
			in("engine"), e.Socket} {
			refuses(t, p, e, path, "would show /")
		}
		mounts(t, p, e, in("work"), in("work"))
		allowed := p
		allowed.AllowUnsafeMounts = []string{in("keys"), "/etc"}
		mounts(t, allowed, e, in("keys"), in("keys"))
		mounts(t, allowed, e, "/etc", "/etc")
		refuses(t, allowed, e, in("keys/below"), "would show "+in("keys"))
	}
}

func TestMountsAreWhereLinksLead(t *testing.T) {
	if runtime.GOOS == "windows" {
		leftout.Skip(t, "links need rights on Windows")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"work/deep", "keys", "people/me/project", "people/me/.ssh"} {
		assert.NilError(t, os.MkdirAll(in(dir), 0o755))
	}
	for name, to := range map[string]string{
		"work/up": "../keys", "work/home": in("people/me"), "work/.ssh": in("people/me/.ssh"),
		"work/nothing": "/no/such", "work/fine": "deep", "keylink": "keys",
	} {
		assert.NilError(t, os.Symlink(to, in(name)))
	}
	t.Setenv("HOME", in("people/me"))

	e := &dockercli.Engine{}
	p := DockerPolicy{ProtectedPaths: []string{in("keylink")}}
	refuses(t, p, e, in("work/up"), "would show "+in("keylink"))
	refuses(t, p, e, in("work/nothing"), "no such file")
	mounts(t, p, e, in("work/fine"), in("work/deep"))
	// Where it is not known to which file a name leads, the name alone counts.
	mounts(t, p, &dockercli.Engine{Remote: true}, in("work/up"), in("work/up"))

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
	for _, dir := range []string{"/etc", in("people/me"), in("work/home"), in("work/up"), in("keys"),
		in("work/.ssh"), root, "/dev/shm"} {
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

	p.AllowUnsafeMounts = []string{in("keys")}
	compat := Compat()
	compat.ProtectedPaths, compat.AllowUnsafeMounts = p.ProtectedPaths, p.AllowUnsafeMounts
	mounts(t, p, e, in("work/up"), in("keys"))
	workspace(p, in("keys"), "--mount=type=bind,source="+in("keys")+",target=/workspace")
	workspace(compat, in("work/up"), in("work/up")+":"+in("work/up"))
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
			in("me"): "would show " + in("me"), in("me/.ssh"): "would show " + in("me/.ssh"),
			in("keys/deep"): "would show " + in("keys"), "/etc": "would show /etc",
			in("nothing"): "can't be used", in("file"): "is not a directory", "/": "the root",
		} {
			err := p.CheckWorkspace(name)
			assert.ErrorIs(t, err, ErrInvalid, name)
			assert.ErrorContains(t, err, why)
		}
		assert.NilError(t, p.CheckWorkspace(in("me/project")))
		assert.NilError(t, p.CheckWorkspace(""))
		t.Setenv("TMPDIR", in("me/project/.tmp"))
		assert.NilError(t, p.CheckWorkspace(in("me/project")))
		p.AllowUnsafeMounts = []string{in("me/.ssh")}
		assert.NilError(t, p.CheckWorkspace(in("me/.ssh")))
	}
	assert.ErrorContains(t, DockerPolicy{Engine: &dockercli.Engine{Socket: in("me/project/s")}}.CheckWorkspace(in("me/project")), "would show "+in("me/project/s"))
}

// A volume may show any directory of the host, but for those that package deps makes.
func TestVolumesAreLayers(t *testing.T) {
	p := DockerPolicy{Engine: &dockercli.Engine{Path: "/bin/true"}}
	check := func(volume string) error {
		p.Mounts = []dockercli.Mount{{Volume: volume, Target: "/deps"}}
		return p.Check(t.Context(), Spec{})
	}
	assert.NilError(t, check("cofferdam-layer-x"))
	for _, volume := range []string{"data", "cofferdam-layer", "/etc", "cofferdam-layer-x,ro", "Cofferdam-layer-x"} {
		assert.ErrorIs(t, check(volume), ErrInvalid, volume)
	}
	p.Engine.PodmanService = true
	assert.ErrorContains(t, check("cofferdam-layer-x"), "would make it")
	assert.ErrorIs(t, check("cofferdam-layer-x"), ErrInvalid)
}

func TestNamesOfMountsAreAbsolute(t *testing.T) {
	p := DockerPolicy{ProtectedPaths: []string{"keys", "/ok"}, AllowUnsafeMounts: []string{"", "./x", "/ok"}}
	_, err := p.argv(&dockercli.Engine{}, Spec{}, "cofferdam-name")
	assert.ErrorIs(t, err, ErrInvalid)
	for _, text := range []string{`"keys" in ProtectedPaths or AllowUnsafeMounts has to be an absolute path`,
		`"" in Pro`, `"./x" in Pro`} {
		assert.ErrorContains(t, err, text)
	}
	assert.Assert(t, !strings.Contains(err.Error(), "ok"), err)
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

// A runtime that the engine does not have is refused before anything is started, with
// those that it has, and with all else that is wrong.
func TestRuntimeThatTheEngineLacks(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		info, err := e.Info(t.Context())
		assert.NilError(t, err)
		p := DockerPolicy{Engine: e.Engine, Image: e.Image, Runtime: "cofferdam-none", PidsLimit: 1}
		_, started := Start(t.Context(), p, Spec{Labels: e.Labels})
		for _, err := range []error{started, p.Check(t.Context(), Spec{})} {
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorIs(t, err, dockercli.ErrNoRuntime)
			assert.ErrorContains(t, err, `"cofferdam-none"`)
			assert.ErrorContains(t, err, `"`+info.DefaultRuntime+`"`)
			assert.ErrorContains(t, err, "PidsLimit")
		}
		p.PidsLimit, p.Runtime = 0, info.DefaultRuntime
		assert.NilError(t, p.Check(t.Context(), Spec{}))
	})
}
