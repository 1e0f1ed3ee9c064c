//go:build linux

package execpolicy_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

var errTrail = errors.New("the disk is full")

// A trail keeps events.
type trail struct {
	mu     sync.Mutex
	events []execpolicy.Event
	// on, if not nil, is called with each before it is kept. One on which it returns an
	// error is not.
	on func(execpolicy.Event) error
}

func (l *trail) audit(e execpolicy.Event) error {
	if l.on != nil {
		if err := l.on(e); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	return nil
}

func (l *trail) all() []execpolicy.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// told returns the events in short, without what is another in each run: on a busy
// machine a command may be ended by a later step, for which the first stands, and a
// container may have to be removed, which is left out.
func (l *trail) told() []string {
	var lines []string
	step := execpolicy.Escalation(0)
	for _, e := range l.all() {
		if e.Kind == execpolicy.EventKill && e.Escalation == execpolicy.EscalationRemoval {
			continue
		}
		if e.Kind == execpolicy.EventKill && e.Escalation == step+1 && step > 0 {
			step++
			continue
		}
		step = e.Escalation
		line := string(e.Kind)
		add := func(format string, args ...any) { line += " " + fmt.Sprintf(format, args...) }
		if e.Op != "" {
			add("%s", e.Op)
		}
		if text := e.Script + e.Path; text != "" {
			add("%q", text)
		}
		if e.Kind == execpolicy.EventCommand && e.Argv != nil {
			add("%q", e.Argv)
		}
		if e.Dir != "" {
			add("in %s", e.Dir)
		}
		if e.Kind == execpolicy.EventCommand && len(e.Env) > 0 {
			add("with %q", e.Env)
		}
		if e.Of != 0 {
			add("of %d", e.Of)
		}
		if e.Outcome != 0 {
			add("%v", e.Outcome)
		}
		if e.Outcome == execpolicy.OutcomeExited {
			add("%d", e.ExitCode)
		}
		if e.Kind == execpolicy.EventKill {
			add("by %v", e.Escalation)
		}
		// A shell may say what it was that was terminated.
		if e.In+e.Out > 0 && e.Escalation == 0 {
			add("in %d out %d", e.In, e.Out)
		}
		if e.Gone {
			add("gone")
		}
		if e.Cause != "" {
			add("because %s", e.Cause)
		}
		if e.Error != "" {
			add("error %s", e.Error)
		}
		lines = append(lines, line)
	}
	return lines
}

// is checks what was told, and that nothing of it is missing.
func (l *trail) is(t *testing.T, want ...string) {
	t.Helper()
	assert.DeepEqual(t, l.told(), want)
	l.whole(t)
}

// whole checks that no event is missing, that each has its time in order, and that a
// result's step is the last that was taken.
func (l *trail) whole(t *testing.T) {
	t.Helper()
	last := execpolicy.Event{}
	for i, e := range l.all() {
		if e.Kind == execpolicy.EventSpawn {
			last.Seq = 0
		}
		assert.Equal(t, e.Seq, last.Seq+1, "event %d: %+v", i, e)
		assert.Assert(t, !e.Time.Before(last.Time.Add(-time.Millisecond)), "event %d: %+v", i, e)
		if e.Outcome != 0 && last.Kind != execpolicy.EventEnd {
			assert.Equal(t, e.Escalation, last.Escalation, "event %d: %+v", i, e)
		}
		last = e
	}
}

// audited is a spec with a trail.
func (p place) audited() (execpolicy.Spec, *trail) {
	spec, l := p.spec(), &trail{}
	spec.Audit = l.audit
	return spec, l
}

// trailOf returns what a session has told with which do has done something. do returns
// false if a busy machine has spoilt it, and gets another session with a trail of its
// own. on is the trail's.
func trailOf(t *testing.T, policy execpolicy.Policy, spec execpolicy.Spec, on func(execpolicy.Event) error,
	do func(s session) bool) *trail {
	t.Helper()
	for range tries {
		l := &trail{on: on}
		spec.Audit = l.audit
		s := open(t, policy, spec)
		if do(s) {
			return l
		}
		s.Close()
	}
	t.Fatal("no command has ended as it should")
	return nil
}
