package container

import (
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

// freezers is the directory of the control groups that can freeze processes, of the first
// version; empty if there are none. What is frozen in one of the second version dies of a
// signal all the same.
var freezers = sync.OnceValue(func() string {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		m, _ := mountinfo.Parse(strings.TrimSuffix(line, "\n"))
		if m.Type == "cgroup" && m.Root == "/" && slices.Contains(strings.Split(m.SuperOptions, ","), "freezer") {
			return m.Target
		}
	}
	return ""
})

// freezerOf returns the directory of the control group that can freeze a process, or
// nothing if that could freeze this program too.
func freezerOf(pid string, buf []byte) string {
	dir := freezerGroup(pid, buf)
	if dir == "" || strings.HasPrefix(freezerGroup("self", buf)+"/", dir+"/") {
		return ""
	}
	return dir
}

func freezerGroup(pid string, buf []byte) string {
	if freezers() == "" {
		return ""
	}
	for line := range strings.Lines(string(readInto(buf, "/proc/"+pid+"/cgroup"))) {
		// A path may hold a colon.
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "freezer") {
			return filepath.Join(freezers(), f[2])
		}
	}
	return ""
}

// thaw lets run what code inside has frozen, if this program may: it would not die. Where
// that code can make user namespaces, and its user is root's number, it can mount the
// control groups, and make others in that of its container. Their number has no bound,
// and their names may be longer than a path, so that find goes there. ctx bounds the
// search.
func (p FirstProcess) thaw(ctx context.Context) {
	own := p.ownFreezer()
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
