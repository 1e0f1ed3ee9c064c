package execpolicy

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// An Outcome is how a command ended. It rests on what the library and the kernel know,
// never on an exit code alone or on printed text. If more than one fits, the first in
// this list is the outcome: what ended the command from outside comes before what it did
// itself. Of the first three it is the one that happened first, even if the command then
// ends by itself. The zero Outcome is none of these.
//
//   - OutcomeTimedOut: the library ended the command at its deadline.
//   - OutcomeOutputLimit: the library ended it because it had printed too much.
//   - OutcomeCanceled: the library ended it because its context ended, its session was
//     closed, or the session's Lifetime was over.
//   - OutcomeOOMKilled: it ended with status 137, or with its shell or its container, and
//     the kernel killed for memory meanwhile.
//   - OutcomeSessionLost: its container ended under it.
//   - OutcomeSignaled: a signal killed its program, if it has an Argv, or its shell
//     together with the shell's watcher.
//   - OutcomeRefused: the session's Approve refused it, and nothing of it ran.
//   - OutcomeExited: it ended by itself, whatever its exit code (124 to 137 too) and
//     whatever it printed.
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
	// OutcomeSignaled says that a signal ended the command. Signal is its number. There
	// are two cases:
	//
	//   - The command has an Argv, and the signal killed its program. That is the first
	//     program: if the Argv is "sh", "-c" and a script, and a signal kills what sh
	//     runs, sh exits, and the outcome is OutcomeExited.
	//   - Something inside the container killed the session's shell with SIGKILL,
	//     together with the process that watches the shell, as "sh -c 'kill -9 -1'" does.
	//     If the shell alone is killed, the outcome is OutcomeExited with 137, because
	//     its watcher can't tell that from an exit. A shell that itself runs "kill -9 -1"
	//     is spared by the kernel, and its watcher is not: then it may be the next result
	//     that first says that the shell was replaced.
	OutcomeSignaled
	// OutcomeTimedOut says that the library ended the command at its deadline.
	OutcomeTimedOut
	// OutcomeCanceled says that the library ended the command because its context ended,
	// its session was closed, or the session's Lifetime was over: Cause says which.
	OutcomeCanceled
	// OutcomeOOMKilled says that the kernel killed a process of the container for memory
	// while the command ran, and that the command ended in one of three ways: with status
	// 137, with its shell, or with the container. If the kernel killed only a part of a
	// command, and the command ended with another status, the outcome is OutcomeExited,
	// and OOMAfter is higher than OOMBefore.
	//
	// The kernel does not say which process it killed, nor when. So a command that kills
	// itself with SIGKILL has this outcome too if a background job was killed for memory
	// since the library last looked.
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

// String returns the outcome in words, such as "timed out".
func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomes) {
		o = 0
	}
	return outcomes[o]
}

// An Escalation is the last step that the library had to take until a command ended. The
// zero Escalation means that it took none. If the library ended the command, it also
// kills what the command has left running, whatever the Escalation.
type Escalation int

const (
	// EscalationTerm is a SIGTERM to all that the command had started.
	EscalationTerm = Escalation(shell.StepTerm)
	// EscalationKill is a SIGKILL to all that the command had started. It comes 250 ms
	// after the SIGTERM, or an eighth of [Limits.TerminationTimeout] if that is shorter.
	EscalationKill = Escalation(shell.StepKill)
	// EscalationShell is a SIGKILL to the session's shell too, which ran a loop of its
	// own, for example.
	EscalationShell = Escalation(shell.StepShell)
	// EscalationContainer is the end of the container: the library closes the stdin of
	// its process 1, which then ends.
	EscalationContainer = Escalation(shell.StepContainer)
	// EscalationRemoval is the removal of the container by the engine, by force, because
	// process 1 did not end within a second, or within a quarter of the time that is left
	// to end it, if that is shorter.
	EscalationRemoval = Escalation(shell.StepRemoval)
)

var escalations = [...]string{"none", "SIGTERM", "SIGKILL", "shell", "container", "removal"}

// String returns the step in words, such as "SIGTERM", or "none".
func (e Escalation) String() string {
	if e < 0 || int(e) >= len(escalations) {
		return "unknown"
	}
	return escalations[e]
}

// A StreamInfo counts what came on a stream, kept or not, after secrets were redacted
// and after [Spec.Filter].
type StreamInfo struct {
	Bytes, Lines               int64 // all that came
	DroppedBytes, DroppedLines int64 // what was not kept of them
	// Cut is how many of the kept bytes precede the dropped ones: all of them if none
	// were dropped.
	Cut int
}

