package execpolicy

import (
	"context"
	"maps"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// Argv returns the argument list by which Spawn starts spec in a container of that name.
func (p DockerPolicy) Argv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	return p.argv(e, spec, name)
}

// Ended reports whether it is proven that a process has ended.
func Ended(pid int, start uint64) bool { return ended(pid, start) }

// FindFirst returns the number on this machine of process 1 of the container with that
// name, or 0.
func FindFirst(name string, above int) int { return findFirst(name, above).pid }

// KillInside kills what runs in a container that is taken to have a process namespace of
// its own, and returns when it has tried to.
func KillInside(ctx context.Context, e *dockercli.Engine, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	<-(&container{engine: e, name: name, ownPIDs: true}).killAll(ctx)
}

// Force removes a container whose client has ended and whose process 1 is taken to be
// that one.
func Force(ctx context.Context, e *dockercli.Engine, name string, pid int, start uint64) error {
	client, err := procgroup.Start(procgroup.Cmd{Path: "/bin/true", Args: []string{"true"}})
	if err != nil {
		return err
	}
	<-client.Done()
	c := &container{engine: e, name: name, ownPIDs: true, client: client}
	c.answered.Store(true)
	c.first.Store(&firstProcess{pid, start})
	return c.force(ctx)
}

// ForgetEngine makes the next policy without an engine look for one.
func ForgetEngine() {
	found.Lock()
	defer found.Unlock()
	found.engine = nil
}

// OwnerGone reports whether labels prove that the program which started a container has
// ended.
func OwnerGone(labels map[string]string) bool { return ownerGone(labels) }

// Abandoned reports whether a container's labels prove that nobody can be using it.
func Abandoned(c *dockercli.Container, now time.Time) bool { return abandoned(c, now) }

// Owner returns the labels that say which program this is.
func Owner() map[string]string { return maps.Clone(owner()) }

// StatField returns a field of a /proc/PID/stat from the third on.
func StatField(stat string, n int) string { return statField(stat, n) }

// ParseCount returns a number that a supervisor tells, or -1 if it is none.
func ParseCount(text string) int { return parseCount(text) }

// Limited returns argv as [HostPolicy] executes it.
func (p HostPolicy) Limited(argv []string) []string { return p.limited(argv) }

// OutcomeOf returns the outcome of a command of which that is known.
func OutcomeOf(cause error, lost, oom bool, status, signal int) Outcome {
	return ending{cause, lost, oom, status, signal}.outcome()
}

// Failure returns the error of a script of a transfer that failed with these words.
func Failure(words string, tree bool) error {
	t := transfer{c: &conn{proc: &Process{Scratch: "/.cofferdam"}}, tree: tree}
	return t.failure(1, words)
}

// ParseListing reads what find and stat tell of a directory.
var ParseListing = parseListing

// MaxStarts is how many sessions are started at a time.
const MaxStarts = maxStarts

// Block makes a result that of a command whose output must not be seen.
func Block(r *Result, err error) { r.blocked = err }

// A Guard watches over names, and runs a command with those that are left when its pipe
// is closed.
type Guard struct{ *guard }

// NewGuard returns a guard that is started with its first name; removal is words of a
// shell.
func NewGuard(removal string) Guard {
	return Guard{&guard{removal: removal, watched: map[string]string{}}}
}

func (g Guard) Add(name string)    { g.add(name) }
func (g Guard) Remove(name string) { g.remove(name) }

// Pid returns the number of the guard's process.
func (g Guard) Pid() int { return g.proc.Pid() }

// Abandon does what the end of this program does. End ends the guard before it has tried
// for long.
func (g Guard) Abandon() { g.pipe.Close() }
func (g Guard) End()     { g.proc.Stop(context.Background(), 0) }
