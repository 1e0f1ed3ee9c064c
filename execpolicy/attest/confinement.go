package attest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// A Confinement says which security module of the kernel confines process 1. No policy
// asks for one, because the host has it or has not.
type Confinement struct {
	// AppArmor and SELinux say whether the engine's host uses them.
	AppArmor bool `json:"apparmor"`
	SELinux  bool `json:"selinux"`
	// Untold says that the engine does not tell whether its host uses them. No cluster
	// tells. AppArmor and SELinux then say only whether process 1 has a profile or a
	// label.
	Untold bool `json:"untold,omitempty"`
	// Inside is the profile or the label of process 1 as the kernel shows it inside.
	// Outside is what the engine says it has applied. Either is empty if nothing is known
	// from that side.
	Inside  string `json:"inside"`
	Outside string `json:"outside"`
	// Weaknesses name each module that the host uses and that does not confine process 1,
	// or is not known to.
	Weaknesses []string `json:"weaknesses"`
}

// labelFiles show the label of a process, those that are of one module first.
var labelFiles = []string{"/proc/1/attr/apparmor/current", "/proc/1/attr/current", "/proc/self/attr/apparmor/current",
	"/proc/self/attr/current"}

// unconfinedTypes are those of SELinux's labels that may do nearly all.
var unconfinedTypes = []string{"unconfined_t", "spc_t", "container_runtime_t", "unconfined_service_t", "initrc_t"}

// confinement compares what the host has with what was seen from both sides. Info is nil
// if the engine does not tell.
func confinement(info *dockercli.Info, f *facts, s *outside.Settings) Confinement {
	var c Confinement
	for _, file := range labelFiles {
		if values := f.values[file]; f.whole && len(values) > 0 {
			c.Inside = printable(strings.TrimRight(values[0], "\x00"))
			break
		}
	}
	var outside []string
	for _, label := range []string{s.AppArmor, s.SELinux} {
		if label != "" {
			outside = append(outside, label)
		}
	}
	c.Outside = printable(strings.Join(outside, ", "))
	profile, _, _ := strings.Cut(c.Inside, " ")
	isProfile, isLabel := !strings.Contains(profile, ":"), strings.Count(c.Inside, ":") >= 2
	if info != nil {
		c.AppArmor, c.SELinux = info.AppArmor, info.SELinux
	} else {
		c.Untold, c.AppArmor, c.SELinux = true, isProfile && profile != "", isLabel
	}
	if c.AppArmor {
		c.classify("AppArmor", profile, s.AppArmor, func(label string) bool {
			return label == "unconfined"
		}, isProfile)
	}
	if c.SELinux {
		c.classify("SELinux", c.Inside, s.SELinux, func(label string) bool {
			fields := strings.Split(label, ":")
			return len(fields) > 2 && slices.Contains(unconfinedTypes, fields[2])
		}, isLabel)
	}
	return c
}

// classify adds a weakness if either side says that a module does not confine, or if
// neither says that it does. ofModule says whether what is seen inside is a label of that
// module.
func (c *Confinement) classify(module, inside, outside string, unconfined func(string) bool, ofModule bool) {
	known := inside != "" && ofModule
	switch {
	case known && unconfined(inside) || outside != "" && unconfined(outside):
		c.Weaknesses = append(c.Weaknesses, fmt.Sprintf("%s does not confine process 1, although the host uses it", module))
	case !known && outside == "":
		c.Weaknesses = append(c.Weaknesses, fmt.Sprintf("%s is not known to confine process 1, although the host uses it", module))
	}
}

// lines returns the confinement as lines of a report, if there is one to tell of.
func (c Confinement) lines() []string {
	if !c.Untold && !c.AppArmor && !c.SELinux && c.Inside+c.Outside == "" {
		return nil
	}
	var used []string
	if c.AppArmor {
		used = append(used, "AppArmor")
	}
	if c.SELinux {
		used = append(used, "SELinux")
	}
	host := "the host uses " + list(used)
	if c.Untold && len(used) == 0 {
		host = "it is not known which one the node uses"
	}
	all := []string{fmt.Sprintf("%s; inside: %s; the engine says: %s", host, dash(c.Inside), dash(c.Outside))}
	for _, text := range c.Weaknesses {
		all = append(all, "a weakness: "+text)
	}
	return all
}
