package execpolicy

import (
	"errors"
	"slices"
	"time"
)

// ErrAudit is wrapped by the error of a call if [Spec.Audit] did not take one of its
// records. If that is the record that comes before the call's work, nothing was done: a
// command has no result then. If it is the one that comes after, the work was done.
var ErrAudit = errors.New("no record was made")

// An EventKind is what happened. The comment of each constant says when the record is
// made, and which fields it has besides Time, Kind, Seq and Name.
type EventKind string

const (
	// EventSpawn comes before the engine's client is started: Argv. A start that is tried
	// again makes another one, and so does Restart. The container in which docker looks
	// up the numbers of a [DockerPolicy.User] with a name has one, and no other record.
	EventSpawn EventKind = "spawn"
	// EventStart comes when the session has answered, before anything is run in it:
	// Image, Transport, Env, Secrets, Duration since the spawn, and Error if the engine
	// did not tell the image. [Idle.Take] makes one of its own.
	EventStart EventKind = "start"
	// EventFailed comes after a start has failed, and what it started was ended: Error.
	// It has no Name if there was neither an EventSpawn nor an EventStart. If nothing was
	// started after the EventSpawn, no EventEnd follows. If [Process.Recover] removes the
	// cause, as by a pull of the image, an EventSpawn of the next try follows.
	EventFailed EventKind = "failed"
	// EventCommand comes before anything of a command is sent, and before [Spec.Approve]
	// is asked: Script or Argv, Dir, Env, Secrets; or before a startup or shutdown
	// script: Op, Script.
	EventCommand EventKind = "command"
	// EventResult comes after each EventCommand: Of, Duration, In, Out, the fields from
	// Outcome to Gone, Error. Outcome is 0 if the command did not run, or a script
	// failed. Then Error says why.
	EventResult EventKind = "result"
	// EventTransfer comes before anything of a file or a tree is sent or fetched: Op,
	// Path.
	EventTransfer EventKind = "transfer"
	// EventTransferred comes after each EventTransfer: Of, Duration, In, Out, Error.
	EventTransferred EventKind = "transferred"
	// EventKill comes with each step of the escalation that ends a command or a transfer:
	// Escalation, Cause. It belongs to the latest command, script or transfer that has no
	// result yet, jobs excluded. One with [EscalationRemoval] belongs to the session. The
	// steps that end a job have no records.
	EventKill EventKind = "kill"
	// EventEgress comes when a connection through [DockerPolicy.Egress] is over, or was
	// refused: Target, Addr, Duration, In, Out, Error. A connection that the proxy has
	// not accepted has none. Its Seq counts these records alone, from 1 for each spawn.
	// Programs inside can make any number of them. So they wait in a queue of their own,
	// which is delivered after all other records. If the Auditor is too slow, some are
	// lost, and their numbers are missing.
	EventEgress EventKind = "egress"
	// EventEnd comes when the session has ended, for whatever reason: Duration of its
	// life, Gone, Error and Cause. Error says what is not known to be gone. If there is
	// such a thing, the library tries again to remove it, and another EventEnd follows.
	// Cause is why the library ended the session, or what is known of why it ended by
	// itself. The result of a command that was under way comes after it.
	EventEnd EventKind = "end"
)

