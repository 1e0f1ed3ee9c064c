package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// CopyOut writes a tree, or one regular file, to w as a tar archive.
func (t *Transfer) CopyOut(name string, w io.Writer) error {
	return t.copyOut(name, func(r *reader) error {
		var block []byte
		for {
			h, err := r.Next()
			if err == io.EOF {
				// Only what comes after the padding tells whether tar has succeeded.
				if _, err = io.Copy(io.Discard, r.R); err == nil {
					_, err = w.Write(tarball.End())
				}
				return err
			}
			if err != nil {
				return err
			}
			block = tarball.Append(block[:0], h)
			if _, err = w.Write(block); err == nil {
				_, err = io.Copy(w, r)
			}
			if err == nil {
				_, err = w.Write(tarball.Pad(h.Size))
			}
			if err != nil {
				return err
			}
		}
	}, nil)
}

// CopyOutTo copies a tree, or one regular file, to where the host wants it, unless ctx
// has ended before the first file is in its place.
func (t *Transfer) CopyOutTo(ctx context.Context, name string, to *stage.Tree) error {
	return t.copyOut(name, func(r *reader) error {
		for {
			h, err := r.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil && h.Name != "." {
				err = to.Add(h, r)
			}
			if err != nil {
				return err
			}
		}
	}, func() error { return to.Place(ctx) })
}

// An Entry is something in a tree: a file, a directory, a link or a special file.
// execpolicy.TreeEntry has the same fields, and says what they are.
type Entry struct {
	Name    string
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
}

// Walk calls visit for all that is below a directory, or for one regular file.
func (t *Transfer) Walk(name string, visit func(e Entry, content io.Reader) error) error {
	return t.copyOut(name, func(r *reader) error {
		content := &portion{r: r, limit: r.Limits.Bytes}
		r.Limits.Bytes, r.All = -1, true
		for {
			h, err := r.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil && h.Name != "." {
				e := Entry{Name: h.Name, Mode: h.Other | h.Perm, Size: h.Size, ModTime: h.ModTime}
				if h.Dir {
					e.Mode |= fs.ModeDir
				}
				err = visit(e, content)
			}
			if err != nil {
				return err
			}
		}
	}, func() error { return nil })
}

// A portion is as much of what r has as may be read.
type portion struct {
	r           io.Reader
	limit, read int64 // negative means no limit
}

func (p *portion) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.read += int64(n); p.limit >= 0 && p.read > p.limit {
		return 0, fmt.Errorf("%w of %d bytes", ErrTooLarge, p.limit)
	}
	return n, err
}

// A reader reads the archive of a tree, or of the file of that name, if it is not empty.
type reader struct {
	tarball.Reader
	file string
}

// Next refuses what comes in place of the file.
func (r *reader) Next() (tarball.Header, error) {
	h, err := r.Reader.Next()
	if err == nil && r.file != "" && h.Name != r.file {
		err = fmt.Errorf("%w: %s came in place of %q", ErrTransfer, tarball.Quoted(h.Name), r.file)
	}
	return h, err
}

// flush returns a context that ends when whoever takes what has come must have taken the
// rest, which may be long after it has come: with the transfer, or a moment after it was
// cut off.
func (t *Transfer) flush(cutOff bool) (context.Context, context.CancelFunc) {
	switch {
	case cutOff:
		return context.WithDeadlineCause(context.Background(), bound.Flush(true, t.Deadline, t.opts.TerminationTimeout), shell.ErrTimeout)
	case t.Deadline.IsZero():
		return context.WithCancel(t.ctx)
	}
	return context.WithDeadlineCause(t.ctx, bound.Flush(false, t.Deadline, max(time.Until(t.Deadline), t.opts.TerminationTimeout)), shell.ErrTimeout)
}

// copyScript returns the script that prints "d" and the archive of a directory, or "f"
// and that of a file.
func (t *Transfer) copyScript(name string) string {
	source := t.word(name)
	dir, base := path.Split(name)
	within := t.word(name + "/.")
	verbatim := ""
	if strings.Contains(base, `\`) {
		// GNU's tar takes that for the start of an escape. No other has the option.
		verbatim = "$(tar --no-unquote --version >/dev/null 2>&1 && echo --no-unquote) "
	}
	return "[ -e " + source + " ] || " + why(source) + "; if [ -d " + source + " ]; then [ -d " + within +
		" ] || " + why(within) +
		"; cd " + source + " && printf d && tar -cf - . || return 1; " +
		"elif [ -f " + source + " ]; then cd " + t.word(dir+".") + " && printf f && tar -hcf - " + verbatim + shellwire.Word("./"+base) +
		" || return 1; else return " + isIrregular + "; fi"
}

// read calls take with a reader of what copyScript prints for a name that ends with base,
// and closes from.
func (t *Transfer) read(from *io.PipeReader, base string, take func(*reader) error) error {
	r := &reader{Reader: tarball.Reader{R: from, Checker: tarball.Checker{Limits: t.opts.Limits}}}
	var kind [1]byte
	// Where that fails, so does what is read next.
	if io.ReadFull(from, kind[:]); kind[0] == 'f' {
		r.file = base
	}
	err := take(r)
	if err != nil {
		err = tooLarge(err)
		// What is inside is told to stop.
		t.opts.Cancel(err)
	} else {
		// The end is padded.
		_, err = io.Copy(io.Discard, from)
	}
	from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	return err
}

// copyOut calls take with a reader of the archive of a tree inside. If then is not nil,
// copyOut calls it after take has returned.
func (t *Transfer) copyOut(name string, take func(*reader) error, then func() error) error {
	_, base := path.Split(name)
	t.tree = true
	from, to := io.Pipe()
	taken := make(chan error, 1)
	go func() { taken <- t.read(from, base, take) }()
	_, out := shell.NewSink(nil, 0, nil, to)
	_, err := t.fetch(t.copyScript(name), out)

	flush, done := t.flush(err != nil)
	defer done()
	given := out.Finish(flush.Done())
	switch {
	case err != nil:
		to.CloseWithError(err)
	case given != nil:
		to.CloseWithError(context.Cause(flush))
	default:
		to.Close()
	}
	var takeErr error
	if then != nil {
		// It waits for nothing but the host's disk.
		takeErr = <-taken
	} else {
		select {
		case takeErr = <-taken:
		case <-flush.Done():
			takeErr = context.Cause(flush)
		}
	}
	switch {
	case err != nil:
		return err
	case takeErr != nil:
		return takeErr
	case then != nil:
		return then()
	}
	return nil
}
