package transfer

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// A recorder takes steps, and lets each succeed whose context has not ended.
type recorder struct {
	merging func(deadline time.Time) // called for the step that moves a tree into place
	steps   int
}

func (r *recorder) Step(ctx context.Context, deadline, _ time.Time, ops []shell.Op, _ *shell.Sink) (shell.Reply, string) {
	r.steps++
	if err := context.Cause(ctx); err != nil {
		return shell.Reply{Cause: err}, ""
	}
	for _, op := range ops {
		if bytes.Contains(op.Data, []byte("merge ")) {
			r.merging(deadline)
		}
	}
	return shell.Reply{}, ""
}

func (r *recorder) Undo(context.Context, time.Time, string) {}

func (r *recorder) Lost() error { return nil }

// A tree that is being moved into place comes to its end, with what belongs to it: it is
// cut short neither by a cancel nor at the deadline.
func TestMergeIsNotCutShort(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	deadline, merged := time.Now().Add(time.Hour), 0
	r := &recorder{merging: func(its time.Time) {
		merged++
		assert.Check(t, its.After(deadline) && its.Before(deadline.Add(30*time.Second)), "%v", its)
		cancel(errors.New("enough"))
	}}
	tr := New(ctx, Options{Conn: r, TerminationTimeout: time.Minute, Limits: tarball.Limits{Entries: -1, Bytes: -1}})
	tr.Deadline, tr.EndBy = deadline, deadline.Add(30*time.Second)
	// The mode of the directory comes last.
	tree := fstest.MapFS{"d": {Mode: fs.ModeDir | 0o555}, "d/file": {Data: []byte("x")}}
	assert.NilError(t, tr.CopyFS("to", tree))
	assert.Equal(t, merged, 1)
	assert.Assert(t, r.steps > 2, "%d", r.steps)
	// One that has not begun is not begun.
	r.merging = func(time.Time) { t.Error("moved") }
	tr = New(ctx, Options{Conn: r, TerminationTimeout: time.Minute, Limits: tarball.Limits{Entries: -1, Bytes: -1}})
	assert.ErrorContains(t, tr.CopyFS("to", tree), "enough")
}

// The first piece of a large file is appended to none, as which the file system inside
// may know its name.
func TestLargeFileIsNotAppended(t *testing.T) {
	var parts []part
	p := &packer{
		check: tarball.Checker{Limits: tarball.Limits{Entries: -1, Bytes: -1}},
		size:  func() int64 { return minPiece },
		send: func(next part) error {
			parts = append(parts, next)
			return nil
		},
	}
	data := make([]byte, 3*minPiece)
	assert.NilError(t, p.large(tarball.Header{Name: "a", Size: int64(len(data))}, bytes.NewReader(data)))
	assert.Equal(t, len(parts), 3)
	for i, next := range parts {
		assert.Equal(t, bytes.Contains([]byte(next.command), []byte(">>")), i > 0, next.command)
	}
}
