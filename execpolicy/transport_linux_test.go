package execpolicy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

func init() {
	programs["blind"] = func(r program) { spoil(r, func(dir string) error { return os.RemoveAll(dir) }) }
	programs["elsewhere"] = func(r program) { spoil(r, replaceFIFOs) }
	// The command of its containers ends at once.
	programs["headless shell"] = func(r program) {
		words := slices.Clone(os.Args[1:])
		if i := slices.Index(words, "sh"); i >= 0 {
			words[i] = "true"
		}
		become(r, words)
	}
	programs["shut"] = func(r program) { spoil(r, func(dir string) error { return os.Chmod(dir, 0o700) }) }
}

// spoil is a client that does something to the directory of the FIFOs before its
// container starts.
func spoil(r program, change func(dir string) error) {
	for _, word := range os.Args[1:] {
		if source, ok := strings.CutPrefix(word, "--mount=type=bind,source="); ok {
			dir, _, _ := strings.Cut(source, ",")
			if err := change(dir); err != nil {
				fail(err)
			}
		}
	}
	become(r, os.Args[1:])
}

// become goes on as the engine's own client.
func become(r program, words []string) {
	argv := append([]string{r.Engine.Path}, words...)
	fail(syscall.Exec(argv[0], argv, os.Environ()))
}

// replaceFIFOs puts others into their place, as on a machine whose kernel is another.
func replaceFIFOs(dir string) error {
	for _, name := range []string{"in", "out", "err"} {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			return err
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// through returns the engine with another client in front of its own.
func (p place) through(t *testing.T, name string) *dockercli.Engine {
	t.Helper()
	e := *p.engine
	client, err := exec.LookPath(e.Path)
	assert.NilError(t, err)
	e.Path, err = os.Executable()
	assert.NilError(t, err)
	if e.Env == nil {
		e.Env = os.Environ()
	}
	front := program{Name: name, Engine: &dockercli.Engine{Path: client}}
	e.Env = append(slices.Clip(e.Env), promptExit, front.variable(t))
	return &e
}

// Where FIFOs don't carry, the same start goes on with the engine's client, and the next
// one does not try.
func TestFIFOsThatDoNotCarry(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		for name, why := range map[string]string{
			"blind":     "the engine did not find the directory of the FIFOs",
			"elsewhere": "a command in a container did not open the FIFOs that were mounted for it",
			"shut":      "a command in a container did not open the FIFOs that were mounted for it",
		} {
			t.Run(name, func(t *testing.T) {
				policy := p.policy()
				policy.Engine = p.through(t, name)
				policy.Transport = execpolicy.TransportFIFO
				_, err := execpolicy.Start(t.Context(), policy, p.spec())
				assert.ErrorIs(t, err, execpolicy.ErrStart)
				assert.ErrorContains(t, err, why)

				policy.Transport = execpolicy.TransportAuto
				transport, _, err := policy.FindTransport(t.Context())
				assert.NilError(t, err)
				assert.Equal(t, transport, execpolicy.TransportFIFO)
				s := open(t, policy, p.spec())
				assert.Equal(t, s.Transport(), execpolicy.TransportAttach)
				assert.Equal(t, s.ok("echo answer"), "answer")
				transport, told, err := policy.FindTransport(t.Context())
				assert.NilError(t, err)
				assert.Equal(t, transport, execpolicy.TransportAttach)
				assert.Equal(t, told, why)
				assert.NilError(t, s.Restart(t.Context()))
				assert.NilError(t, s.Close())
			})
		}
	})
}

// Without a directory for the FIFOs a session goes by the client, and only one that must
// not do so does not start.
func TestNoPlaceForFIFOs(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		e := *p.engine
		if e.Env == nil {
			e.Env = os.Environ()
		}
		e.Env = append(slices.Clip(e.Env), "COFFERDAM_TEST_PLACE=none") // an engine of its own
		policy.Engine, policy.Transport = &e, execpolicy.TransportFIFO
		t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "no FIFOs can be made")
		policy.Transport = execpolicy.TransportAuto
		s := open(t, policy, p.spec())
		assert.Equal(t, s.Transport(), execpolicy.TransportAttach)
		assert.Equal(t, s.ok("echo answer"), "answer")
		assert.NilError(t, s.Close())
	})
}

// What keeps a container from its start by either way says nothing against FIFOs.
func TestStartThatFailsByEitherWay(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Engine = p.through(t, "headless shell")
		policy.Transport = execpolicy.TransportAuto
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		transport, why, err := policy.FindTransport(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, transport, execpolicy.TransportFIFO, why)
	})
}

