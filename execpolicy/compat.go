package execpolicy

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
)

// Compat returns the policy that isolates as LangChain's DockerExecutionPolicy does,
// which is less than the zero [DockerPolicy]: a writable root, root as the user, all of
// an engine's default capabilities, the engine's own seccomp filter, and no limits. Its
// fields mean what LangChain's do: a zero field gives no flag, but for --rm and --network
// none. So unless User is set, the user is the image's, which is root in most images, and
// then has root's rights in the workspace too. A field that would add a flag or a mount
// which LangChain's policy does not have must be zero, and EngineSeccomp must stay set.
// Without a Command, Spawn starts /bin/bash. Streams never pass through FIFOs. With
// podman on a host with cgroup v1, root can freeze its own container: see
// [DockerPolicy.EngineSeccomp].
//
// These are LangChain's names of the fields:
//
//	binary                    Engine
//	image                     Image
//	remove_container_on_exit  KeepContainer, the other way round
//	network_enabled           NetworkEnabled
//	read_only_rootfs          WritableRootfs, the other way round
//	memory_bytes              MemoryBytes
//	cpu_time_seconds          CPUTimeSeconds
//	cpus                      CPUs
//	user                      User
//	extra_run_args            ExtraRunArgs
//	command_timeout           Limits.CommandTimeout
//	startup_timeout           Limits.StartupTimeout
//	termination_timeout       Limits.TerminationTimeout
//	max_output_lines          Limits.MaxOutputLines
//	max_output_bytes          Limits.MaxOutputBytes
//
// Spawn's argument list is LangChain's to the byte, with two differences. The flags that
// the library needs for its own containers stand together right after "run -i". And the
// environment is sorted. With podman there are also flags that make it do what docker
// does by itself: a read-only root has no writable /tmp, and the container gets neither
// the host's PID namespace, nor its notification socket, nor its /etc/hosts, unless
// ExtraRunArgs have an --add-host that AllowUnsafeArgs allows.
//
// The workspace is mounted at its own path, which must have no colon. A workspace whose
// name begins with "langchain-shell-" is not mounted. Links in the path are followed when
// it is checked, and again by the engine. The environment is passed as "-e NAME=value",
// where everybody on the host can read it. This is the one exception from the rule that
// no secret is in an argument list.
func Compat() DockerPolicy {
	return DockerPolicy{WritableRootfs: true, EngineSeccomp: true, compat: true}
}

// compatWorkspace returns the workspace, unless LangChain would not mount it.
func compatWorkspace(spec Spec) string {
	if strings.HasPrefix(filepath.Base(spec.Workspace), "langchain-shell-") {
		return ""
	}
	return spec.Workspace
}

// compatArgv returns LangChain's argument list.
func (p *DockerPolicy) compatArgv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	dir := compatWorkspace(spec)
	found := append(p.compatProblems(e, spec), p.checkCompatWorkspace(e, dir))
	for _, word := range append([]string{dir, p.User}, compatCommand(spec)...) {
		if !utf8.ValidString(word) {
			found.Add("%.200q is not valid UTF-8, and the engine would change it", word)
		}
	}
	found = append(found, environ.CheckText(spec.Env)...)
	o := p.own(e, spec, name)
	o.Remove, o.Interactive, o.HTTPProxy = false, false, true
	o.Image = p.image(e)
	own, err := e.RunArgs(o)
	if err := problems.Join(append(found, err)...); err != nil {
		return nil, err
	}

	verb := 1 + len(e.Global) // after the program
	flags := own[verb+1:]
	flags = flags[:slices.Index(flags, "--")]
	mount := []string{"-w", "/"}
	if dir != "" {
		mount = []string{"-v", dir + ":" + dir, "-w", dir}
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		env = append(env, "-e", name+"="+spec.Env[name])
	}
	return slices.Concat(
		own[:verb+1], []string{"-i"}, flags,
		wordsIf(!p.KeepContainer, "--rm"),
		wordsIf(!p.NetworkEnabled, "--network", "none"),
		wordsIf(p.MemoryBytes != 0, "--memory", strconv.FormatInt(p.MemoryBytes, 10)),
		mount,
		wordsIf(!p.WritableRootfs, "--read-only"),
		env,
		wordsIf(p.CPUs != "", "--cpus", p.CPUs),
		wordsIf(p.User != "", "--user", p.User),
		p.ExtraRunArgs,
		[]string{p.image(e)},
		compatCommand(spec),
	), nil
}

