package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// everyField has every field set that adds to an argument list.
func everyField() execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{
		Image:              "localhost/no-such-image:1",
		Platform:           "linux/amd64",
		KeepContainer:      true,
		NetworkEnabled:     true,
		WritableRootfs:     true,
		WorkspaceReadOnly:  true,
		WorkspaceRelabel:   "shared",
		MemoryBytes:        64 << 20,
		CPUs:               "0.25",
		CPUShares:          512,
		PidsLimit:          64,
		Tmpfs:              map[string]int64{"/tmp": 1 << 20, "/run": 2 << 20},
		User:               "1000:1001",
		AddCapabilities:    []string{"NET_BIND_SERVICE", "CHOWN"},
		AllowNewPrivileges: true,
		Mounts: []dockercli.Mount{{Source: "/usr", Target: "/data,x"},
			{Source: "/var/tmp", Target: "/rw", Writable: true}},
		ExtraHosts: []string{"db:10.0.0.1"},
		GPUs:       "all",
		Devices: []dockercli.Device{{Source: "/dev/null", Target: "/dev/another", Permissions: "r"},
			{Source: "/dev/full"}},
		Runtime:         "runc",
		ExtraRunArgs:    []string{"--stop-timeout", "3", "--ipc=host"},
		AllowUnsafeArgs: []string{"ipc"},
	}
}

// anEgress is of no use but for argument lists.
type anEgress struct{ execpolicy.Egress }

func (anEgress) Check() ([]string, error) { return []string{"files.example:443", "pypi.org:443"}, nil }

var argvCases = []struct {
	name   string
	policy execpolicy.DockerPolicy
	spec   execpolicy.Spec
}{
	{"zero", execpolicy.DockerPolicy{}, execpolicy.Spec{}},
	{"zero-session", execpolicy.DockerPolicy{}, execpolicy.Spec{
		Env: map[string]string{"TOKEN": "hunter2"}, Command: []string{"bash"},
		Supervisor: []string{"sh", "-c", "supervisor"}}},
	{"egress", execpolicy.DockerPolicy{Egress: anEgress{}}, execpolicy.Spec{
		Supervisor: []string{"sh", "-c", "supervisor"}}},
	{"every", everyField(), execpolicy.Spec{
		Workspace: "testdata", Env: map[string]string{"TOKEN": "hunter2", "A": "\n"},
		Labels: map[string]string{"team": "a=b"}, Command: []string{"-x", "a b", ""}}},
	{"every-session", everyField(),
		execpolicy.Spec{Workspace: "testdata", Supervisor: []string{"sh", "-c", "supervisor"}}},
	{"relabel", execpolicy.DockerPolicy{WorkspaceRelabel: "private", WorkspaceReadOnly: true, User: "1000:1001"},
		execpolicy.Spec{Workspace: "testdata"}},
	{"engine-seccomp", execpolicy.DockerPolicy{EngineSeccomp: true}, execpolicy.Spec{}},
	{"notebook", execpolicy.Notebook(), execpolicy.Spec{}},
	{"build-fetch", first(execpolicy.BuildPolicies()), execpolicy.Spec{}},
	{"build", second(execpolicy.BuildPolicies()), execpolicy.Spec{}},
	{"compat", execpolicy.Compat(), execpolicy.Spec{Env: map[string]string{"PATH": "/bin"}}},
	{"add-host", addHost(execpolicy.DockerPolicy{}), execpolicy.Spec{}},
	{"compat-add-host", addHost(execpolicy.Compat()), execpolicy.Spec{}},
}

// addHost returns the policy with a name for an address, in the way in which every policy
// can have it.
func addHost(p execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--add-host", "db.example:192.0.2.7"}, []string{"add-host"}
	return p
}

func first(p, _ execpolicy.DockerPolicy) execpolicy.DockerPolicy  { return p }
func second(_, p execpolicy.DockerPolicy) execpolicy.DockerPolicy { return p }

// unlike are the words of an argument list that differ from one machine or program to
// another.
var unlike = regexp.MustCompile(`(--label=cofferdam\.[a-z-]+|--ulimit=nproc)=[^"]*`)

