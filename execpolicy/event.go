package execpolicy

import (
	"errors"
	"slices"
	"time"
)

// ErrAudit is wrapped by the error of a call of which [Spec.Audit] has not taken all
// records. Without the record before it, nothing is done: a command has no result then.
// Without the one behind it, it has been done.
var ErrAudit = errors.New("no record")

// An EventKind is what happens. Each comment says when the record is made, and what it
// has beside Time, Kind, Seq and Name.
type EventKind string

const (
	// EventSpawn comes before the engine's client is started: Argv. A start that is tried
	// again, and Restart, have one of their own.
	EventSpawn EventKind = "spawn"
	// EventStart comes when the session has answered, before anything is run in it:
	// Image, Env, Secrets, Duration since the spawn, and Error if the engine did not tell
	// the image. [Idle.Take] makes one of its own.
	EventStart EventKind = "start"
	// EventFailed comes behind the end of a start that has failed: Error. It has no Name
	// if nothing was started.
	EventFailed EventKind = "failed"
	// EventCommand comes before anything of a command is sent, and before [Spec.Approve]
	// is asked: Script or Argv, Dir, Env, Secrets; or before a startup or shutdown
	// script: Op, Script.
	EventCommand EventKind = "command"
	// EventResult comes behind each EventCommand: Of, Duration, In, Out, the fields from
	// Outcome to Gone, Error. Outcome is 0 of a command that did not run and of a script
	// that failed: then Error says more.
	EventResult EventKind = "result"
	// EventTransfer comes before anything of a file or a tree is sent or fetched: Op,
	// Path.
	EventTransfer EventKind = "transfer"
	// EventTransferred comes behind each EventTransfer: Of, Duration, In, Out, Error.
	EventTransferred EventKind = "transferred"
	// EventKill comes with each step of the escalation that ends a command or a transfer:
	// Escalation, Cause. It belongs to the latest event that has no result yet. One of
	// [EscalationRemoval] belongs to the session.
	EventKill EventKind = "kill"
	// EventEnd comes when the session has ended, for whatever reason: Duration of its
	// life, Gone, and Error, which says what is not known to be gone; then another comes
	// when that was tried again. Cause is why the library ended it, or what is known of
	// why it ended by itself. The result of what was under way comes behind it.
	EventEnd EventKind = "end"
)

// An Event is a record for an [Auditor]. It holds no value of a variable, no content of a
// file and nothing of stdin or the output, but for what an Error quotes of a script's
// stderr, or of the engine's, and for a Cause that quotes code which [Spec.Approve] has
// refused, if it is short.
type Event struct {
	// Time is when it happened.
	Time time.Time
	Kind EventKind
	// Seq counts the records of a session from 1, which is that of its spawn, or of its
	// start for an Auditor that came with [Idle.Take]: one that is missing was lost.
	Seq int
	// Of is the Seq of the record to which this one belongs.
	Of int
	// Name is the container's, or that of whatever the policy started. A [HostPolicy] has
	// none for its spawn.
	Name string

	// Argv is the engine's command line, without the values of variables; or the
	// command's program and its arguments.
	Argv []string
	// Image is the image's ID, from the engine.
	Image string
	// Op is "startup" or "shutdown" of a script; "write", "read", "write files", "mkdir",
	// "readdir", "stat", "remove", "copy to" or "copy from" (Walk too) of a transfer.
	Op string
	// Script, Dir and Path are as the caller gave them.
	Script, Dir, Path string
	// Env are the names of the variables that are set, and Secrets those of the secrets
	// that are given.
	Env, Secrets []string
	// Duration is how long it took; of a result, as in [Result].
	Duration time.Duration
	// In and Out are how many bytes went in: of stdin, or of content; and how many came
	// out: of both streams together, before any Filter, of a script's stdout, or of
	// content. A tree's are those of its archive.
	In, Out int64

	// These are a [Result]'s. OOMBefore and OOMAfter are -1 if they are not known, and
	// Usage is nil if nobody has asked for it.
	Outcome             Outcome
	ExitCode, Signal    int
	Escalation          Escalation
	Cause               string
	OOMBefore, OOMAfter int
	Usage               *Usage
	Gone                bool
	// Error is that of the call.
	Error string
}

// conceal puts what f returns for them in the place of the texts that come from the
// caller or from inside.
func (e *Event) conceal(f func(string) string) {
	for _, text := range []*string{&e.Script, &e.Dir, &e.Path, &e.Cause, &e.Error} {
		*text = f(*text)
	}
	e.Argv = slices.Clone(e.Argv)
	for i := range e.Argv {
		e.Argv[i] = f(e.Argv[i])
	}
}

// An Auditor takes a record of each event of any number of sessions: see [EventKind]. What
// [Start] refuses because the spec is invalid, and what a session refuses before its turn,
// has none, nor has [Sweep].
//
// An error of the Auditor for a record that comes before something refuses that, and one
// for a record that comes behind is joined to the error of the call: both wrap [ErrAudit].
// One for a record of a kill, of an end or of what was refused is that of the next call
// that has a record, or of Close.
//
// The records of a session are handed over one at a time, in order, on a goroutine of
// their own; those of several sessions at the same time. What ends commands and sessions
// waits for no record. Everything else waits, before its own time begins, at most
// [Limits.TerminationTimeout] (10 s for a spawn), and behind what was ended as long as
// that has left; a record that was not taken by then may still be. While one is stuck,
// what needs a record before it is refused at once, and up to 64 of the others are kept.
// An Auditor must not wait for the same session. If it panics, it takes the program with
// it.
type Auditor func(Event) error
