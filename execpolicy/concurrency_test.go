//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A held session is one whose turn a command has, until it is let go.
type held struct {
	session
	stdin *io.PipeWriter
	first chan error
}

func takeTurn(t *testing.T, s session) held {
	t.Helper()
	r, w := io.Pipe()
	h := held{s, w, make(chan error, 1)}
	go func() {
		_, err := s.Run(context.Background(), execpolicy.Command{Script: "cat", Stdin: r, Timeout: -1})
		r.CloseWithError(err) // who writes waits no more
		h.first <- err
	}()
	// It is read only by who has the turn.
	_, err := w.Write([]byte("x"))
	assert.NilError(t, err)
	return h
}

func (h held) letGo() {
	h.t.Helper()
	assert.NilError(h.t, h.stdin.Close())
	assert.NilError(h.t, <-h.first)
}

// queued waits until so many calls wait for a turn.
func queued(t *testing.T, n int) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	wait(t, func() bool {
		waiting := 0
		for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, " [select") && strings.Contains(stack, "execpolicy.(*Session).acquire(") {
				waiting++
			}
		}
		return waiting == n
	}, "there are not %d calls that wait", n)
}

// Commands run in the order in which they came. Those that are given up while they wait
// return at once and never run.
func TestCommandsRunInTheOrderInWhichTheyCame(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		h := takeTurn(t, s)
		const n = 20
		ctx, cancel := context.WithCancelCause(t.Context())
		var kept, gone sync.WaitGroup
		var want strings.Builder
		for i := range n {
			c := execpolicy.Command{Script: fmt.Sprintf("echo %d >>/tmp/order", i)}
			if i%3 == 1 {
				gone.Go(func() {
					r, err := s.Run(ctx, c)
					assert.Check(t, errors.Is(err, errGone) && r == nil, "%v", err)
				})
			} else {
				fmt.Fprintln(&want, i)
				kept.Go(func() {
					_, err := s.Run(t.Context(), c)
					assert.Check(t, err)
				})
			}
			queued(t, i+1)
		}
		cancel(errGone)
		gone.Wait() // while the turn is still taken
		h.letGo()
		kept.Wait()
		assert.Equal(t, s.ok("cat /tmp/order")+"\n", want.String())
	})
}

// Close lets nobody wait: what runs is ended, what waits never runs, and everything after
// says that the session is closed.
func TestCloseWhileEverybodyWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		s := open(t, p.policy(), spec)
		h := takeTurn(t, s)
		var calls sync.WaitGroup
		for i := range 6 {
			calls.Go(func() {
				if i%3 == 2 {
					assert.Check(t, errors.Is(s.Restart(t.Context()), execpolicy.ErrClosed))
					return
				}
				r, err := s.Run(t.Context(), execpolicy.Command{Script: ">ran"})
				assert.Check(t, errors.Is(err, execpolicy.ErrClosed) && r == nil, "%v", err)
			})
		}
		queued(t, 6)
		done := s.Done()
		for range 3 {
			calls.Go(func() { assert.Check(t, s.Close()) })
		}
		calls.Wait() // though the command waits for ever
		assert.ErrorIs(t, <-h.first, execpolicy.ErrClosed)
		<-done
		<-s.Done()
		_, err := os.Stat(filepath.Join(spec.Workspace, "ran"))
		assert.ErrorIs(t, err, os.ErrNotExist)
		h.stdin.Close()
	})
}

// Restart waits for the commands before it, and those behind it run in the new session.
func TestRestartHasItsTurn(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		name, done := s.Name(), s.Done()
		h := takeTurn(t, s)
		var calls sync.WaitGroup
		run := func(script, want string) {
			calls.Go(func() {
				r, err := s.Run(t.Context(), execpolicy.Command{Script: script})
				if assert.Check(t, err) {
					assert.Check(t, string(r.Stdout) == want, "%q", r.Stdout)
				}
			})
		}
		run("state=old; echo $state", "old\n")
		queued(t, 1)
		calls.Go(func() { assert.Check(t, s.Restart(t.Context())) })
		queued(t, 2)
		run("echo ${state-new}", "new\n")
		queued(t, 3)
		h.letGo()
		calls.Wait()
		<-done
		assert.Assert(t, s.Name() != name)
		select {
		case <-s.Done():
			t.Error("the new session has ended")
		default:
		}
	})
}

