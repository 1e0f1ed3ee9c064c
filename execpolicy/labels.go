package execpolicy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const labelPrefix = "cofferdam."

// The labels of every container say who started it and when, so that what is left of a program that is gone can be told from what a
// living one uses.
const (
	labelHost = labelPrefix + "host"
	labelBoot = labelPrefix + "boot"
	labelPID  = labelPrefix + "pid"
	// labelPIDStart is when the program started, in the kernel's ticks since the boot: a number that is used again has another.
	labelPIDStart = labelPrefix + "pid-start"
	labelCreated  = labelPrefix + "created" // seconds since 1970
)

// labels returns a container's labels: the library's own and the caller's.
func labels(more map[string]string) map[string]string {
	l := maps.Clone(owner())
	maps.Copy(l, more)
	l[labelCreated] = strconv.FormatInt(time.Now().Unix(), 10)
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
		labelPID:      strconv.Itoa(os.Getpid()),
		labelPIDStart: startTime(string(stat)),
	}
})

// startTime returns field 22 of a /proc/PID/stat, or nothing. The second field may hold spaces and parentheses.
func startTime(stat string) string {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// ownLabels reports labels of a caller that would take the place of the library's.
func ownLabels(labels map[string]string) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(key, labelPrefix) {
			errs = append(errs, fmt.Errorf("the label %q: names that begin with %q are the library's own", key, labelPrefix))
		}
	}
	return errs
}
