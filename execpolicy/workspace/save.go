package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/stage"
)

// Save copies what was added and changed to the host's directory, with its permissions
// and each file as a whole. It returns what it saved, and what was deleted inside, which
// it leaves on the host. What is saved counts as copied in from then on. If what was
// deleted inside is then deleted on the host too, it no longer counts as copied in: if it
// is made again inside, it is Added.
//
// Save leaves out what it can't save, and saves the rest. Its error names up to a hundred
// of the names that it left out, and counts the others. The error wraps one or more of
// these, or errors of the host's file system:
//
//   - [execpolicy.ErrUnsafeType], for a link or a special file.
//   - [execpolicy.ErrUnsafeName], for a name that the host can't have.
//   - [ErrConflict], if the host has something else in that place than what was copied
//     in: somebody has changed, deleted or made the file meanwhile. It is also a conflict
//     if a file became a directory inside, or a directory a file, because Save deletes
//     nothing. Nothing is saved below such a directory.
//
// If the tree can't be read as a whole, nothing is saved, and the error is one of
// [execpolicy.Session.Walk]. If the workspace is mounted, or with
// [execpolicy.DockerPolicy.WorkspaceReadOnly], the error wraps [execpolicy.ErrInvalid].
//
// Until the files are whole, they lie in a directory of the workspace whose name begins
// with ".cofferdam-". It stays if this program is killed meanwhile. It is never copied
// in.
func (s *Session) Save(ctx context.Context) ([]Change, error) {
	c, err := s.copyOf()
	if err != nil {
		return nil, err
	}
	return c.save(ctx, s.Session)
}

func (c *copied) save(ctx context.Context, s *execpolicy.Session) (saved []Change, err error) {
	if c.readOnly {
		return nil, fmt.Errorf("%w: the policy says that the workspace is read-only", execpolicy.ErrInvalid)
	}
	if err := c.turn.TakeOf(ctx, "workspace"); err != nil {
		return nil, err
	}
	defer c.release()
	g := &staging{Stage: stage.New(c.root), own: c.own, staged: map[string]string{}, now: map[string]state{}}
	defer func() {
		if e := g.Clean(); e != nil {
			err = errors.Join(err, fmt.Errorf("saving the workspace: %w", conflict(e)))
		}
	}()
	changes, err := c.changes(ctx, s, g.sum)
	if err != nil {
		return nil, fmt.Errorf("saving the workspace: %w", err)
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("saving the workspace: %w", conflict(err))
	}
	p := placing{copied: c, staging: g, dirs: map[string]bool{}}
	for _, change := range changes {
		if err := context.Cause(ctx); err != nil {
			p.errs = append(p.errs, fmt.Errorf("%q and what comes after it: %w", change.Name, err))
			break
		}
		if change.Kind == Deleted || change.Kind == Changed && change.Mode.Type() != c.base[change.Name].mode.Type() {
			// The caller may delete it on the host, and then it is to be forgotten.
			c.deleted[change.Name] = true
		}
		if change.Kind == Deleted {
			saved = append(saved, change)
			continue
		}
		if err := p.place(change); err != nil {
			p.fail(change, err)
		} else {
			saved = append(saved, change)
		}
	}
	p.stamp()
	if p.more > 0 {
		p.errs = append(p.errs, fmt.Errorf("and %d more", p.more))
	}
	if len(p.errs) > 0 {
		err = problems.Redact(fmt.Errorf("not saved: %w", errors.Join(p.errs...)), s.Redact)
	}
	return saved, err
}

// maxNamed is how many of the changes that are not saved are named in an error: code
// inside may make as many as it likes.
const maxNamed = 100

// A placing is a save under way, when all is staged.
type placing struct {
	*copied
	*staging
	dirs map[string]bool // those that are known to be there
	made []madeDir       // they get their permissions when all is in them
	errs []error
	more int
}

// A madeDir is a directory that was made or changed.
type madeDir struct {
	Change
	info fs.FileInfo // the host's
}

// place gives a change its place on the host. Those of the directories that it is in have
// come before.
func (p *placing) place(change Change) error {
	if change.Mode.Type()&^fs.ModeDir != 0 {
		return fmt.Errorf("%w: it is %v", execpolicy.ErrUnsafeType, change.Mode.Type())
	}
	name, err := filepath.Localize(change.Name)
	if err != nil {
		// It is not UTF-8, or means something else on this system.
		return execpolicy.ErrUnsafeName
	}
	for _, dir := range parents(change.Name) {
		if err := p.within(dir); err != nil {
			return err
		}
	}
	mode, there, err := lstat(p.root, name)
	if err != nil {
		return err
	}
	old := p.base[change.Name]
	if err := change.clash(old.mode, mode, there); err != nil {
		return err
	}
	if change.Mode.IsDir() {
		return p.placeDir(change, name, there)
	}
	if there {
		same, err := p.same(name, mode, old)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("%w: somebody has changed it", ErrConflict)
		}
	}
	if err := p.Rename(p.staged[change.Name], name); err != nil {
		return err
	}
	p.base[change.Name] = p.now[change.Name]
	return nil
}

