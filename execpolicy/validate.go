package execpolicy

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// validate reports all that can be said without an engine. Under Compat the words are
// LangChain's where it has any.
func (p *DockerPolicy) validate(spec Spec) problems.List {
	found := container.CheckLabels(spec.Labels)
	if len(spec.Secrets) > 0 {
		found = append(found, errSecrets)
	}
	either := func(langChains, ours string, args ...any) {
		if p.compat {
			ours, args = langChains, nil
		}
		found.Add(ours, args...)
	}
	if p.MemoryBytes < 0 {
		either("memory_bytes must be positive if provided.", "MemoryBytes is %d: it must not be negative", p.MemoryBytes)
	} else if p.MemoryBytes > 0 && p.MemoryBytes < minMemory && !p.compat {
		found.Add("MemoryBytes is %d: engines want at least %d", p.MemoryBytes, minMemory)
	}
	if p.CPUTimeSeconds != 0 {
		either("DockerExecutionPolicy does not support cpu_time_seconds; configure CPU limits using Docker run options such as '--cpus'.",
			"CPUTimeSeconds is %d: a container has no such limit; ExtraRunArgs with \"--ulimit=cpu=%[1]d\" limits each process, and CPUs "+
				"the share of them all", p.CPUTimeSeconds)
	}
	if p.CPUs != "" {
		if strings.TrimSpace(p.CPUs) == "" {
			either("cpus must be a non-empty string when provided.", "CPUs is %q: it has to be a decimal number from 0.01 to 999999", p.CPUs)
		} else if !isCPUs(p.CPUs) {
			found.Add("CPUs is %q: it has to be a decimal number from 0.01 to 999999", p.CPUs)
		}
	}
	if p.User != "" && strings.TrimSpace(p.User) == "" {
		either("user must be a non-empty string when provided.", "User is %q: it has to be a name or a number", p.User)
	} else if strings.Count(p.User, ":") > 1 || strings.ContainsFunc(p.User, notPrinted) {
		found.Add("User is %q: it has to be like \"name\", \"1000\" or \"1000:1000\"", p.User)
	} else if strings.HasPrefix(p.User, ":") && !p.compat {
		found.Add("User is %q: a group without a user would be root's; write \"0%s\" if it is to be", p.User, p.User)
	}
	if p.CPUShares < 0 || p.CPUShares == 1 {
		found.Add("CPUShares is %d: it has to be at least 2", p.CPUShares)
	}
	if p.PidsLimit != 0 && p.PidsLimit < minPids {
		found.Add("PidsLimit is %d: it has to be at least %d", p.PidsLimit, minPids)
	}
	for _, dir := range slices.Sorted(maps.Keys(p.Tmpfs)) {
		if p.Tmpfs[dir] <= 0 {
			found.Add("the size of the tmpfs %q has to be positive", dir)
		}
		if mountguard.Within(dir, scratchDir) {
			found.Add("the tmpfs %q: %s is the library's own", dir, scratchDir)
		}
	}
	for _, m := range p.Mounts {
		if mountguard.Within(m.Target, scratchDir) {
			found.Add("the mount on %q: %s is the library's own", m.Target, scratchDir)
		}
	}
	for _, name := range slices.Concat(p.ProtectedPaths, p.AllowUnsafeMounts) {
		if !mountguard.IsAbs(name) {
			found.Add("%q in ProtectedPaths or AllowUnsafeMounts has to be an absolute path", name)
		}
	}
	for _, c := range p.AddCapabilities {
		if c == "" || strings.ContainsFunc(c, notPrinted) {
			found.Add("AddCapabilities has %q: it has to be like \"NET_BIND_SERVICE\"", c)
		}
	}
	for _, line := range p.ExtraHosts {
		// Docker takes a "=" too.
		if i := strings.IndexAny(line, ":="); i <= 0 || i == len(line)-1 || strings.ContainsFunc(line, notPrinted) {
			found.Add("ExtraHosts has %q: it has to be like \"name:192.0.2.1\"", line)
		}
	}
	return found
}

// notPrinted reports whether a rune shows as nothing, such as a space: no name that an
// engine takes has one.
func notPrinted(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }

// sameTargets reports the places in the container that are given to several.
func sameTargets(o *dockercli.RunOptions) problems.List {
	var targets []string
	for _, t := range o.Tmpfs {
		targets = append(targets, t.Target)
	}
	for _, m := range o.Mounts {
		targets = append(targets, m.Target)
	}
	var found problems.List
	for i, target := range targets {
		targets[i] = filepath.ToSlash(filepath.Clean(target))
		if slices.Contains(targets[:i], targets[i]) {
			found.Add("more than one of the workspace, Mounts and Tmpfs, which is /tmp if it is nil, is to be at %q", target)
		}
	}
	return found
}

// isCPUs reports whether s is a decimal number from 0.01, below a million.
func isCPUs(s string) bool {
	n, err := strconv.ParseFloat(s, 64)
	return err == nil && 0.01 <= n && n < 1e6 && strings.Trim(s, ".0123456789") == ""
}
