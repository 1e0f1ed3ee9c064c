package execpolicy_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// lacking returns a podman without root's rights that can't set those limits.
func lacking(kernel string, limits ...string) *dockercli.Engine {
	return &dockercli.Engine{Path: "true", Kind: dockercli.Podman, Rootless: true, Kernel: kernel, MissingLimits: limits}
}

// An engine that can't set the limits is refused, with all that are missing at once,
// before anything is started.
func TestMissingLimitsAreRefused(t *testing.T) {
	all := []string{dockercli.LimitMemory, dockercli.LimitProcessors, dockercli.LimitProcesses}
	e := lacking("6.1", all...)
	for _, session := range []bool{false, true} {
		spec := execpolicy.Spec{}
		var err error
		if session {
			_, err = execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e, PidsLimit: 1}, spec)
		} else {
			_, err = execpolicy.DockerPolicy{PidsLimit: 1}.Argv(e, spec, "cofferdam-name")
		}
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		for _, want := range []string{"limits of memory, processors, processes", "AllowMissingLimits", "Delegate=yes", "PidsLimit is 1"} {
			assert.ErrorContains(t, err, want)
		}
	}
	_, err := execpolicy.DockerPolicy{}.Argv(lacking("6.1", dockercli.LimitProcessors), execpolicy.Spec{}, "cofferdam-name")
	assert.ErrorContains(t, err, "limits of processors:")
	// LangChain's policy limits nothing by itself.
	compat := execpolicy.Compat()
	_, err = compat.Argv(e, execpolicy.Spec{}, "cofferdam-name")
	assert.NilError(t, err)
	compat.MemoryBytes, compat.CPUs = 64<<20, "2"
	_, err = compat.Argv(e, execpolicy.Spec{}, "cofferdam-name")
	assert.ErrorContains(t, err, "limits of memory, processors:")
	compat.AllowMissingLimits = true
	_, err = compat.Argv(e, execpolicy.Spec{}, "cofferdam-name")
	assert.NilError(t, err)

	// Without control groups the engine would leave running what a container has started
	// in the host's namespace.
	p := execpolicy.DockerPolicy{AllowMissingLimits: true, ExtraRunArgs: []string{"--pid=host"}, AllowUnsafeArgs: []string{"pid"}}
	_, err = p.Argv(e, execpolicy.Spec{}, "cofferdam-name")
	assert.ErrorContains(t, err, "ExtraRunArgs have --pid")
	_, err = p.Argv(lacking("6.1", dockercli.LimitProcessors), execpolicy.Spec{}, "cofferdam-name")
	assert.NilError(t, err)
}

// What is missing is not asked for, and what is there is.
func TestMissingLimitsInArgv(t *testing.T) {
	flags := func(e *dockercli.Engine, p execpolicy.DockerPolicy) (found []string) {
		t.Helper()
		p.AllowMissingLimits, p.CPUShares = true, 512
		argv, err := p.Argv(e, execpolicy.Spec{}, "cofferdam-name")
		assert.NilError(t, err)
		for _, arg := range argv {
			name, _, _ := strings.Cut(arg, "=")
			if slices.Contains([]string{"--memory", "--memory-swap", "--cpus", "--cpu-shares", "--pids-limit", "--userns"}, name) ||
				strings.HasPrefix(arg, "--ulimit=nproc=256") {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return found
	}
	memory, cpus := []string{"--memory", "--memory-swap"}, []string{"--cpu-shares", "--cpus"}
	zero := execpolicy.DockerPolicy{}
	assert.DeepEqual(t, flags(lacking("6.1"), zero), slices.Concat(cpus, memory, []string{"--pids-limit"}))
	assert.DeepEqual(t, flags(lacking("6.1", dockercli.LimitMemory), zero), append(slices.Clone(cpus), "--pids-limit"))
	assert.DeepEqual(t, flags(lacking("6.1", dockercli.LimitProcessors), zero), append(slices.Clone(memory), "--pids-limit"))
	// The kernel's limit for a user number takes the place of PidsLimit, in a user
	// namespace of the session's own unless its user was named.
	less := lacking("6.1", dockercli.LimitProcesses)
	rest := slices.Concat(cpus, memory)
	assert.DeepEqual(t, flags(less, zero), append(slices.Clone(rest), "--ulimit", "--userns"))
	assert.DeepEqual(t, flags(less, execpolicy.DockerPolicy{User: "7:7"}), append(slices.Clone(rest), "--ulimit"))
	docker := *less
	docker.Kind, docker.Path = dockercli.Docker, "/usr/bin/docker"
	assert.DeepEqual(t, flags(&docker, zero), rest)
}

// Sessions of the default user don't take each other's processes, and one that takes all
// of its own is left with what it may have.
func TestMissingLimitsOfProcesses(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		if !p.engine.Lacks(dockercli.LimitProcesses) {
			leftout.Note(t, "%s limits processes", p.engine.Kind)
			return
		}
		policy := p.policy()
		policy.PidsLimit = 32
		greedy, other := open(t, policy, p.spec()), open(t, policy, p.spec())
		r := greedy.script("i=0; while [ $i -lt 40 ]; do sleep 4719 & i=$((i + 1)); done")
		assert.Assert(t, strings.Contains(string(r.Stderr), "fork"), r.Text())
		assert.Equal(t, other.ok("for i in 1 2 3 4 5 6 7 8; do sleep 4720 & done; echo fine"), "fine")
		assert.Equal(t, open(t, policy, p.spec()).ok("id -u"), "65534")
		policy.AllowMissingLimits = false
		made := *p.engine
		made.MissingLimits = nil
		for _, e := range []*dockercli.Engine{p.engine, &made} {
			policy.Engine = e
			_, err := execpolicy.Start(t.Context(), policy, p.spec())
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "AllowMissingLimits")
		}
	})
}
