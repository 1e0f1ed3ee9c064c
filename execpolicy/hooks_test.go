package execpolicy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

var errHook = errors.New("the hook has failed")

func put(name, text string) func(context.Context, *execpolicy.Session) error {
	return func(ctx context.Context, s *execpolicy.Session) error {
		return s.WriteFile(ctx, name, []byte(text), 0o644)
	}
}

var hookCases = []placeCase{
	{"Prepare comes before the startup scripts, at each start", func(t *testing.T, p place) {
		spec := p.spec()
		var borrowed []*execpolicy.Session
		spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
			borrowed = append(borrowed, s)
			// A shell that is lost meanwhile is replaced, and what is to run in it comes
			// later all the same.
			r, err := s.Run(ctx, execpolicy.Command{Script: "ls; exit 3"})
			if err != nil || len(r.Stdout) > 0 || r.ExitCode != 3 {
				return errors.Join(err, errHook)
			}
			return put("made", "prepared")(ctx, s)
		}
		spec.Startup = []string{"x=$(cat made); echo -n ' and started' >>made"}
		s := open(t, p.policy(), spec)
		assert.Equal(t, s.ok("echo $x; cat made"), "prepared\nprepared and started")
		// The files stay if only the shell is lost.
		assert.Assert(t, s.script("exit 3").StateLost)
		assert.Equal(t, s.ok("cat made"), "prepared and started and started")
		assert.Equal(t, len(borrowed), 1)
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, s.ok("echo $x; cat made"), "prepared\nprepared and started")
		assert.Equal(t, len(borrowed), 2)
		for _, l := range borrowed {
			_, err := l.Run(t.Context(), execpolicy.Command{Script: ":"})
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
		}
	}},
	{"a Prepare that fails leaves nothing", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Prepare = func(context.Context, *execpolicy.Session) error { return errHook }
		spec.Finish = func(context.Context, *execpolicy.Session) error {
			t.Error("there is no session to finish")
			return nil
		}
		_, err := execpolicy.Start(t.Context(), p.policy(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, errHook)
	}},
	{"an error of Prepare's own is not taken for the start's", func(t *testing.T, p place) {
		for _, nested := range []error{dockercli.ErrImageMissing, fifo.ErrNotMet, fifo.ErrNotSeen} {
			spec, prepared := p.spec(), 0
			spec.Prepare = func(context.Context, *execpolicy.Session) error {
				prepared++
				return nested
			}
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, nested)
			assert.Equal(t, prepared, 1)
		}
	}},
	{"a hook that panics leaves nothing", func(t *testing.T, p place) {
		recovered := func(f func()) {
			defer func() { assert.Equal(t, recover(), errHook) }()
			f()
		}
		spec := p.spec()
		var borrowed *execpolicy.Session
		spec.Prepare = func(_ context.Context, s *execpolicy.Session) error { borrowed = s; panic(errHook) }
		recovered(func() { execpolicy.Start(t.Context(), p.policy(), spec) })
		<-borrowed.Done()
		spec.Prepare, spec.Finish = nil, spec.Prepare
		s := open(t, p.policy(), spec)
		recovered(func() { s.Close() })
		<-s.Done()
	}},
	{"a Prepare has the time of a startup script", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
			_, err := s.Run(ctx, execpolicy.Command{Script: "trap '' TERM; sleep 4791"})
			return err
		}
		policy := p.policy()
		policy.StartupTimeout, policy.CommandTimeout = 2*time.Second, time.Minute
		_, err := execpolicy.Start(t.Context(), policy, spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		// So it has with a context and a lifetime that end.
		policy.StartupTimeout = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
			cancel(errHook)
			_, err := s.Run(ctx, execpolicy.Command{Script: "sleep 4792"})
			return err
		}
		_, err = execpolicy.Start(ctx, policy, spec)
		assert.ErrorIs(t, err, errHook)
		policy.Lifetime = time.Second
		_, err = execpolicy.Start(t.Context(), policy, spec)
		assert.ErrorIs(t, err, execpolicy.ErrExpired)
	}},
	{"a session that is borrowed is not the borrower's to end", func(t *testing.T, p place) {
		spec := p.spec()
		end := func(ctx context.Context, s *execpolicy.Session) error {
			assert.Check(t, errors.Is(s.Restart(ctx), execpolicy.ErrInvalid))
			assert.Check(t, errors.Is(s.Close(), execpolicy.ErrInvalid))
			return nil
		}
		spec.Prepare, spec.Finish = end, end
		s := open(t, p.policy(), spec)
		assert.Equal(t, s.ok("echo on"), "on")
		assert.NilError(t, s.Close())
	}},
	{"what Prepare leaves running ends, and the session does not", func(t *testing.T, p place) {
		spec := p.spec()
		ended := make(chan error, 1)
		spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
			begun := make(signal, 1)
			go func() {
				_, err := s.Run(ctx, execpolicy.Command{Script: "echo begun; sleep 4865", Stdout: begun})
				ended <- err
			}()
			<-begun
			return nil
		}
		s := open(t, p.policy(), spec)
		assert.ErrorIs(t, <-ended, execpolicy.ErrClosed)
		assert.Equal(t, s.ok("echo on"), "on")
		assert.NilError(t, s.Close())
	}},
	{"Finish comes behind the shutdown scripts, and ends what runs in order", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		calls := 0
		spec.Finish = func(ctx context.Context, s *execpolicy.Session) error {
			calls++
			text, err := s.ReadFile(ctx, "shut", 0)
			return errors.Join(err, put("finished", string(text))(ctx, s), errHook)
		}
		spec.Shutdown = []string{"echo down >shut"}
		s := open(t, p.policy(), spec)
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4793"})
		assert.ErrorIs(t, s.Close(), errHook)
		assert.ErrorIs(t, s.Close(), errHook)
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrClosed)
		assert.Equal(t, calls, 1)
		text, err := os.ReadFile(filepath.Join(spec.Workspace, "finished"))
		assert.NilError(t, err)
		assert.Equal(t, string(text), "down\n")
	}},
	{"Finish alone makes the end of a command an orderly one", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Finish = put("last", "")
		s := open(t, p.policy(), spec)
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4794"})
		assert.NilError(t, s.Close())
		<-c.done
	}},
	{"a Finish that panics is no good end", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Finish = func(context.Context, *execpolicy.Session) error { panic(errHook) }
		s := open(t, p.policy(), spec)
		func() {
			defer func() { assert.Check(t, recover() == errHook) }()
			s.Close()
		}()
		<-s.Done()
		assert.NilError(t, s.Close()) // it is gone
	}},
	{"Finish of a session that has ended", func(t *testing.T, p place) {
		spec := p.spec()
		spec.Finish = put("late", "")
		unhurried(t, time.Second, func(lifetime time.Duration) error {
			s, err := p.living(t, lifetime, spec)
			if err != nil {
				return err
			}
			<-s.Done()
			err = s.Close()
			assert.ErrorIs(t, err, execpolicy.ErrEnded)
			assert.ErrorIs(t, err, execpolicy.ErrExpired)
			return nil
		})
	}},
}

func TestHooks(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, c := range hookCases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.do(t, p)
			})
		}
	})
}

func TestNoMountOnAnotherMachine(t *testing.T) {
	remote := &dockercli.Engine{Path: "true", Remote: true}
	for _, policy := range []execpolicy.DockerPolicy{{}, execpolicy.Compat()} {
		policy.Engine = remote
		_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{Workspace: t.TempDir()})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorIs(t, err, execpolicy.ErrNoMount)
		_, err = policy.Argv(remote, execpolicy.Spec{}, "cofferdam-x")
		assert.NilError(t, err)
	}
}
