package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
)

// A Kind says how a name has changed.
type Kind int

const (
	// Added says that the name exists, and did not when the workspace was copied in.
	Added Kind = iota + 1
	// Changed says that the type, the permissions or the content is different.
	Changed
	// Deleted says that the name does not exist any more.
	Deleted
)

var kinds = [...]string{"unknown", "added", "changed", "deleted"}

// String returns "added", "changed" or "deleted".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		k = 0
	}
	return kinds[k]
}

// A Change is a file, a directory, a link or a special file that has changed since it was
// copied in, or last saved.
type Change struct {
	// Name is relative to the workspace, with slashes. It need not be UTF-8.
	Name string
	Kind Kind
	// Mode is the type and the permissions inside. If Kind is Deleted, it is the mode
	// before that. A hard link, which is a further name of a file inside, has
	// [fs.ModeIrregular]. Any of a file's names may be the further one.
	Mode fs.FileMode
	// Size is the size of a regular file inside, in bytes. It is 0 for everything else.
	Size int64
}

// Changes lists what inside differs from what was copied in or, after a Save, from what
// was last saved, sorted by name. It compares the permissions of files and their
// contents, all of which it reads. It ignores their times. It lists links and special
// files without following them, and leaves out sockets.
//
// Changes takes its turn as a command does. Its time and its errors are those of
// [execpolicy.Session.Walk]. If the workspace is mounted, the error wraps
// [execpolicy.ErrInvalid].
func (s *Session) Changes(ctx context.Context) ([]Change, error) {
	c, err := s.copyOf()
	if err != nil {
		return nil, err
	}
	if err := c.turn.TakeOf(ctx, "workspace"); err != nil {
		return nil, err
	}
	defer c.release()
	return c.changes(ctx, s.Session, func(_ Change, _ state, content io.Reader) ([sha256.Size]byte, error) {
		h := sha256.New()
		_, err := io.Copy(h, content)
		return [sha256.Size]byte(h.Sum(nil)), err
	})
}

// changes lists the changes. It has sum read each regular file, whose state was old if it
// is not Added.
func (c *copied) changes(ctx context.Context, s *execpolicy.Session, sum func(now Change, old state, content io.Reader) ([sha256.Size]byte, error)) ([]Change, error) {
	c.forget()
	var all []Change
	seen := map[string]bool{}
	err := s.Walk(ctx, ".", func(e execpolicy.TreeEntry, content io.Reader) error {
		if c.exclude.matchTree(e.Name) {
			return nil
		}
		seen[e.Name] = true
		change := Change{Name: e.Name, Kind: Added, Mode: e.Mode, Size: e.Size}
		old, there := c.base[e.Name]
		if there {
			change.Kind = Changed
		}
		if old.mode.Type() == e.Mode.Type() {
			delete(c.deleted, e.Name)
		}
		now := state{mode: e.Mode, size: e.Size}
		if e.Mode.IsRegular() {
			var err error
			if now.sum, err = sum(change, old, content); err != nil {
				return err
			}
		}
		if !there || now != old {
			all = append(all, change)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, old := range c.base {
		if !seen[name] {
			all = append(all, Change{Name: name, Kind: Deleted, Mode: old.mode})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// forget forgets what was copied in, deleted inside and, when Save had told so, on the
// host too. If it is made again inside, it is new.
func (c *copied) forget() {
	for name := range c.deleted {
		local, err := filepath.Localize(name)
		if err != nil {
			continue
		}
		if _, there, err := lstat(c.root, local); err == nil && !there {
			delete(c.base, name)
			delete(c.deleted, name)
		}
	}
}

// maxHeld is the size up to which a file is held in memory until it is known whether it
// has changed.
const maxHeld = 1 << 20

// A staging puts those regular files that have changed into a stage.
type staging struct {
	*stage.Stage
	// own gives a file to its owner. It is nil if that is who makes it.
	own    func(f *os.File) error
	held   []byte
	staged map[string]string // the names in the stage
	now    map[string]state
}

func (g *staging) sum(change Change, old state, content io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	now := state{mode: change.Mode, size: change.Size}
	content = io.TeeReader(content, h)
	changed := func() bool {
		h.Sum(now.sum[:0])
		return change.Kind == Added || now != old
	}
	put := func(r io.Reader) error {
		name := strconv.Itoa(len(g.staged))
		g.staged[change.Name] = name
		return g.Put(name, r, change.Mode.Perm(), g.own)
	}
	if change.Size <= maxHeld {
		if g.held == nil {
			g.held = make([]byte, maxHeld)
		}
		data := g.held[:change.Size]
		if _, err = io.ReadFull(content, data); err == nil && changed() {
			err = put(bytes.NewReader(data))
		}
	} else if err = put(content); err == nil && !changed() {
		err = g.Drop(g.staged[change.Name])
	}
	g.now[change.Name] = now
	return now.sum, err
}
