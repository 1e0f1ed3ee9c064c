package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/truncate"
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

// DefaultReadLimit is the limit of a [Session.ReadFile] that names none.
const DefaultReadLimit = 16 << 20

const (
	// tempPrefix begins the names of files that are not finished.
	tempPrefix = ".cofferdam-"
	// maxPath is the most that a system call takes.
	maxPath = 4096
	// Data go in pieces of a size that a step of their way takes about pieceTime for:
	// what is urgent waits for no more.
	minPiece  = 64 << 10
	maxPiece  = 4 << 20
	pieceTime = 50 * time.Millisecond
)

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
	return s.transfer(ctx, "write", name, func(t *transfer) error {
		dir, base := path.Split(name)
		if base == "" || base == "." || base == ".." {
			return fmt.Errorf("%w: it is no name of a file", ErrInvalid)
		}
		temp := t.word(dir + tempPrefix + strings.ToLower(token()))
		target := t.word(name)
		t.undo = "rm -f " + temp
		if len(data) > 0 && len(data) <= minPiece {
			if err := t.put(target, temp, data, perm); err != errNotPut {
				return err
			}
		}
		begin := "[ -d " + t.word(dir+".") + " ] || return " + isNoDir +
			"; if [ -d " + target + " ]; then [ -L " + target + " ] || return " + isDirectory + "; fi; umask 77; "
		for {
			piece := data[:min(len(data), int(t.piece.Load()))]
			data = data[len(piece):]
			script := begin + t.append(temp)
			if len(data) == 0 {
				// A link to a directory would be followed, and busybox's mv takes none
				// that leads in a circle.
				script += fmt.Sprintf("if [ -L %s ]; then rm -f %s; fi; chmod %o %s && mv -f %s %s || return 1; ", target, target, perm, temp, temp, target)
			}
			if _, err := t.send(script, piece); err == errNoDir {
				return t.noDir(dir)
			} else if err != nil || len(data) == 0 {
				return err
			}
			begin = "[ -f " + temp + " ] && [ ! -L " + temp + " ] || return " + isTampered + "; "
		}
	})
}

// put makes a small file in one step, in which each program and each byte of a script
// counts. Where that fails it does not say why.
func (t *transfer) put(target, temp string, data []byte, perm fs.FileMode) error {
	script := fmt.Sprintf("put %s %s %o", target, temp, perm)
	t.c.in += int64(len(data))
	_, err := t.step(append(shellwire.Put(temp, token(), data, perm), shellwire.Help(script)...), &sink{})
	return err
}

