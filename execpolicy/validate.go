package execpolicy

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// validate reports all that can be said without an engine.
func (p *DockerPolicy) validate(spec Spec) problems.List {
	v := validation{p, container.CheckLabels(spec.Labels)}
	if len(spec.Secrets) > 0 {
		v.List = append(v.List, policyerr.ErrSecrets)
	}
	v.checkImage()
	v.checkLimits()
	v.checkUser()
	v.checkPlaces()
	v.checkWords()
	v.checkEgress()
	return v.List
}

// A validation is what was found wrong with a policy so far.
type validation struct {
	*DockerPolicy
	problems.List
}

// addAs adds LangChain's words under Compat, else ours.
func (v *validation) addAs(langChains, ours string, args ...any) {
	if v.compat {
		ours, args = langChains, nil
	}
	v.Add(ours, args...)
}

// checkImage looks at which image there is to be, and how it comes.
func (v *validation) checkImage() {
	if v.Platform != "" && (slices.Contains(strings.Split(v.Platform, "/"), "") || !strings.Contains(v.Platform, "/") ||
		strings.ContainsFunc(v.Platform, container.NotPrinted)) {
		v.Add("Platform is %q: it has to be like \"linux/arm64\"", v.Platform)
	}
	if v.Pull < dockercli.PullMissing || v.Pull > dockercli.PullNever {
		v.Add("Pull is %v: it has to be PullMissing, PullAlways or PullNever", v.Pull)
	}
	if v.PullTimeout < 0 {
		v.Add("PullTimeout is %v: it must not be negative; Pull says whether the image is pulled", v.PullTimeout)
	}
}

func (v *validation) checkLimits() {
	if v.MemoryBytes < 0 {
		v.addAs("memory_bytes must be positive if provided.", "MemoryBytes is %d: it must not be negative", v.MemoryBytes)
	} else if v.MemoryBytes > 0 && v.MemoryBytes < limits.MinMemory && !v.compat {
		v.Add("MemoryBytes is %d: engines want at least %d", v.MemoryBytes, limits.MinMemory)
	}
	if v.CPUTimeSeconds != 0 {
		v.addAs("DockerExecutionPolicy does not support cpu_time_seconds; configure CPU limits using Docker run options such as '--cpus'.",
			"CPUTimeSeconds is %d: a container has no such limit; ExtraRunArgs with \"--ulimit=cpu=%[1]d\" limits each process, and CPUs "+
				"the share of them all", v.CPUTimeSeconds)
	}
	if v.CPUs != "" {
		if strings.TrimSpace(v.CPUs) == "" {
			v.addAs("cpus must be a non-empty string when provided.", "CPUs is %q: it has to be a decimal number from 0.01 to 999999", v.CPUs)
		} else if _, ok := limits.ParseCPUs(v.CPUs); !ok {
			v.Add("CPUs is %q: it has to be a decimal number from 0.01 to 999999", v.CPUs)
		}
	}
	if v.CPUShares < 0 || v.CPUShares == 1 {
		v.Add("CPUShares is %d: it has to be at least 2", v.CPUShares)
	}
	if v.KeepAlive > 0 && (v.KeepAlive < limits.MinKeepAlive || v.KeepAlive > limits.MaxKeepAlive) {
		v.Add("KeepAlive is %v: it has to be from %v to %v, 0 for the default or negative for none", v.KeepAlive, limits.MinKeepAlive, limits.MaxKeepAlive)
	}
	if v.PidsLimit != 0 && v.PidsLimit < limits.MinPids {
		v.Add("PidsLimit is %d: it has to be at least %d", v.PidsLimit, limits.MinPids)
	}
}

func (v *validation) checkUser() {
	if v.User != "" && strings.TrimSpace(v.User) == "" {
		v.addAs("user must be a non-empty string when provided.", "User is %q: it has to be a name or a number", v.User)
	} else if strings.Count(v.User, ":") > 1 || strings.HasPrefix(v.User, "-") || strings.ContainsFunc(v.User, container.NotPrinted) {
		v.Add("User is %q: it has to be like \"name\", \"1000\" or \"1000:1000\"", v.User)
	} else if strings.HasPrefix(v.User, ":") && !v.compat {
		v.Add("User is %q: a group without a user would be root's; write \"0%s\" if that is meant", v.User, v.User)
	}
}

// checkPlaces looks at directories of the host and of the container.
func (v *validation) checkPlaces() {
	if r := v.WorkspaceRelabel; r != "" && !isRelabel(r) {
		v.Add("WorkspaceRelabel is %q: it has to be \"private\" or \"shared\", or empty for none", r)
	}
	for _, dir := range slices.Sorted(maps.Keys(v.Tmpfs)) {
		if v.Tmpfs[dir] <= 0 {
			v.Add("the size of the tmpfs %q has to be positive", dir)
		}
		v.checkTarget("tmpfs", dir)
	}
	for _, m := range v.Mounts {
		v.checkTarget("mount on", m.Target)
	}
	for _, d := range v.Devices {
		v.checkTarget("device", d.Target)
	}
	for _, name := range v.AllowUnsafeDevices {
		if !mountguard.IsAbs(name) {
			v.Add("%q in AllowUnsafeDevices has to be an absolute path", name)
		}
	}
	for _, name := range slices.Concat(v.ProtectedPaths, v.AllowUnsafeMounts) {
		if !mountguard.IsAbs(name) {
			v.Add("%q in ProtectedPaths or AllowUnsafeMounts has to be an absolute path", name)
		}
	}
}

// isRelabel reports whether a mount can have that Relabel.
func isRelabel(s string) bool { return s == "private" || s == "shared" }

// checkTarget refuses what would hide a directory of the library.
func (v *validation) checkTarget(what, target string) {
	for _, dir := range []string{scratchDir, fifo.Target} {
		if mountguard.Within(target, dir) {
			v.Add("the %s %q: %s is the library's own", what, target, dir)
		}
	}
}

// checkWords looks at what engines take as a word of its own.
func (v *validation) checkWords() {
	v.List = append(v.List, container.CheckCapabilities(v.AddCapabilities)...)
	for _, line := range v.ExtraHosts {
		// Docker takes a "=" too.
		if i := strings.IndexAny(line, ":="); i <= 0 || i == len(line)-1 || strings.ContainsFunc(line, container.NotPrinted) {
			v.Add("ExtraHosts has %q: it has to be like \"name:192.0.2.1\"", line)
		}
	}
}