// Close during Restart leaves neither the old session nor the new one, wherever Restart
// has got to.
func TestCloseDuringRestart(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, at := range []string{"the end of the old", "the start of the new", "the startup scripts"} {
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				spec := p.spec()
				spec.Workspace = newWorkspace(t, "workspace")
				spec.Startup = []string{"[ ! -e hang ] || { >hangs; sleep 4821; }"}
				reached := make(chan struct{})
				closing := make(chan struct{})
				limits := p.policy()
				limits.StartupTimeout = -1 // nothing but Close ends the script
				policy := &staged{Policy: limits, at: at, reached: reached, on: closing}
				s := open(t, policy, spec)
				policy.armed.Store(true)
				if at == "the startup scripts" {
					assert.NilError(t, os.WriteFile(filepath.Join(spec.Workspace, "hang"), nil, 0o666))
					go func() {
						defer close(reached)
						for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
							if _, err := os.Stat(filepath.Join(spec.Workspace, "hangs")); err == nil {
								return
							}
						}
					}()
				}
				restarted := make(chan error, 1)
				go func() { restarted <- s.Restart(t.Context()) }()
				<-reached
				done := s.Done()
				closed := make(chan error, 1)
				go func() { closed <- s.Close() }()
				wait(t, func() bool { return errors.Is(s.Restart(t.Context()), execpolicy.ErrClosed) }, "it is not being closed")
				close(closing)
				assert.NilError(t, <-closed)
				assert.ErrorIs(t, <-restarted, execpolicy.ErrClosed)
				<-done
				<-s.Done()
			})
		}
	})
}

// staged is a policy that comes to a halt at a point of a restart.
type staged struct {
	execpolicy.Policy
	at          string
	armed       atomic.Bool
	once        sync.Once
	reached, on chan struct{}
}

func (p *staged) halt() {
	p.once.Do(func() {
		close(p.reached)
		<-p.on
	})
}

func (p *staged) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	if p.armed.Load() && p.at == "the start of the new" {
		p.halt()
	}
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		kill := proc.Kill
		proc.Kill = func(ctx context.Context) error {
			if p.armed.Load() && p.at == "the end of the old" {
				p.halt()
			}
			return kill(ctx)
		}
	}
	return proc, err
}

// Whatever is called at the same time, every error is one that the documentation names,
// and nothing is left.
func TestEverythingAtTheSameTime(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		known := func(what string, err error) {
			for _, e := range []error{nil, execpolicy.ErrClosed, execpolicy.ErrEnded, errGone} {
				if errors.Is(err, e) {
					return
				}
			}
			t.Errorf("%s: %v", what, err)
		}
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				for n := range 12 {
					switch {
					case i == 0 && n%4 == 3:
						known("Restart", s.Restart(t.Context()))
					case i == 1:
						ctx, cancel := context.WithCancelCause(t.Context())
						time.AfterFunc(time.Duration(n)*time.Millisecond, func() { cancel(errGone) })
						_, err := s.Run(ctx, execpolicy.Command{Script: "sleep 4822"})
						known("a cancelled Run", err)
					case i == 2:
						_, err := s.Run(t.Context(), execpolicy.Command{Script: "exit 3"})
						known("a Run that ends the shell", err)
					case i == 3:
						s.Name()
						select {
						case <-s.Done():
						default:
						}
					default:
						r, err := s.Run(t.Context(), execpolicy.Command{Script: fmt.Sprintf("echo %d.%d", i, n)})
						known("Run", err)
						if err == nil && string(r.Stdout) != fmt.Sprintf("%d.%d\n", i, n) {
							t.Errorf("%d.%d is answered with %q", i, n, r.Stdout)
						}
					}
				}
			})
		}
		calls.Wait()
		// Once more, and in the middle of it the end.
		for i := range 8 {
			calls.Go(func() {
				for {
					var err error
					if i == 0 {
						err = s.Restart(t.Context())
					} else {
						_, err = s.Run(t.Context(), execpolicy.Command{Script: "echo x"})
					}
					if errors.Is(err, execpolicy.ErrClosed) {
						return
					}
					known("before the end", err)
				}
			})
		}
		s.ok("sleep 0.1")
		assert.NilError(t, s.Close())
		calls.Wait()
		<-s.Done()
	})
}

// gated is a policy whose processes are let through one by one, and which counts those
// that are being started.
type gated struct {
	execpolicy.Policy
	gate              chan struct{} // nil if it is open
	began, now, worst atomic.Int64
}

func (p *gated) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	p.began.Add(1)
	for now := p.now.Add(1); ; {
		if worst := p.worst.Load(); now <= worst || p.worst.CompareAndSwap(worst, now) {
			break
		}
	}
	if p.gate != nil {
		<-p.gate
	}
	proc, err := p.Policy.Spawn(ctx, spec)
	if err != nil {
		p.now.Add(-1)
		return nil, err
	}
	answered := proc.Answered
	proc.Answered = func() {
		p.now.Add(-1)
		if answered != nil {
			answered()
		}
	}
	return proc, nil
}

