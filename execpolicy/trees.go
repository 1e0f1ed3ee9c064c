package execpolicy

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/tarball"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

// What is wrong with a tree that is refused, whichever way it goes. ErrTooLarge is
// another: the limits are [Limits.MaxTreeEntries] and [Limits.MaxTreeBytes]. There is
// none for a ratio, for what is compressed or has holes is refused: a tree is as large as
// what came.
var (
	// ErrArchive says that the data are no tar archive, or end before the archive does.
	ErrArchive = tarball.ErrFormat
	// ErrUnsafeName says that a name is absolute, has "..", is not UTF-8 or means
	// something else on this system.
	ErrUnsafeName = tarball.ErrName
	// ErrUnsafeType says that an entry is neither a regular file nor a directory: a link,
	// symbolic or hard, a device, a FIFO, a socket, a file with holes; or that something
	// of that kind is in the way of one.
	ErrUnsafeType = tarball.ErrType
	// ErrDuplicateName says that two entries have one name, or that one is in the other,
	// which is a file.
	ErrDuplicateName = tarball.ErrDuplicate
)

// CopyIn makes the directories and the files of a tar archive inside, below dir, with
// their permissions and their times, to the second, and as the session's user. The
// directory is made if its parent is there; it keeps its own permissions. Files that are
// there are replaced, each as a whole, and so are links in place of files; a directory is
// merged with one that is there. All of it is prepared beside and then put in place at
// once, while nothing else runs. A directory that is in the archive gets the permissions
// and the time that it has there also if there was one: one of mode 0555 can't be written
// to inside, nor removed with what is in it, before its mode is changed. A relative dir
// is taken from where the session began, wherever its shell is now. The image needs tar
// and touch.
//
// An archive that is not wholly in order is refused, and nothing changes. Where a
// directory that is there can't be written to, what was put in place before stays. An
// error is a [*fs.PathError]. It wraps [ErrArchive], [ErrUnsafeName], [ErrUnsafeType],
// [ErrDuplicateName], [ErrTooLarge], [ErrNotRegular] if a directory is in the way of a
// file, the archive's own error, or one of those of [Session.WriteFile]. A Read that does
// not return by the deadline is left behind.
func (s *Session) CopyIn(ctx context.Context, dir string, archive io.Reader) error {
	return s.transfer(ctx, "copy to", dir, func(t *transfer.Transfer) error { return t.CopyIn(dir, archive) })
}

// CopyFS is [Session.CopyIn] for the files of a file system. A directory of the host is
// best given as that of an [os.Root], so that no link leads out of it. The owner of a
// directory may always read, write and enter it inside, whatever its mode is in fsys:
// those of an [embed.FS], and many of a [testing/fstest.MapFS], have the mode 0555, and
// would let nothing be made in them. Files keep their modes, which are 0444 in an
// embed.FS.
func (s *Session) CopyFS(ctx context.Context, dir string, fsys fs.FS) error {
	return s.transfer(ctx, "copy to", dir, func(t *transfer.Transfer) error { return t.CopyFS(dir, fsys) })
}

// CopyOut writes a directory inside, with all that is below it, or one regular file, to w
// as a tar archive in GNU's format. Names in it are relative to the directory, or are
// that of the file; [Session.CopyIn] takes it. Owners are left out. The image needs tar,
// which reads with the rights of the session's user; what it can't read fails the copy. A
// relative name is taken from where the session began, wherever its shell is now.
//
// What the image's tar says is not believed: each entry is checked and written anew. An
// error is a [*fs.PathError]. It wraps [ErrUnsafeName], [ErrUnsafeType],
// [ErrDuplicateName], [ErrTooLarge], [ErrArchive], the writer's own error, or one of
// those of [Session.ReadFile]; then what w has is no archive: its end is missing. A Write
// that does not return by the deadline is left behind.
func (s *Session) CopyOut(ctx context.Context, name string, w io.Writer) error {
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error { return t.CopyOut(name, w) })
}

// CopyOutTo copies a directory inside, with all that is below it, or one regular file,
// into a directory of the host, with permissions and times. A directory's owner may
// always read, write and enter it on the host, so that the caller can remove what was
// copied. A relative name is taken from where the session began, wherever its shell is
// now.
//
// Files that are there are replaced, each as a whole, and so are links in place of files;
// a directory is merged with one that is there, and that keeps its own permissions.
// Whatever the container's program made of its tree, or of the host's directory if it can
// change that: nothing outside of root is touched, and a link is never followed out of
// it.
//
// All of it is first put into a directory of its own in root, whose name begins with
// ".cofferdam-" and that is removed at the end. A tree that is not wholly in order is
// refused, and nothing changes. Errors are those of [Session.CopyOut], and
// [ErrUnsafeType] if a link, or a file, is in the way of a directory, or a directory in
// that of a file.
func (s *Session) CopyOutTo(ctx context.Context, name string, root *os.Root) error {
	x := transfer.NewExtraction(root)
	defer x.Clean()
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error { return t.CopyOutTo(ctx, name, x) })
}

// A TreeEntry is something in a tree inside: a file, a directory, a link or a special
// file.
type TreeEntry struct {
	// Name is relative to the tree, with slashes; of [Session.ReadDir] and [Session.Stat]
	// it is one element. [fs.ValidPath] accepts it, unless it is not UTF-8.
	Name string
	// Mode is the type and the permissions. To [Session.Walk] a further name of a file, a
	// hard link, is [fs.ModeIrregular].
	Mode fs.FileMode
	// Size is that of the content in bytes; 0 of what is no regular file.
	Size int64
	// ModTime is when it was changed, as the one who changed it has it.
	ModTime time.Time
}

// Walk calls visit for all that is below a directory inside, or for one regular file, one
// after another and in no order, while nothing else runs inside. Links are not followed,
// and sockets left out. The content of a regular file is read only as far as visit reads
// it, and can't be read after visit has returned. An error that visit returns ends the
// walk, and is returned. When ctx or the time is over, reading the content fails; Walk
// waits for visit to return. The image needs tar, which reads with the rights of the
// session's user; what it can't read fails the walk. A relative name is taken from where
// the session began, wherever its shell is now.
//
// What the image's tar says is not believed, but it can leave out, make up and change
// what it likes: no name leads out of the tree, none comes twice, and no more come than
// [Limits.MaxTreeEntries]. [Limits.MaxTreeBytes] is how much visit may read of all files
// together. Errors are those of [Session.CopyOut].
func (s *Session) Walk(ctx context.Context, name string, visit func(e TreeEntry, content io.Reader) error) error {
	return s.transfer(ctx, "copy from", name, func(t *transfer.Transfer) error {
		return t.Walk(name, func(e transfer.Entry, content io.Reader) error { return visit(TreeEntry(e), content) })
	})
}
