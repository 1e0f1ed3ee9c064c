package attest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// A want is what a policy and a spec ask for.
type want struct {
	outside.Wanted
	fifos bool // the session's streams go by FIFOs
}

const (
	fifoDir    = fifo.Target
	fifoSource = "io" // the last name of fifo.Source
)

// root and rootGroup report whether the policy names root as the user, and its group.
func (w want) root() bool {
	name, _, _ := strings.Cut(w.User, ":")
	return name == "0" || name == "root"
}

func (w want) rootGroup() bool {
	_, group, _ := strings.Cut(w.User, ":")
	return group == "0" || group == "root"
}

// allows reports whether the container may write to a path because the policy says so.
func (w want) allows(name string) bool {
	within := func(dir string) bool { return mountguard.Within(name, dir) }
	for dir := range w.Tmpfs {
		if within(dir) {
			return true
		}
	}
	for dir, writable := range w.Mounts {
		if writable && within(dir) {
			return true
		}
	}
	// What is in these is judged by itself.
	return within("/dev") || within("/proc") || within("/sys")
}

// millionths reads a decimal number, which the policy has checked.
func millionths(s string) int64 {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// bytesText returns a size as people write it.
func bytesText(n int64) string {
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<unit.shift && n%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