// clash returns why a change can't have its place on the host, as far as modes tell, or
// nil. old is the mode of what was copied in, and now that of what is there.
func (c Change) clash(old, now fs.FileMode, there bool) error {
	switch {
	case there && c.Mode.IsDir() && !now.IsDir():
		return fmt.Errorf("%w: it is a directory inside, and none on the host", ErrConflict)
	case there && !c.Mode.IsDir() && now.IsDir():
		return fmt.Errorf("%w: it is a file inside, and a directory on the host", ErrConflict)
	case there && c.Kind == Changed && c.Mode.IsDir() && !old.IsDir():
		return fmt.Errorf("%w: somebody has made a directory of it", ErrConflict)
	case there && c.Kind == Added:
		return fmt.Errorf("%w: somebody has made it", ErrConflict)
	case !there && c.Kind == Changed:
		return fmt.Errorf("%w: it is gone", ErrConflict)
	}
	return nil
}

// placeDir makes a directory, if it is not there. What is in it comes later.
func (p *placing) placeDir(change Change, name string, there bool) error {
	if !there {
		if err := p.mkdir(name); err != nil {
			return err
		}
	}
	if !there || change.Kind == Changed {
		info, err := p.root.Lstat(name)
		if err != nil {
			return err
		}
		if there {
			// Without root's rights nothing could be put into it otherwise.
			err := conflict(stage.WithDir(p.root, name, info, func(dir *os.Root) error { return dir.Chmod(".", change.Mode.Perm()|0o700|stage.Special(info)) }))
			if err != nil {
				return err
			}
		}
		p.made = append(p.made, madeDir{change, info})
	}
	p.dirs[change.Name] = true
	p.base[change.Name] = state{mode: change.Mode}
	return nil
}

// within checks that a directory is there, that it is no link, and that it is one that
// was copied in or saved: some systems know one that is not, such as one that is
// excluded, by another name too.
func (p *placing) within(dir string) error {
	if p.dirs[dir] {
		return nil
	}
	name, err := filepath.Localize(dir)
	if err != nil {
		return execpolicy.ErrUnsafeName
	}
	mode, there, err := lstat(p.root, name)
	switch {
	case err != nil:
		return err
	case !there || !p.base[dir].mode.IsDir():
		return fmt.Errorf("%w: there is no directory %q", ErrConflict, dir)
	case !mode.IsDir():
		return fmt.Errorf("%w: %q is not a directory", ErrConflict, dir)
	}
	p.dirs[dir] = true
	return nil
}

// same reports whether the host's file has the content that was copied in.
func (p *placing) same(name string, mode fs.FileMode, old state) (bool, error) {
	if !mode.IsRegular() || !old.mode.IsRegular() {
		return false, nil
	}
	f, mode, err := open(p.root, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !mode.IsRegular() {
		return false, nil
	}
	before, err := f.Stat()
	if err != nil {
		return false, err
	}
	h := sha256.New()
	// One byte more shows that it has grown.
	n, err := io.Copy(h, io.LimitReader(f, old.size+1))
	if err != nil || n != old.size || [sha256.Size]byte(h.Sum(nil)) != old.sum {
		return false, err
	}
	// Somebody may have changed or replaced it while it was read.
	after, err := p.root.Lstat(name)
	if err != nil {
		return false, err
	}
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()), nil
}

// mkdir makes a directory, for now only for this program.
func (p *placing) mkdir(name string) error {
	if err := p.root.Mkdir(name, 0o700); err != nil || p.copied.own == nil {
		return err
	}
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	return conflict(stage.WithDir(p.root, name, info, func(dir *os.Root) error {
		f, err := dir.Open(".")
		if err != nil {
			return err
		}
		defer f.Close()
		return p.copied.own(f)
	}))
}

// conflict makes a conflict of what somebody has replaced.
func conflict(err error) error {
	if errors.Is(err, stage.ErrReplaced) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

// stamp gives the directories their permissions, those within others first.
func (p *placing) stamp() {
	for i := len(p.made) - 1; i >= 0; i-- {
		made := p.made[i]
		name, err := filepath.Localize(made.Name)
		if err == nil {
			err = conflict(stage.WithDir(p.root, name, made.info, func(dir *os.Root) error { return dir.Chmod(".", made.Mode.Perm()|stage.Special(made.info)) }))
		}
		if err != nil {
			p.fail(made.Change, err)
		}
	}
}

// fail notes that a change is not saved, or not wholly.
func (p *placing) fail(change Change, err error) {
	if len(p.errs) < maxNamed {
		p.errs = append(p.errs, fmt.Errorf("%q: %w", change.Name, err))
	} else {
		p.more++
	}
}
