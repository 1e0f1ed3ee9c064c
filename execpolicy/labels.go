package execpolicy

import (
	"fmt"
	"hash/fnv"

	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// labelSeccomp has a hash of a caller's SeccompProfile, of which the command line tells
// nothing. Containers without one lack it. It tells one filter from another, and proves
// nothing: SHA-256 would add 150 KB to a program.
const labelSeccomp = container.LabelPrefix + "seccomp"

// labels returns a container's labels: the library's own and the caller's.
func (p *DockerPolicy) labels(spec Spec, name string) map[string]string {
	l := container.Labels(name, p.KeepContainer, p.secondsInUse(spec), spec.Labels)
	if p.SeccompProfile != "" {
		hash := fnv.New128a()
		hash.Write([]byte(p.SeccompProfile))
		l[labelSeccomp] = fmt.Sprintf("%x", hash.Sum(nil))
	}
	if text := p.egressText(); text != "" {
		l[labelEgress] = text
	}
	return l
}

// secondsInUse returns for how long a container may be in use, or -1 if nothing ends it.
func (l Limits) secondsInUse(spec Spec) int64 {
	if len(spec.Supervisor) == 0 {
		return -1 // only a session has a lifetime
	}
	l = l.withDefaults()
	return container.SecondsInUse(l.Lifetime, l.StartupTimeout, l.TerminationTimeout)
}
