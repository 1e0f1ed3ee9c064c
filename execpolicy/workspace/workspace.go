package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// ErrConflict is wrapped by the error of a file that was not saved because the host's
// directory has something else there than what was copied in.
var ErrConflict = errors.New("conflict with the host's directory")

// A Mode says how a session gets its workspace.
type Mode int

const (
	// Auto mounts the directory. It copies the directory if the engine is or may be on
	// another machine, if the user inside can't use the directory, for example because it
	// is root's (see [execpolicy.DockerPolicy.User]), or if Options ask for something
	// that only a copy has. What the policy refuses to show is neither mounted nor
	// copied.
	Auto Mode = iota
	// Mounted mounts the directory. Where the directory can only be copied, the start
	// fails with an error that wraps [execpolicy.ErrNoMount].
	Mounted
	// Copied copies the directory in at the start, and the changes out when the session
	// is saved or closed.
	Copied
)

// Options are the options of [Start]. With the zero value, the workspace is mounted if it
// can be, and copied in and out as a whole if it can't.
type Options struct {
	// Mode says whether the directory is mounted or copied. Mounted does not go with
	// Exclude or Discard: the error wraps [execpolicy.ErrInvalid].
	Mode Mode
	// Exclude holds patterns for files, and for directories with all that is in them,
	// that are not copied in, and that are neither listed nor saved if they are made
	// inside. The patterns are like those of [CollectOptions], but ignore the case of
	// letters, because some file systems do. A workspace with links in it can be copied
	// only if the links are excluded. If empty, nothing is excluded.
	Exclude []string
	// Discard makes Close save nothing. [Session.Save] still does.
	Discard bool
	// Take, if not nil, takes a session that was started ahead with the policy, as the
	// method of a warm.Pool does, in place of [execpolicy.Start]. Then nothing can be
	// mounted, and the errors are those of Take.
	Take func(context.Context, execpolicy.Spec) (*execpolicy.Session, error)
}

// A Session is an [execpolicy.Session] with a workspace that may be a copy. Its methods
// may be called at the same time.
//
// Close saves the changes to a copy as [Session.Save] does, within
// [execpolicy.Limits.CommandTimeout], unless Options.Discard is set. If some or all of
// them can't be saved, the error says so, and the session is closed all the same. If the
// container has ended by itself, unsaved changes are lost, which is an error too.
type Session struct {
	*execpolicy.Session
	copy *copied // nil if it is mounted
}

// A copied workspace is one that has a copy inside.
type copied struct {
	root     *os.Root
	exclude  patterns
	readOnly bool
	// own gives a file to the owner of the workspace, unless it is nil.
	own     func(*os.File) error
	turn    turn.Turn // of whoever uses base
	base    map[string]state
	deleted map[string]bool // what of base Save has told to be deleted
}

// Start opens a session with spec.Workspace in it. If that is copied, spec.Prepare is
// called after the copy in, and spec.Finish before the copy out.
//
// A copy belongs to the session's user. What is saved belongs to the owner of the
// workspace, if this program may make that user the owner. With
// [execpolicy.DockerPolicy.WorkspaceReadOnly] a copy can be changed inside, and is never
// saved.
//
// Errors are those of [execpolicy.Start]. One that wraps [execpolicy.ErrUnsafeType] names
// a link, or something else that can't be copied, in the workspace. Start does not copy a
// directory that [execpolicy.DockerPolicy.CheckWorkspace] refuses, and copies nothing if
// p is not an [execpolicy.WorkspacePolicy].
func Start(ctx context.Context, p execpolicy.Policy, spec execpolicy.Spec, o Options) (*Session, error) {
	exclude, err := o.validate(ctx, p, spec)
	if err != nil {
		return nil, err
	}
	start := o.Take
	if start == nil {
		start = func(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Session, error) {
			return execpolicy.Start(ctx, p, spec)
		}
	}
	if o.Mode == Mounted || o.Mode == Auto && !o.onlyCopied() {
		s, err := start(ctx, spec)
		if err == nil {
			return &Session{Session: s}, nil
		}
		if o.Mode == Mounted || !errors.Is(err, execpolicy.ErrNoMount) {
			return nil, err
		}
	}
	c, err := newCopy(p, spec.Workspace)
	if err != nil {
		return nil, err
	}
	c.exclude = exclude
	s, err := start(ctx, c.spec(spec, o.Discard))
	if err != nil {
		c.root.Close()
		return nil, err
	}
	return &Session{Session: s, copy: c}, nil
}

