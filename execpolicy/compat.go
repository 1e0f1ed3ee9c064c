package execpolicy

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/ordered"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// Compat returns the policy that isolates as LangChain's DockerExecutionPolicy does,
// which is less than the zero [DockerPolicy]: a writable root, root as the user, all of
// an engine's default capabilities, the engine's own filter of system calls, and no
// limits. Its fields mean what LangChain's do: what is zero gives no flag. So the user is
// the image's, which is root in most images and is so in the workspace as well, unless
// User is set.
//
// LangChain's names of the fields are:
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
// Spawn's argument list is LangChain's to the byte, but for the flags by which the
// library owns its container, which stand together right after "run -i", and for the
// environment, which is sorted. With podman there are those too by which it does what
// docker does by itself: a read-only root has no writable /tmp, and the container gets
// neither the host's process namespace, nor its notification socket, nor its /etc/hosts,
// unless ExtraRunArgs have an --add-host that AllowUnsafeArgs allows.
//
// The workspace is mounted at its own path, unless its name begins with
// "langchain-shell-"; links in it are followed when it is checked, and again by the
// engine. The environment is passed as "-e NAME=value", where everybody on the host can
// read it: the one exemption from the rule that no secret is in an argument list.
func Compat() DockerPolicy {
	return DockerPolicy{WritableRootfs: true, EngineSeccomp: true, compat: true}
}

// compatArgv returns LangChain's argument list.
func (p *DockerPolicy) compatArgv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	errs := multierror.Append(nil, p.validate(spec)...)
	errs = multierror.Append(errs, checkExtraArgs(e.Kind, p.ExtraRunArgs, p.AllowUnsafeArgs)...)
	if (e.Kind == dockercli.Podman || e.PodmanService) && p.extra(e, "ulimit") && !slices.Contains(p.AllowUnsafeArgs, "ulimit") {
		// Other policies name the limits themselves.
		errs = multierror.Append(errs, errors.New(`ExtraRunArgs: --ulimit makes podman drop the limits that it is configured with; add "ulimit" to AllowUnsafeArgs if you mean it`))
	}
	errs = multierror.Append(errs, validateEnv(spec.Env)...)
	errs = multierror.Append(errs, p.notInCompat()...)
	dir := spec.Workspace
	if strings.HasPrefix(filepath.Base(dir), "langchain-shell-") {
		dir = ""
	}
	if dir != "" {
		switch {
		case e.Remote:
			errs = multierror.Append(errs, fmt.Errorf("%w: %w", ErrNoMount, errElsewhere))
		case !filepath.IsAbs(dir):
			errs = multierror.Append(errs, fmt.Errorf("the workspace %q has to be an absolute path", dir))
		case strings.Contains(dir, ":"):
			errs = multierror.Append(errs, fmt.Errorf("the workspace %q: LangChain's -v can't mount a path with a colon", dir))
		default:
			_, _, err := workspace(dir)
			if err == nil {
				_, err = p.guardMount(e, "the workspace", dir)
			}
			if err != nil {
				errs = multierror.Append(errs, err)
			}
		}
	}

	o := p.own(e, spec, name)
	o.Remove, o.Interactive, o.HTTPProxy = false, false, true
	o.Image = p.image()
	own, err := e.RunArgs(o)
	if err != nil {
		errs = multierror.Append(errs, err)
	}
	if err := problems.Join(errs); err != nil {
		return nil, err
	}

	verb := 1 + len(e.Global) // behind the program
	argv := append(slices.Clone(own[:verb+1]), "-i")
	argv = append(argv, own[verb+1:slices.Index(own, "--")]...)
	if !p.KeepContainer {
		argv = append(argv, "--rm")
	}
	if !p.NetworkEnabled {
		argv = append(argv, "--network", "none")
	}
	if p.MemoryBytes != 0 {
		argv = append(argv, "--memory", strconv.FormatInt(p.MemoryBytes, 10))
	}
	if dir != "" {
		argv = append(argv, "-v", dir+":"+dir, "-w", dir)
	} else {
		argv = append(argv, "-w", "/")
	}
	if !p.WritableRootfs {
		argv = append(argv, "--read-only")
	}
	for _, name := range ordered.Keys(spec.Env) {
		argv = append(argv, "-e", name+"="+spec.Env[name])
	}
	if p.CPUs != "" {
		argv = append(argv, "--cpus", p.CPUs)
	}
	if p.User != "" {
		argv = append(argv, "--user", p.User)
	}
	argv = append(argv, p.ExtraRunArgs...)
	argv = append(argv, p.image())
	switch {
	case len(spec.Supervisor) > 0:
		return append(argv, spec.Supervisor...), nil
	case len(spec.Command) > 0:
		return append(argv, spec.Command...), nil
	}
	return append(argv, "/bin/bash"), nil
}

// notInCompat reports the fields that LangChain's policy does not have. To ignore them
// would be worse.
func (p *DockerPolicy) notInCompat() []error {
	var errs []error
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"AddCapabilities", p.AddCapabilities != nil},
		{"AllowNewPrivileges", p.AllowNewPrivileges},
		{"CPUShares", p.CPUShares != 0},
		{"ExtraHosts", p.ExtraHosts != nil},
		{"GPUs", p.GPUs != ""},
		{"Mounts", p.Mounts != nil},
		{"PidsLimit", p.PidsLimit != 0},
		{"Runtime", p.Runtime != ""},
		{"SeccompProfile", p.SeccompProfile != ""},
		{"Tmpfs", p.Tmpfs != nil},
		{"WorkspaceReadOnly", p.WorkspaceReadOnly},
	} {
		if field.set {
			errs = append(errs, fmt.Errorf("%s is not among the fields of LangChain's policy; use DockerPolicy without Compat", field.name))
		}
	}
	if !p.EngineSeccomp {
		errs = append(errs, errors.New("EngineSeccomp is false: LangChain's policy has the engine's filter of system calls; use DockerPolicy without Compat"))
	}
	return errs
}
