package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// The defaults of [CollectOptions].
const (
	DefaultMaxFiles = 1000
	DefaultMaxBytes = 64 << 20
)

// CollectOptions say which files [Collect] and [CollectTo] collect.
type CollectOptions struct {
	// Patterns are patterns for the names of files, relative to the directory and with
	// slashes, such as "**/*.png" or "out/**". Each element between two slashes matches
	// as in [path.Match]. "**" stands for any number of directories, or none. There must
	// be at least one pattern. A directory is collected only as part of the name of a
	// file.
	Patterns []string
	// MaxFiles is how many files may be collected. If zero, it is DefaultMaxFiles. It
	// must not be negative.
	MaxFiles int
	// MaxBytes is how many bytes they may have together. If zero, it is
	// DefaultMaxBytes. It must not be negative.
	MaxBytes int64
	// Skip, if not nil, is called for each match that can't be collected. If it returns
	// nil, the match is left out, and the others are collected. If it returns an error,
	// nothing is collected. If Skip is nil, a match that can't be collected is an error,
	// and nothing is collected. Skip is called at most once for each match, and must not
	// use the session.
	//
	// The reason is an error that wraps [execpolicy.ErrUnsafeType] for a link or a
	// special file, [execpolicy.ErrUnsafeName] for a name that is not UTF-8 or that the
	// host can't have, [execpolicy.ErrTooLarge] for a file for which MaxFiles or MaxBytes
	// leave no room, or [fs.ErrPermission] for a file that the session's user can't read.
	// It also wraps fs.ErrPermission for a directory that the user can't list, where
	// there may be matches, and ErrUnsafeName for a file or such a directory that has to
	// be looked at by itself and whose name is too long for that. Which files find room
	// depends on their order in the image's tar.
	Skip func(e execpolicy.TreeEntry, reason error) error
}

// Collect reads the files below a directory inside that match patterns, and returns them
// as a file system in memory. It is not an error if no file matches. Files that do not
// match are skipped, but skipping them takes time.
//
// Collect first walks the directory, within [execpolicy.Limits.CommandTimeout], while
// nothing else runs inside. If the session's user can't read some of it, or if more than
// 512 MiB do not match or are too large, Collect then fetches the remaining matches one
// by one. It lists up to a thousand directories that can have any. That may take half a
// minute more, and what else runs inside goes on between its steps.
//
// Collect returns all the matches, except for those that CollectOptions.Skip leaves out,
// or none and an error. The error wraps one of these:
//
//   - [execpolicy.ErrInvalid], if a pattern or a limit is invalid.
//   - [execpolicy.ErrUnsafeType], if a link or a special file matches.
//   - [execpolicy.ErrUnsafeName], if a name that is not UTF-8 matches, or one that has to
//     be looked at by itself is too long for that.
//   - [execpolicy.ErrTooLarge], if there is more than the options, or the session's
//     [execpolicy.Limits], allow, or if more than 1000 directories or 100,000 names have
//     to be looked at by themselves.
//   - [fs.ErrPermission], if a match can't be read.
//   - Another error of [execpolicy.Session.Walk].
func Collect(ctx context.Context, s *execpolicy.Session, dir string, o CollectOptions) (fs.FS, error) {
	files := newMemory()
	err := collect(ctx, s, dir, o, func(e execpolicy.TreeEntry, content io.Reader) error {
		// The size is what code inside says.
		var data bytes.Buffer
		data.Grow(int(min(e.Size, 1<<20)) + bytes.MinRead)
		_, err := data.ReadFrom(content)
		if err == nil {
			files.add(e, data.Bytes())
		}
		return err
	})
	if err != nil {
		return nil, problems.Redact(err, s.Redact)
	}
	files.sort()
	return files, nil
}

