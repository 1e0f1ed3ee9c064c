package execpolicy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A profile is docker's format, as far as the library uses it.
type profile struct {
	DefaultAction string
	ArchMap       []struct {
		Architecture     string
		SubArchitectures []string
	}
	Architectures []string
	Syscalls      []struct {
		Names    []string
		Action   string
		ErrnoRet *int
		Args     []struct {
			Index, Value, ValueTwo uint64
			Op                     string
		}
		Includes, Excludes struct {
			Caps, Arches []string
			MinKernel    string
		}
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "seccomp", name))
	assert.NilError(t, err)
	return string(text)
}

// The names in docker.txt are those that docker's own profile has for a container without
// capabilities, for any processor, as of the version of 2026.
func TestDefaultSeccompProfileAllowsAtMostDockers(t *testing.T) {
	dockers := strings.Fields(fixture(t, "docker.txt"))
	var p profile
	d := json.NewDecoder(strings.NewReader(execpolicy.DefaultSeccompProfile()))
	d.DisallowUnknownFields()
	type known struct {
		*profile
		DefaultErrnoRet int
	}
	assert.NilError(t, d.Decode(&known{profile: &p}))
	assert.Equal(t, p.DefaultAction, "SCMP_ACT_ERRNO")
	// Another processor's calls would be checked by numbers that mean others there.
	assert.Equal(t, len(p.Architectures), 0)
	for _, a := range p.ArchMap {
		assert.Check(t, cmp.Len(a.SubArchitectures, 0), a.Architecture)
	}

	// Where docker itself allows only some arguments, or the library does.
	conditions := map[string][]string{
		"clone": {"0 SCMP_CMP_MASKED_EQ 7e020000 0", "1 SCMP_CMP_MASKED_EQ 7e020000 0"},
		"personality": {"0 SCMP_CMP_EQ 0 0", "0 SCMP_CMP_EQ 8 0", "0 SCMP_CMP_EQ 20000 0", "0 SCMP_CMP_EQ 20008 0",
			"0 SCMP_CMP_EQ ffffffff 0"},
		"prlimit64": {"0 SCMP_CMP_EQ 0 0", "2 SCMP_CMP_EQ 0 0"},
		// The kernel looks at the low half of the family, the filter at all of it. 0 to
		// 37, 39, and 41 to 47.
		"socket": {"0 SCMP_CMP_MASKED_EQ ffffffe0 0", "0 SCMP_CMP_MASKED_EQ fffffffc 20", "0 SCMP_CMP_MASKED_EQ fffffffe 24",
			"0 SCMP_CMP_MASKED_EQ ffffffff 27", "0 SCMP_CMP_MASKED_EQ ffffffff 29", "0 SCMP_CMP_MASKED_EQ fffffffe 2a",
			"0 SCMP_CMP_MASKED_EQ fffffffc 2c"},
		"open":   {"1 SCMP_CMP_MASKED_EQ 400040 0", "2 SCMP_CMP_MASKED_EQ 800 0"},
		"openat": {"2 SCMP_CMP_MASKED_EQ 400040 0", "3 SCMP_CMP_MASKED_EQ 800 0"},
	}
	for _, name := range []string{"chmod", "creat", "fchmod", "mknod"} {
		conditions[name] = []string{"1 SCMP_CMP_MASKED_EQ 800 0"}
	}
	for _, name := range []string{"fchmodat", "fchmodat2", "mknodat"} {
		conditions[name] = []string{"2 SCMP_CMP_MASKED_EQ 800 0"}
	}
	allowed, refused := map[string][]string{}, map[string]bool{}
	for _, s := range p.Syscalls {
		assert.Check(t, slices.IsSorted(s.Names) && len(slices.Compact(slices.Clone(s.Names))) == len(s.Names), "%q", s.Names)
		assert.Check(t, len(s.Includes.Caps)+len(s.Excludes.Caps) == 0, "%q: it depends on capabilities", s.Names)
		for _, name := range s.Names {
			if s.Action == "SCMP_ACT_ERRNO" {
				refused[name] = refused[name] || len(s.Args) == 0
				continue
			}
			assert.Equal(t, s.Action, "SCMP_ACT_ALLOW")
			assert.Check(t, slices.Contains(dockers, name), "%s: docker does not allow it", name)
			var words []string
			for _, a := range s.Args {
				words = append(words, fmt.Sprintf("%d %s %x %x", a.Index, a.Op, a.Value, a.ValueTwo))
			}
			// Several would each have to be met, but for those of one argument.
			assert.Check(t, len(words) <= 1, "%s %q", name, words)
			allowed[name] = append(allowed[name], strings.Join(words, ""))
		}
	}
	for name, words := range allowed {
		want := conditions[name]
		if want == nil {
			want = []string{""}
		}
		assert.Check(t, cmp.DeepEqual(words, want), name)
		assert.Check(t, !refused[name], "%s is allowed and refused", name)
	}
	for _, name := range strings.Fields("add_key bpf clone3 io_uring_setup ioprio_set keyctl mount openat2 " +
		"perf_event_open process_vm_readv " +
		"request_key sched_setattr sched_setparam sched_setscheduler sendfile sendfile64 setns setpriority " +
		"socketcall splice unshare userfaultfd") {
		assert.Check(t, allowed[name] == nil, "%s is allowed", name)
	}
}

