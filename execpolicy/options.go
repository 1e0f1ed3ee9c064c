package execpolicy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/clientfile"
	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
	"github.com/seed-64a260eb/cofferdam/internal/shares"
)

// runOptions turns the policy into the engine's arguments, for a container of that name.
// The environment names are those that the client passes on from its own. The streams
// pass through FIFOs in that directory, unless it is empty.
func (p *DockerPolicy) runOptions(e *dockercli.Engine, spec Spec, name, fifos string) (dockercli.RunOptions, problems.List) {
	found := p.validate(spec)
	found = append(found, runargs.Check(e.Kind, p.ExtraRunArgs, p.AllowUnsafeArgs)...)
	found = append(found, p.checkSeccomp(e)...)
	found = append(found, p.checkTransport(e, spec.Workspace))
	found = append(found, p.checkMissingLimits(e)...)

	o := p.own(e, spec, name)
	o.Image, o.Platform = p.image(e), p.Platform
	o.Command = slices.Concat(spec.Command)
	if len(spec.Supervisor) > 0 {
		o.Command = spec.Supervisor
	} else if len(o.Command) == 0 {
		o.Command = []string{"sh"}
	}
	if fifos != "" {
		o.Interactive, o.Detach = false, true
		o.Command = fifo.Command(o.Command)
		m := dockercli.Mount{Source: fifo.Source(fifos), Target: fifo.Target}
		if e.SELinux {
			m.Relabel = "private" // it is this session's alone
		}
		o.Mounts = append(o.Mounts, m)
	}
	o.Runtime = p.Runtime
	o.GPUs = p.GPUs
	// They have been read and allowed, so they may count.
	o.Extra = p.ExtraRunArgs

	p.setNetwork(e, &o)
	seen, refused := p.setFiles(e, spec, &o)
	found = append(found, refused...)
	guard := &mountguard.Guard{Remote: e.Remote, Allowed: p.AllowUnsafeDevices}
	found = append(found, shares.SetDevices(&o, guard, p.Devices)...)
	found = append(found, p.setUser(e, seen, &o)...)
	limits.Set(&o, e, limits.Wanted{
		Memory: p.MemoryBytes, CPUs: p.CPUs, CPUShares: p.CPUShares, Pids: p.PidsLimit, HostShm: p.extra(e, "ipc"),
	})
	if len(spec.Supervisor) == 0 {
		found = append(found, environ.Check(spec.Env)...)
		found = append(found, environ.CheckText(spec.Env)...)
		o.Env = slices.Sorted(maps.Keys(spec.Env))
		for _, name := range o.Env {
			if runargs.IsClientVar(name) {
				found.Add("the variable %s would direct the engine's client too; set it in a session", name)
			}
		}
	}
	return o, found
}

// setNetwork gives the container no network but its loopback, unless NetworkEnabled or
// ExtraRunArgs say otherwise.
func (p *DockerPolicy) setNetwork(e *dockercli.Engine, o *dockercli.RunOptions) {
	// The engines refuse "none" beside another network.
	if !p.NetworkEnabled && !p.extra(e, "network") {
		o.Network = "none"
		// The host's name servers would show in resolv.conf, even without a network. This
		// address is reserved for documentation (RFC 5737); docker's client warns of one
		// of the container's own.
		o.DNS = []string{"192.0.2.1"}
	}
	o.ExtraHosts = p.ExtraHosts
	if !p.extra(e, "uts") {
		// The engines give none to a container that has the host's.
		o.Hostname = "cofferdam"
	}
}

