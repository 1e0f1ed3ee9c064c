package shell

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// The word of a worker's end that comes late is not taken for the end of the next unit.
func TestWorkerThatEndsBetweenUnits(t *testing.T) {
	enginetest.Beside(t)
	for _, test := range []struct {
		name      string
		namespace bool
		marked    bool     // the unit has to begin with a mark
		begins    bool     // and does
		said      []string // by the worker, as it ends, and by process 1 when it is asked
		answer    string
		want      bool
	}{
		{"process 1 has missed it", true, false, false, []string{"137", "unrun"}, "3 1 - - - - 0", true},
		{"it has not begun the unit", true, false, false, []string{"137"}, "3 1 - - - - 1", true},
		{"it has begun the unit", true, false, true, []string{"137"}, "3 1 - - - - 1", false},
		{"it was alone", true, false, false, []string{"3"}, "3 1 - - - - 0", false},
		{"there is no answer", true, false, false, []string{"3"}, "", false},
		{"its begin was asked for", false, true, false, []string{"137"}, "", true},
		{"its begin was asked for and came", false, true, true, []string{"137"}, "", false},
		{"there is nobody to ask", false, false, false, []string{"137"}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			done := make(chan struct{})
			o, p := newPeer(done)
			o.TerminationTimeout, o.Setup.Namespace = time.Minute, test.namespace
			died := func(p *peer, status string) {
				fmt.Fprintf(p.stdout, "%sx1 %s\n", p.prefix, status)
				fmt.Fprintf(p.stderr, "%sx1\n", p.prefix)
			}
			p.look = func(p *peer) {
				for _, status := range test.said[1:] {
					died(p, status)
				}
				if test.answer != "" {
					p.answer(test.answer)
				}
			}
			set := false
			p.unit = func(p *peer) {
				if !set {
					set = true
					p.answer("7")
					return
				}
				if test.begins {
					fmt.Fprintf(p.stdout, "%sb%s\n", p.prefix, p.tag)
					fmt.Fprintf(p.stderr, "%sb%s\n", p.prefix, p.tag)
				}
				died(p, test.said[0])
			}
			c := startPeer(o, p, done)
			defer end(t, c)
			_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
			assert.NilError(t, err)
			unit := Unit(":")
			unit[0].Marked = test.marked
			r := c.Run(t.Context(), time.Time{}, time.Time{}, unit, &Sink{}, &Sink{})
			assert.Assert(t, r.Died && !r.Mark.NotRun, "%+v", r)
			by := time.Now().Add(time.Minute)
			if test.answer == "" {
				by = time.Now()
			}
			assert.Equal(t, c.NeverRan(t.Context(), by, time.Now().Add(time.Minute)), test.want)
		})
	}
}

// A helper goes on when the worker beside it has ended, and says itself how it ends. In a
// process group it is given up.
func TestWorkerThatEndsBesideAHelper(t *testing.T) {
	enginetest.Beside(t)
	for _, namespace := range []bool{true, false} {
		t.Run(fmt.Sprintf("namespace %t", namespace), func(t *testing.T) {
			done := make(chan struct{})
			o, p := newPeer(done)
			o.TerminationTimeout, o.Setup.Namespace = time.Minute, namespace
			helper := false
			p.unit = func(p *peer) {
				if !helper {
					helper = true
					p.answer("7")
					return
				}
				fmt.Fprintf(p.stdout, "%[1]sb%[2]s\nhe%[1]sx1 137\nlped", p.prefix, p.tag)
				fmt.Fprintf(p.stderr, "%[1]sb%[2]s\n%[1]sx1\n", p.prefix, p.tag)
				p.answer("8")
			}
			c := startPeer(o, p, done)
			defer end(t, c)
			_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
			assert.NilError(t, err)
			unit := Unit(":")
			unit[0].Marked = true
			out := &Sink{Kept: truncate.Buffer{Limit: 100}}
			r := c.Exchange(t.Context(), time.Time{}, time.Time{}, unit, out, &Sink{})
			assert.Assert(t, r.Died, "%+v", r)
			kind, printed := shellwire.End, "helped"
			if !namespace {
				kind, printed = shellwire.Death, "he"
			}
			assert.Equal(t, r.Mark.Kind, kind)
			assert.Equal(t, string(out.Kept.Bytes()), printed)
		})
	}
}
