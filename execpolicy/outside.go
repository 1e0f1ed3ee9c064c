package execpolicy

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// Outside is for package attest. It finds the engine, as [DockerPolicy.FindEngine] does,
// and returns what the policy asks for and how the engine is asked what it has applied.
func (p DockerPolicy) Outside(ctx context.Context, spec Spec) (*outside.View, error) {
	e, err := p.FindEngine(ctx)
	if err != nil {
		return nil, err
	}
	p.Engine = e
	return &outside.View{
		Engine:   e.Kind.String(),
		Image:    cmp.Or(p.Image, DefaultImage),
		Wanted:   p.wanted(spec),
		Versions: e.Components,
		Settings: func(ctx context.Context, name string) (*outside.Settings, error) {
			s, err := e.InspectSettings(ctx, name)
			if err != nil {
				return nil, err
			}
			return &outside.Settings{Container: *s}, nil
		},
		Info: e.Info,
	}, nil
}

// wanted returns what the policy asks for with a spec.
func (p *DockerPolicy) wanted(spec Spec) outside.Wanted {
	w := outside.Wanted{
		Network:       p.NetworkEnabled,
		WritableRoot:  p.WritableRootfs,
		NewPrivileges: p.AllowNewPrivileges,
		Devices:       p.GPUs != "" || len(p.Devices) > 0,
		User:          userOf(p.User),
		Memory:        cmp.Or(p.MemoryBytes, limits.Memory),
		Pids:          cmp.Or(p.PidsLimit, limits.Pids),
		CPUs:          cmp.Or(p.CPUs, limits.CPUs),
		Tmpfs:         map[string]int64{},
		Mounts:        map[string]bool{},
		Shm:           limits.Shm,
		GVisor:        strings.Contains(p.Runtime, "runsc"),
	}
	if e := p.Engine; e != nil {
		w.DockerItself = e.Kind == dockercli.Docker && !e.PodmanService
		w.Unsafe = p.UnsafeArgs(e.Kind)
	}
	if p.Egress != nil {
		w.Egress, _ = p.Egress.Check() // a policy with a wrong one does not start
	}
	for _, name := range p.AddCapabilities {
		name = strings.ToUpper(strings.TrimSpace(name))
		w.Caps = append(w.Caps, strings.TrimPrefix(name, "CAP_"))
	}
	switch {
	case p.EngineSeccomp:
		w.Filter = "the engine's"
	case p.SeccompProfile != "":
		w.Filter, w.Profile = "the caller's", p.SeccompProfile
	default:
		w.Filter, w.Profile = outside.LibraryFilter, DefaultSeccompProfile()
	}
	slices.Sort(w.Caps)
	for dir, size := range p.tmpfs(spec.Workspace) {
		w.Tmpfs[path.Clean(dir)] = size
	}
	nobody := account.Nobody.String()
	switch {
	case w.User != "":
	case spec.Workspace != "":
		w.AnyUser = "the workspace's owner, or " + nobody
	case slices.ContainsFunc(p.Mounts, isHostMount):
		w.AnyUser = "the mounts' owner, or " + nobody
	default:
		w.User = nobody
	}
	if spec.Workspace != "" {
		w.Mounts[workspaceDir] = !p.WorkspaceReadOnly
	}
	w.Tmpfs[scratchDir] = scratchBytes
	for _, m := range p.Mounts {
		w.Mounts[path.Clean(m.Target)] = m.Writable
	}
	return w
}

func isHostMount(m dockercli.Mount) bool { return m.Volume == "" }

// userOf returns a policy's user as the engine is told of it: by numbers, if they are
// known, and a number without a group has the group of that number.
func userOf(user string) string {
	if a, ok := account.Named(user); ok {
		return a.String()
	}
	return strings.TrimSuffix(user, ":")
}
