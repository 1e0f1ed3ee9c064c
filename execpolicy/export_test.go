package execpolicy

import (
	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// Argv returns the argument list by which Spawn starts spec in a container of that name.
func (p DockerPolicy) Argv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	return p.argv(e, spec, name)
}

// ForPolicy returns the spec of a session as a policy gets it.
func (s Spec) ForPolicy() Spec { return s.forPolicy() }

// ForgetEngine makes the next policy without an engine look for one.
func ForgetEngine() {
	defaultEngine.Forget()
}

// ParseCount returns a number that a supervisor tells, or -1 if it is not one.
func ParseCount(text string) int { return shellwire.ParseCount(text) }

// OutcomeOf returns the outcome of a command of which that is known.
func OutcomeOf(cause error, lost, oom bool, status, signal int) Outcome {
	return ending{cause, lost, oom, status, signal}.outcome()
}

// MaxStarts is how many sessions are started at a time.
const MaxStarts = maxStarts

// Block makes a result that of a command whose output must not be seen.
func Block(r *Result, err error) { r.blocked = err }

// Connecting is how many sessions and jobs have yet to reach a remote engine.
func Connecting() int { return len(engines.Connecting) }

// Asked reports whether somebody has the turn of an idle session.
func (i *Idle) Asked() bool { return len(i.s.turn) > 0 }

// EndedJob returns a job that has ended with that error.
func EndedJob(err error) *Job {
	j := &Job{cancel: func(error) {}, done: make(chan struct{}), err: err}
	close(j.done)
	return j
}

// SetWay gives a process a way out that is opened by open.
func SetWay(p *Process, open func() error) {
	p.openWay = func(func(Event)) error { return open() }
}
