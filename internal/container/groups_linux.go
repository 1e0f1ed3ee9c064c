package container

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// What is frozen in a control group of the second version dies of a signal all the same.
var (
	freezers = sync.OnceValue(func() string { return hierarchy("cgroup", "freezer") })
	quotas   = sync.OnceValue(func() string { return hierarchy("cgroup", "cpu") })
	unified  = sync.OnceValue(func() string { return hierarchy("cgroup2", "") })
)

// hierarchy returns the directory of the control groups of that version, and with that
// controller unless it is empty; empty if there are none.
func hierarchy(version, controller string) string {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		m, _ := mountinfo.Parse(strings.TrimSuffix(line, "\n"))
		if m.Type == version && m.Root == "/" &&
			(controller == "" || slices.Contains(strings.Split(m.SuperOptions, ","), controller)) {
			return m.Target
		}
	}
	return ""
}

// groups returns the directories of the control groups that can freeze a container, and
// that bound its use of the processors, of which the process is the first; nothing in
// place of one that this program is in too.
func groups(pid string, buf []byte) (freezer, quota string) {
	theirs := string(readInto(buf, "/proc/"+pid+"/cgroup"))
	ours := string(readInto(buf, "/proc/self/cgroup"))
	apart := func(hierarchy, controller string) string {
		dir := strings.TrimSuffix(groupOf(theirs, hierarchy, controller), crunGroup)
		if dir == "" || strings.HasPrefix(groupOf(ours, hierarchy, controller)+"/", dir+"/") {
			return ""
		}
		return dir
	}
	return apart(freezers(), "freezer"), cmp.Or(apart(quotas(), "cpu"), apart(unified(), ""))
}

// crunGroup is the group below the container's own into which crun puts its processes,
// where groups are of the second version.
const crunGroup = "/container"

// groupOf returns the directory of a process's control group, from its /proc/PID/cgroup.
// Those of the second version name no controller.
func groupOf(text, hierarchy, controller string) string {
	if hierarchy == "" {
		return ""
	}
	for line := range strings.Lines(text) {
		// A path may hold a colon.
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return filepath.Join(hierarchy, f[2])
		}
	}
	return ""
}

// lift takes from a container that is being killed the bound on its use of the
// processors, if this program may. At the limit of memory the kernel works for each
// process that wants more, and that counts: hundreds of them can leave the container
// without a turn for many periods, in which nothing in it can die.
func (p FirstProcess) lift() {
	dir := ownGroup(p.Quota)
	if dir == "" {
		return
	}
	for file, none := range map[string]string{"cpu.cfs_quota_us": "-1", "cpu.max": "max"} {
		if f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0); err == nil {
			f.WriteString(none)
			f.Close()
		}
	}
}

// thaw lets run what code inside has frozen, if this program may: it would not die. Where
// that code can make user namespaces, and its user is root's number, it can mount the
// control groups, and make others in that of its container. Their number has no bound,
// and their names may be longer than a path, so that find goes there. ctx bounds the
// search.
func (p FirstProcess) thaw(ctx context.Context) {
	own := ownGroup(p.Freezer)
	if own == "" {
		return
	}
	state, _ := os.ReadFile(own + "/freezer.state")
	var dir syscall.Stat_t
	if err := syscall.Stat(own, &dir); err != nil || string(state) == "THAWED\n" && dir.Nlink == 2 {
		return // no engine makes groups below it
	}
	find, err := procgroup.Start(procgroup.Cmd{
		Path: "/usr/bin/find",
		Args: []string{"find", own, "-name", "freezer.state", "-execdir", "sh", "-c", "echo THAWED >freezer.state", ";"},
		Env:  []string{"PATH=/usr/bin:/bin"},
		Dir:  "/",
	})
	if err != nil {
		return
	}
	select {
	case <-find.Done():
	case <-ctx.Done():
		find.Stop(context.WithoutCancel(ctx), 0)
	}
}
