package execpolicy

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

var (
	// ErrNotRegular is wrapped by the error of a name that exists and is not a regular
	// file.
	ErrNotRegular = transfer.ErrNotRegular
	// ErrTooLarge is wrapped by the error of a file, or a tree, that is larger than its
	// limit.
	ErrTooLarge = transfer.ErrTooLarge
	// ErrTransfer is wrapped by the error of a file operation if it failed inside for an
	// unknown reason, if the image lacks a program for it, or if its data does not agree
	// with the size that was announced.
	ErrTransfer = transfer.ErrTransfer
)

// DefaultReadLimit is the limit of [Session.ReadFile], in bytes, if it is given 0.
const DefaultReadLimit = 16 << 20

// WriteFile makes a file inside with the content data and the permissions perm, whatever
// the session's umask. An existing file or link of that name is replaced, not written
// through. A directory is not replaced. The parent directory must exist: if it does not,
// the error names the first one that is missing. [Session.MkdirAll] and
// [Session.WriteFiles] make parents. A relative name is relative to the directory in
// which the session began.
//
// An error is a [*fs.PathError]. It wraps [ErrInvalid], [ErrNotRegular] if the name is a
// directory's, one of those in the package's documentation, or one that [Session.Run] has
// without a result.
func (s *Session) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	if err := onlyPermissions(perm); err != nil {
		return &fs.PathError{Op: "write", Path: s.current().redact(name), Err: err}
	}
	return s.transfer(ctx, "write", name, func(t *transfer.Transfer) error { return t.WriteFile(name, data, perm) })
}

// ReadFile returns the content of a regular file inside, of at most limit bytes. If limit
// is zero, it is [DefaultReadLimit]. It must not be negative. A link is followed. A file
// of the kernel's whose content changes with each read, such as /proc/self/status, may
// fail to be read, because its size is checked against a second read. A relative name is
// relative to the directory in which the session began.
//
// An error is a [*fs.PathError]. It wraps [ErrInvalid], [ErrNotRegular], [ErrTooLarge],
// one of those in the package's documentation, or one that [Session.Run] has without a
// result.
func (s *Session) ReadFile(ctx context.Context, name string, limit int64) (data []byte, err error) {
	if limit < 0 {
		return nil, &fs.PathError{Op: "read", Path: s.current().redact(name), Err: fmt.Errorf("%w: the limit is negative", ErrInvalid)}
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

// WriteFiles makes files inside, below dir, from a map of their names to their contents.
// It also makes the directories that they are in, dir and its parents included. A file
// gets the permissions 0644 and a new directory 0755, whatever the session's umask. An
// existing directory keeps its own permissions. Existing files and links are replaced. A
// relative dir is relative to the directory in which the session began. The image needs
// tar, touch, mkdir, rmdir and mv.
//
// The names are relative to dir, with slashes. They are checked as those of an archive
// are: an unsafe one is [ErrUnsafeName], and one that is also the directory of another is
// [ErrDuplicateName]. All that is wrong with them is in one error that wraps [ErrInvalid]
// too, and then nothing was sent. The files are moved into place together, as by
// [Session.CopyIn]. The other errors are those of CopyIn.
func (s *Session) WriteFiles(ctx context.Context, dir string, files map[string][]byte) error {
	return s.transfer(ctx, "write files", dir, func(t *transfer.Transfer) error { return t.WriteFiles(dir, files) })
}

// MkdirAll makes a directory inside, with the parents that are missing. Each new
// directory gets the permissions perm, whatever the session's umask, but the owner of a
// parent may always write to it and enter it. It is not an error if the directory exists.
// Then it keeps its own permissions. A relative name is relative to the directory in
// which the session began. The image needs mkdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] if name exists and is not a
// directory, and ENOTDIR if a parent exists and is not one. The package's documentation
// has the others. After an error the directories that MkdirAll made are removed again,
// unless name has ".." in it.
func (s *Session) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	if err := onlyPermissions(perm); err != nil {
		return &fs.PathError{Op: "mkdir", Path: s.current().redact(name), Err: err}
	}
	return s.transfer(ctx, "mkdir", name, func(t *transfer.Transfer) error { return t.MkdirAll(name, perm) })
}

// ReadDir returns the entries of a directory inside, sorted by name. Links are not
// followed: the entry of a link describes the link itself. A relative name is relative to
// the directory in which the session began. The image needs find and stat.
//
// What these programs print is checked: there are at most [Limits.MaxTreeEntries]
// entries, and each name is a single element of a path and comes once. A name need not be
// UTF-8. An error is a [*fs.PathError]. It wraps [ErrTooLarge] if there are more entries,
// and ENOTDIR if name is not a directory. The package's documentation has the others.
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

// Stat describes a file, a directory or a special file inside. A link is followed. To
// describe the link itself, use [Session.ReadDir]. The Name of the entry is the last
// element of name. A relative name is relative to the directory in which the session
// began. The image needs stat.
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
// relative name is relative to the directory in which the session began. The image needs
// rm and rmdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] and ENOTEMPTY if a directory is
// not empty. The package's documentation has the others.
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
