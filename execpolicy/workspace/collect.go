package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// The limits of CollectOptions that name none.
const (
	DefaultMaxFiles = 1000
	DefaultMaxBytes = 64 << 20
)

// CollectOptions say which files are collected.
type CollectOptions struct {
	// Patterns are those of the files' names, relative to the directory and with slashes: what lies between two slashes is matched as
	// [path.Match] does, and "**" stands for any number of directories, also none: "**/*.png", "out/**". There has to be one. Directories
	// are not collected but for what is in them.
	Patterns []string
	// MaxFiles is how many files there may be. If zero, DefaultMaxFiles.
	MaxFiles int
	// MaxBytes is how many bytes they may have together. If zero, DefaultMaxBytes.
	MaxBytes int64
}

// Collect takes the files below a directory inside that match patterns, and returns them as a file system in memory. That they are none
// is no error. What does not match is skipped, whatever it is, and costs nothing but time: all is collected within
// [execpolicy.Limits.CommandTimeout], and nothing else runs inside meanwhile.
//
// It is all or nothing. An error wraps [execpolicy.ErrInvalid] if a pattern or a limit is none, [execpolicy.ErrUnsafeType] if a link or a
// special file matches, [execpolicy.ErrUnsafeName] if a name that is not UTF-8 does, [execpolicy.ErrTooLarge] if there is more than
// the options, or the session's [execpolicy.Limits], allow, or is another of [execpolicy.Session.Walk].
func Collect(ctx context.Context, s *execpolicy.Session, dir string, o CollectOptions) (fs.FS, error) {
	files := newMemory()
	err := collect(ctx, s, dir, o, func(e execpolicy.Entry, content io.Reader) error {
		data := make([]byte, e.Size)
		_, err := io.ReadFull(content, data)
		files.add(e, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	files.sort()
	return files, nil
}

// CollectTo is [Collect] into a directory of the host, and returns the files' names, sorted. Files that are there are replaced, each as a
// whole, and so are links in place of files. It is an error that wraps [execpolicy.ErrUnsafeType], and nothing is changed, if a link or a
// file is in the way of a directory, or a directory in that of a file. Until they are whole the files lie in a directory of root whose
// name begins with ".cofferdam-".
func CollectTo(ctx context.Context, s *execpolicy.Session, dir string, root *os.Root, o CollectOptions) (names []string, err error) {
	g := newStage(root)
	defer func() { err = errors.Join(err, g.clean()) }()
	staged := map[string]string{}
	err = collect(ctx, s, dir, o, func(e execpolicy.Entry, content io.Reader) error {
		name, err := g.put(content, e.Mode.Perm())
		if err == nil {
			names = append(names, e.Name)
			staged[e.Name] = name
			err = root.Chtimes(name, e.ModTime, e.ModTime)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var missing []string
	for _, name := range names {
		dirs := parents(name)
		for _, part := range append(dirs, name) {
			local, err := filepath.Localize(part)
			if err != nil {
				return nil, fmt.Errorf("%w: %q", execpolicy.ErrUnsafeName, part)
			}
			mode, there, err := lstat(root, local)
			isFile := part == name
			switch {
			case err != nil:
				return nil, err
			case there && mode.IsDir() == isFile:
				return nil, fmt.Errorf("%w: what %q is is in the way of what it is to be", execpolicy.ErrUnsafeType, part)
			case !there && !isFile:
				missing = append(missing, local)
			}
		}
	}
	for _, dir := range missing {
		if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	for _, name := range names {
		local, err := filepath.Localize(name)
		if err == nil {
			err = root.Rename(staged[name], local)
		}
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// collect calls add for each file that is to be collected.
func collect(ctx context.Context, s *execpolicy.Session, dir string, o CollectOptions, add func(execpolicy.Entry, io.Reader) error) error {
	wanted, errs := parse(o.Patterns, false)
	if len(o.Patterns) == 0 {
		errs = append(errs, errors.New("there are no patterns of what is to be collected"))
	}
	if o.MaxFiles < 0 || o.MaxBytes < 0 {
		errs = append(errs, errors.New("a limit of what is to be collected is negative"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %w", execpolicy.ErrInvalid, errors.Join(errs...))
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	files, bytes := 0, int64(0)
	return s.Walk(ctx, dir, func(e execpolicy.Entry, content io.Reader) error {
		if e.Mode.IsDir() || !wanted.match(e.Name) {
			return nil
		}
		files++
		switch {
		case !e.Mode.IsRegular():
			return fmt.Errorf("%w: %q is %v", execpolicy.ErrUnsafeType, e.Name, e.Mode.Type())
		case !utf8.ValidString(e.Name):
			return fmt.Errorf("%w: %q", execpolicy.ErrUnsafeName, e.Name)
		case files > o.MaxFiles:
			return fmt.Errorf("%w: more than %d files match", execpolicy.ErrTooLarge, o.MaxFiles)
		case e.Size > o.MaxBytes-bytes:
			return fmt.Errorf("%w: what matches has more than %d bytes", execpolicy.ErrTooLarge, o.MaxBytes)
		}
		bytes += e.Size
		return add(e, content)
	})
}
