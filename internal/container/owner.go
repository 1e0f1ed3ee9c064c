package container

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/random"
)

// LabelPrefix begins the names of the library's labels.
const LabelPrefix = "cofferdam."

// The labels of every container say who started it and when, so that what is left of a
// program that is gone can be told from what a living one uses. Each container has all of
// them: one that it had not could come from its image, which may have been made of
// another container of ours.
const (
	// LabelName is the container's name. A container that has another has its labels from
	// its image.
	LabelName = LabelPrefix + "name"
	labelHost = LabelPrefix + "host"
	labelBoot = LabelPrefix + "boot"
	// labelPIDNS is the process namespace that gives labelPID its meaning.
	labelPIDNS = LabelPrefix + "pidns"
	labelPID   = LabelPrefix + "pid"
	// labelTimeNS is the time namespace that gives labelPIDStart its meaning; empty
	// before Linux 5.6, which has none.
	labelTimeNS = LabelPrefix + "timens"
	// labelPIDStart is when the program started, in the kernel's ticks since the boot: a
	// number that is used again has another.
	labelPIDStart = LabelPrefix + "pid-start"
	labelCreated  = LabelPrefix + "created" // seconds since 1970
	// labelExpires is when nobody can be using the container any more, in seconds since
	// 1970, or "never".
	labelExpires = LabelPrefix + "expires"
	// labelKeep is "true" if the container is to be kept when it has ended, else "false".
	labelKeep = LabelPrefix + "keep"
)

// clockMargin is how far apart the clocks of two machines may be.
const clockMargin = time.Hour

// NewName returns a name that nothing else has or will have.
func NewName() string { return "cofferdam-" + strings.ToLower(random.Fresh()) }

// SecondsInUse returns for how long a session's container with that lifetime may be in
// use, which are the lifetime and the times for its start and its end, or -1 if nothing
// ends it.
func SecondsInUse(lifetime time.Duration, others ...time.Duration) int64 {
	if lifetime < 0 {
		return -1
	}
	// In seconds nothing overflows, however long a caller lets things take.
	seconds := int64(lifetime / time.Second)
	for _, d := range others {
		seconds += int64(max(d, 0) / time.Second)
	}
	return seconds
}

// Labels returns the labels of a container: others, which must have passed CheckLabels,
// and those by which it is this program's. The container may be in use for that many
// seconds, or for ever if they are negative.
func Labels(name string, keep bool, seconds int64, others map[string]string) map[string]string {
	now := time.Now().Unix()
	l := maps.Clone(owner())
	maps.Copy(l, others)
	l[LabelName] = name
	l[labelCreated] = strconv.FormatInt(now, 10)
	l[labelExpires] = "never"
	if seconds >= 0 {
		l[labelExpires] = strconv.FormatInt(now+seconds+int64(clockMargin/time.Second), 10)
	}
	l[labelKeep] = strconv.FormatBool(keep)
	return l
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

// CheckLabels reports labels of a caller that would take the place of the library's.
func CheckLabels(labels map[string]string) problems.List {
	var found problems.List
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(key, LabelPrefix) {
			found.Add("the label %q: names that begin with %q are the library's own", key, LabelPrefix)
		}
	}
	return found
}

// Abandoned reports whether labels as those of [Labels] prove that nobody can be using
// what has that name and them.
func Abandoned(name string, labels map[string]string, now time.Time) bool {
	if labels[LabelName] != name {
		return false
	}
	expires, err := strconv.ParseUint(labels[labelExpires], 10, 63)
	return err == nil && now.Unix() > int64(expires) || ownerGone(labels)
}

// AbandonedSince is Abandoned for what was created at a time that is known apart from the
// labels: they tell the time of another clock.
func AbandonedSince(name string, labels map[string]string, created, now time.Time) bool {
	if told, err := strconv.ParseInt(labels[labelCreated], 10, 64); err == nil {
		if ahead := created.Sub(time.Unix(told, 0)); ahead > 0 {
			now = now.Add(-ahead)
		}
	}
	return Abandoned(name, labels, now)
}

// ownerGone reports whether labels prove that the program which started a container has
// ended.
func ownerGone(labels map[string]string) bool {
	me := owner()
	for _, key := range []string{labelHost, labelBoot, labelPIDNS} {
		if me[key] == "" || labels[key] != me[key] {
			return false
		}
	}
	// A start time that is told in another time namespace can't be compared.
	if labels[labelTimeNS] != me[labelTimeNS] {
		return false
	}
	// The kernel would cut longer numbers short, and take negative ones for groups.
	pid, err := strconv.ParseUint(labels[labelPID], 10, 31)
	if err != nil {
		return false
	}
	start, err := strconv.ParseUint(labels[labelPIDStart], 10, 64)
	return err == nil && ended(int(pid), start)
}
