package execpolicy

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// An Outcome is how a command ended. It rests on what the library and the kernel know,
// never on an exit code or on printed text. Where more than one would fit, the first of
// this list stands: what ended the command from outside comes before what it did itself.
// Of the first three it is what happened first, and a command that ends while it is being
// ended keeps that.
//
//   - OutcomeTimedOut: the library ended the command at its deadline.
//   - OutcomeOutputLimit: the library ended it because it had printed too much.
//   - OutcomeCanceled: the library ended it because its context ended, its session was closed or had lived its time.
//   - OutcomeOOMKilled: it was killed (exit code 137, or with its shell or container), and the kernel had killed for memory meanwhile.
//   - OutcomeSessionLost: its container ended under it.
//   - OutcomeSignaled: a signal killed its program, if it has an Argv, or its shell and the process that watches that.
//   - OutcomeRefused: the session's Approve refused it, and nothing of it ran.
//   - OutcomeExited: it ended by itself, whatever its exit code (124 to 137 too) and whatever it printed.
type Outcome int

const (
	// OutcomeExited says that the command ended by itself, with ExitCode as the shell
	// reports it.
	//
	// An exit code of 128+n may mean that signal n killed a program of a Script, or that
	// the program exited with that code: the shell gives a script the same number for
	// both. With an Argv it means an exit, unless n is 2 (SIGINT), 13 (SIGPIPE) or, where
	// the session's shell is bash, 15 (SIGTERM): of these the shells do not say that they
	// killed a program.
	OutcomeExited Outcome = iota + 1
	// OutcomeSignaled says that a signal ended the command, and Signal which. Either the
	// command has an Argv, and its program was killed; or SIGKILL killed the session's
	// shell from inside the container, together with the process that watches it, as "sh
	// -c 'kill -9 -1'" does. The kernel spares a shell that does so itself: then the next
	// result may be the first to say that the shell was replaced. If only the shell is
	// killed, the outcome is OutcomeExited with 137: the shell's watcher can't tell that
	// from an exit.
	//
	// A program that is not the command's own, as one that "sh -c" runs for an Argv, is
	// told as that program tells it: sh exits.
	OutcomeSignaled
	// OutcomeTimedOut says that the library ended the command at its deadline.
	OutcomeTimedOut
	// OutcomeCanceled says that the library ended the command because its context ended,
	// its session was closed, or the session's Lifetime was over: Cause says which.
	OutcomeCanceled
	// OutcomeOOMKilled says that the command was killed, with exit code 137 or with its
	// shell, and that the kernel had killed for memory meanwhile; or that the container
	// ended and the engine saw it killed for memory. Which process the kernel killed it
	// does not tell: one that kills itself while a background job is killed for memory
	// has this outcome too. A command that lived on after the kernel had killed a part of
	// it is OutcomeExited, with a higher count in OOMAfter.
	OutcomeOOMKilled
	// OutcomeOutputLimit says that the library ended the command because it had printed
	// more than [Command.OutputLimit].
	OutcomeOutputLimit
	// OutcomeSessionLost says that the container ended under the command, for a reason
	// that is not known to be one of the others.
	OutcomeSessionLost
	// OutcomeRefused says that [Spec.Approve] refused the command, which did not run.
	// Cause has the reason.
	OutcomeRefused
)

var outcomes = [...]string{"unknown", "exited", "signaled", "timed out", "canceled", "out of memory", "output limit", "session lost", "refused"}

func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomes) {
		o = 0
	}
	return outcomes[o]
}

// An Escalation is how far the library had to go to end a command. The zero Escalation is
// not at all.
type Escalation int

const (
	// EscalationTerm is a SIGTERM to all that the command had started.
	EscalationTerm = Escalation(shell.StepTerm)
	// EscalationKill is a SIGKILL to all that the command had started, 250 ms later.
	EscalationKill = Escalation(shell.StepKill)
	// EscalationShell is a SIGKILL to the session's shell, which ran a loop of its own.
	EscalationShell = Escalation(shell.StepShell)
	// EscalationContainer is the end of the container by its lifeline: its process 1
	// reads to the end of its stdin and ends.
	EscalationContainer = Escalation(shell.StepContainer)
	// EscalationRemoval is the removal of the container by the engine, by force, because
	// its lifeline did not end it in a second.
	EscalationRemoval = Escalation(shell.StepRemoval)
)

var escalations = [...]string{"none", "SIGTERM", "SIGKILL", "shell", "container", "removal"}