// Nobody inside can open the FIFOs by their names, or make anything where they were. On
// the host their directory is empty while the session lives, and gone when it has ended.
func TestFIFOsAreGone(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Transport = execpolicy.TransportFIFO
		s := open(t, policy, p.spec())
		dir := container.FIFODir(s.Name())
		// Only root can list the directory.
		names, err := os.ReadDir(fifo.Source(dir))
		assert.Assert(t, err == nil || os.Getuid() != 0 && errors.Is(err, os.ErrPermission), err)
		assert.Equal(t, len(names), 0, "%v", names)
		for _, name := range []string{"in", "out", "err", "ops"} {
			_, err := os.Lstat(filepath.Join(fifo.Source(dir), name))
			assert.ErrorIs(t, err, os.ErrNotExist)
		}
		r := s.script(`for name in in out err ops; do [ -e /.cofferdam-io/$name ] && echo "$name is there"; done
			mkdir /.cofferdam-io/made && echo made
			: >/.cofferdam-io/made && echo made
			ls -A /.cofferdam-io`)
		assert.Equal(t, string(r.Stdout), "")
		assert.NilError(t, s.Close())
		_, err = os.Lstat(dir)
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}

// What a session has is what the policy says, whatever the environment of this test.
func TestTransport(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		for _, want := range []execpolicy.Transport{execpolicy.TransportAttach, execpolicy.TransportFIFO} {
			policy.Transport = want
			got, why, err := policy.FindTransport(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, got, want)
			assert.Assert(t, why != "")
			s := open(t, policy, p.spec())
			assert.Equal(t, s.Transport(), want)
			client := func() bool {
				return slices.ContainsFunc(leftover.Processes(), func(proc leftover.Process) bool {
					return proc.Parent == os.Getpid() && slices.Contains(proc.Args, "run") && slices.Contains(proc.Args, "--name="+s.Name())
				})
			}
			if want == execpolicy.TransportAttach {
				assert.Assert(t, client())
			} else {
				// The session may answer before its client has ended.
				wait(t, func() bool { return !client() }, "the client stays")
			}
			assert.NilError(t, s.Close())
		}
	})
}

// ownKernel returns what the library compares an engine's kernel with.
func ownKernel(t *testing.T) string {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	assert.NilError(t, err)
	return strings.TrimSpace(string(release))
}

// The facts decide, and what is asked for and can't be had is refused with the reason.
func TestTransportByFacts(t *testing.T) {
	local := dockercli.Engine{Path: "true", Kernel: ownKernel(t)}
	for _, c := range []struct {
		name   string
		change func(p *execpolicy.DockerPolicy)
		why    string // there are none; empty if there are
	}{
		{"local", func(*execpolicy.DockerPolicy) {}, ""},
		{"runc", func(p *execpolicy.DockerPolicy) { p.Runtime = "runc" }, ""},
		{"crun", func(p *execpolicy.DockerPolicy) { p.Runtime = "crun" }, ""},
		{"gVisor", func(p *execpolicy.DockerPolicy) { p.Runtime = "runsc" }, `the runtime "runsc"`},
		{"remote", func(p *execpolicy.DockerPolicy) { p.Engine.Remote = true }, "another machine"},
		{"service", func(p *execpolicy.DockerPolicy) { p.Engine.PodmanService = true }, "another machine"},
		{"nerdctl", func(p *execpolicy.DockerPolicy) { p.Engine.Kind = dockercli.Nerdctl }, "can't detach"},
		{"unknown", func(p *execpolicy.DockerPolicy) { p.Engine.Kernel = "" }, "not known which kernel"},
		{"another kernel", func(p *execpolicy.DockerPolicy) { p.Engine.Kernel = "1.0" }, "another kernel: 1.0"},
		{"runtime by flag", func(p *execpolicy.DockerPolicy) { p.ExtraRunArgs = []string{"--runtime=kata"} }, "--runtime"},
		{"a volume by flag", func(p *execpolicy.DockerPolicy) { p.ExtraRunArgs = []string{"--volume=/tmp:/host"} }, "--volume"},
		{"a mount by flag", func(p *execpolicy.DockerPolicy) { p.ExtraRunArgs = []string{"--mount=type=bind,src=/tmp,dst=/x"} }, "--mount"},
		{"the host's processes", func(p *execpolicy.DockerPolicy) { p.ExtraRunArgs = []string{"--pid=host"} }, "--pid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := local
			p := execpolicy.DockerPolicy{Engine: &e}
			c.change(&p)
			got, why, err := p.FindTransport(t.Context())
			assert.NilError(t, err)
			p.Transport = execpolicy.TransportFIFO
			_, _, refused := p.FindTransport(t.Context())
			if c.why == "" {
				assert.Equal(t, got, execpolicy.TransportFIFO)
				assert.NilError(t, refused)
				return
			}
			assert.Equal(t, got, execpolicy.TransportAttach)
			assert.Assert(t, strings.Contains(why, c.why), why)
			assert.ErrorIs(t, refused, execpolicy.ErrInvalid)
			assert.ErrorContains(t, refused, c.why)
			assert.ErrorIs(t, p.Check(t.Context(), execpolicy.Spec{}), execpolicy.ErrInvalid)
		})
	}
	t.Run("directory", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir()+"/with, comma")
		_, why, err := execpolicy.DockerPolicy{Engine: &local}.FindTransport(t.Context())
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(why, "temporary files"), why)
	})
	t.Run("shown", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		assert.NilError(t, err)
		assert.NilError(t, os.Chmod(dir, 0o777))
		assert.NilError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
		t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
		mounted := execpolicy.DockerPolicy{Engine: &local, Mounts: []dockercli.Mount{{Source: dir, Target: "/x"}}}
		assert.ErrorContains(t, mounted.Check(t.Context(), execpolicy.Spec{}), "would show")
		mounted.AllowUnsafeMounts = []string{dir}
		got, why, err := mounted.FindTransport(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, got, execpolicy.TransportAttach)
		assert.Assert(t, strings.Contains(why, "temporary files"), why)

		p, spec := execpolicy.DockerPolicy{Engine: &local, AllowUnsafeMounts: []string{dir}}, execpolicy.Spec{Workspace: dir}
		assert.NilError(t, execpolicy.Check(t.Context(), p, spec))
		p.Transport = execpolicy.TransportFIFO
		assert.ErrorContains(t, execpolicy.Check(t.Context(), p, spec), "temporary files")
		p.Transport = execpolicy.TransportAuto
		argv, err := p.Argv(&local, spec.ForPolicy(), "cofferdam-name")
		assert.NilError(t, err)
		assert.Assert(t, slices.Contains(argv, "--interactive") && !slices.Contains(argv, "--detach"), "%q", argv)
	})
	t.Run("none", func(t *testing.T) {
		_, _, err := execpolicy.DockerPolicy{Engine: &local, Transport: 7}.FindTransport(t.Context())
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "Transport(7)")
	})
	t.Run("Compat", func(t *testing.T) {
		p := execpolicy.Compat()
		p.Engine, p.Transport = &local, execpolicy.TransportFIFO
		assert.ErrorContains(t, p.Check(t.Context(), execpolicy.Spec{}), "Transport is not among the fields")
	})
}

