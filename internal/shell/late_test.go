package shell

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// An answer that is late ends nothing that goes on after its command.
func TestLateAnswerEndsNothing(t *testing.T) {
	enginetest.Beside(t)
	synctest.Test(t, func(t *testing.T) {
		c, steps := connectWithin(10*time.Second, func(p *peer) {
			time.Sleep(2 * time.Second)
			p.answer("3 1 - -")
		})
		defer end(t, c)
		_, err := c.SetUp(t.Context(), time.Time{}, time.Time{}, Place{})
		assert.NilError(t, err)
		kills, r := c.Ask(t.Context(), time.Now().Add(time.Second), time.Time{})
		assert.Equal(t, kills, -1)
		assert.Assert(t, r.Cause == ErrTimeout && !r.Lost && !r.Died, "%+v", r)
		kills, r = c.Ask(t.Context(), time.Now().Add(5*time.Second), time.Time{})
		assert.Equal(t, kills, 3, "%+v", r)
		assert.Equal(t, len(*steps), 0, "%v", *steps)
	})
}

// An escalation has come to its end when it must have.
func TestEscalationKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, within := range []time.Duration{time.Second, 10 * time.Second} {
			c, steps := connectWithin(within, func(*peer) {})
			_, err := c.SetUp(t.Context(), time.Time{}, time.Time{}, Place{})
			assert.NilError(t, err)
			begin := time.Now()
			by := begin.Add(min(within, 300*time.Millisecond))
			_, _, r := c.Look(t.Context(), by)
			assert.Assert(t, r.Cause == ErrTimeout, "%+v", r)
			assert.Assert(t, time.Since(by) < 100*time.Millisecond, "%v", time.Since(by))
			assert.Assert(t, len(*steps) > 0)
			<-c.CleanedUp()
		}
	})
}

// What a process has printed before its end is not lost, though a writer takes none.
func TestEndBehindAStuckWriter(t *testing.T) {
	enginetest.Beside(t)
	synctest.Test(t, func(t *testing.T) {
		const size = 3 * relayBuffer
		done := make(chan struct{})
		o, p := newPeer(done)
		o.TerminationTimeout = 4 * time.Second
		c := New(o)
		operations := make(chan struct{})
		go func() {
			defer close(operations)
			io.Copy(io.Discard, p.stdin)
		}()
		c.Start()
		c.Supervise()
		gate, stuck := io.Pipe()
		defer gate.Close()
		out := NewOutput(OutputOptions{MaxBytes: 2 * size, Stdout: stuck})
		c.streams[0].begin("TAG", 1, false, out.Stdout, &c.marks)
		go func() {
			p.stdout.Write(make([]byte, size))
			p.stdout.Close()
			p.stderr.Close()
		}()
		close(done)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		select {
		case <-c.Exited():
		case <-ctx.Done():
			t.Fatal("its end is not seen")
		}
		assert.Equal(t, out.Stdout.Came, int64(size))
		c.streams[0].end(nil)
		// The writer has less.
		over, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, len(out.Finish(over.Done())), 1)
		<-c.CleanedUp()
		<-operations
	})
}
