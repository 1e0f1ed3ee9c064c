// Package transfer moves files and trees into a session and out of it, by scripts that
// the session's supervisor runs beside its worker while nothing else runs.
//
//   - transfer.go has the Transfer, which runs scripts one after another.
//   - file.go writes and reads one file.
//   - dir.go makes and lists directories, describes and removes what is in one, and makes
//     several files at once.
//   - in.go moves trees in, and out.go moves them out.
//   - words.go makes errors of the statuses and the words of scripts.
//
// A script runs as the body of a function of the supervisor's shell, so that it can end
// with "return STATUS". It tells what it leaves in the variable cf_result. A name inside
// goes through [Transfer.word] into it. It has no newline: see [shellwire.Help]. A word
// for which supervisor.sh or namespace.sh has a function, such as stat, write or
// script, means that function. The program of that name needs "command" before it.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

var (
	// ErrNotRegular is returned for what is there but no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge is returned for a file, or a tree, that is larger than its limit.
	ErrTooLarge = errors.New("larger than the limit")
	// ErrTransfer is wrapped by the error of a transfer that failed inside for a reason
	// that is not known, or whose data do not agree with what was told of them.
	ErrTransfer = errors.New("the transfer failed")
)

// tempName returns a name for what is not finished.
func tempName() string { return stage.Prefix + strings.ToLower(random.Token()) }

// MaxPath is the most that a system call takes for a name.
const MaxPath = 4096

const (
	// Data go in pieces of a size that a step of their way takes about pieceTime for:
	// what is urgent waits for no more.
	minPiece  = 64 << 10
	maxPiece  = 4 << 20
	pieceTime = 50 * time.Millisecond
)

// A Conn is what a transfer needs of its session.
type Conn interface {
	// Step sends operations, which make a unit, and returns how it ended and what it said
	// on stderr. What it prints goes to out.
	Step(ctx context.Context, deadline, endBy time.Time, ops []shell.Op, out *shell.Sink) (r shell.Reply, words string)
	// Undo runs a script, if the session lives, and returns by endBy.
	Undo(ctx context.Context, endBy time.Time, script string)
	// Lost returns why the container has ended.
	Lost() error
}

// Options are those of a session's transfers.
type Options struct {
	Conn Conn
	// Dir is where relative names begin. If empty, that is where the supervisor runs.
	Dir string
	// Scratch is the supervisor's directory.
	Scratch            string
	Limits             tarball.Limits // of a tree
	TerminationTimeout time.Duration
	// Cancel ends the transfer's context.
	Cancel context.CancelCauseFunc
	// Redact returns a text that has no secrets.
	Redact func(string) string
}

// A Transfer is a run of steps, each a script that runs inside in a shell of the
// supervisor's own while nothing else does.
type Transfer struct {
	// Deadline is when it is to be ended; the zero time is never.
	Deadline time.Time
	// EndBy is when it must be over, once it was cut off. It is zero until then, if
	// nothing bounds it.
	EndBy time.Time
	// Undo is a script that removes what was begun.
	Undo string
	// Sent is the number of bytes of content that went in.
	Sent int64

	ctx   context.Context
	opts  Options
	piece atomic.Int64 // the size of the next
	sent  string       // the name of the piece that may be inside
	tree  bool         // the words of an error say which file of many it is
}

// New returns a transfer that ends with ctx. What it begins and does not finish is left
// inside until Clean is called.
func New(ctx context.Context, opts Options) *Transfer {
	t := &Transfer{ctx: ctx, opts: opts}
	t.piece.Store(minPiece)
	return t
}

// word returns a name inside as a word of a script.
func (t *Transfer) word(name string) string {
	switch {
	case path.IsAbs(name):
		return shellwire.Word(name)
	case t.opts.Dir != "":
		return shellwire.Word(t.opts.Dir + "/" + name)
	}
	return `"$cf_workdir"/` + shellwire.Word(name)
}

// regular returns the part of a script that goes on only if there is a regular file.
func (t *Transfer) regular(file string) string {
	return "[ -f " + file + " ] || { [ -e " + file + " ] || " + why(file) + "; [ ! -d " + file +
		" ] || return " + isDirectory +
		"; return " + isIrregular + "; }; "
}

// why returns the part of a script that ends it with the kernel's reason for which a name
// can't be opened. A test tells none, and busybox's asks the uid in place of the kernel.
func why(word string) string { return "{ dd if=" + word + " bs=1 count=0 >/dev/null; return 1; }" }

// append returns the part of a script that appends the piece to a file, and removes the
// piece.
func (t *Transfer) append(file string) string {
	return t.take("dd bs=65536 <%s >>" + file)
}

// take returns the part of a script that runs a command on the piece and removes the
// piece.
func (t *Transfer) take(command string) string {
	t.sent = "i" + random.Token()
	piece := `"$cf_dir"/` + t.sent
	return strings.Replace(command, "%s", piece, 1) + " || return 1; rm -f " + piece + "; "
}

// send makes a piece and runs a script that takes it, and returns what the script tells.
func (t *Transfer) send(script string, piece []byte) (string, error) {
	began := time.Now()
	t.Sent += int64(len(piece))
	answer, err := t.step(shellwire.Help(script), &shell.Sink{}, shellwire.Upload(t.sent, int64(len(piece))), piece)
	switch took := time.Since(began); {
	case took < pieceTime:
		t.piece.Store(min(4*t.piece.Load(), maxPiece))
	case took > 2*pieceTime:
		t.piece.Store(max(t.piece.Load()/2, minPiece))
	}
	return answer, err
}

// run runs a script and returns what it tells.
func (t *Transfer) run(script string) (string, error) {
	return t.step(shellwire.Help(script), &shell.Sink{})
}

// fetch runs a script whose output goes to out, and returns what it tells.
func (t *Transfer) fetch(script string, out *shell.Sink) (string, error) {
	return t.step(shellwire.Help(script), out)
}

// step runs a helper, after operations with raw bytes, and returns what it tells.
func (t *Transfer) step(help []byte, out *shell.Sink, raw ...[]byte) (string, error) {
	var ops []shell.Op
	if len(raw) > 0 {
		ops = append(ops, shell.Op{Data: slices.Concat(raw...), Raw: true, Marked: true})
	}
	ops = append(ops, shell.Op{Data: help, Marked: true, Unit: true})
	r, words := t.opts.Conn.Step(t.ctx, t.Deadline, t.EndBy, ops, out)
	if !r.EndBy.IsZero() {
		t.EndBy = r.EndBy
	}
	switch {
	case r.Lost:
		return "", errors.Join(r.Cause, t.opts.Conn.Lost(), r.EndErr)
	case r.Cause != nil:
		return "", r.Cause
	case r.Died && (r.Mark.Kind == shellwire.Death || r.Mark.Status == 137):
		return "", fmt.Errorf("%w: everything inside was killed", ErrTransfer)
	case r.Mark.Status == 0:
		return r.Mark.Dir, nil
	}
	if err := reason(r.Mark.Status); err != nil {
		return r.Mark.Dir, err
	}
	return r.Mark.Dir, t.failure(r.Mark.Status, words)
}

// Clean removes what a transfer that failed has left inside.
func (t *Transfer) Clean() {
	script := t.Undo
	if t.sent != "" {
		script += `; rm -f "$cf_dir"/` + t.sent
	}
	if script == "" {
		return
	}
	endBy := bound.Earlier(time.Now().Add(t.opts.TerminationTimeout), t.EndBy)
	t.opts.Conn.Undo(context.WithoutCancel(t.ctx), endBy, script)
}
