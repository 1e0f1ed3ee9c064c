package shell

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
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
		_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
		assert.NilError(t, err)
		kills, r := c.Ask(t.Context(), time.Now().Add(time.Second), time.Time{})
		assert.Equal(t, kills, -1)
		assert.Assert(t, r.Cause == ErrTimeout && !r.Lost && !r.Died, "%+v", r)
		kills, r = c.Ask(t.Context(), time.Now().Add(5*time.Second), time.Time{})
		assert.Equal(t, kills, 3, "%+v", r)
		assert.Equal(t, len(*steps), 0, "%v", *steps)
	})
}

// The supervisor is told once that the end of a worker was read, also between commands.
func TestEndOfAWorkerIsConfirmed(t *testing.T) {
	done := make(chan struct{})
	o, p := newPeer(done)
	o.TerminationTimeout = time.Minute
	p.look, p.heard = func(p *peer) { p.answer("3 1 - -") }, make(chan string, 3)
	c := startPeer(o, p, done)
	defer end(t, c)
	_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
	assert.NilError(t, err)
	for range 2 {
		fmt.Fprintf(p.stdout, "%sx1 3\n", p.prefix)
	}
	assert.Equal(t, <-p.heard, shellwire.Heard(1))
	assert.Assert(t, c.WorkerEnded())
	c.replace()
	_, err = c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
	assert.NilError(t, err)
	fmt.Fprintf(p.stdout, "%sx2 3\n", p.prefix)
	assert.Equal(t, <-p.heard, shellwire.Heard(2))
}

// No worker counts as missed while its own word may stand behind output that waits for a
// writer.
func TestTicksBehindAStuckWriter(t *testing.T) {
	enginetest.Beside(t)
	synctest.Test(t, func(t *testing.T) {
		done, over := make(chan struct{}), make(chan struct{})
		o, p := newPeer(done)
		o.TerminationTimeout = time.Minute
		p.look = func(p *peer) { p.answer("3 1 - -") }
		var floods atomic.Bool
		p.unit = func(p *peer) {
			if !floods.Load() {
				p.answer("7")
				return
			}
			end := fmt.Sprintf("%[1]se%[2]s 0 7%[1]s\n", p.prefix, p.tag)
			errEnd := fmt.Sprintf("%se%s\n", p.prefix, p.tag)
			go func() {
				p.stdout.Write(make([]byte, 3*relayBuffer))
				<-over
				io.WriteString(p.stdout, end)
				io.WriteString(p.stderr, errEnd)
			}()
		}
		c := startPeer(o, p, done)
		_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
		assert.NilError(t, err)
		floods.Store(true)
		gate, stuck := io.Pipe()
		out := NewOutput(OutputOptions{MaxBytes: 10, Stdout: stuck})
		ended := make(chan Reply)
		go func() {
			ended <- c.Exchange(t.Context(), time.Time{}, time.Time{}, Unit(":"), out.Stdout, out.Stderr)
		}()
		time.Sleep(5 * time.Second) // of the bubble's clock, as below: no real time passes
		behind, reaps := p.ticks.Load(), p.reaps.Load()
		gate.Close()
		time.Sleep(5 * time.Second)
		ticks := p.ticks.Load()
		close(over)
		<-ended
		out.Finish(nil)
		end(t, c)
		assert.Equal(t, behind, int64(0))
		assert.Assert(t, reaps > 3 && ticks > 3, "%d and %d", reaps, ticks)
	})
}

// An escalation has come to its end when it must have.
func TestEscalationKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, within := range []time.Duration{time.Second, 10 * time.Second} {
			c, steps := connectWithin(within, func(*peer) {})
			_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
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
		c.streams[0].begin("TAG", 1, false, false, out.Stdout, &c.marks)
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