// tells runs a fixture of Python in a session and returns how each line ends.
func (s session) tells(name string, args ...string) map[string]string {
	s.t.Helper()
	r := s.run(execpolicy.Command{Argv: append([]string{"python3", "-"}, args...),
		Stdin: strings.NewReader(fixture(s.t, name))})
	assert.Equal(s.t, r.ExitCode, 0, "%s", r.Text())
	told := map[string]string{}
	for line := range strings.Lines(string(r.Stdout)) {
		line = strings.TrimSuffix(line, "\n")
		what := strings.LastIndex(line, " ")
		told[strings.TrimSuffix(line[:what], ":")] = line[what+1:]
	}
	return told
}

// Both engines refuse the same, and what programs go on without is missing.
func TestSeccompRefuses(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		leftout.Skip(t, "the calls have other numbers here")
	}
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		got := s.tells("calls.py")
		assert.Assert(t, len(got) > 20, "%v", got)
		for name, how := range got {
			switch name {
			case "clone3", "openat2", "io_uring_setup", "unknown":
				assert.Check(t, how == "missing", "%s is %s", name, how)
			case "socket unix", "socket inet", "socket inet6", "socket netlink", "socket xdp":
				assert.Check(t, how == "allowed", "%s is %s", name, how)
			case "32-bit call":
				assert.Check(t, how == "killed" || how == "missing", "%s is %s", name, how)
			case "x32 call":
				assert.Check(t, how == "killed", "%s is %s", name, how)
			default:
				assert.Check(t, how != "allowed", "%s is %s", name, how)
			}
		}
		policy := p.policy()
		policy.EngineSeccomp = true
		got = open(t, policy, p.spec()).tells("calls.py")
		assert.Equal(t, got["setpriority"], "allowed", "the engine refuses it too, so this test shows nothing")
	})
}

// setuidIn returns the files of a directory that are set-uid.
func setuidIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	assert.NilError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&fs.ModeSetuid != 0 {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// Whatever a program does, it leaves no set-uid file in a workspace. Ordinary modes are
// left alone.
func TestNothingIsSetUIDForTheHost(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		for _, engines := range []bool{false, true} {
			policy, spec := p.policy(), p.spec()
			policy.EngineSeccomp = engines
			spec.Workspace = newWorkspace(t, fmt.Sprint(engines))
			s := open(t, policy, spec)
			got := s.tells("setuid.py", "/workspace")
			assert.Check(t, got["ordinary"] == "done", "%v", got)
			delete(got, "ordinary")
			assert.Assert(t, len(got) > 10)
			for way, how := range got {
				assert.Check(t, engines || how == "refused" || how == "missing", "%s: %s", way, how)
			}
			left := setuidIn(t, spec.Workspace)
			if engines {
				assert.Check(t, len(left) > 5, "the engine refuses it too, so this test shows nothing: %q, %v", left, got)
			} else {
				assert.Check(t, cmp.Len(left, 0), "%v", got)
			}
		}
	})
}

// A program gets the three pipes and no more.
func TestTheFiltersDescriptorStaysOutside(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Command = []string{"python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"}
		proc, err := p.policy().Spawn(t.Context(), spec)
		assert.NilError(t, err)
		// The last one is the directory that is read.
		assert.Equal(t, readAll(t, proc.Stdout), "['0', '1', '2', '3']\n")
		assert.NilError(t, proc.Kill(t.Context()))
		for _, f := range []io.Closer{proc.Stdin, proc.Stdout, proc.Stderr} {
			f.Close()
		}
	})
}

