package kube

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// A validation is what was found wrong with a policy so far.
type validation struct {
	*Policy
	problems.List
}

func (v *validation) checkSpec(spec execpolicy.Spec) {
	v.List = append(v.List, container.CheckLabels(spec.Labels)...)
	for _, key := range slices.Sorted(maps.Keys(spec.Labels)) {
		prefix, name, ok := strings.Cut(key, "/")
		if !ok {
			name = key
		}
		if prefix == "" || name == "" || !isLabel(name) {
			v.Add("the label %q: the cluster takes no such name", key)
		}
		if value := spec.Labels[key]; !isLabel(value) {
			v.Add(
				"the label %s=%q: a value has up to 63 letters, digits and \"-_.\", and begins and ends with a letter or a digit",
				key, value)
		}
	}
	if len(spec.Secrets) > 0 {
		v.List = append(v.List, policyerr.ErrSecrets)
	}
	for name, value := range spec.Env {
		if !shellquote.IsName(name) || strings.Contains(value, "\x00") {
			v.Add(
				"the variable %q: its name or its value can't be that of an environment variable",
				name)
		}
	}
	if len(spec.Supervisor) == 0 {
		for i, word := range spec.Command {
			v.checkText(fmt.Sprintf("Command[%d]", i), word)
		}
		for name, value := range spec.Env {
			v.checkText("the value of the variable "+name, value)
		}
	}
	if spec.Workspace != "" {
		if err := v.CheckWorkspace(spec.Workspace); err != nil {
			v.List = append(v.List, err)
		} else {
			v.List = append(v.List,
				fmt.Errorf("%w: a pod sees no directory of this machine", policyerr.ErrNoMount))
		}
	}
}

// checkText notes a text that would be another one in the pod.
func (v *validation) checkText(what, text string) {
	if !utf8.ValidString(text) {
		v.Add("%s is not valid UTF-8, and the cluster would get another text", what)
	}
}

func (v *validation) checkPolicy() {
	switch {
	case v.NetworkPolicy == "" && !v.NetworkEnabled:
		v.Add(
			"NetworkPolicy is empty: it has to name a NetworkPolicy that keeps the network from the pods, unless NetworkEnabled is set")
	case v.NetworkPolicy != "" && v.NetworkEnabled:
		v.Add("NetworkPolicy is %q, and NetworkEnabled is set: only one of them can be",
			v.NetworkPolicy)
	}
	if !slices.Contains([]string{"", "IfNotPresent", "Always", "Never"}, v.PullPolicy) {
		v.Add("PullPolicy is %q: it has to be \"IfNotPresent\", \"Always\" or \"Never\"",
			v.PullPolicy)
	}
	if v.MemoryBytes != 0 && v.MemoryBytes < limits.MinMemory {
		v.Add("MemoryBytes is %d: it has to be at least %d", v.MemoryBytes, limits.MinMemory)
	}
	if v.PidsLimit != 0 && v.PidsLimit < limits.MinPids {
		v.Add("PidsLimit is %d: it has to be at least %d", v.PidsLimit, limits.MinPids)
	}
	if v.ReadyTimeout < 0 || v.RoomTimeout < 0 {
		v.Add("ReadyTimeout is %v and RoomTimeout is %v: they must not be negative",
			v.ReadyTimeout, v.RoomTimeout)
	}
	if v.KeepAlive != 0 && (v.KeepAlive < limits.MinKeepAlive || v.KeepAlive > limits.MaxKeepAlive) {
		v.Add("KeepAlive is %v: it has to be from 1s to 24h, or 0 for none", v.KeepAlive)
	}
	for _, dir := range slices.Sorted(maps.Keys(v.Tmpfs)) {
		v.checkText(fmt.Sprintf("the tmpfs %q", dir), dir)
		switch {
		case v.Tmpfs[dir] <= 0:
			v.Add("the size of the tmpfs %q has to be positive", dir)
		case path.Clean(dir) != dir || dir[0] != '/' || dir == "/" || strings.Contains(dir, ":"):
			v.Add("the tmpfs %q: it has to be an absolute path, and not the root", dir)
		case mountguard.Within(dir, scratchDir) || dir == "/dev/shm":
			v.Add("the tmpfs %q: %s and /dev/shm are the library's own", dir, scratchDir)
		}
	}
	v.List = append(v.List, container.CheckCapabilities(v.AddCapabilities)...)
	if slices.ContainsFunc(v.AddCapabilities, func(name string) bool { return capability(name) == "ALL" }) {
		v.Add("AddCapabilities has ALL, which a pod that drops all of them would not get: name each")
	}
	for _, line := range v.ExtraHosts {
		if name, address, _ := strings.Cut(line, ":"); name == "" || address == "" ||
			strings.ContainsFunc(line, container.NotPrinted) {
			v.Add("ExtraHosts has %q: it has to be like \"name:192.0.2.1\"", line)
		}
	}
	for device, n := range v.Devices {
		if !strings.Contains(device, "/") || n < 1 {
			v.Add(
				"Devices has %d of %q: it has to be at least one of a name with a domain, such as \"nvidia.com/gpu\"",
				n, device)
		}
	}
	if o := v.Owner; o != nil &&
		(o.APIVersion == "" || o.Kind == "" || o.Name == "" || o.UID == "") {
		v.Add("Owner is %+v: it needs all of its fields", *o)
	}
}

// user returns the numbers of the user and of the group, or notes what is wrong with
// them.
func (v *validation) user() (user, group int64) {
	switch {
	case v.User == "" && v.UserNamespace:
		return 65534, 65534
	case v.User == "":
		hash := fnv.New64a()
		hash.Write([]byte(random.Token()))
		id := account.FirstRandom + int64(hash.Sum64()%(account.LastRandom-account.FirstRandom+1))
		return id, id
	}
	first, second, both := strings.Cut(v.User, ":")
	if !both {
		second = first
	}
	u, err := strconv.ParseUint(first, 10, 31)
	g, err2 := strconv.ParseUint(second, 10, 31)
	if err != nil || err2 != nil {
		v.Add("User is %q: it has to be a number, or two as in \"1000:1000\"", v.User)
	}
	return int64(u), int64(g)
}

// cpus returns the processors as the cluster writes them, or notes what is wrong.
func (v *validation) cpus() string {
	text := cmp.Or(v.CPUs, limits.CPUs)
	n, ok := limits.ParseCPUs(text)
	if !ok {
		v.Add("CPUs is %q: it has to be a decimal number from 0.01 to 999999", text)
	}
	if n%1000 == 0 {
		return quantity(int64(n / 1000))
	}
	return strconv.FormatUint(n, 10) + "m"
}

// isLabel reports whether a text can be a label's value.
func isLabel(text string) bool {
	isEdge := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' }
	for i := range len(text) {
		if c := text[i]; !isEdge(c) &&
			(i == 0 || i == len(text)-1 || !strings.ContainsRune("-_.", rune(c))) {
			return false
		}
	}
	return len(text) <= 63
}

// CheckWorkspace returns why a directory of this machine must not be copied into a
// session, or nil. Its error wraps [execpolicy.ErrInvalid]. It refuses what a zero
// [execpolicy.DockerPolicy] refuses.
func (p Policy) CheckWorkspace(dir string) error {
	return execpolicy.DockerPolicy{}.CheckWorkspace(dir)
}

// SavesWorkspace reports true: the changes to a copied workspace may be saved.
func (p Policy) SavesWorkspace() bool { return true }