// setFiles gives the container its file system. It returns what that says of the user,
// and why the container must not see some of the host.
func (p *DockerPolicy) setFiles(
	e *dockercli.Engine, spec Spec, o *dockercli.RunOptions,
) (account.Case, problems.List) {
	seen := p.caseOf(e)
	guard := p.mountGuard(e)
	dir, err := mountguard.Workspace(spec.Workspace)
	if dir != "" {
		w := account.Share{Source: dir, Writable: !p.WorkspaceReadOnly}
		if e.Remote {
			err = fmt.Errorf("%w: %w", ErrNoMount, errElsewhere)
		} else if w.Source, w.Info, err = guard.Check("the workspace", dir); err == nil {
			seen.Workspace = w
		}
		m := dockercli.Mount{Source: w.Source, Target: workspaceDir, Writable: w.Writable}
		if err == nil && isRelabel(p.WorkspaceRelabel) {
			m.Relabel, err = p.WorkspaceRelabel, guard.CheckRelabel("the workspace", dir)
		}
		o.Mounts = append(o.Mounts, m)
	}
	found := append(problems.List{err}, shares.SetMounts(o, &seen, guard, e.PodmanService, p.Mounts)...)

	tmpfs := p.tmpfs(dir)
	for _, path := range slices.Sorted(maps.Keys(tmpfs)) {
		t := dockercli.Tmpfs{Target: path, SizeBytes: tmpfs[path], Exec: true}
		o.Tmpfs = append(o.Tmpfs, t)
	}
	o.ReadOnly = !p.WritableRootfs
	o.Workdir = workspaceDir
	if len(spec.Supervisor) > 0 {
		// A session changes to its directory itself: docker would make the directory
		// before it mounts it, with that effect.
		o.Workdir = "/"
	}
	return seen, append(found, shares.SameTargets(o)...)
}

// tmpfs returns the sizes of the directories in memory, beside a workspace.
func (p *DockerPolicy) tmpfs(workspace string) map[string]int64 {
	sizes := maps.Clone(p.Tmpfs)
	if sizes == nil {
		sizes = map[string]int64{"/tmp": limits.Tmpfs}
	}
	if _, ok := sizes[workspaceDir]; !ok && workspace == "" {
		sizes[workspaceDir] = limits.Tmpfs
	}
	return sizes
}

// setUser says as whom the command runs, and which rights it has. Each error is about a
// share that the user can't use.
func (p *DockerPolicy) setUser(e *dockercli.Engine, seen account.Case, o *dockercli.RunOptions) problems.List {
	user, isOwner, refused := seen.Choose()
	o.User = user
	if e.Rootless && (isOwner || limits.CountsByUser(e) && p.User == "" && !p.hasUserNS(e)) {
		// The host's user keeps its number inside. Nobody is somebody else in any case,
		// and has a count of processes of its own there.
		o.UserNS = "keep-id"
	}
	p.giveTmpfs(e, o)
	o.CapDrop = []string{"ALL"}
	o.CapAdd = p.AddCapabilities
	if !p.AllowNewPrivileges {
		o.SecurityOpt = []string{"no-new-privileges"}
	}
	if p.seccompProfile(e) != "" {
		o.SecurityOpt = append(o.SecurityOpt, seccompOption+clientfile.Path)
	}
	return refused
}

// own returns the arguments by which the library owns its container, whatever the policy.
func (p *DockerPolicy) own(e *dockercli.Engine, spec Spec, name string) dockercli.RunOptions {
	o := dockercli.RunOptions{
		Name:        name,
		Labels:      p.labels(spec, name),
		Remove:      !p.KeepContainer,
		Interactive: true,
		// A missing image must fail at once: a pull has a deadline of its own.
		Pull: "never",
		// The engine must not write what is printed to its disk: short lines take 34
		// times their size there.
		LogDriver: "none",
		// A health check would run the image's own command now and then.
		NoHealthcheck: true,
		// Where the supervisor becomes unreadable, and where it keeps a command's text.
		Tmpfs: []dockercli.Tmpfs{{Target: scratchDir, SizeBytes: scratchBytes, Exec: true}},
		// Podman takes no extra hosts beside the flag that leaves out the host's own.
		HostsFile: p.extra(e, "add-host"),
	}
	if e.PodmanService || e.Kind == dockercli.Podman {
		// A removal by docker's client has no flag for the 10 s that podman waits for a
		// command to obey SIGTERM. That of podman's own does not hold for what exec has
		// started.
		o.StopTimeout = time.Second
	}
	return o
}
