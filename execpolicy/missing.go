package execpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// askLimits returns the engine with its MissingLimits, for which it is asked if they are
// not known. That takes a tenth of a second, once for each engine, and StartupTimeout at
// most.
func (p *DockerPolicy) askLimits(ctx context.Context, e *dockercli.Engine) (*dockercli.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, positive(p.Limits.withDefaults().StartupTimeout))
	defer cancel()
	asked, err := engines.WithLimits(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not known which limits the engine can set: %w; the engine is %v", ErrStart, err, e)
	}
	return asked, nil
}

// checkMissingLimits refuses an engine that can't set what the policy limits, unless
// AllowMissingLimits is set, and extra flags with which that engine would not remove all,
// or not in time.
func (p *DockerPolicy) checkMissingLimits(e *dockercli.Engine) problems.List {
	var found problems.List
	missing := slices.DeleteFunc(slices.Clone(e.MissingLimits), func(limit string) bool { return !p.asksFor(limit) })
	if len(missing) > 0 && !p.AllowMissingLimits {
		found.Add("the engine can't set the limits of %s: it has no root's rights, and no such control groups; "+
			"use control groups of version 2 and give its user their controllers (systemd's Delegate=yes), "+
			"use an engine with root's rights, or set AllowMissingLimits to do without these limits",
			strings.Join(missing, ", "))
	}
	if e.Lacks(dockercli.LimitProcesses) && p.extra(e, "pid") {
		found.Add("ExtraRunArgs have --pid: without control groups the engine can't find what a container has started " +
			"in another process namespace, and would leave it running")
	}
	if e.PodmanService && p.extra(e, "stop-timeout") {
		found.Add("ExtraRunArgs have --stop-timeout: each removal by docker's client would wait for podman that long; " +
			"leave it out, and it is one second")
	}
	return found
}

// asksFor reports whether the policy asks for a limit. LangChain's has none by itself.
func (p *DockerPolicy) asksFor(limit string) bool {
	switch {
	case !p.compat:
		return true
	case limit == dockercli.LimitMemory:
		return p.MemoryBytes != 0
	case limit == dockercli.LimitProcessors:
		return p.CPUs != ""
	}
	return false
}

// hasUserNS reports whether ExtraRunArgs say which user namespace the container has.
func (p *DockerPolicy) hasUserNS(e *dockercli.Engine) bool {
	return slices.ContainsFunc([]string{"userns", "uidmap", "gidmap", "subuidname", "subgidname", "pod", "user"},
		func(name string) bool { return p.extra(e, name) })
}