// A caller's own filter is in force, whatever its length, and so is that of an extra
// argument.
func TestSeccompProfileOfTheCaller(t *testing.T) {
	const noRmdir = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["rmdir"], "action": ` +
		`"SCMP_ACT_ERRNO", "errnoRet": 39}]}`
	onEngines(t, func(t *testing.T, p place) {
		for name, set := range map[string]func(*execpolicy.DockerPolicy){
			"short": func(p *execpolicy.DockerPolicy) { p.SeccompProfile = noRmdir },
			"long":  func(p *execpolicy.DockerPolicy) { p.SeccompProfile = strings.Repeat("\n", 1<<20) + noRmdir },
			"extra": func(p *execpolicy.DockerPolicy) {
				file := filepath.Join(t.TempDir(), "profile.json")
				assert.NilError(t, os.WriteFile(file, []byte(noRmdir), 0o644))
				p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--security-opt", "seccomp=" + file}, []string{"security-opt"}
			},
		} {
			policy := p.policy()
			set(&policy.DockerPolicy)
			r := open(t, policy, p.spec()).script("mkdir d && chmod 4755 d && rmdir d")
			assert.Check(t, r.ExitCode == 1 && strings.Contains(string(r.Stderr), "not empty"), "%s: %s", name, r.Text())
		}
	})
}

func TestSeccompIsCheckedBeforeTheStart(t *testing.T) {
	own := `{"defaultAction": "SCMP_ACT_ALLOW"}`
	for _, c := range []struct {
		name   string
		engine dockercli.Engine
		policy execpolicy.DockerPolicy
		want   string // if empty, there is no error
	}{
		{name: "both", policy: execpolicy.DockerPolicy{SeccompProfile: own, EngineSeccomp: true},
			want: "there is one filter"},
		{name: "extra", policy: execpolicy.DockerPolicy{SeccompProfile: own,
			ExtraRunArgs: []string{"--security-opt=seccomp:unconfined"}, AllowUnsafeArgs: []string{"security-opt"}},
			want: "there is one filter"},
		{name: "an array", policy: execpolicy.DockerPolicy{SeccompProfile: `["defaultAction"]`},
			want: "has to be a JSON object"},
		{name: "a path", policy: execpolicy.DockerPolicy{SeccompProfile: "/etc/profile.json"},
			want: "has to be a JSON object"},
		// Engines take it for a container without a filter.
		{name: "nothing in it", policy: execpolicy.DockerPolicy{SeccompProfile: "{}"}, want: "has to be a JSON object"},
		{name: "compat", policy: func() execpolicy.DockerPolicy { p := execpolicy.Compat(); p.SeccompProfile = own; return p }(),
			want: "SeccompProfile is not among the fields of LangChain's policy"},
		{name: "compat without the engine's",
			policy: func() execpolicy.DockerPolicy { p := execpolicy.Compat(); p.EngineSeccomp = false; return p }(),
			want:   "EngineSeccomp is false"},
		{name: "podman's client of a service", engine: dockercli.Engine{Kind: dockercli.Podman, Remote: true},
			want: "set EngineSeccomp"},
		{name: "docker's client of podman's service", engine: dockercli.Engine{PodmanService: true},
			want: "set EngineSeccomp"},
		{name: "that with the engine's", engine: dockercli.Engine{PodmanService: true},
			policy: execpolicy.DockerPolicy{EngineSeccomp: true}},
		{name: "that with compat", engine: dockercli.Engine{PodmanService: true}, policy: execpolicy.Compat()},
		{name: "docker elsewhere", engine: dockercli.Engine{Remote: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.policy.Argv(&c.engine, execpolicy.Spec{}, "cofferdam-name")
			if c.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// What an engine can't read is an argument's fault.
func TestSeccompProfileThatTheEngineRefuses(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		for _, text := range []string{
			`{"defaultAction": }`,
			`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": 3}`,
			`{"defaultAction": "SCMP_ACT_NO"}`,
			`{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_NO"]}`,
		} {
			policy := p.policy()
			policy.SeccompProfile = text
			_, err := execpolicy.Start(t.Context(), policy, p.spec())
			assert.Check(t, cmp.ErrorIs(err, dockercli.ErrArgument), text)
			assert.Check(t, cmp.ErrorContains(err, "seccomp"), text)
		}
	})
}

// What Explain says can be pasted into a shell.
func TestExplainHasTheFilter(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Command = []string{"sh", "-c", "cd /tmp && >x && chmod 755 x && ! chmod 4755 x 2>/dev/null &&\necho refused"}
		for _, shell := range []string{"sh", "bash"} {
			line, err := p.policy().Explain(t.Context(), spec)
			assert.NilError(t, err)
			cmd := exec.Command(shell, "-c", line)
			cmd.Env = p.engine.Env
			out, err := cmd.CombinedOutput()
			assert.Check(t, err == nil && string(out) == "refused\n", "%s: %v: %s", shell, err, out)
		}
	})
}

// Podman without root's rights reads the filter as another process, and here as another
// user.
func TestSeccompRootless(t *testing.T) {
	e := enginetest.Rootless(t)
	policy := place{engine: e.Engine, image: e.Image}.policy()
	policy.User = "0:0"
	s := open(t, policy, execpolicy.Spec{Labels: e.Labels})
	assert.Equal(t, s.ok(">x; chmod 4755 x 2>/dev/null || echo refused"), "refused")
}

// What stands in the place of a client may close what it does not know.
func TestSeccompWithoutItsDescriptor(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		wrapper := filepath.Join(t.TempDir(), filepath.Base(p.engine.Path))
		assert.NilError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nexec '"+p.engine.Path+"' \"$@\" 3<&-\n"), 0o755))
		e := *p.engine
		e.Path = wrapper
		policy := p.policy()
		policy.Engine = &e
		_, err := execpolicy.Start(t.Context(), policy, p.spec())
		assert.ErrorIs(t, err, dockercli.ErrArgument)
		assert.ErrorContains(t, err, "which a program in its place has to pass on, unless EngineSeccomp is set")
		policy.EngineSeccomp = true
		assert.Equal(t, open(t, policy, p.spec()).ok("echo well"), "well")
	})
}