// An Event is a record for an [Auditor]. It holds no value of a variable, no content of a
// file, and nothing of stdin or of the output. There are exceptions: Script has the code
// of a block, a call or a snippet, however that gets to its program; an Error may quote
// the stderr of a script or of the engine, and that of an EventEgress the head of a
// request. A Cause, and the Error of a command that it ended, may quote the last words on
// the container's stderr, or short code that [Spec.Approve] has refused.
type Event struct {
	// Time is when it happened.
	Time time.Time
	Kind EventKind
	// Seq counts the records of a session from 1. The first is the record of its spawn,
	// or an EventFailed if nothing was spawned. For an Auditor that came with [Idle.Take]
	// it is that of its start. If a number is missing, that record was lost. An
	// EventEgress is counted apart.
	Seq int
	// Of is, in an EventResult and an EventTransferred, the Seq of the record that came
	// before the work. In any other record it is 0.
	Of int
	// Name is the container's, or that of whatever the policy started. A [HostPolicy] has
	// none for its spawn.
	Name string

	// Argv is the engine's command line, without the values of variables; or the
	// command's program and its arguments.
	Argv []string
	// Image is the image's ID, from the engine.
	Image string
	// Transport is what carries the session's streams, as [Session.Transport] has it.
	Transport Transport
	// Op is "startup" or "shutdown" for a script, and "job" for a job. For a transfer it
	// is "write", "read", "write files", "mkdir", "readdir", "stat", "remove", "copy to",
	// or "copy from", which [Session.Walk] has too.
	Op string
	// Script, Dir and Path are as the caller gave them. Of the first command for a block,
	// a call or a snippet, of packages codeblock and python, Script is the code.
	Script, Dir, Path string
	// Target is the host and the port that a program inside has asked for, and Addr the
	// address that was connected to. Target is empty if what was asked for can't be read,
	// and Addr if there was no connection.
	Target, Addr string
	// Env holds the names of the variables that are set. Secrets holds the names of the
	// secrets that are given.
	Env, Secrets []string
	// Duration is how long it took. That of a result is [Result.Duration].
	Duration time.Duration
	// In is how many bytes went in: of a command's stdin, or of a file. Out is how many
	// came out: of a command's two streams together, before any Filter, of a script's
	// stdout, or of a file. For a tree both count the bytes of its archive, and for an
	// EventEgress those that the tunnel carried.
	In, Out int64

	// These fields are those of the [Result]. Without an Outcome they are zero, except
	// for the Escalation of an EventKill, a Cause, and the Gone of an EventEnd. OOMBefore
	// and OOMAfter are -1 if they are not known, and Usage is nil if [Command.Usage] was
	// false.
	Outcome             Outcome
	ExitCode, Signal    int
	Escalation          Escalation
	Cause               string
	OOMBefore, OOMAfter int
	Usage               *Usage
	Gone                bool
	// Error is the text of the call's error, if it had one.
	Error string
}

// redact puts what f returns for them in the place of the texts that come from the
// caller or from inside.
func (e *Event) redact(f func(string) string) {
	for _, text := range []*string{&e.Script, &e.Dir, &e.Path, &e.Target, &e.Cause, &e.Error} {
		*text = f(*text)
	}
	e.Argv = slices.Clone(e.Argv)
	for i := range e.Argv {
		e.Argv[i] = f(e.Argv[i])
	}
}

// An Auditor takes a record of each event of any number of sessions: see [EventKind].
// There is no record of a spec or a command that [Start] or [Run] refuses as invalid,
// unless only the policy refuses it, of a call that a session refuses before its turn has
// come, and of [Sweep].
//
// If the Auditor returns an error for a record that comes before a call's work, the call
// is refused. If it returns one for the record that comes after, that error is joined to
// the error of the call. Both wrap [ErrAudit]. An error for the record of a kill, of an
// end or of a refusal is returned by the next call that has a record, or by Close. Those
// for records of [EventEgress], and how many of these are lost, are returned by Close.
//
// The records of one session are handed over one at a time and in order, on a goroutine
// of their own. Those of several sessions may be handed over at the same time. Ending a
// command or a session never waits for a record. Any other call waits for its first
// record at most [Limits.TerminationTimeout] (10 s for a spawn), before its own time
// begins, and for its last one as long. If the command was ended, the last record gets
// what is left of TerminationTimeout, and at least an eighth of it. A record that was not
// taken by then may still be taken later. While one is stuck, a call that needs a record
// before it is refused at once, and up to 64 other records are kept.
//
// An Auditor must not call the same session and wait. If it panics, the program ends.
type Auditor func(Event) error
