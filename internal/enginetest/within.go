package enginetest

import (
	"runtime/debug"
	"testing"
	"time"

	"gotest.tools/v3/poll"
)

// hangTime is how much longer than its bound a call may take before it counts as one that
// hangs.
const hangTime = 5 * time.Minute

// Within fails the test if f takes longer than bound. Time in which this program stood
// still does not count: then nothing could be done in time.
func Within(t *testing.T, bound time.Duration, what string, f func()) {
	t.Helper()
	// A call that is late is seen here; one that hangs ends all with the stacks that show
	// where.
	hung := time.AfterFunc(bound+hangTime, func() {
		debug.SetTraceback("all")
		panic(what + " hangs")
	})
	defer hung.Stop()
	if took := Awake(f); took > bound {
		t.Errorf("%s took %v, allowed are %v", what, took, bound)
	}
}

// Wait waits up to a minute for a condition, and fails the test with what is formatted if
// that is not met.
func Wait(t *testing.T, met func() bool, format string, args ...any) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if met() {
			return poll.Success()
		}
		return poll.Continue(format, args...)
	}, poll.WithTimeout(time.Minute), poll.WithDelay(10*time.Millisecond))
}

// LossTold is a command for a background process of a session's shell that has killed it.
// It waits until the shell's parent has told the host and ended: a command that comes
// before that is given to the dying shell.
const LossTold = `while read -r parent </proc/$PPID/stat && case $parent in *") Z "*) false ;; esac; do sleep 0.01; done 2>/dev/null`

// Awake returns how long f takes, without the time in which this program stood still.
func Awake(f func()) (took time.Duration) {
	const (
		tick = 10 * time.Millisecond
		most = 50 * time.Millisecond // that one tick counts for, however late it comes
	)
	done, total := make(chan struct{}), make(chan time.Duration)
	go func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		var sum time.Duration
		for last, over := time.Now(), false; !over; {
			select {
			case <-ticker.C:
			case <-done:
				over = true
			}
			now := time.Now()
			sum += min(now.Sub(last), most)
			last = now
		}
		total <- sum
	}()
	// Also if the test ends in f.
	defer func() {
		close(done)
		took = <-total
	}()
	f()
	return 0
}
