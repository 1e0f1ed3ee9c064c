package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// CopyOut writes a tree, or one regular file, to w as a tar archive.
func (t *Transfer) CopyOut(name string, w io.Writer) error {
	return t.copyOut(name, func(r *tarball.Reader) error {
		var block []byte
		for {
			h, err := r.Next()
			if err == io.EOF {
				_, err = w.Write(tarball.End())
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

// CopyOutTo copies a tree, or one regular file, into a directory of the host, unless ctx
// has ended before the first file is in its place.
func (t *Transfer) CopyOutTo(ctx context.Context, name string, x *Extraction) error {
	return t.copyOut(name, x.extract, func() error { return x.place(ctx) })
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
	return t.copyOut(name, func(r *tarball.Reader) error {
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

// copyOut calls take with a reader of the archive of a tree inside. If then is not nil,
// copyOut calls it after take has returned.
func (t *Transfer) copyOut(name string, take func(*tarball.Reader) error, then func() error) error {
	source := t.word(name)
	dir, base := path.Split(name)
	within := t.word(name + "/.")
	script := "[ -e " + source + " ] || " + why(source) + "; if [ -d " + source + " ]; then [ -d " + within +
		" ] || " + why(within) +
		"; cd " + source + " && tar -cf - . || return 1; " +
		"elif [ -f " + source + " ]; then cd " + t.word(dir+".") + " && tar -hcf - " + shellwire.Word("./"+base) +
		" || return 1; else return " + isIrregular + "; fi"
	t.tree = true
	from, to := io.Pipe()
	taken := make(chan error, 1)
	go func() {
		err := take(&tarball.Reader{R: from, Checker: tarball.Checker{Limits: t.opts.Limits}})
		if err != nil {
			err = tooLarge(err)
			// What is inside is told to stop.
			t.opts.Cancel(err)
		} else {
			// The end is padded.
			_, err = io.Copy(io.Discard, from)
		}
		from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		taken <- err
	}()
	_, out := shell.NewSink(nil, 0, nil, to)
	_, err := t.fetch(script, out)

	// Whoever takes it has the rest of the time to take the rest.
	flush, done := context.WithDeadline(context.Background(), bound.Flush(err != nil, t.Deadline, t.opts.TerminationTimeout))
	defer done()
	out.Finish(flush.Done())
	if err != nil {
		to.CloseWithError(err)
	} else {
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
			takeErr = shell.ErrTimeout
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

// An Extraction is a tree on its way into a directory of the host.
type Extraction struct {
	root  *os.Root
	stage string   // a directory in root that holds it until it is whole
	in    *os.Root // the stage, whatever somebody makes of its name; nil if there is none

	files []string // with the separators of this system
	dirs  []string // parents first, also those that only show in the names of others
	made  map[string]bool
	stamp map[string]tarball.Header // of the directories that have an entry
}

// NewExtraction returns an extraction into that directory.
func NewExtraction(root *os.Root) *Extraction {
	return &Extraction{root: root, stage: tempPrefix + strings.ToLower(random.Token())}
}

// extract makes the tree in its stage.
func (x *Extraction) extract(r *tarball.Reader) error {
	x.made, x.stamp = map[string]bool{}, map[string]tarball.Header{}
	if err := x.open(); err != nil {
		return err
	}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && h.Name != "." {
			err = x.entry(h, r)
		}
		if err != nil {
			return err
		}
	}
}

// open makes the stage.
func (x *Extraction) open() (err error) {
	if err = x.root.Mkdir(x.stage, 0o700); err != nil {
		return err
	}
	if x.in, err = x.root.OpenRoot(x.stage); err != nil {
		x.root.Remove(x.stage)
	}
	return err
}

// inPlace reports whether the stage still has its name.
func (x *Extraction) inPlace() bool {
	was, err := x.in.Stat(".")
	if err != nil {
		return false
	}
	now, err := x.root.Lstat(x.stage)
	return err == nil && os.SameFile(was, now)
}

func (x *Extraction) entry(h tarball.Header, content io.Reader) error {
	name, err := filepath.Localize(h.Name)
	if err != nil {
		return fmt.Errorf("%w: %q", tarball.ErrName, h.Name)
	}
	if h.Dir {
		x.stamp[name] = h
		return x.dir(name)
	}
	if err := x.dir(filepath.Dir(name)); err != nil {
		return err
	}
	f, err := x.in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	err = errors.Join(err, f.Chmod(h.Perm), f.Close())
	if err == nil {
		err = x.in.Chtimes(name, time.Time{}, h.ModTime)
	}
	x.files = append(x.files, name)
	return err
}

// dir makes a directory and its parents in the stage.
func (x *Extraction) dir(name string) error {
	if name == "." || x.made[name] {
		return nil
	}
	if err := x.dir(filepath.Dir(name)); err != nil {
		return err
	}
	err := x.in.Mkdir(name, 0o700)
	if err == nil {
		x.made[name] = true
		x.dirs = append(x.dirs, name)
	}
	return err
}

// place moves the tree from its stage to where it belongs, if nothing is in its way and
// ctx has not ended before the first step.
func (x *Extraction) place(ctx context.Context) error {
	there := map[string]bool{}
	for _, name := range x.dirs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		info, err := x.root.Lstat(name)
		switch {
		case err == nil && info.IsDir():
			there[name] = true
		case err == nil:
			return fmt.Errorf("%w: %q is in the way of a directory", tarball.ErrType, name)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	for _, name := range x.files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		info, err := x.root.Lstat(name)
		switch {
		case err == nil && info.IsDir():
			return fmt.Errorf("%w: the directory %q is in the way of a file", tarball.ErrType, name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if !x.inPlace() {
		return fmt.Errorf("%w: somebody has put something else in the place of %q", tarball.ErrType, x.stage)
	}
	made := map[string]fs.FileInfo{}
	for _, name := range x.dirs {
		if there[name] {
			continue
		}
		err := x.root.Mkdir(name, 0o755)
		if err == nil {
			made[name], err = x.root.Lstat(name)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range x.files {
		if err := x.root.Rename(filepath.Join(x.stage, name), name); err != nil {
			return err
		}
	}
	for _, name := range slices.Backward(x.dirs) {
		if h, ok := x.stamp[name]; ok && made[name] != nil {
			if err := x.stampDir(name, made[name], h); err != nil {
				return err
			}
		}
	}
	return nil
}

// stampDir gives a directory that was made its time and its permissions. Somebody may
// have put a link in its place, which a root follows.
func (x *Extraction) stampDir(name string, made fs.FileInfo, h tarball.Header) error {
	dir, err := x.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	now, err := dir.Stat(".")
	switch {
	case err != nil:
		return err
	case !os.SameFile(now, made):
		return fmt.Errorf("%w: somebody has put something else in the place of %q", tarball.ErrType, name)
	}
	if err := dir.Chtimes(".", time.Time{}, h.ModTime); err != nil {
		return err
	}
	// Else only root could remove what is in it.
	return dir.Chmod(".", h.Perm|0o700)
}

// Clean removes what was not put in its place, and nothing else: whoever may write to the
// root may have put another directory, or a link, in the place of the stage.
func (x *Extraction) Clean() {
	if x.in == nil {
		return
	}
	for _, name := range x.files {
		x.in.Remove(name)
	}
	for _, name := range slices.Backward(x.dirs) {
		x.in.Remove(name)
	}
	inPlace := x.inPlace()
	x.in.Close()
	if inPlace {
		x.root.Remove(x.stage)
	}
}
