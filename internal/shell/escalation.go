package shell

import "time"

// A Step is how far the escalation that ends a command has gone. The zero Step means that
// it has not begun. execpolicy.Escalation has the same values.
type Step int

const (
	StepTerm      Step = iota + 1 // a SIGTERM to all that the command has started
	StepKill                      // a SIGKILL to the same
	StepShell                     // a SIGKILL to the worker
	StepContainer                 // the end of the container by its lifeline
	StepRemoval                   // its removal by force
)

// The steps wait this long for what they do, or for a share of a short timeout.
const (
	// termGrace is for a program that cleans up on SIGTERM.
	termGrace = 250 * time.Millisecond
	// killGrace is for the walk over the processes: 512 of them take an eighth of a
	// second.
	killGrace = 250 * time.Millisecond
	// shellGrace is for a machine under load, on which process 1 may still be busy with
	// the steps before: it looks at the processes for three quarters of a second at most
	// for each. The next step costs the session.
	shellGrace = 2500 * time.Millisecond
	// workerGrace and lifelineGrace are for a machine under load, too.
	workerGrace   = time.Second
	lifelineGrace = time.Second
)

// next returns the step after one that has not ended a command. Without a process
// namespace of its own there is nothing between a SIGTERM to the group and the end of
// all. StepRemoval is never next: [Conn.End] takes it if the container does not end.
func (s Step) next(ownPIDNamespace bool) Step {
	switch {
	case s < StepTerm:
		return StepTerm
	case s < StepShell && ownPIDNamespace:
		return s + 1
	}
	return StepContainer
}

// grace returns how long to wait after the step before the next one, if the whole
// escalation may take timeout. It returns 0 for a step with no next one.
func (s Step) grace(ownPIDNamespace bool, timeout time.Duration) time.Duration {
	share := max(timeout/8, 1) // a step without a grace would be the last
	switch {
	case s == StepTerm && ownPIDNamespace:
		return min(termGrace, share)
	case s == StepTerm:
		return min(workerGrace, share)
	case s == StepKill:
		return min(killGrace, share)
	case s == StepShell:
		return min(shellGrace, 2*share)
	}
	return 0
}
