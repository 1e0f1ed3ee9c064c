package execpolicy

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

var (
	// ErrNotRegular is returned for what is there but no regular file.
	ErrNotRegular = transfer.ErrNotRegular
	// ErrTooLarge is returned for a file, or a tree, that is larger than its limit.
	ErrTooLarge = transfer.ErrTooLarge
	// ErrTransfer is wrapped by the error of a transfer that failed inside for a reason
	// that is not known, or whose data do not agree with what was told of them.
	ErrTransfer = transfer.ErrTransfer
)

// DefaultReadLimit is the limit of a [Session.ReadFile] that names none.
const DefaultReadLimit = 16 << 20

// WriteFile makes a file inside with that content and those permissions, whatever the
// session's umask. A file or a link of that name is replaced, not written through; a
// directory is not. The directory that it is in must be there: if it is not, the error
// names the first that is missing, which [Session.MkdirAll] makes. [Session.WriteFiles]
// makes it by itself. A relative name is taken from where the session began, wherever its
// shell is now.
//
// An error is a [*fs.PathError]. It wraps [ErrInvalid], [ErrNotRegular] if the name is a
// directory's, one of those in the package's documentation, or one that [Session.Run] has
// without a result.
func (s *Session) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	if err := onlyPermissions(perm); err != nil {
		return &fs.PathError{Op: "write", Path: s.current().conceal(name), Err: err}
	}
	return s.transfer(ctx, "write", name, func(t *transfer.Transfer) error { return t.WriteFile(name, data, perm) })
}

