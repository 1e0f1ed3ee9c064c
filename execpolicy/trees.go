package execpolicy

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/stage"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

// These errors say why a tree is refused, on its way in or out. [ErrTooLarge] is another:
// the limits are [Limits.MaxTreeEntries] and [Limits.MaxTreeBytes], and 32 MiB for all
// names of a tree together, or of a [Session.ReadDir]. There is no limit for a ratio of
// compression, because an archive that is compressed or has holes is refused.
var (
	// ErrArchive says that the data is not a tar archive, or ends before the archive
	// does.
	ErrArchive = tarball.ErrFormat
	// ErrUnsafeName says that a name is absolute, has "..", is not UTF-8, has a NUL byte,
	// is too long (4,096 bytes, or 255 between two slashes), or means something else on
	// this system.
	ErrUnsafeName = tarball.ErrName
	// ErrUnsafeType says that an entry is neither a regular file nor a directory, or that
	// a file or directory would take the place of something that is neither. A link,
	// symbolic or hard, a device, a FIFO, a socket and a file with holes are neither.
	ErrUnsafeType = tarball.ErrType
	// ErrDuplicateName says that two entries have the same name, or that one entry is a
	// file and another lies below it.
	ErrDuplicateName = tarball.ErrDuplicate
)

// CopyIn makes the directories and the files of a tar archive inside, below dir, with
// their permissions and with their times to the second. They belong to the session's
// user. If dir does not exist and its parent does, CopyIn makes it. A dir that exists
// keeps its own permissions. A relative dir is relative to the directory in which the
// session began. The image needs tar, touch, mkdir, rmdir and mv.
//
// An existing file is replaced as a whole, and so is a link in place of a file. That is
// not so below a directory in dir on which something is mounted, such as one of
// [DockerPolicy.Tmpfs]. A directory is merged with an existing one, which gets the
// permissions and the time of its entry in the archive. So a directory of mode 0555 can't
// be written to inside, nor removed with its content, before somebody changes its mode.
// For each level of directories that exist there is a process, all at once, and
// [DockerPolicy.PidsLimit] bounds them. The library first unpacks all of the archive to
// another place inside, and then moves it into place while nothing else runs. What is
// being moved as ctx ends, or at the deadline, gets half of [Limits.TerminationTimeout]
// to come to its end.
//
// If anything is wrong with the archive, it is refused, and nothing changes. If an
// existing directory can't be written to, what was moved into place before stays. A Read
// of archive that does not return by the deadline is left behind.
//
// An error is a [*fs.PathError]. It wraps [ErrArchive], [ErrUnsafeName], [ErrUnsafeType],
// [ErrDuplicateName], [ErrTooLarge], [ErrNotRegular] if a file would take the place of a
// directory, the archive's own error, or one of those of [Session.WriteFile].
func (s *Session) CopyIn(ctx context.Context, dir string, archive io.Reader) error {
	return s.transfer(ctx, "copy to", dir, func(t *transfer.Transfer) error { return t.CopyIn(dir, archive) })
}

// CopyFS is [Session.CopyIn] for the files of a file system. For a directory of the host,
// use the FS of an [os.Root], so that no link leads out of it. The owner of a directory
// may always read, write and enter it inside, whatever its mode is in fsys: the
// directories of an [embed.FS], and many of a [testing/fstest.MapFS], have the mode 0555,
// in which nothing could be made. Files keep their modes. Those of an embed.FS have 0444.
func (s *Session) CopyFS(ctx context.Context, dir string, fsys fs.FS) error {
	return s.transfer(ctx, "copy to", dir, func(t *transfer.Transfer) error { return t.CopyFS(dir, fsys) })
}

// CopyOut writes a directory inside, with all that is below it, or one regular file, to w
// as a tar archive in GNU's format. Names in the archive are relative to the directory,
// or are the name of the file. The archive has no owners. [Session.CopyIn] takes it. The
// image needs tar, which has the rights of the session's user: if tar can't read
// something, the copy fails. A relative name is relative to the directory in which the
// session began.
//
// CopyOut does not trust the image's tar: it checks each entry and writes it anew. A
// Write of w that does not return by the deadline is left behind.
//
// An error is a [*fs.PathError]. It wraps [ErrUnsafeName], [ErrUnsafeType],
// [ErrDuplicateName], [ErrTooLarge], [ErrArchive], the writer's own error, or one of
// those of [Session.ReadFile]. After an error the archive in w is not whole: its end is
// missing.
func (s *Session) CopyOut(ctx context.Context, name string, w io.Writer) error {
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error { return t.CopyOut(name, w) })
}

// CopyOutTo copies a directory inside, with all that is below it, or one regular file,
// into a directory of the host, with permissions and times. On the host the owner of a
// directory may always read, write and enter it, so that the caller can remove what was
// copied. A relative name is relative to the directory in which the session began.
//
// An existing file is replaced as a whole, and so is a link in place of a file. A
// directory is merged with an existing one, which keeps its own permissions. Nothing
// outside of root is touched, and no link is followed out of it, whatever the code inside
// did to the tree, or to root if it can change that.
//
// CopyOutTo first copies everything into a new directory in root, whose name begins with
// ".cofferdam-", and removes that at the end. If anything is wrong with the tree, it is
// refused, and nothing changes. Errors are those of [Session.CopyOut] and of the host's
// file system, and [ErrUnsafeType] if a directory would take the place of a file or a
// link, or a file that of a directory.
func (s *Session) CopyOutTo(ctx context.Context, name string, root *os.Root) error {
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error {
		tree := stage.NewTree(root)
		err := t.CopyOutTo(ctx, name, tree)
		return errors.Join(err, tree.Clean())
	})
}

// A TreeEntry is something in a tree inside: a file, a directory, a link or a special
// file.
type TreeEntry struct {
	// Name is relative to the tree, with slashes. From [Session.ReadDir] it is a single
	// element. [fs.ValidPath] accepts it, unless it is not UTF-8. From [Session.Stat] it
	// is [path.Base] of what was asked for, which may be "/" or "..".
	Name string
	// Mode is the type and the permissions. In [Session.Walk] a hard link, which is a
	// further name of a file, has [fs.ModeIrregular].
	Mode fs.FileMode
	// Size is the size of a regular file in bytes. It is 0 for everything else.
	Size int64
	// ModTime is the modification time that the file system inside has. Code inside can
	// set it.
	ModTime time.Time
}

// Walk calls visit for each entry below a directory inside, or for one regular file, one
// after another and in no particular order. Nothing else runs inside meanwhile. Links are
// not followed, and sockets are left out. The content of a regular file can be read until
// visit returns. An error that visit returns ends the walk, and is wrapped by that of
// Walk. When ctx ends or the time is over, reading the content fails, and Walk waits for
// visit to return. The image needs tar, which has the rights of the session's user: if
// tar can't read something, the walk fails. A relative name is relative to the directory
// in which the session began.
//
// The image's tar can leave out, make up and change entries. But no name leads out of the
// tree, no name comes twice, and no more entries come than [Limits.MaxTreeEntries]. visit
// can read at most [Limits.MaxTreeBytes] of all files together. Errors are those of
// [Session.CopyOut].
func (s *Session) Walk(ctx context.Context, name string, visit func(e TreeEntry, content io.Reader) error) error {
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error {
		return t.Walk(name, func(e transfer.Entry, content io.Reader) error { return visit(TreeEntry(e), content) })
	})
}