func TestArgv(t *testing.T) {
	if runtime.GOOS != "linux" {
		leftout.Skip(t, "paths, owners and limits differ here")
	}
	// The directory that everyField mounts must hold neither.
	t.Setenv("TMPDIR", "/tmp")
	t.Setenv("HOME", "/no/such/home")
	here, err := os.Getwd()
	assert.NilError(t, err)
	seen := map[string]bool{"docker-job.txt": true, "podman-job.txt": true} // of TestArgvOfJob
	for _, engine := range []struct {
		name string
		dockercli.Engine
	}{
		{"docker", dockercli.Engine{Path: "/usr/bin/docker"}},
		{"podman", dockercli.Engine{Path: "/usr/bin/podman", Kind: dockercli.Podman}},
		{"service", dockercli.Engine{Path: "/usr/bin/docker", PodmanService: true}},
		{"nerdctl", dockercli.Engine{Path: "/usr/bin/nerdctl", Kind: dockercli.Nerdctl}},
	} {
		for _, c := range argvCases {
			if engine.PodmanService && c.name != "engine-seccomp" && c.name != "compat" {
				continue // docker's say it
			}
			if engine.Kind == dockercli.Nerdctl && c.name != "zero" && c.name != "zero-session" && c.name != "compat" {
				continue // dockercli's say it
			}
			name := engine.name + "-" + c.name
			seen[name+".txt"] = true
			t.Run(name, func(t *testing.T) {
				e := &engine.Engine
				e.Global = []string{"--log-level", "error"}
				argv, err := c.policy.Argv(e, c.spec, "cofferdam-name")
				assert.NilError(t, err)
				text := func(argv []string) string {
					var b strings.Builder
					for _, arg := range argv {
						assert.Assert(t, !strings.Contains(arg, "hunter2"), "a value is in %q", arg)
						fmt.Fprintf(&b, "%s\n", unlike.ReplaceAllString(fmt.Sprintf("%q", strings.ReplaceAll(arg, here, "/HERE")),
							"$1=*"))
					}
					return b.String()
				}
				golden.Assert(t, text(argv), "argv/"+name+".txt")

				again, err := c.policy.Argv(e, c.spec, "cofferdam-name")
				assert.NilError(t, err)
				assert.Equal(t, text(again), text(argv))
			})
		}
	}
	files, err := os.ReadDir("testdata/argv")
	assert.NilError(t, err)
	for _, f := range files {
		assert.Check(t, seen[f.Name()], "%s belongs to no case", f.Name())
	}
}

// By the engine's client a job begins with an exec. What it runs, and with what, goes by
// its stdin.
func TestArgvOfJob(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			e := fakeengine.New(t, kind, fakeengine.Faults{})
			policy := execpolicy.DockerPolicy{Engine: e.Engine, Limits: hostLimits, Transport: execpolicy.TransportAttach}
			s := open(t, policy, execpolicy.Spec{Env: map[string]string{"SESSION": "hunter1"}})
			defer s.Close()
			r, err := s.result(s.job(execpolicy.Command{
				Argv: []string{"sh", "-c", `[ "$SESSION$TOKEN$SECRET" = hunter1hunter2hunter3 ]`}, Dir: "/tmp",
				Env:     map[string]string{"TOKEN": "hunter2"},
				Secrets: []execpolicy.Secret{{Name: "SECRET", Value: "hunter3"}},
			}))
			assert.NilError(t, err)
			assert.Equal(t, r.ExitCode, 0)
			var text strings.Builder
			for _, call := range e.Calls() {
				if call[0] != "exec" {
					continue
				}
				for _, word := range call {
					fmt.Fprintf(&text, "%q\n", strings.ReplaceAll(word, s.Name(), "cofferdam-name"))
				}
			}
			golden.Assert(t, text.String(), "argv/"+kind.String()+"-job.txt")
		})
	}
}

// The real clients must take every flag. That the image is missing is what they find out
// last, before anything is made.
func TestArgvIsTakenByTheClients(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp") // everyField mounts another such directory
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for _, c := range argvCases {
			t.Run(c.name, func(t *testing.T) {
				policy, spec := c.policy, c.spec
				policy.Engine, policy.Image, policy.Pull = e.Engine, "localhost/no-such-image:1", dockercli.PullNever
				if e.Kind == dockercli.Podman {
					// These are looked up before the image.
					policy.GPUs, policy.Runtime = "", ""
				}
				spec.Supervisor, spec.Labels = nil, e.Labels
				_, err := execpolicy.Start(t.Context(), policy, spec)
				assert.ErrorIs(t, err, dockercli.ErrImageMissing)
			})
		}
	})
}

func TestExplainHidesValues(t *testing.T) {
	policy := execpolicy.Compat()
	policy.Engine = &dockercli.Engine{Path: "true"}
	line, err := policy.Explain(t.Context(), execpolicy.Spec{Env: map[string]string{"TOKEN": "hunter2"}})
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(line, "TOKEN="), line)
	assert.Assert(t, !strings.Contains(line, "hunter2"), line)
	// What the command has is no flag.
	line, err = policy.Explain(t.Context(), execpolicy.Spec{Command: []string{"sed", "-e", "s/a=b/c/"}})
	assert.NilError(t, err)
	assert.Assert(t, strings.HasSuffix(line, " sed -e s/a=b/c/\n") || strings.HasSuffix(line, " sed -e s/a=b/c/"), "%q", line)
}

// An oracle is LangChain's DockerExecutionPolicy, as far as it makes an argument list.
// Nil pointers are None.
type oracle struct {
	image          string
	keep           bool
	networkEnabled bool
	extra          []string
	memory         int64
	cpus           string
	readOnly       bool
	user           string
}