// ReadFile returns the content of a regular file inside, of at most limit bytes; if zero,
// [DefaultReadLimit]. A link is followed. One of the kernel's that is another at each
// look, such as /proc/self/status, is not sure to be read: what comes is counted once
// more. A relative name is taken from where the session began, wherever its shell is now.
//
// An error is a [*fs.PathError]. It wraps [ErrInvalid], [ErrNotRegular], [ErrTooLarge],
// one of those in the package's documentation, or one that [Session.Run] has without a
// result.
func (s *Session) ReadFile(ctx context.Context, name string, limit int64) (data []byte, err error) {
	if limit < 0 {
		return nil, &fs.PathError{Op: "read", Path: s.current().conceal(name), Err: fmt.Errorf("%w: the limit is negative", ErrInvalid)}
	}
	if limit == 0 {
		limit = DefaultReadLimit
	}
	err = s.transfer(ctx, "read", name, func(t *transfer.Transfer) error {
		data, err = t.ReadFile(name, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// WriteFiles makes files inside with those contents, below dir, and the directories that
// they are in, dir and its parents included. A file gets the permissions 0644 and a new
// directory 0755, whatever the session's umask; a directory that is there keeps its own.
// Files and links that are there are replaced. A relative dir is taken from where the
// session began, wherever its shell is now. The image needs tar, touch and mkdir.
//
// The names are paths relative to dir, with slashes. They are checked as those of an
// archive are: one that is absolute, has ".." or is not UTF-8 is [ErrUnsafeName], and one
// that is also the directory of another is [ErrDuplicateName]. All that is wrong with
// them is in one error that wraps [ErrInvalid] too, and then nothing was sent. The files
// are prepared beside and put in place at once, as [Session.CopyIn] does it, whose other
// errors WriteFiles has.
func (s *Session) WriteFiles(ctx context.Context, dir string, files map[string][]byte) error {
	return s.transfer(ctx, "write files", dir, func(t *transfer.Transfer) error { return t.WriteFiles(dir, files) })
}

// MkdirAll makes a directory inside, and those of its parents that are missing. A new
// directory gets those permissions, whatever the session's umask; its owner may always
// write to and enter the parents. A directory that is there keeps its own permissions,
// and is no error. A relative name is taken from where the session began, wherever its
// shell is now. The image needs mkdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] if the name is that of something
// else, and ENOTDIR if that of a parent is; the package's documentation has the others.
// What was made before is removed again.
func (s *Session) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	if err := onlyPermissions(perm); err != nil {
		return &fs.PathError{Op: "mkdir", Path: s.current().conceal(name), Err: err}
	}
	return s.transfer(ctx, "mkdir", name, func(t *transfer.Transfer) error { return t.MkdirAll(name, perm) })
}

// ReadDir returns what is in a directory inside, sorted by name. Links are not followed:
// an entry of one is the link's own. A relative name is taken from where the session
// began, wherever its shell is now. The image needs find and stat.
//
// What these programs say is not believed: there are no more entries than
// [Limits.MaxTreeEntries], and each name is one element of a path, which comes once and
// need not be UTF-8. An error is a [*fs.PathError]. It wraps [ErrTooLarge] if there are
// more, and ENOTDIR if it is no directory; the package's documentation has the others.
func (s *Session) ReadDir(ctx context.Context, name string) (entries []TreeEntry, err error) {
	err = s.transfer(ctx, "readdir", name, func(t *transfer.Transfer) error {
		found, err := t.ReadDir(name)
		if err == nil {
			entries = make([]TreeEntry, len(found))
			for i, e := range found {
				entries[i] = TreeEntry(e)
			}
		}
		return err
	})
	return entries, err
}

// Stat describes a file, a directory or a special file inside. A link is followed, as
// [Session.ReadFile] follows it; [Session.ReadDir] describes the link itself. The entry's
// Name is the last element of the one that was asked for. A relative name is taken from
// where the session began, wherever its shell is now. The image needs stat.
//
// An error is a [*fs.PathError]; the package's documentation says what it wraps.
func (s *Session) Stat(ctx context.Context, name string) (TreeEntry, error) {
	var e transfer.Entry
	err := s.transfer(ctx, "stat", name, func(t *transfer.Transfer) (err error) {
		e, err = t.Stat(name)
		return err
	})
	if err != nil {
		return TreeEntry{}, err
	}
	return TreeEntry(e), nil
}

// Remove removes a file, a link or an empty directory inside. A link is not followed. A
// relative name is taken from where the session began, wherever its shell is now. The
// image needs rm and rmdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] and ENOTEMPTY if a directory is
// not empty; the package's documentation has the others.
func (s *Session) Remove(ctx context.Context, name string) error {
	return s.transfer(ctx, "remove", name, func(t *transfer.Transfer) error { return t.Remove(name) })
}

// onlyPermissions returns the error for a mode that says more than permissions.
func onlyPermissions(perm fs.FileMode) error {
	if perm&^fs.ModePerm != 0 {
		return fmt.Errorf("%w: %v has more than permissions", ErrInvalid, perm)
	}
	return nil
}

// transfer runs do in the session's turn, and sees to it that nothing is left behind if
// that fails.
func (s *Session) transfer(ctx context.Context, op, name string, do func(*transfer.Transfer) error) error {
	err := func() error {
		if name == "" || len(name) > transfer.MaxPath-100 || strings.Contains(name, "\x00") {
			return fmt.Errorf("%w: it is no name of a file", ErrInvalid)
		}
		if err := s.acquire(ctx); err != nil {
			return err
		}
		defer s.release()
		c := s.current()
		if err := c.lives(); err != nil {
			return err
		}
		ctx, cancel := bound(ctx, s.life, c.life)
		defer cancel(nil)
		if err := c.readyFor(ctx, c.latestEnd(c.limits.CommandTimeout)); err != nil {
			return err
		}
		// A close is to leave the time to remove what was begun.
		defer func(orderly bool) { c.endsInOrder = orderly }(c.endsInOrder)
		c.endsInOrder = true
		event, err := c.audit.beginTransfer(ctx, c, op, name)
		if err == nil {
			err = c.transfer(ctx, cancel, do)
		}
		return c.audit.finish(c, event, nil, err)
	}()
	if err != nil {
		conceal := s.current().conceal
		return &fs.PathError{Op: op, Path: conceal(name), Err: problems.Conceal(err, conceal)}
	}
	return nil
}

// transfer does what a transfer is, for the holder of the turn.
func (c *conn) transfer(ctx context.Context, cancel context.CancelCauseFunc, do func(*transfer.Transfer) error) error {
	t := c.newTransfer(ctx, cancel)
	t.Deadline = after(c.limits.CommandTimeout)
	err := do(t)
	c.tally.in += t.Sent
	if err != nil {
		t.Clean()
	}
	return err
}

func (c *conn) newTransfer(ctx context.Context, cancel context.CancelCauseFunc) *transfer.Transfer {
	return transfer.New(ctx, transfer.Options{
		Conn:               steps{c},
		Dir:                c.proc.Dir,
		Scratch:            c.proc.Scratch,
		Limits:             tarball.Limits{Entries: c.limits.MaxTreeEntries, Bytes: c.limits.MaxTreeBytes},
		TerminationTimeout: c.limits.TerminationTimeout,
		Cancel:             cancel,
		Conceal:            c.conceal,
	})
}

// steps are those of a session's transfers: a [transfer.Conn].
type steps struct{ c *conn }

func (s steps) Step(ctx context.Context, deadline, endBy time.Time, data []byte, out *shell.Sink) (shell.Reply, string) {
	c := s.c
	in, errOut := shell.NewSink(c.hide(), shell.WordsKept, nil, nil)
	r := c.runUnit(ctx, deadline, endBy, []shell.Op{{Data: data, Raw: true, Marked: true}}, out, in)
	in.Close()
	s.end(r)
	return r, string(errOut.Kept.Bytes())
}

func (s steps) Undo(ctx context.Context, endBy time.Time, script string) {
	c := s.c
	select {
	case <-c.Over():
		return
	default:
	}
	if c.respawn(ctx, endBy, endBy) != nil {
		return
	}
	var out, errOut shell.Sink
	r := c.Exchange(ctx, endBy, endBy, []shell.Op{{Data: shellwire.Help(script), Marked: true}}, &out, &errOut)
	c.escalated(r)
	s.end(r)
}

func (s steps) Lost() error { return s.c.lost() }

// end sees to the end of a step.
func (s steps) end(r shell.Reply) {
	c := s.c
	c.Thaw()
	c.unreportedLoss = c.unreportedLoss || r.Died
	if r.OOMs >= 0 {
		c.oomKills = r.OOMs
	}
}