func (r Escalation) String() string {
	if r < 0 || int(r) >= len(escalations) {
		return "unknown"
	}
	return escalations[r]
}

// A StreamInfo counts what came on a stream, kept or not, behind the secrets and the
// [Spec.Filter].
type StreamInfo struct {
	Bytes, Lines               int64 // all that came
	DroppedBytes, DroppedLines int64 // what of it was not kept
	Cut                        int   // where in the kept bytes it was dropped
}

// A Result is how a command ended, with the evidence.
type Result struct {
	Outcome Outcome
	// ExitCode is the exit status, from 0 to 255, if the outcome is OutcomeExited; else
	// -1, also for a command that timed out, which LangChain's tool has no exit code for
	// either.
	ExitCode int
	// Signal is the number of the signal if the outcome is OutcomeSignaled; else 0.
	Signal int
	// Stdout and Stderr are what the command printed, the head and the tail if that is
	// more than [Limits.MaxOutputBytes]. They are kept on every outcome, unless
	// [Spec.Filter] has blocked them.
	Stdout, Stderr         []byte
	StdoutInfo, StderrInfo StreamInfo
	// BackgroundBytes is how much background jobs have printed since the last result
	// while no command ran, those of this command behind its end included. It was
	// dropped. What they print while a command runs is among its output.
	BackgroundBytes int64
	// Duration is how long the command ran, from when its turn had come.
	Duration time.Duration
	// StateLost says that the shell had to be replaced after this command, or before it
	// because it was killed while it had nothing to do, so variables and functions are
	// gone. Files stay, unless the container ended.
	StateLost bool
	// Dir is the shell's directory after the command, less the values of secrets. It is
	// empty if the shell was lost, or has none that it can name.
	Dir string
	// OOMBefore and OOMAfter are how many processes of the container the kernel had
	// killed for memory when the command began, and when it had ended; -1 if it is not
	// known. If the command exited with 0, nobody looks again, and OOMAfter is -1.
	OOMBefore, OOMAfter int
	// Cause is why the library ended the command: ErrTimeout, ErrOutputLimit, ErrClosed,
	// ErrExpired, or the cause of the context; or why it did not begin it: then it wraps
	// ErrRefused and the error of [Spec.Approve]. It is nil if the command ended by
	// itself.
	Cause error
	// Timeout is the time that the command had; negative if it had no deadline, and 0 if
	// it was refused.
	Timeout time.Duration
	// Escalation is what it took to end the command.
	Escalation Escalation
	// Gone says that the library looked, and saw that nothing is left of what it ended:
	// of the processes that the command had started, or of the container if that has
	// ended. It is false if the command ended by itself, in a session that goes on: its
	// background jobs are part of that. It is false under a [HostPolicy] whose shell goes
	// on, where only a process group can be seen.
	Gone bool

	text    *truncate.Transcript
	blocked error // why the filter let the output not pass
	ended   bool  // its container has ended with it
}

// Text renders the result for a model as LangChain's shell tool does, to the byte: the
// first lines of both streams in the order in which they came, stderr's marked, then
// notices of what was left out, then the exit code if it is not 0. Outcomes which that
// tool does not have are named on a last line. If [Spec.Filter] has blocked the output,
// only that is said.
//
// That tool tells nothing of what a command printed that timed out, nor of the tail of a
// long output, nor of a shell that was lost. [Result.Render] does.
func (r *Result) Text() string {
	if r.blocked != nil {
		return "Output blocked: " + r.blocked.Error() + "."
	}
	switch r.Outcome {
	case OutcomeTimedOut:
		return fmt.Sprintf("Error: Command timed out after %.1f seconds.", r.Timeout.Seconds())
	case OutcomeExited:
		return r.text.Text(r.ExitCode, true)
	case OutcomeRefused:
		return "Error: " + r.Cause.Error() + "."
	}
	text := strings.TrimRight(r.text.Text(0, true), "\n")
	switch r.Outcome {
	case OutcomeSignaled:
		return fmt.Sprintf("%s\n\nKilled by signal %d.", text, r.Signal)
	case OutcomeOOMKilled:
		return text + "\n\nKilled: out of memory."
	case OutcomeCanceled:
		return text + "\n\nCanceled."
	case OutcomeOutputLimit:
		return text + "\n\nEnded: too much output."
	default:
		return text + "\n\nThe session was lost."
	}
}