func compatCommand(spec Spec) []string {
	switch {
	case len(spec.Supervisor) > 0:
		return spec.Supervisor
	case len(spec.Command) > 0:
		return spec.Command
	}
	return []string{"/bin/bash"}
}

// redacted returns a command line without the values of variables. In LangChain's no "--"
// stands before the image.
func (p *DockerPolicy) redacted(argv []string, spec Spec) []string {
	if !p.compat {
		return dockercli.Redact(argv)
	}
	image := len(argv) - len(compatCommand(spec)) - 1
	return slices.Concat(dockercli.Redact(argv[:image]), argv[image:])
}

// wordsIf returns the words if they are wanted.
func wordsIf(wanted bool, words ...string) []string {
	if wanted {
		return words
	}
	return nil
}

// compatProblems reports what is wrong with the policy and the spec, but for the
// workspace.
func (p *DockerPolicy) compatProblems(e *dockercli.Engine, spec Spec) problems.List {
	found := p.validate(spec)
	found = append(found, runargs.Check(e.Kind, p.ExtraRunArgs, p.AllowUnsafeArgs)...)
	if (e.Kind == dockercli.Podman || e.PodmanService) && p.extra(e, "ulimit") && !slices.Contains(p.AllowUnsafeArgs, "ulimit") {
		// Other policies name the limits themselves.
		found.Add(`ExtraRunArgs: --ulimit makes podman drop the limits that it is configured with; add "ulimit" to AllowUnsafeArgs if you mean it`)
	}
	found = append(found, p.checkMissingLimits(e)...)
	found = append(found, environ.Check(spec.Env)...)
	return append(found, p.notInCompat()...)
}

// checkCompatWorkspace returns why LangChain's argument list can't mount a workspace, if
// there is one, or nil.
func (p *DockerPolicy) checkCompatWorkspace(e *dockercli.Engine, dir string) error {
	switch {
	case dir == "":
		return nil
	case e.Remote:
		return fmt.Errorf("%w: %w", ErrNoMount, errElsewhere)
	case !filepath.IsAbs(dir):
		return fmt.Errorf("the workspace %q has to be an absolute path", dir)
	case slices.Contains(strings.Split(dir, "/"), ".."):
		// An engine takes the name before it away, and does not look where that leads.
		return fmt.Errorf("the workspace %q must have no \"..\" in it", dir)
	case strings.Contains(dir, ":"):
		return fmt.Errorf("the workspace %q: LangChain's -v can't mount a path with a colon", dir)
	}
	_, err := mountguard.Workspace(dir)
	if err == nil {
		_, _, err = p.mountGuard(e).Check("the workspace", dir)
	}
	return err
}

// notInCompat reports the fields that would add to LangChain's argument list. To ignore
// them would be worse.
func (p *DockerPolicy) notInCompat() problems.List {
	var found problems.List
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"AddCapabilities", p.AddCapabilities != nil},
		{"AllowNewPrivileges", p.AllowNewPrivileges},
		{"CPUShares", p.CPUShares != 0},
		{"Devices", p.Devices != nil},
		{"Egress", p.Egress != nil},
		{"ExtraHosts", p.ExtraHosts != nil},
		{"GPUs", p.GPUs != ""},
		{"Mounts", p.Mounts != nil},
		{"PidsLimit", p.PidsLimit != 0},
		{"Platform", p.Platform != ""},
		{"Runtime", p.Runtime != ""},
		{"SeccompProfile", p.SeccompProfile != ""},
		{"Tmpfs", p.Tmpfs != nil},
		{"Transport", p.Transport == TransportFIFO},
		{"WorkspaceReadOnly", p.WorkspaceReadOnly},
		{"WorkspaceRelabel", p.WorkspaceRelabel != ""},
	} {
		if field.set {
			found.Add("%s is not among the fields of LangChain's policy; use DockerPolicy without Compat", field.name)
		}
	}
	if !p.EngineSeccomp {
		found.Add("EngineSeccomp is false: LangChain's policy has the engine's filter of system calls; use DockerPolicy without Compat")
	}
	return found
}