// Where SELinux is enforced, the library relabels what is its own, and nothing else
// unless it is asked to.
func TestRelabelling(t *testing.T) {
	dir, workspace := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, workspace} {
		assert.NilError(t, os.Chmod(d, 0o777)) // root inside is not this test's user
	}
	spec := execpolicy.Spec{Workspace: workspace, Supervisor: []string{"sh"}}
	for _, c := range []struct {
		kind       dockercli.Kind
		own, asked string
	}{
		{dockercli.Docker, ":/.cofferdam-io:ro,Z", "--volume=" + dir + ":/asked:z"},
		{dockercli.Podman, "target=/.cofferdam-io,readonly,relabel=private",
			"--mount=type=bind,source=" + dir + ",target=/asked,relabel=shared"},
	} {
		e := dockercli.Engine{Kind: c.kind, Path: "true", Kernel: ownKernel(t)}
		p := execpolicy.DockerPolicy{Engine: &e, User: "0:0", Mounts: []dockercli.Mount{{Source: dir, Target: "/silent"}}}
		words := func() string {
			text, err := p.Explain(t.Context(), spec)
			assert.NilError(t, err)
			return text
		}
		relabels := func(text string) int {
			return strings.Count(text, "relabel=") + strings.Count(text, ",Z") + strings.Count(text, ":z") + strings.Count(text, ":Z")
		}
		assert.Equal(t, relabels(words()), 0)
		e.SELinux = true
		assert.Equal(t, relabels(words()), 1)
		assert.Assert(t, strings.Contains(words(), c.own), words())
		// The caller's is relabelled where the caller says so, whatever is known of the
		// engine.
		p.Mounts = append(p.Mounts, dockercli.Mount{Source: dir, Target: "/asked", Writable: true, Relabel: "shared"})
		assert.Equal(t, relabels(words()), 2)
		assert.Assert(t, strings.Contains(words(), c.asked), words())

		// So is the workspace.
		p.WorkspaceRelabel = "private"
		assert.Equal(t, relabels(words()), 3)
		assert.Assert(t, strings.Contains(words(), strings.NewReplacer(dir+":/asked:z", workspace+":/workspace:Z",
			dir+",target=/asked,relabel=shared", workspace+",target=/workspace,relabel=private").Replace(c.asked)), words())
		p.AllowUnsafeMounts, spec.Workspace = []string{"/usr/share"}, "/usr/share"
		_, err := p.Explain(t.Context(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, `the workspace "/usr/share" must not be relabelled: the host needs the label of /usr`)
		p.WorkspaceRelabel, spec.Workspace = "", workspace

		p.Mounts = []dockercli.Mount{{Source: "/usr/share", Target: "/asked"}}
		p.AllowUnsafeMounts = []string{"/usr/share"}
		words()
		p.Mounts[0].Relabel = "shared"
		_, err = p.Explain(t.Context(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, `"/usr/share" must not be relabelled: the host needs the label of /usr`)
	}
}