func (o oracle) command(binary, workspace string, env [][2]string, command []string) []string {
	full := []string{binary, "run", "-i"}
	if !o.keep {
		full = append(full, "--rm")
	}
	if !o.networkEnabled {
		full = append(full, "--network", "none")
	}
	if o.memory != 0 {
		full = append(full, "--memory", fmt.Sprint(o.memory))
	}
	if !strings.HasPrefix(filepath.Base(workspace), "langchain-shell-") {
		full = append(full, "-v", workspace+":"+workspace, "-w", workspace)
	} else {
		full = append(full, "-w", "/")
	}
	if o.readOnly {
		full = append(full, "--read-only")
	}
	for _, kv := range env {
		full = append(full, "-e", kv[0]+"="+kv[1])
	}
	if o.cpus != "" {
		full = append(full, "--cpus", o.cpus)
	}
	if o.user != "" {
		full = append(full, "--user", o.user)
	}
	full = append(full, o.extra...)
	full = append(full, o.image)
	return append(full, command...)
}

// Every combination of LangChain's fields gives its argument list, but for the words by
// which the library owns its container.
func TestCompatIsLangChains(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			compatIsLangChains(t, &dockercli.Engine{Path: "/usr/bin/" + kind.String(), Kind: kind})
		})
	}
}

func compatIsLangChains(t *testing.T, e *dockercli.Engine) {
	workspaces := []string{filepath.Join(t.TempDir(), "w"), filepath.Join(t.TempDir(), "langchain-shell-ab12"),
		filepath.Join(t.TempDir(), "a b,c")}
	for _, dir := range workspaces {
		assert.NilError(t, os.Mkdir(dir, 0o755))
	}
	bools := []bool{false, true}
	var own []string
	cases := 0
	for _, image := range []string{"", "ubuntu:22.04"} {
		for _, keep := range bools {
			for _, network := range bools {
				for _, memory := range []int64{0, 4096} {
					for _, workspace := range workspaces {
						for _, readOnly := range bools {
							for _, env := range [][][2]string{nil, {{"A", ""}, {"B", "x=y z"}, {"PATH", "/bin"}}} {
								for _, cpus := range []string{"", "1.5"} {
									for _, user := range []string{"", "1000:1000"} {
										for _, extra := range [][]string{nil, {"--ipc", "host"}} {
											for _, command := range [][]string{nil, {"/bin/sh"}, {"python3", "-c", "print(1)"}} {
												p := execpolicy.Compat()
												p.Image, p.KeepContainer, p.NetworkEnabled, p.MemoryBytes = image, keep, network, memory
												p.WritableRootfs, p.CPUs, p.User, p.ExtraRunArgs = !readOnly, cpus, user, extra
												p.AllowUnsafeArgs = []string{"ipc"}
												spec := execpolicy.Spec{Workspace: workspace, Command: command, Env: map[string]string{}}
												for _, kv := range env {
													spec.Env[kv[0]] = kv[1]
												}
												got, err := p.Argv(e, spec, "cofferdam-name")
												assert.NilError(t, err)

												o := oracle{image, keep, network, extra, memory, cpus, readOnly, user}
												if o.image == "" {
													o.image = execpolicy.DefaultImage
												}
												if command == nil {
													command = []string{"/bin/bash"}
												}
												want := o.command(e.Path, workspace, env, command)
												ours := got[3 : len(got)-len(want)+3]
												if own == nil {
													own = slices.Clone(ours)
												}
												// What is left is to the byte
												// LangChain's, and what is ours is always
												// the same and stands together.
												assert.DeepEqual(t, slices.Concat(got[:3], got[3+len(ours):]), want)
												assert.DeepEqual(t, withoutChanging(ours), withoutChanging(own))
												cases++
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	assert.Equal(t, cases, 2*2*2*2*3*2*2*2*2*2*3)
	allowed := []string{"--name=", "--label=", "--log-driver=none", "--pull=never", "--entrypoint=",
		"--tmpfs=/.cofferdam:", "--no-healthcheck"}
	if e.Kind == dockercli.Podman {
		// With these it does what docker does by itself.
		allowed = append(allowed, "--detach-keys=", "--read-only-tmpfs=false", "--systemd=false", "--pid=private",
			"--sdnotify=ignore", "--no-hosts", "--stop-timeout=")
	}
	for _, word := range own {
		owned := slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(word, prefix) })
		assert.Check(t, owned, "%q is none of the flags by which the library owns its container", word)
	}
}

// withoutChanging leaves out the labels that say when the container was created and
// expires, and whether it is kept.
func withoutChanging(words []string) []string {
	changing := regexp.MustCompile(`^--label=cofferdam\.(created|expires|keep)=`)
	return slices.DeleteFunc(slices.Clone(words), changing.MatchString)
}
