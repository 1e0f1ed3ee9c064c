package shell_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

func TestOutputKeepsAndHandsOn(t *testing.T) {
	var all, errAll bytes.Buffer
	out := shell.NewOutput(shell.OutputOptions{MaxBytes: 8, MaxLines: 1, Stdout: &all, Stderr: &errAll})
	assert.Assert(t, out.Waits())
	out.Stdout.Write([]byte("0123456789\nmore\n"))
	out.Stderr.Write([]byte("error\n"))
	kept, keptErr := out.Kept()
	for sink, want := range map[*shell.Sink]string{kept: "0123ore\n", keptErr: "error\n"} {
		sink.Look(func(b *truncate.Buffer) { assert.Equal(t, string(b.Bytes()), want) })
	}
	assert.Equal(t, len(out.Finish(nil)), 0)
	assert.Equal(t, all.String(), "0123456789\nmore\n")
	assert.Equal(t, errAll.String(), "error\n")
	assert.Equal(t, out.Came(), int64(22))
	assert.Equal(t, kept.Kept.Dropped(), int64(8))
	assert.Equal(t, string(kept.Taken()), "0123ore\n")
	assert.Assert(t, out.Text.TruncatedByLines())
}

// However the stream is cut, marks that are taken out are in nothing that is counted,
// kept or handed on, and all else is.
func TestOutputTakesMarksOut(t *testing.T) {
	const stream = "beforeKEYe 0 one\nKEY\nKEbetweenKEYb\nKEYe 0 KEYe 1 twoKEY\nKEYe no afterK"
	for cut := 1; cut <= len(stream); cut++ {
		var all bytes.Buffer
		var taken []string
		full := false
		out := shell.NewOutput(shell.OutputOptions{MaxBytes: 100, Stdout: &all, Limit: 44, Full: func() { full = true }})
		out.Stdout.TakeOut("KEY", func(text string) { taken = append(taken, text) })
		for rest := []byte(stream); len(rest) > 0; rest = rest[min(cut, len(rest)):] {
			out.Stdout.Write(bytes.Clone(rest[:min(cut, len(rest))]))
		}
		assert.Equal(t, len(out.Finish(nil)), 0)
		assert.DeepEqual(t, taken, []string{"one\n", "two"})
		const want = "beforeKEbetweenKEYe 0 KEYe no afterK"
		assert.Equal(t, all.String(), want, "by %d", cut)
		kept, _ := out.Kept()
		assert.Equal(t, string(kept.Taken()), want)
		assert.Equal(t, out.Came(), int64(len(want)))
		assert.Equal(t, full, false)
	}
}

// What may begin a mark at the end of a stream waits for no writer.
func TestOutputEndsWithAStuckWriter(t *testing.T) {
	reader, stuck := io.Pipe()
	defer reader.Close()
	out := shell.NewOutput(shell.OutputOptions{MaxBytes: 100, Stdout: stuck})
	out.Stdout.TakeOut("KEY", func(string) {})
	out.Stdout.Write([]byte("ab"))
	_, err := reader.Read(make([]byte, 1)) // the writer waits with the b
	assert.NilError(t, err)
	out.Stdout.Write(bytes.Repeat([]byte("."), 64<<10)) // nothing more finds room
	out.Stdout.Write([]byte("K"))
	finished := make(chan []error)
	go func() {
		over := make(chan struct{})
		close(over)
		finished <- out.Finish(over)
	}()
	select {
	case errs := <-finished:
		assert.Equal(t, len(errs), 1)
		assert.ErrorContains(t, errs[0], "in time")
		assert.Equal(t, out.Came(), int64(2+64<<10+1))
	case <-time.After(10 * time.Second):
		t.Fatal("Finish waits for the writer")
	}
}

// A command can't print marks without a limit.
func TestOutputCountsMarks(t *testing.T) {
	full := false
	out := shell.NewOutput(shell.OutputOptions{MaxBytes: 100, Limit: 1000, Full: func() { full = true }})
	out.Stdout.TakeOut("KEY", func(string) {})
	mark := []byte("KEYb" + strings.Repeat("x", 195) + "\n")
	for printed := len(mark); printed <= 5000; printed += len(mark) {
		out.Stdout.Write(mark)
		assert.Equal(t, out.Came(), int64(max(0, printed-4096)))
	}
	assert.Assert(t, !full)
	out.Stdout.Write(mark)
	assert.Assert(t, full)
	out.Finish(nil)
}

// What a filter blocks on one stream is shown of neither.
func TestOutputIsBlocked(t *testing.T) {
	no := errors.New("no")
	out := shell.NewOutput(shell.OutputOptions{
		MaxBytes: 100,
		Filter:   func(w io.Writer) io.WriteCloser { return refusing{w, no} },
	})
	assert.Assert(t, !out.Waits())
	out.Stdout.Write([]byte("seen"))
	assert.NilError(t, out.Blocked())
	out.Stderr.Write([]byte("secret"))
	assert.Equal(t, out.Blocked(), no)
}

// Both streams together have the limit.
func TestOutputIsFull(t *testing.T) {
	full := 0
	out := shell.NewOutput(shell.OutputOptions{MaxBytes: 100, Limit: 10, Full: func() { full++ }})
	out.Stdout.Write([]byte("01234"))
	out.Stderr.Write([]byte("56789"))
	assert.Equal(t, full, 0)
	out.Stdout.Write([]byte("."))
	assert.Equal(t, full, 1)
}

// Each writer that takes nothing more is told of.
func TestOutputTellsWhoseWriterFailed(t *testing.T) {
	gone := errors.New("gone")
	out := shell.NewOutput(shell.OutputOptions{
		MaxBytes: 100, Stdout: failing{gone}, Stderr: new(bytes.Buffer),
	})
	out.Stdout.Write([]byte("a"))
	out.Stderr.Write([]byte("b"))
	errs := out.Finish(nil)
	assert.Equal(t, len(errs), 1)
	assert.ErrorIs(t, errs[0], gone)
	assert.ErrorContains(t, errs[0], "writing the output: ")

	// One that takes too long is left behind.
	reader, stuck := io.Pipe()
	defer reader.Close()
	out = shell.NewOutput(shell.OutputOptions{MaxBytes: 100, Stdout: stuck})
	out.Stdout.Write([]byte("a"))
	over := make(chan struct{})
	close(over)
	errs = out.Finish(over)
	assert.Equal(t, len(errs), 1)
	assert.ErrorContains(t, errs[0], "in time")
}

// refusing passes on what holds no secret.
type refusing struct {
	io.Writer
	err error
}

func (r refusing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("secret")) {
		return 0, r.err
	}
	return r.Writer.Write(p)
}

func (refusing) Close() error { return nil }

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