// onlyCopied reports whether the options mean something for a copy alone.
func (o Options) onlyCopied() bool { return o.Discard || len(o.Exclude) > 0 }

// validate returns the patterns, or all that is wrong with the options and the spec.
func (o Options) validate(ctx context.Context, p execpolicy.Policy, spec execpolicy.Spec) (patterns, error) {
	exclude, errs := parse(o.Exclude, true)
	refuse := func(text string) { errs = append(errs, errors.New(text)) }
	switch {
	case o.Mode < Auto || o.Mode > Copied:
		refuse(fmt.Sprintf("there is no mode %d", o.Mode))
	case o.Mode == Mounted && o.onlyCopied():
		refuse("Discard and Exclude need a copied workspace, and Mode is Mounted")
	}
	if spec.Workspace == "" {
		refuse("no workspace is named; execpolicy.Start opens a session without one")
	}
	if len(errs) == 0 {
		return exclude, nil
	}
	// With what is wrong with the rest; whether it can be mounted matters only where it
	// is to be.
	if o.Mode != Mounted {
		spec.Workspace = ""
	}
	if err := execpolicy.Check(ctx, p, spec); errors.Is(err, execpolicy.ErrInvalid) {
		errs = append(errs, err)
	}
	return patterns{}, problems.Join(errs...)
}

// newCopy opens a workspace that is to be copied, if the policy lets it be.
func newCopy(p execpolicy.Policy, dir string) (*copied, error) {
	asked, ok := p.(execpolicy.WorkspacePolicy)
	if !ok {
		return nil, fmt.Errorf("%w: %T does not implement execpolicy.WorkspacePolicy, so it has no say in whether its workspace may be copied", execpolicy.ErrInvalid, p)
	}
	if err := asked.CheckWorkspace(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: the workspace can't be used: %w", execpolicy.ErrInvalid, err)
	}
	c := &copied{root: root, readOnly: !asked.SavesWorkspace(), turn: turn.New(1)}
	if info, err := root.Stat("."); err == nil {
		owner, ok := account.OwnerOf(info)
		// Only root may give files to others, and has no need to give any to itself.
		if ok && os.Geteuid() == 0 && owner != (account.Account{}) {
			c.own = func(f *os.File) error { return f.Chown(owner.UID, owner.GID) }
		}
	}
	return c, nil
}

// spec returns a spec for a session that begins with the copy, and saves it in the end.
func (c *copied) spec(spec execpolicy.Spec, discard bool) execpolicy.Spec {
	spec.Workspace = ""
	prepare, finish := spec.Prepare, spec.Finish
	spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
		err := c.in(ctx, s)
		if err == nil && prepare != nil {
			err = prepare(ctx, s)
		}
		return err
	}
	spec.Finish = func(ctx context.Context, s *execpolicy.Session) error {
		defer c.close(ctx)
		var errs []error
		if finish != nil {
			errs = append(errs, finish(ctx, s))
		}
		if !discard && !c.readOnly {
			_, err := c.save(ctx, s)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return spec
}

// close closes the host's directory, as soon as nobody uses it any more. That may be
// after ctx.
func (c *copied) close(ctx context.Context) {
	if c.turn.Take(ctx) == nil {
		defer c.release()
		c.root.Close()
		return
	}
	go func() {
		c.turn.Take(context.Background())
		defer c.release()
		c.root.Close()
	}()
}

// Copied reports whether the session has a copy of the workspace, and not the directory
// itself.
func (s *Session) Copied() bool { return s.copy != nil }

// Restart is [execpolicy.Session.Restart]. A workspace that is copied is copied in anew,
// as it is on the host then: what was not saved is lost.
func (s *Session) Restart(ctx context.Context) error {
	if s.copy != nil {
		if err := s.copy.turn.TakeOf(ctx, "workspace"); err != nil {
			return err
		}
		defer s.copy.release()
	}
	return s.Session.Restart(ctx)
}

func (c *copied) release() { c.turn.Give() }

// copyOf returns the session's copy, or the error for one that has none.
func (s *Session) copyOf() (*copied, error) {
	if s.copy == nil {
		return nil, fmt.Errorf("%w: the session has no copy of a workspace; what is mounted is changed on the host at once", execpolicy.ErrInvalid)
	}
	return s.copy, nil
}