// CollectTo is [Collect] into a directory of the host, and returns the names of the
// files, sorted. An existing file is replaced as a whole, and so is a link in place of a
// file. If a directory would take the place of a file or a link, or a file that of a
// directory, the error wraps [execpolicy.ErrUnsafeType], and nothing is changed. Until
// the files are whole, they lie in a directory of root whose name begins with
// ".cofferdam-".
func CollectTo(ctx context.Context, s *execpolicy.Session, dir string, root *os.Root, o CollectOptions) (names []string, err error) {
	tree := stage.NewTree(root)
	defer func() { err = problems.Redact(errors.Join(err, tree.Clean()), s.Redact) }()
	err = collect(ctx, s, dir, o, func(e execpolicy.TreeEntry, content io.Reader) error {
		err := tree.Add(tarball.Header{Name: e.Name, Perm: e.Mode.Perm(), ModTime: e.ModTime}, content)
		if err == nil {
			names = append(names, e.Name)
		}
		return err
	})
	if err == nil {
		err = tree.Place(ctx)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// collect calls add for each file that is to be collected.
func collect(ctx context.Context, s *execpolicy.Session, dir string, o CollectOptions, add func(execpolicy.TreeEntry, io.Reader) error) error {
	wanted, errs := parse(o.Patterns, false)
	if len(o.Patterns) == 0 {
		errs = append(errs, errors.New("there must be at least one pattern"))
	}
	if o.MaxFiles < 0 || o.MaxBytes < 0 {
		errs = append(errs, errors.New("MaxFiles and MaxBytes must not be negative"))
	}
	if len(errs) > 0 {
		return problems.Join(errs...)
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	c := collection{wanted: wanted, o: o, add: add, met: map[string]bool{}, taken: map[string]bool{}}
	err := s.Walk(ctx, dir, c.visit)
	if c.ended != nil && c.ended != errPassed || c.ended == nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return c.rest(ctx, s, dir, err)
}

const (
	// maxPassed is how many bytes of what is not collected a walk reads: a sparse file of
	// any size costs a program nothing.
	maxPassed = 512 << 20
	// restTime bounds what comes after a walk, and maxDirs and maxEntries what is listed
	// then.
	restTime   = 30 * time.Second
	maxDirs    = 1000
	maxEntries = 100_000
)

var errPassed = errors.New("too much is passed over")

// A collection is what one call collects.
type collection struct {
	wanted patterns
	o      CollectOptions
	add    func(execpolicy.TreeEntry, io.Reader) error

	files         int
	bytes, passed int64
	met           map[string]bool // the matches that were come to
	// taken has the names so far: true for a file's, false for those of the directories
	// that it is in.
	taken map[string]bool
	ended error // why the walk was ended
}

// visit is for the session's walk.
func (c *collection) visit(e execpolicy.TreeEntry, content io.Reader) error {
	if !e.Mode.IsDir() && c.wanted.match(e.Name) {
		c.met[e.Name] = true
		before := c.files
		if c.ended = c.take(e, content); c.ended != nil || c.files > before {
			return c.ended
		}
	}
	if c.passed += e.Size; c.passed > maxPassed {
		c.ended = errPassed
	}
	return c.ended
}

// take collects a match, or leaves it out.
func (c *collection) take(e execpolicy.TreeEntry, content io.Reader) error {
	err := c.fits(e)
	if err == nil {
		err = c.name(e.Name)
	}
	if err == nil {
		err = c.add(e, content)
	}
	switch {
	case err == nil:
		c.files++
		c.bytes += e.Size
		return nil
	case errors.Is(err, execpolicy.ErrUnsafeType), errors.Is(err, execpolicy.ErrUnsafeName), errors.Is(err, execpolicy.ErrTooLarge):
		return c.refuse(e, err)
	}
	return err
}

func (c *collection) fits(e execpolicy.TreeEntry) error {
	switch {
	case !e.Mode.IsRegular():
		return fmt.Errorf("%w: %q is %s", execpolicy.ErrUnsafeType, e.Name, typeName(e.Mode))
	case !utf8.ValidString(e.Name):
		return fmt.Errorf("%w: %q", execpolicy.ErrUnsafeName, e.Name)
	case c.files == c.o.MaxFiles:
		return fmt.Errorf("%w: more than %d files match", execpolicy.ErrTooLarge, c.o.MaxFiles)
	case e.Size > c.o.MaxBytes-c.bytes:
		return fmt.Errorf("%w: what matches has more than %d bytes, with the %d of %q", execpolicy.ErrTooLarge, c.o.MaxBytes, e.Size, e.Name)
	}
	return nil
}

// name takes a name for a file. Code inside may have made a file of a directory, or a
// directory of a file, between the walk and what comes after it.
func (c *collection) name(name string) error {
	_, again := c.taken[name]
	for _, dir := range parents(name) {
		again = again || c.taken[dir]
		c.taken[dir] = false
	}
	if again {
		return fmt.Errorf("%w: %q", execpolicy.ErrDuplicateName, name)
	}
	c.taken[name] = true
	return nil
}

func (c *collection) refuse(e execpolicy.TreeEntry, reason error) error {
	if c.o.Skip == nil {
		return reason
	}
	return c.o.Skip(e, reason)
}

// rest collects the matches below dir that were not met by a walk, which has failed with
// why.
func (c *collection) rest(ctx context.Context, s *execpolicy.Session, dir string, why error) error {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	seen := 0
	dirs := []execpolicy.TreeEntry{{Mode: fs.ModeDir}}
	for n := 0; n < len(dirs); n++ {
		within := dirs[n]
		entries, err := s.ReadDir(ctx, dir+"/"+within.Name)
		seen += len(entries)
		switch {
		case n == 0 && errors.Is(err, syscall.ENOTDIR) && c.ended == errPassed:
			return nil // it is one file, which was met
		case n == 0 && err != nil && c.ended == errPassed:
			return err // that was why, and says nothing
		case n == 0 && err != nil:
			return why
		case n == maxDirs, seen > maxEntries:
			return fmt.Errorf("%w: more than %d directories or %d names to look at one by one", execpolicy.ErrTooLarge, maxDirs, maxEntries)
		case errors.Is(err, fs.ErrNotExist):
			continue // it was removed meanwhile
		case errors.Is(err, fs.ErrPermission):
			if err := c.refuse(within, err); err != nil {
				return err
			}
			continue
		case tooLong(err):
			if err := c.refuse(within, fmt.Errorf("%w: %w", execpolicy.ErrUnsafeName, err)); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		for _, e := range entries {
			e.Name = path.Join(within.Name, e.Name)
			switch {
			case e.Mode.IsDir():
				if c.wanted.matchBelow(e.Name) {
					dirs = append(dirs, e)
				}
			case e.Mode&fs.ModeSocket == 0 && c.wanted.match(e.Name) && !c.met[e.Name]:
				if err := c.fetch(ctx, s, dir, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fetch collects one match.
func (c *collection) fetch(ctx context.Context, s *execpolicy.Session, dir string, e execpolicy.TreeEntry) error {
	if err := c.fits(e); err != nil {
		return c.refuse(e, err)
	}
	data, err := s.ReadFile(ctx, dir+"/"+e.Name, max(1, c.o.MaxBytes-c.bytes))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it was removed meanwhile
	case errors.Is(err, execpolicy.ErrNotRegular):
		return c.refuse(e, fmt.Errorf("%w: %w", execpolicy.ErrUnsafeType, err))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, execpolicy.ErrTooLarge):
		return c.refuse(e, err)
	case tooLong(err):
		return c.refuse(e, fmt.Errorf("%w: %w", execpolicy.ErrUnsafeName, err))
	case err != nil:
		return err
	}
	e.Size = int64(len(data))
	return c.take(e, bytes.NewReader(data))
}

// tooLong reports whether err says that a name in a tree, in which none is empty, is
// longer than a method or a system call takes.
func tooLong(err error) bool {
	return errors.Is(err, execpolicy.ErrInvalid) || errors.Is(err, syscall.ENAMETOOLONG)
}

// typeName says what it is that is no regular file.
func typeName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeIrregular != 0:
		return "a further name of a file, a hard link"
	case mode&fs.ModeNamedPipe != 0:
		return "a fifo"
	}
	return "a special file"
}