// A Result is how a command ended, with the evidence.
type Result struct {
	Outcome Outcome
	// ExitCode is the exit status, from 0 to 255, if the outcome is OutcomeExited. For
	// every other outcome it is -1.
	ExitCode int
	// Signal is the number of the signal if the outcome is OutcomeSignaled; else 0.
	Signal int
	// Stdout and Stderr are what the command printed. Of a stream of more than
	// [Limits.MaxOutputBytes] they have the head and the tail. They are kept on every
	// outcome, unless [Spec.Filter] has blocked them.
	Stdout, Stderr         []byte
	StdoutInfo, StderrInfo StreamInfo
	// BackgroundBytes is how many bytes came between the last result and this one, while
	// no command ran, from what earlier commands left in the background. These bytes were
	// dropped. What such a process prints while a command runs is part of the output of
	// that command. What a [Job] prints does not count.
	BackgroundBytes int64
	// Duration is how long the command took. It begins where the time of
	// [Command.Timeout] does, but after the shell was replaced, if it had to be. It is 0
	// if the command was refused.
	Duration time.Duration
	// StateLost says that the shell ended with this command, or before it while no
	// command ran. Variables and functions are gone. Files stay, unless the container
	// ended. A shell that something kills just as it gets a command counts as ended with
	// it, though the command did not run.
	StateLost bool
	// Dir is the shell's directory after the command, with the values of secrets
	// redacted. It is empty if the shell was lost, does not know the name of its
	// directory, or has one of almost 1,000 characters or more.
	Dir string
	// OOMBefore and OOMAfter are how many processes of the container the kernel had
	// killed for memory when the library last looked before the command, and when the
	// command had ended. They are -1 if that is not known. The library does not look
	// after a command that exited with 0 without [Command.Usage]: then OOMAfter is -1
	// too.
	OOMBefore, OOMAfter int
	// Usage is what the command used of the processor and of memory, on every outcome but
	// OutcomeRefused. It is nil unless [Command.Usage] has asked for it.
	Usage *Usage
	// Engine names the engine that ran the command, its version and its client. It says
	// what chose the engine if that was not the policy, or why docker was passed over, as
	// [dockercli.Engine.String] has it. It is empty under a policy that has no engine.
	Engine string
	// ImageID is the ID of the image in which the command ran, as the engine has it. A
	// tag may have moved on since. The library asks the engine once, when the session has
	// started, and a result waits for the answer, at most for half of
	// [Limits.TerminationTimeout] since then. It is empty if there was none by then, if
	// the container ended before, and under a policy without images.
	ImageID string
	// Cause is why the library ended the command: ErrTimeout, ErrOutputLimit, ErrClosed,
	// ErrExpired, of a job ErrKilled, or the cause of the context. What [Session.Restart]
	// ended has a cause without a name. If the command was refused, Cause wraps
	// ErrRefused and the error of [Spec.Approve]. It is nil if the command ended by
	// itself.
	Cause error
	// Timeout is the time that the command had. It is negative if there was no limit, and
	// 0 if the command was refused.
	Timeout time.Duration
	// Escalation is what it took to end the command.
	Escalation Escalation
	// Gone says that the library looked, and saw that nothing is left of what it ended:
	// of the processes that the command had started or, if the container has ended, of
	// the container. It is false if the command ended by itself in a session that goes
	// on, because its background jobs go on too; for a job see [Job.Wait]. It is false
	// under a [HostPolicy] whose shell goes on, because there the library sees only a
	// process group.
	Gone bool

	text    *truncate.Transcript
	values  *secret.Values // to be redacted where Render puts together what was apart
	blocked error          // why the filter let the output not pass
	ended   bool           // its container has ended with it
}

// Text renders the result for a model as LangChain's shell tool does, to the byte: the
// first lines of both streams in the order in which they came, stderr's marked, then
// notices of what was left out, then the exit code if it is not 0. The lines are at most
// [Limits.MaxOutputLines], and [Limits.MaxOutputBytes] bytes, of both streams together;
// the marks, the notices and the exit code come on top. Outcomes that LangChain's tool
// does not have are named on a last line. If [Spec.Filter] has blocked the output, the
// text says only that.
//
// As with that tool, the text has no output of a command that timed out, nor the tail of
// a long output, and it does not say that a shell was lost. [Result.Render] has all of
// these.
func (r *Result) Text() string {
	if r.blocked != nil {
		return "Output blocked: " + r.blocked.Error() + "."
	}
	output := r.text
	if output == nil {
		output = new(truncate.Transcript) // it is no command's
	}
	switch r.Outcome {
	case OutcomeTimedOut:
		return fmt.Sprintf("Error: Command timed out after %.1f seconds.", r.Timeout.Seconds())
	case OutcomeExited:
		return output.Text(r.ExitCode, true)
	case OutcomeRefused:
		return "Error: " + r.Cause.Error() + "."
	}
	text := strings.TrimRight(output.Text(0, true), "\n")
	switch r.Outcome {
	case OutcomeSignaled:
		return fmt.Sprintf("%s\n\nKilled by signal %d.", text, r.Signal)
	case OutcomeOOMKilled:
		return text + "\n\nKilled: out of memory."
	case OutcomeCanceled:
		return text + "\n\nCanceled."
	case OutcomeOutputLimit:
		return text + "\n\nEnded: too much output."
	case OutcomeSessionLost:
		return text + "\n\nThe session was lost."
	default:
		return text + "\n\nEnded: " + r.Outcome.String() + "."
	}
}