// ReadFile returns the content of a regular file inside, of at most limit bytes; if zero,
// [DefaultReadLimit]. A link is followed. One of the kernel's that is another at each
// look, such as /proc/self/status, is not sure to be read: what comes is counted once
// more. A relative name is taken from where the session began, wherever its shell is now.
//
// An error is a [*fs.PathError]. It wraps [ErrInvalid], [ErrNotRegular], [ErrTooLarge],
// one of those in the package's documentation, or one that [Session.Run] has without a
// result.
func (s *Session) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	if limit < 0 {
		return nil, &fs.PathError{Op: "read", Path: s.current().conceal(name), Err: fmt.Errorf("%w: the limit is negative", ErrInvalid)}
	}
	if limit == 0 {
		limit = DefaultReadLimit
	}
	content := &content{limit: limit}
	err := s.transfer(ctx, "read", name, func(t *transfer) error {
		source := t.word(name)
		// What is told is counted apart from what is copied. All dd's tell the number of
		// full blocks; few tell that of bytes.
		told, err := t.fetch(t.regular(source)+"exec 3>&1; cf_j=$(dd bs=65536 iflag=fullblock count="+
			strconv.FormatInt(limit/(64<<10)+1, 10)+" <"+source+` 2>&1 >&3) || { printf '%s' "$cf_j" >&2; return 1; }; `+
			"cf_j=${cf_j%%+*}; cf_j=$((cf_j * 65536 + $(dd bs=65536 skip=$cf_j count=1 <"+source+" | wc -c)))", &sink{text: content})
		switch {
		case err != nil:
			return err
		case content.total > limit:
			return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
		case told != strconv.FormatInt(content.total, 10):
			return fmt.Errorf("%w: %d bytes came, and %q were told", ErrTransfer, content.total, told)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return content.data, nil
}

// A content is what was read of a file, up to a limit.
type content struct {
	data  []byte
	limit int64
	total int64
}

func (c *content) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	if c.total <= c.limit {
		if c.total > int64(cap(c.data)) {
			// To append would grow it by a quarter at a time, and copy a large file five
			// times.
			c.data = slices.Grow(c.data, int(min(2*c.total, c.limit))-len(c.data))
		}
		c.data = append(c.data, p...)
	} else {
		c.data = nil
	}
	return len(p), nil
}

// The statuses by which a script tells why it failed. No program that it runs has them.
const (
	isNoDir     = "101"
	isIrregular = "102"
	isDirectory = "103"
	isTampered  = "105"
	isInTheWay  = "106"
	isNotPut    = "107"
)

var (
	errNotPut = errors.New("the file could not be made in one step")
	errNoDir  = errors.New("there is no such directory") // noDir finds out more
)

// reason returns what a status says, or nil.
func reason(status int) error {
	switch strconv.Itoa(status) {
	case isNoDir:
		return errNoDir
	case isIrregular:
		return ErrNotRegular
	case isDirectory:
		return fmt.Errorf("%w: %w", ErrNotRegular, syscall.EISDIR)
	case isTampered:
		return fmt.Errorf("%w: what was sent before is gone", ErrTransfer)
	case isNotPut:
		return errNotPut
	case isInTheWay:
		return fmt.Errorf("%w: it is in the way of a directory", ErrUnsafeType)
	}
	return nil
}

// A transfer is a run of steps, each a script that runs inside in a shell of the
// supervisor's own while nothing else does.
type transfer struct {
	c        *conn
	ctx      context.Context
	cancel   context.CancelCauseFunc
	deadline time.Time
	left     time.Time    // when it must be over, once it was cut off; zero if nothing says so before
	piece    atomic.Int64 // the size of the next
	sent     string       // the name of the piece that may be inside
	undo     string       // a script that removes what was begun
	tree     bool         // the words of an error say which file of many it is
}

// transfer runs do in the session's turn, and sees to it that nothing is left behind if
// that fails.
func (s *Session) transfer(ctx context.Context, op, name string, do func(*transfer) error) error {
	err := func() error {
		if name == "" || len(name) > maxPath-100 || strings.Contains(name, "\x00") {
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
		if err := c.readyFor(ctx, c.leftFor(c.limits.CommandTimeout)); err != nil {
			return err
		}
		// A close is to leave the time to remove what was begun.
		defer func(orderly bool) { c.orderly = orderly }(c.orderly)
		c.orderly = true
		t := &transfer{c: c, ctx: ctx, cancel: cancel}
		t.piece.Store(minPiece)
		if c.audit != nil {
			return c.audit.transfer(t, op, name, do)
		}
		return t.do(do)
	}()
	if err != nil {
		conceal := s.current().conceal
		return &fs.PathError{Op: op, Path: conceal(name), Err: problems.Conceal(err, conceal)}
	}
	return nil
}

// do does what the transfer is, and sees to it that nothing is left behind if that fails.
func (t *transfer) do(f func(*transfer) error) error {
	t.deadline = after(t.c.limits.CommandTimeout)
	err := f(t)
	if err != nil {
		t.clean()
	}
	return err
}

// word returns a name inside as a word of a script.
func (t *transfer) word(name string) string {
	switch {
	case path.IsAbs(name):
		return shellwire.Word(name)
	case t.c.proc.Dir != "":
		return shellwire.Word(t.c.proc.Dir + "/" + name)
	}
	return `"$cf_w"/` + shellwire.Word(name)
}

// regular returns the part of a script that goes on only if there is a regular file.
func (t *transfer) regular(file string) string {
	return "[ -f " + file + " ] || { [ -e " + file + " ] || " + why(file) + "; [ ! -d " + file + " ] || return " + isDirectory +
		"; return " + isIrregular + "; }; "
}

// why returns the part of a script that ends it with the kernel's reason for which a name
// can't be opened. A test tells none, and busybox's asks the uid in place of the kernel.
func why(word string) string { return "{ dd if=" + word + " bs=1 count=0 >/dev/null; return 1; }" }

// append returns the part of a script that appends the piece to a file, and removes the
// piece.
func (t *transfer) append(file string) string {
	return t.take("dd bs=65536 <%s >>" + file)
}

// take returns the part of a script that runs a command on the piece and removes the
// piece.
func (t *transfer) take(command string) string {
	t.sent = "i" + token()
	piece := `"$cf_d"/` + t.sent
	return strings.Replace(command, "%s", piece, 1) + " || return 1; rm -f " + piece + "; "
}

// send makes a piece and runs a script that takes it, and returns what the script tells.
func (t *transfer) send(script string, piece []byte) (string, error) {
	began := time.Now()
	t.c.in += int64(len(piece))
	data := slices.Concat(shellwire.Upload(t.sent, int64(len(piece))), piece, shellwire.Help(script))
	told, err := t.step(data, &sink{})
	switch took := time.Since(began); {
	case took < pieceTime:
		t.piece.Store(min(4*t.piece.Load(), maxPiece))
	case took > 2*pieceTime:
		t.piece.Store(max(t.piece.Load()/2, minPiece))
	}
	return told, err
}

// run runs a script and returns what it tells.
func (t *transfer) run(script string) (string, error) {
	return t.step(shellwire.Help(script), &sink{})
}

// fetch runs a script whose output goes to out, and returns what it tells.
func (t *transfer) fetch(script string, out *sink) (string, error) {
	return t.step(shellwire.HelpStill(script), out)
}

func (t *transfer) step(data []byte, out *sink) (string, error) {
	c := t.c
	errOut := &sink{kept: truncate.Buffer{Limit: wordsKept}}
	in := errOut
	if k := c.known.Load(); k != nil {
		in = &sink{filter: k.hide(errOut)}
	}
	r := c.exchange(t.ctx, t.deadline, t.left, []item{{data: data, raw: true, told: true}}, out, in)
	in.close()
	return t.end(r, errOut)
}

// end sees to the end of a step.
func (t *transfer) end(r reply, errOut *sink) (string, error) {
	c := t.c
	c.queue.send(item{data: []byte(shellwire.Thaw), stays: true})
	c.unsaid = c.unsaid || r.died
	if r.oomAfter >= 0 {
		c.oomKills = r.oomAfter
	}
	if !r.left.IsZero() {
		t.left = r.left
	}
	switch {
	case r.lost:
		return "", errors.Join(r.cause, c.lost(), r.endErr)
	case r.cause != nil:
		return "", r.cause
	case r.died:
		return "", fmt.Errorf("%w: everything inside was killed", ErrTransfer)
	case r.mark.Status == 0:
		return r.mark.Dir, nil
	}
	if err := reason(r.mark.Status); err != nil {
		return r.mark.Dir, err
	}
	return r.mark.Dir, t.failure(r.mark.Status, string(errOut.kept.Bytes()))
}

// flushBy returns how long who takes what came may take.
func (t *transfer) flushBy(err error) time.Time {
	switch {
	case err != nil:
		return after(min(time.Second/4, t.c.limits.TerminationTimeout/8))
	case t.deadline.IsZero() || time.Until(t.deadline) > t.c.limits.TerminationTimeout:
		return after(t.c.limits.TerminationTimeout)
	}
	return t.deadline.Add(min(time.Second/4, t.c.limits.TerminationTimeout/8))
}

// clean removes what a transfer that failed has left inside.
func (t *transfer) clean() {
	c := t.c
	select {
	case <-c.over:
		return
	default:
	}
	script := t.undo
	if t.sent != "" {
		script += `; rm -f "$cf_d"/` + t.sent
	}
	if script == "" {
		return
	}
	left := earlier(after(c.limits.TerminationTimeout), t.left)
	ctx := context.WithoutCancel(t.ctx)
	if c.respawn(ctx, left, left) != nil {
		return
	}
	var out, errOut sink
	r := c.exchangeBy(ctx, left, left, []item{{data: shellwire.Help(script), told: true}}, &out, &errOut)
	t.end(r, &errOut)
}
