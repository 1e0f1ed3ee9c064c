package shell

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Every step but the last waits for what it does, and none is left out where processes
// can be told apart.
func TestEscalation(t *testing.T) {
	for own, want := range map[bool][]Step{
		true:  {StepTerm, StepKill, StepShell, StepContainer},
		false: {StepTerm, StepContainer},
	} {
		var steps []Step
		for s := Step(0); s != StepContainer; {
			s = s.next(own)
			steps = append(steps, s)
			assert.Equal(t, s.grace(own, time.Hour) > 0, s != StepContainer, "%v %v", own, s)
			assert.Assert(t, len(steps) < 9)
		}
		assert.DeepEqual(t, steps, want)
		// All of them together leave time for the end of the container.
		var all time.Duration
		for _, s := range steps {
			all += s.grace(own, time.Second)
		}
		assert.Assert(t, all <= time.Second/2, "%v: %v", own, all)
	}
	// Where the next step costs the session, a machine under load gets more time.
	assert.Assert(t, StepTerm.grace(true, time.Hour) < StepTerm.grace(false, time.Hour))
	assert.Equal(t, StepContainer.next(true), StepContainer)
	assert.Equal(t, StepRemoval.next(true), StepContainer)
	assert.Equal(t, StepContainer.grace(true, time.Hour), time.Duration(0))
}
