package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

var errPolicy = errors.New("no deletions today")

// approving is a spec whose commands are asked about.
func (p place) approving(approve func(context.Context, execpolicy.Request) error) execpolicy.Spec {
	spec := p.spec()
	spec.Approve = approve
	return spec
}

func TestApprove(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var asked []string
		s := open(t, p.policy(), p.approving(func(_ context.Context, r execpolicy.Request) error {
			asked = append(asked, r.Code+strings.Join(r.Argv, " "))
			if strings.Contains(r.Code, "rm ") || slices.Contains(r.Argv, "rm") {
				return errPolicy
			}
			return nil
		}))
		s.ok("cd /tmp; kept=5; >file")
		for _, c := range []struct {
			execpolicy.Command
			quoted string
		}{
			{execpolicy.Command{Script: "kept=6; rm file"}, `script "kept=6; rm file"`},
			{execpolicy.Command{Argv: []string{"rm", "file"}}, `argv ["rm" "file"]`},
			{execpolicy.Command{Script: "rm file" + strings.Repeat(" ", 94), Timeout: -1, Dir: "/nowhere",
				Stdin: strings.NewReader("x")}, "script of 101 bytes"},
		} {
			r := s.run(c.Command)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
			assert.Equal(t, r.Outcome.String(), "refused")
			assert.ErrorIs(t, r.Cause, execpolicy.ErrRefused)
			assert.ErrorIs(t, r.Cause, errPolicy)
			assert.Equal(t, r.Text(), "Error: the command was refused: "+c.quoted+": no deletions today.")
			assert.Equal(t, r.ExitCode, -1)
			assert.Equal(t, r.Dir, "/tmp")
			assert.Assert(t, r.Stdout == nil && r.Stderr == nil && r.Duration == 0 && r.Timeout == 0 && !r.Gone &&
				!r.StateLost && r.Escalation == 0)
		}
		assert.Equal(t, s.ok("echo $kept; ls"), "5\nfile")
		assert.DeepEqual(t, asked, []string{"cd /tmp; kept=5; >file", "kept=6; rm file", "rm file",
			"rm file" + strings.Repeat(" ", 94), "echo $kept; ls"})
		// What can't run is not asked about.
		_, err := s.Run(t.Context(), execpolicy.Command{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.NilError(t, s.Close())
		_, err = s.Run(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		assert.Equal(t, len(asked), 5)
	})
}

func TestApproveAndWhatIsNotACommand(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.approving(func(context.Context, execpolicy.Request) error { return errPolicy })
		spec.Startup, spec.Shutdown = []string{"x=5"}, []string{"exit 3"}
		s := open(t, p.policy(), spec)
		assert.NilError(t, s.WriteFile(t.Context(), "/tmp/file", []byte("text"), 0o600))
		got, err := s.ReadFile(t.Context(), "/tmp/file", 100)
		assert.NilError(t, err)
		assert.Equal(t, string(got), "text")
		assert.Equal(t, s.script("true").Outcome, execpolicy.OutcomeRefused)
		assert.ErrorContains(t, s.Close(), "exit code 3")

		spec.Shutdown = nil
		r, err := execpolicy.Run(t.Context(), p.policy(), spec, execpolicy.Command{Script: "true"})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
	})
}

// The command's time begins when it is approved.
func TestApproveTakesItsTime(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		unhurried(t, 3*short, func(limit time.Duration) error {
			s := open(t, p.policy(), p.approving(func(ctx context.Context, r execpolicy.Request) error {
				_, bounded := ctx.Deadline()
				assert.Check(t, !bounded)
				<-time.After(limit)
				return nil
			}))
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "true", Timeout: limit})
			if err == nil && r.Outcome != execpolicy.OutcomeExited {
				err = errors.New(r.Text())
			}
			return err
		})
	})
}