// Many sessions are open at once; few of them are started at a time.
func TestManySessions(t *testing.T) {
	n := 16
	if text := os.Getenv("COFFERDAM_SESSIONS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		assert.NilError(t, err)
	}
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.MemoryBytes, policy.CPUs = 32<<20, "0.5"
		// A hundred take podman more than 10 s to remove on two processors.
		policy.StartupTimeout, policy.CommandTimeout, policy.TerminationTimeout = time.Minute, time.Minute, 30*time.Second
		g := &gated{Policy: policy}
		began := time.Now()
		sessions := make([]session, n)
		var calls sync.WaitGroup
		for i := range n {
			calls.Go(func() {
				s, err := execpolicy.Start(t.Context(), g, p.spec())
				if assert.Check(t, err) {
					sessions[i] = session{s, t}
				}
			})
		}
		calls.Wait()
		started := time.Since(began)
		defer func() {
			for _, s := range sessions {
				if s.Session != nil {
					calls.Go(func() { assert.Check(t, s.Close()) })
				}
			}
			closing := time.Now()
			calls.Wait()
			t.Logf("%d sessions were started in %v and closed in %v", n, started.Round(time.Millisecond),
				time.Since(closing).Round(time.Millisecond))
		}()
		assert.Assert(t, !t.Failed())
		assert.Equal(t, g.worst.Load(), int64(min(n, execpolicy.MaxStarts)))
		for i, s := range sessions {
			calls.Go(func() {
				_, err := s.Run(t.Context(), execpolicy.Command{Script: fmt.Sprintf("mine=%d; echo $mine", i)})
				if assert.Check(t, err) {
					r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo $mine"})
					assert.Check(t, err)
					assert.Check(t, string(r.Stdout) == fmt.Sprintf("%d\n", i), "%q", r.Stdout)
				}
			})
		}
		calls.Wait()
	})
}

// A start that waits for its turn is given up with its context, and then nothing was
// spawned; its own time begins with its turn.
func TestStartsWaitForTheirTurn(t *testing.T) {
	enginetest.Check(t)
	// Turns are the same whatever is started.
	policy := execpolicy.HostPolicy{Limits: hostLimits}
	first := &gated{Policy: policy, gate: make(chan struct{})}
	var starts sync.WaitGroup
	start := func(p execpolicy.Policy) {
		starts.Go(func() {
			s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
			if assert.Check(t, err) {
				assert.Check(t, s.Close())
			}
		})
	}
	for range execpolicy.MaxStarts {
		start(first)
	}
	wait(t, func() bool { return first.began.Load() == execpolicy.MaxStarts }, "not all have begun")
	policy.StartupTimeout = 4 * time.Second
	second := &gated{Policy: policy}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(short, func() { cancel(errGone) })
	// It returns while all turns are still taken.
	_, err := execpolicy.Start(ctx, second, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorIs(t, err, errGone)
	start(second)
	time.Sleep(policy.StartupTimeout) // has to pass
	assert.Equal(t, second.began.Load(), int64(0))
	close(first.gate)
	starts.Wait()
	assert.Equal(t, second.began.Load(), int64(1))
}

// A start that is given up beforehand spawns nothing.
func TestStartsThatAreCanceledBeforehand(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		g := &gated{Policy: p.policy()}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		for range 20 {
			_, err := execpolicy.Start(ctx, g, p.spec())
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, errGone)
		}
		assert.Equal(t, g.began.Load(), int64(0))
	})
}

// Startup scripts and pulls take no other session's turn to start.
func TestStartupScriptsHoldUpNoOtherStart(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		slow := p.spec()
		slow.Workspace, slow.Startup = spec.Workspace, []string{"echo >>begun; until [ -e go ]; do sleep 0.05; done"}
		policy := p.policy()
		policy.StartupTimeout, policy.CPUs = time.Minute, "0.2"
		policy.TerminationTimeout = places.Patience
		var starts sync.WaitGroup
		for range execpolicy.MaxStarts {
			starts.Go(func() {
				s, err := execpolicy.Start(t.Context(), policy, slow)
				if assert.Check(t, err) {
					assert.Check(t, s.Close())
				}
			})
		}
		wait(t, func() bool {
			begun, _ := os.ReadFile(filepath.Join(spec.Workspace, "begun"))
			return len(begun) == execpolicy.MaxStarts
		}, "not all are in their scripts")
		s := open(t, p.policy(), spec)
		s.ok(">go")
		starts.Wait()
	})
}

// When many are closed whose lifelines do not end them, few are removed at a time.
func TestFewAreRemovedAtATime(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	// Nobody waits for a turn for more than a third of that.
	limits := execpolicy.Limits{StartupTimeout: time.Minute, TerminationTimeout: 3 * patience}
	var sessions []session
	for range 12 {
		sessions = append(sessions, open(t, execpolicy.DockerPolicy{Engine: fake.Engine, Limits: limits}, execpolicy.Spec{}))
	}
	looks := func() int {
		return len(slices.DeleteFunc(fake.Calls(),
			func(call []string) bool { return call[0] != "container" || call[1] != "inspect" }))
	}
	// Each is asked for its image once.
	wait(t, func() bool { return looks() == len(sessions) }, "nobody is asked")
	fake.Set(fakeengine.Faults{Hang: []string{"run", "container inspect"}})
	var calls sync.WaitGroup
	for _, s := range sessions {
		calls.Go(func() { assert.Check(t, s.Close()) })
	}
	// Each is looked at first, and not helped by a look.
	removed := func() int { return looks() - len(sessions) }
	wait(t, func() bool { return removed() == 4 }, "nobody is removed")
	time.Sleep(soon) // a fifth would have come
	assert.Check(t, removed() == 4, "%d", removed())
	fake.Set(fakeengine.Faults{})
	calls.Wait()
}
