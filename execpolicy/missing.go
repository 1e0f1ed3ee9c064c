package execpolicy

import (
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// checkMissingLimits refuses an engine that can't set what the policy limits, unless
// AllowMissingLimits is set, and what takes a control group even then.
func (p *DockerPolicy) checkMissingLimits(e *dockercli.Engine) problems.List {
	var found problems.List
	missing := slices.DeleteFunc(slices.Clone(e.MissingLimits), func(limit string) bool { return !p.limits(limit) })
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
	return found
}

// limits reports whether the policy asks for a limit. LangChain's has none by itself.
func (p *DockerPolicy) limits(limit string) bool {
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

// countsByUser reports whether the kernel's limit for each user ID takes the place of
// PidsLimit.
func (p *DockerPolicy) countsByUser(e *dockercli.Engine) bool {
	return e.Lacks(dockercli.LimitProcesses) && e.Kind == dockercli.Podman && !e.Remote
}

// hasUserNS reports whether ExtraRunArgs say which user namespace the container has.
func (p *DockerPolicy) hasUserNS(e *dockercli.Engine) bool {
	return slices.ContainsFunc([]string{"userns", "uidmap", "gidmap", "subuidname", "subgidname", "pod", "user"},
		func(name string) bool { return p.extra(e, name) })
}