// A command is asked about when its turn has come.
func TestApproveInTurn(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var running, wrong atomic.Int32
		s := open(t, p.policy(), p.approving(func(context.Context, execpolicy.Request) error {
			wrong.Add(running.Load())
			running.Add(1)
			return nil
		}))
		c := make(chan error)
		for range 5 {
			go func() {
				_, err := s.Run(t.Context(), execpolicy.Command{Script: "echo x", Stdout: writerFunc(func(p []byte) (int, error) {
					running.Add(-1)
					return len(p), nil
				})})
				c <- err
			}()
		}
		for range 5 {
			assert.NilError(t, <-c)
		}
		assert.Equal(t, wrong.Load(), int32(0))
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A hook that does not return is left behind.
func TestApproveThatDoesNotReturn(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		whose := errors.New("the user has gone")
		for _, c := range []struct {
			name  string
			end   func(s session, cancel context.CancelCauseFunc)
			cause error
		}{
			{"canceled", func(_ session, cancel context.CancelCauseFunc) { cancel(whose) }, whose},
			{"closed", func(s session, _ context.CancelCauseFunc) { assert.NilError(t, s.Close()) }, execpolicy.ErrClosed},
			{"lived its time", func(session, context.CancelCauseFunc) {}, execpolicy.ErrExpired},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				first := time.Hour
				if c.cause == execpolicy.ErrExpired {
					first = time.Second
				}
				unhurried(t, first, func(lifetime time.Duration) error {
					asked, release, left := make(chan context.Context, 1), make(chan struct{}), make(chan struct{})
					s, err := p.living(t, lifetime, p.approving(func(ctx context.Context, _ execpolicy.Request) error {
						defer close(left)
						asked <- ctx
						<-release
						return nil
					}))
					if err != nil {
						return err
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					done := make(chan error, 1)
					go func() {
						r, err := s.Run(ctx, execpolicy.Command{Script: "true", Timeout: time.Millisecond})
						assert.Check(t, r == nil)
						done <- err
					}()
					var hooks context.Context
					select {
					case hooks = <-asked:
					case err := <-done:
						// It has lived its time before it came to the hook, or to this.
						close(release)
						assert.ErrorIs(t, err, execpolicy.ErrExpired)
						return err
					}
					c.end(s, cancel)
					err = <-done
					assert.ErrorIs(t, err, c.cause)
					// Whoever would call Restart has to learn of it.
					assert.Equal(t, errors.Is(err, execpolicy.ErrEnded), c.cause == execpolicy.ErrExpired, "%v", err)
					<-hooks.Done()
					close(release)
					<-left
					if c.cause == whose {
						// Nobody waits for the old answer.
						assert.NilError(t, s.Restart(t.Context()))
					}
					return nil
				})
			})
		}
	})
}

// A hook may use what is not waiting for it, and may close what is.
func TestApproveUsesSessions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		other := open(t, p.policy(), p.spec())
		var s session
		s = open(t, p.policy(), p.approving(func(ctx context.Context, r execpolicy.Request) error {
			text, err := io.ReadAll(r.Stdin)
			if err != nil {
				return err
			}
			if string(text) == "close" {
				return s.Close()
			}
			judged, err := other.Run(ctx, execpolicy.Command{Script: "grep -q good", Stdin: strings.NewReader(string(text))})
			if err == nil && judged.ExitCode != 0 {
				err = fmt.Errorf("%q is not good", text)
			}
			return err
		}))
		r := s.run(execpolicy.Command{Script: "cat", Stdin: strings.NewReader("good")})
		assert.Equal(t, string(r.Stdout), "good")
		r = s.run(execpolicy.Command{Script: "cat", Stdin: strings.NewReader("bad")})
		assert.Equal(t, r.Text(), `Error: the command was refused: script "cat": "bad" is not good.`)
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "cat", Stdin: strings.NewReader("close")})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
	})
}

// A container that ends while somebody thinks is no command's end.
func TestApproveWhileTheContainerEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var s session
		s = open(t, p.policy(), p.approving(func(context.Context, execpolicy.Request) error {
			p.remove(t, s.Name())
			select {
			case <-s.Done():
			case <-time.After(ample):
			}
			return nil
		}))
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.Assert(t, r == nil)
	})
}

func ExampleSpec_approve() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{
		Approve: func(ctx context.Context, r execpolicy.Request) error {
			if r.Kind != execpolicy.RequestScript || strings.Contains(r.Code, "rm ") {
				return errors.New("nothing is to be deleted")
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: "rm -rf build"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if r.Outcome == execpolicy.OutcomeRefused {
		fmt.Println(r.Render(execpolicy.RenderOptions{}))
	}
}
