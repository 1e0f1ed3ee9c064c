package execpolicy

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
)

const labelPrefix = "cofferdam."

// The labels of every container say who started it and when, so that what is left of a
// program that is gone can be told from what a living one uses. Each container has all of
// them: one that it had not could come from its image, which may have been made of
// another container of ours.
const (
	// labelName is the container's name. A container that has another has its labels from
	// its image.
	labelName = labelPrefix + "name"
	labelHost = labelPrefix + "host"
	labelBoot = labelPrefix + "boot"
	// labelPIDNS is the process namespace that gives labelPID its meaning.
	labelPIDNS = labelPrefix + "pidns"
	labelPID   = labelPrefix + "pid"
	// labelTimeNS is the time namespace that gives labelPIDStart its meaning; empty
	// before Linux 5.6, which has none.
	labelTimeNS = labelPrefix + "timens"
	// labelPIDStart is when the program started, in the kernel's ticks since the boot: a
	// number that is used again has another.
	labelPIDStart = labelPrefix + "pid-start"
	labelCreated  = labelPrefix + "created" // seconds since 1970
	// labelExpires is when nobody can be using the container any more, in seconds since
	// 1970, or "never".
	labelExpires = labelPrefix + "expires"
	// labelKeep is "true" if the container is to be kept when it has ended, else "false".
	labelKeep = labelPrefix + "keep"
	// labelSeccomp has a hash of a caller's SeccompProfile, of which the command line
	// tells nothing. Containers without one lack it. It tells one filter from another,
	// and proves nothing: SHA-256 would add 150 KB to a program.
	labelSeccomp = labelPrefix + "seccomp"
)

// clockMargin is how far apart the clocks of two machines may be.
const clockMargin = time.Hour

// labels returns a container's labels: the library's own and the caller's.
func (p *DockerPolicy) labels(spec Spec, name string) map[string]string {
	now := time.Now()
	l := maps.Clone(owner())
	maps.Copy(l, spec.Labels)
	l[labelName] = name
	l[labelCreated] = strconv.FormatInt(now.Unix(), 10)
	l[labelExpires] = p.Limits.expires(spec, now)
	l[labelKeep] = strconv.FormatBool(p.KeepContainer)
	if p.SeccompProfile != "" {
		hash := fnv.New128a()
		hash.Write([]byte(p.SeccompProfile))
		l[labelSeccomp] = fmt.Sprintf("%x", hash.Sum(nil))
	}
	return l
}

// expires returns the value of labelExpires.
func (l Limits) expires(spec Spec, created time.Time) string {
	l = l.withDefaults()
	if l.Lifetime < 0 || len(spec.Supervisor) == 0 {
		// Nobody ends what is no session.
		return "never"
	}
	end := created.Unix()
	// In seconds nothing overflows, however long a caller lets things take.
	for _, d := range []time.Duration{max(l.StartupTimeout, 0), l.Lifetime, l.TerminationTimeout, clockMargin} {
		end += int64(d / time.Second)
	}
	return strconv.FormatInt(end, 10)
}

// owner returns the labels that say which program this is.
var owner = sync.OnceValue(func() map[string]string {
	host, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	stat, _ := os.ReadFile("/proc/self/stat")
	return map[string]string{
		labelHost:     host,
		labelBoot:     strings.TrimSpace(string(boot)),
		labelPIDNS:    namespace("pid"),
		labelPID:      strconv.Itoa(os.Getpid()),
		labelTimeNS:   namespace("time"),
		labelPIDStart: statField(string(stat), 22),
	}
})

// namespace returns the number of this program's namespace of that kind, or nothing.
func namespace(kind string) string {
	link, _ := os.Readlink("/proc/self/ns/" + kind)
	return strings.TrimSuffix(strings.TrimPrefix(link, kind+":["), "]")
}

// statField returns a field of a /proc/PID/stat from the third on, or nothing. The second
// may hold spaces and parentheses.
func statField(stat string, n int) string {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < n-2 {
		return ""
	}
	return fields[n-3]
}

// ownLabels reports labels of a caller that would take the place of the library's.
func ownLabels(labels map[string]string) []error {
	var errs []error
	for _, key := range ordered.Keys(labels) {
		if strings.HasPrefix(key, labelPrefix) {
			errs = append(errs, fmt.Errorf("the label %q: names that begin with %q are the library's own", key, labelPrefix))
		}
	}
	return errs
}
