package warm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// shouting is a filter.
type shouting struct{ w io.Writer }

func (s shouting) Write(p []byte) (int, error) { return s.w.Write([]byte(strings.ToUpper(string(p)))) }
func (shouting) Close() error                  { return nil }

// All that belongs to one user comes with Take, and what is common was there before.
func TestUse(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Env = map[string]string{"COMMON": "c", "BOTH": "c"}
		p.Spec.Startup = []string{"echo ahead $COMMON $OWN >>/tmp/log; f() { echo f; }"}
		p.Policy.CommandTimeout = time.Hour
		w := p.pool(t, warm.Options{Size: 1})
		w.full(1)
		finished := ""
		s := w.take(execpolicy.Spec{
			Env:      map[string]string{"OWN": "o", "BOTH": "o"},
			Secrets:  []execpolicy.Secret{{Name: "KEY", Value: "hush-hush"}, {Name: "FILE", Value: "whisper", File: true}},
			Startup:  []string{"echo own $COMMON $OWN >>/tmp/log"},
			Shutdown: []string{"echo shut >>/tmp/log"},
			Prepare: func(ctx context.Context, s *execpolicy.Session) error {
				return s.WriteFile(ctx, "prepared", []byte("p"), 0o600)
			},
			Finish: func(ctx context.Context, s *execpolicy.Session) error {
				log, err := s.ReadFile(ctx, "/tmp/log", 1000)
				finished = string(log)
				return err
			},
			Filter: func(w io.Writer) io.WriteCloser { return shouting{w} },
			Approve: func(_ context.Context, r execpolicy.Request) error {
				if strings.Contains(r.Code, "forbidden") {
					return errors.New("no")
				}
				return nil
			},
			Limits: execpolicy.Limits{CommandTimeout: 3 * time.Second, MaxOutputBytes: 10},
		})
		assert.Equal(t, s.ok(`echo $COMMON$BOTH$OWN`), "COO")
		assert.Equal(t, s.ok(`f; cat prepared`), "F\nP")
		assert.Equal(t, s.ok(`[ $KEY = hush-hush ] && [ $(cat $FILE) = whisper ] && echo y`), "Y")
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo $KEY 1>&2; forbidden() { :; }"})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
		r, err = s.Run(t.Context(), execpolicy.Command{Script: "sleep 60"})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, r.Timeout, 3*time.Second)
		assert.Equal(t, s.Redact("hush-hush"), "[secret KEY]")
		// A shell that has to be replaced gets all of it anew.
		r, err = s.Run(t.Context(), execpolicy.Command{Script: "exit 3"})
		assert.NilError(t, err)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, s.ok(`f; echo $OWN`), "F\nO")
		assert.NilError(t, s.Close())
		assert.Equal(t, finished, "ahead c\nown c o\nahead c o\nown c o\nshut\n")
	})
}

// What one user has is nowhere in what the others get.
func TestEachSessionIsTakenOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const users = 12
		w := p.pool(t, warm.Options{Size: 3, MaxWait: -1})
		var mu sync.Mutex
		names := map[string]int{}
		var all sync.WaitGroup
		for user := range users {
			all.Go(func() {
				mine := fmt.Sprintf("value-of-%d-", user)
				s, err := w.Take(t.Context(), execpolicy.Spec{Secrets: []execpolicy.Secret{{Name: "MINE", Value: mine}}})
				if !assert.Check(t, err) {
					return
				}
				defer func() { assert.Check(t, s.Close()) }()
				r, err := s.Run(t.Context(), execpolicy.Command{Script: `
					[ "$MINE" ] || echo none
					ls -A /tmp .
					cat /tmp/* /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' |
						grep -o 'value-of-[0-9]*-' | grep -v "^$MINE"
					echo "$MINE" >/tmp/mine; echo "$MINE" >mine
					(sleep 1000 &) >/dev/null 2>&1; export LEFT=$MINE`})
				if assert.Check(t, err) {
					for _, word := range []string{"value-of", "mine", "none"} {
						assert.Check(t, !strings.Contains(string(r.Stdout), word), "%s", r.Stdout)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				names[s.Name()]++
			})
		}
		all.Wait()
		assert.Equal(t, len(names), users, "%v", names)
		assert.Equal(t, w.Stats().Taken, int64(users))
	})
}

// What can't be had of a session that was started ahead is refused, all of it at once,
// and no session is lost.
func TestRefuses(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	hook := func(context.Context, *execpolicy.Session) error { return nil }
	_, err := warm.New(nil, execpolicy.Spec{
		Workspace: ".", Secrets: []execpolicy.Secret{{Name: "KEY", Value: "hush-hush"}}, Shutdown: []string{":"}, Prepare: hook, Finish: hook,
		Filter:  func(io.Writer) io.WriteCloser { return nil },
		Approve: func(context.Context, execpolicy.Request) error { return nil },
		Env:     map[string]string{"a b": ""},
	}, warm.Options{Size: -1, MaxStarting: -2})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, what := range []string{
		"no policy", "Size is -1", "MaxStarting is -2", "Workspace", "Secrets", "Shutdown",
		"Prepare", "Finish", "Filter", "Approve", "a b",
	} {
		assert.Check(t, strings.Count(err.Error(), what) == 1, "%s: %v", what, err)
	}
	_, err = warm.New(execpolicy.DockerPolicy{Engine: p.Policy.Engine, MemoryBytes: -1}, execpolicy.Spec{}, warm.Options{})
	assert.ErrorContains(t, err, "MemoryBytes")

	p.Spec.Env = map[string]string{"KEY": "common"}
	w := p.pool(t, warm.Options{Size: 1})
	w.full(1)
	name := p.Containers(t)[0]
	_, err = w.Take(t.Context(), execpolicy.Spec{
		Command: []string{"sh"}, Workspace: t.TempDir(), Labels: map[string]string{"a": "b"}, Supervisor: []string{"x"},
		Secrets: []execpolicy.Secret{{Name: "KEY", Value: "hush-hush"}}, Startup: []string{"\x00"},
		Limits: execpolicy.Limits{TerminationTimeout: 1},
	})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorIs(t, err, execpolicy.ErrNoMount)
	for _, what := range []string{"Command", "mounted", "Labels", "Supervisor", "TerminationTimeout", "secret KEY is set twice", "Startup[0]"} {
		assert.Check(t, strings.Count(err.Error(), what) == 1, "%s: %v", what, err)
	}
	assert.Assert(t, !strings.Contains(err.Error(), "hush"))
	assert.Equal(t, w.take(execpolicy.Spec{}).Name(), name)
}

// A session is ended by a mistake of the user's that shows only inside.
func TestUseFails(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1})
	mine := errors.New("mine")
	for _, spec := range []execpolicy.Spec{
		{Startup: []string{"false"}},
		{Prepare: func(context.Context, *execpolicy.Session) error { return mine }},
		{Secrets: []execpolicy.Secret{{Name: "KEY", Lookup: func(context.Context, string) (string, error) { return "", mine }}}},
		{Audit: execpolicy.Auditor(func(execpolicy.Event) error { return mine })},
	} {
		w.full(1)
		name := p.Containers(t)[0]
		_, err := w.Take(t.Context(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.Assert(t, errors.Is(err, mine) || errors.Is(err, execpolicy.ErrScript), "%v", err)
		assert.Assert(t, !slices.Contains(p.Containers(t), name))
	}
}

// What happened to a session while it was idle is nobody's.
func TestUnfit(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Startup = []string{"echo $$ >/tmp/worker"}
		for how, unfit := range map[string]func(t *testing.T, name string){
			"removed":       func(t *testing.T, name string) { p.Client(t, "rm", "--force", name) },
			"killed":        func(t *testing.T, name string) { p.Client(t, "kill", name) },
			"worker killed": func(t *testing.T, name string) { p.Client(t, "exec", name, "sh", "-c", "kill -9 $(cat /tmp/worker)") },
			"worker stopped": func(t *testing.T, name string) {
				p.Client(t, "exec", name, "sh", "-c", "kill -STOP $(cat /tmp/worker)")
			},
			"paused": func(t *testing.T, name string) { p.Client(t, "pause", name) },
		} {
			if how == "paused" && p.Fake != nil {
				continue // it has no such verb
			}
			t.Run(how, func(t *testing.T) {
				w := p.pool(t, warm.Options{Size: 2})
				w.full(2)
				before := p.Containers(t)
				assert.Equal(t, len(before), 2)
				for _, name := range before {
					unfit(t, name)
				}
				s := w.take(execpolicy.Spec{})
				assert.Equal(t, s.ok("echo well"), "well")
				assert.Assert(t, !slices.Contains(before, s.Name()))
				w.until("given up", func(s warm.Stats) bool { return s.Died+s.Unhealthy == 2 && s.Taken == 1 && s.Idle == 2 })
				poll.WaitOn(t, func(poll.LogT) poll.Result {
					for _, name := range p.Containers(t) {
						if slices.Contains(before, name) {
							return poll.Continue("%s is there", name)
						}
					}
					return poll.Success()
				}, poll.WithTimeout(patience), poll.WithDelay(50*time.Millisecond))
			})
		}
	})
}

// Who has no time left does not wait for an answer of a session's.
func TestTakeEndsBeforeAnAnswer(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	p.Spec.Startup = []string{"echo $$ >/tmp/worker"}
	w := p.pool(t, warm.Options{Size: 1})
	w.full(1)
	p.Client(t, "exec", p.Containers(t)[0], "sh", "-c", "kill -STOP $(cat /tmp/worker)")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.Take(ctx, execpolicy.Spec{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, w.Stats().Unhealthy, int64(0))
	w.until("given up", func(s warm.Stats) bool { return s.Unhealthy == 1 && s.Idle == 1 })
}

// A session that ends while it is idle is replaced before anybody asks for it.
func TestReplaced(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1})
	w.full(1)
	p.Client(t, "rm", "--force", p.Containers(t)[0])
	w.until("replaced", func(s warm.Stats) bool { return s.Died == 1 && s.Idle == 1 && s.Started == 2 })
}

// Sessions that end one after the other are not replaced without end.
func TestPausesBetweenEnds(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1})
	begin := time.Now()
	for died := range 5 {
		w.until("replaced", func(s warm.Stats) bool { return s.Died == int64(died) && s.Idle == 1 })
		p.Client(t, "rm", "--force", p.Containers(t)[0])
	}
	w.until("replaced", func(s warm.Stats) bool { return s.Died == 5 && s.Idle == 1 })
	pauses := (100 + 200 + 400 + 800) * time.Millisecond
	assert.Assert(t, time.Since(begin) >= pauses, "%v", time.Since(begin))

	// One that was taken shows that they don't all end.
	assert.Equal(t, warm.Early(w.Pool), 5)
	taken := w.take(execpolicy.Spec{}).Name()
	assert.Equal(t, warm.Early(w.Pool), 0)
	w.full(1)
	for _, name := range p.Containers(t) {
		if name != taken {
			p.Client(t, "rm", "--force", name)
		}
	}
	w.until("replaced", func(s warm.Stats) bool { return s.Died == 6 && s.Started == 8 })
	assert.Equal(t, warm.Early(w.Pool), 1)
}

// timed is a policy that tells when it starts something.
type timed struct {
	execpolicy.Policy
	spawned chan<- time.Time
}

func (p timed) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	p.spawned <- time.Now()
	return p.Policy.Spawn(ctx, spec)
}

// A session that was idle is replaced a moment after it was taken, however many are
// taken.
func TestReplacedLater(t *testing.T) {
	const size, lull = 3, 100 * time.Millisecond
	p := onFake(t, fakeengine.Faults{})
	spawned := make(chan time.Time, 2*size)
	pl, err := warm.New(timed{p.Policy, spawned}, p.Spec, warm.Options{Size: size, MaxStarting: size})
	assert.NilError(t, err)
	defer func() { assert.Check(t, pl.Close()) }()
	w := pool{pl, t}
	w.full(size)
	for range size {
		<-spawned
	}
	begin := time.Now()
	for range size {
		w.take(execpolicy.Spec{})
	}
	for range size {
		after := (<-spawned).Sub(begin)
		assert.Assert(t, after >= lull, "%v", after)
	}
	w.full(size)
}

// Nobody who waits has to wait for that moment.
func TestWaiterEndsTheLull(t *testing.T) {
	warm.Lull(t, time.Hour)
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1})
	w.full(1)
	w.take(execpolicy.Spec{})
	w.take(execpolicy.Spec{})
}

func TestMaxAge(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 1, MaxAge: time.Second})
	w.until("replaced", func(s warm.Stats) bool { return s.Aged >= 2 })
	s := w.take(execpolicy.Spec{})
	time.Sleep(1100 * time.Millisecond)
	assert.Equal(t, s.ok("echo lives"), "lives")
}

// Who does not wait any more leaves the session to the next.
func TestTakeCanceled(t *testing.T) {
	p := onFake(t, fakeengine.Faults{Hang: []string{"run"}})
	w := p.pool(t, warm.Options{Size: 1})
	mine := errors.New("gone")
	var all sync.WaitGroup
	for i := range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		all.Go(func() {
			_, err := w.Take(ctx, execpolicy.Spec{})
			assert.Check(t, errors.Is(err, mine), "%v", err)
		})
		time.AfterFunc(time.Duration(i)*20*time.Millisecond, func() { cancel(mine) })
	}
	all.Wait()
	p.Fake.Set(fakeengine.Faults{})
	w.until("idle", func(s warm.Stats) bool { return s.Starting == 0 && s.Waiting == 0 })
	assert.Equal(t, w.Stats().Idle, int(w.Stats().Started))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	_, err := w.Take(ctx, execpolicy.Spec{})
	assert.ErrorIs(t, err, mine)
	assert.Equal(t, w.Stats().Taken, int64(0))
	before := w.Stats().Started
	w.take(execpolicy.Spec{})
	assert.Equal(t, w.Stats().Died+w.Stats().Unhealthy, int64(0))
	assert.Assert(t, w.Stats().Started <= before+1)
}

// Cancels that race with what they cancel lose nothing either.
func TestTakeCanceledAtHandOut(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 2})
	w.full(2)
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		s, err := w.Take(ctx, execpolicy.Spec{})
		cancel()
		if err == nil {
			assert.NilError(t, s.Close())
		}
		w.until("nobody waits", func(s warm.Stats) bool { return s.Idle+s.Starting >= 2 && s.Waiting == 0 })
	}
	// A session that a Take has given up is idle again when it has answered. A Take whose
	// context ends while the session is made the user's has ended it.
	w.until("each session idle or taken", func(s warm.Stats) bool {
		return s.Idle >= 2 && s.Started == s.Taken+int64(s.Idle)
	})
	s := w.Stats()
	assert.Assert(t, s.Died+s.Unhealthy == 0, "%+v", s)
}

func TestBurst(t *testing.T) {
	enginetest.Alone(t)
	everywhere(t, func(t *testing.T, p place) {
		w := p.pool(t, warm.Options{Size: 4, MaxWait: -1})
		w.full(4)
		begin := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				s, err := w.Take(t.Context(), execpolicy.Spec{})
				if !assert.Check(t, err) {
					return
				}
				r, err := s.Run(t.Context(), execpolicy.Command{Argv: []string{"echo", "hello"}})
				assert.Check(t, err)
				assert.Check(t, err != nil || string(r.Stdout) == "hello\n")
				assert.Check(t, s.Close())
			})
		}
		all.Wait()
		s := w.Stats()
		t.Logf("50 in %v, each waited %v: %+v", time.Since(begin).Round(time.Millisecond), (s.TakeTime / 50).Round(time.Millisecond), s)
		assert.Equal(t, s.Taken, int64(50))
		assert.Equal(t, s.Busy+s.StartFailures+s.Died+s.Unhealthy, int64(0))
	})
}

// Who came first has the first session, and the last has none in time.
func TestWaiting(t *testing.T) {
	p := onFake(t, fakeengine.Faults{Hang: []string{"run"}})
	w := p.pool(t, warm.Options{Size: 1, MaxStarting: 1, MaxWaiting: 3})
	order := make(chan int, 3)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			s, err := w.Take(t.Context(), execpolicy.Spec{})
			if assert.Check(t, err) {
				order <- i
				assert.Check(t, s.Close())
			}
		})
		w.until("waits", func(s warm.Stats) bool { return s.Waiting == i+1 })
	}
	_, err := w.Take(t.Context(), execpolicy.Spec{})
	assert.ErrorIs(t, err, warm.ErrBusy)
	assert.ErrorContains(t, err, "3 others wait")
	p.Fake.Set(fakeengine.Faults{CreateDelay: time.Second})
	all.Wait()
	for i := range 3 {
		assert.Equal(t, <-order, i)
	}
	assert.Equal(t, w.Stats().Busy, int64(1))
}

func TestMaxWait(t *testing.T) {
	p := onFake(t, fakeengine.Faults{Hang: []string{"run"}})
	w := p.pool(t, warm.Options{Size: 1, MaxWait: 100 * time.Millisecond})
	_, err := w.Take(t.Context(), execpolicy.Spec{})
	assert.ErrorIs(t, err, warm.ErrBusy)
	assert.ErrorContains(t, err, "100ms")
	p.Fake.Set(fakeengine.Faults{})
	w.full(1)
	w.take(execpolicy.Spec{})
}

// Without an engine that works nobody waits for nothing, and with one again nobody fails.
func TestStartsFail(t *testing.T) {
	p := onFake(t, fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": {Stderr: "docker: no room today", Exit: 125}}})
	w := p.pool(t, warm.Options{Size: 2, MaxWait: -1})
	for range 3 {
		_, err := w.Take(t.Context(), execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "no room today")
	}
	failures := w.Stats().StartFailures
	assert.Assert(t, failures >= 2 && failures <= 4, "%d", failures)
	assert.ErrorContains(t, w.Stats().StartError, "no room today")
	p.Fake.Set(fakeengine.Faults{})
	w.full(2)
	assert.NilError(t, w.Stats().StartError)
	w.take(execpolicy.Spec{})
}

// What is idle is handed out also while starts fail.
func TestIdleWhileStartsFail(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	w := p.pool(t, warm.Options{Size: 2})
	w.full(2)
	p.Fake.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": {Stderr: "docker: no room today", Exit: 125}}})
	w.take(execpolicy.Spec{})
	w.until("fails", func(s warm.Stats) bool { return s.StartFailures >= 2 })
	w.take(execpolicy.Spec{})
	_, err := w.Take(t.Context(), execpolicy.Spec{})
	assert.ErrorContains(t, err, "no room today")
}

// gated is a policy whose starts wait for what is to become of them.
type gated struct {
	execpolicy.Policy
	fate <-chan error
}

func (p gated) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	select {
	case err := <-p.fate:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return p.Policy.Spawn(ctx, spec)
}

// Starts that failed when none was missing don't keep the pool from starting more.
func TestTakenAfterStartsFailed(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	fate := make(chan error)
	pl, err := warm.New(gated{p.Policy, fate}, p.Spec, warm.Options{Size: 1, MaxStarting: 3})
	assert.NilError(t, err)
	defer func() { assert.Check(t, pl.Close()) }()
	w := pool{pl, t}
	fate <- nil
	w.full(1)
	w.take(execpolicy.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			_, err := w.Take(ctx, execpolicy.Spec{})
			assert.Check(t, errors.Is(err, context.Canceled), "%v", err)
		})
	}
	w.until("starts", func(s warm.Stats) bool { return s.Starting == 3 })
	cancel()
	all.Wait()
	fate <- nil
	w.until("idle", func(s warm.Stats) bool { return s.Idle == 1 })
	for range 2 {
		fate <- errors.New("no room today")
	}
	w.until("at rest", func(s warm.Stats) bool { return s.StartFailures == 2 && !warm.Paused(pl) })
	assert.Equal(t, w.Stats().Starting, 0)
	close(fate)
	w.take(execpolicy.Spec{})
	w.full(1)
}

func TestClose(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		w := p.pool(t, warm.Options{Size: 3})
		w.full(3)
		s := w.take(execpolicy.Spec{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { assert.Check(t, w.Close()) })
		}
		all.Wait()
		assert.NilError(t, w.Close())
		assert.DeepEqual(t, p.Containers(t), []string{s.Name()})
		_, err := w.Take(t.Context(), execpolicy.Spec{})
		assert.Equal(t, err, warm.ErrClosed)
		assert.Equal(t, s.ok("echo lives"), "lives")
		assert.Equal(t, w.Stats().Idle, 0)
	})
}

func TestZeroPool(t *testing.T) {
	var w warm.Pool
	_, err := w.Take(t.Context(), execpolicy.Spec{})
	assert.Equal(t, err, warm.ErrClosed)
	assert.Equal(t, w.Stats(), warm.Stats{})
	assert.NilError(t, w.Close())
}

// Takes that race with Close have a session, or know that there is none.
func TestCloseDuringTakes(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	for _, after := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond} {
		w := p.pool(t, warm.Options{Size: 3})
		w.until("has some", func(s warm.Stats) bool { return s.Idle > 0 })
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				s, err := w.Take(t.Context(), execpolicy.Spec{})
				if err != nil {
					assert.Check(t, err == warm.ErrClosed, "%v", err)
					return
				}
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo hello"})
				assert.Check(t, err)
				assert.Check(t, err != nil || string(r.Stdout) == "hello\n")
				assert.Check(t, s.Close())
			})
		}
		time.Sleep(after)
		assert.NilError(t, w.Close())
		all.Wait()
		assert.Equal(t, len(p.Containers(t)), 0)
	}
}

// Close tells what it does not know to be gone, each time.
func TestCloseTells(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	p.Policy.TerminationTimeout = 2 * time.Second
	w, err := warm.New(p.Policy, p.Spec, warm.Options{Size: 1})
	assert.NilError(t, err)
	pool{w, t}.full(1)
	p.Fake.Set(fakeengine.Faults{Hang: []string{fakeengine.Every}})
	for range 2 {
		assert.ErrorIs(t, w.Close(), execpolicy.ErrStillThere)
	}
	p.Fake.Set(fakeengine.Faults{})
}

// A session that was taken begins anew with all that it was started and taken with.
func TestRestart(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.Spec.Env = map[string]string{"COMMON": "c"}
		p.Spec.Startup = []string{"echo ahead >>/tmp/log"}
		w := p.pool(t, warm.Options{Size: 1})
		prepared := 0
		s := w.take(execpolicy.Spec{
			Env:     map[string]string{"OWN": "o"},
			Secrets: []execpolicy.Secret{{Name: "KEY", Value: "hush-hush"}},
			Startup: []string{"echo own >>/tmp/log"},
			Prepare: func(context.Context, *execpolicy.Session) error { prepared++; return nil },
			Limits:  execpolicy.Limits{CommandTimeout: 3 * time.Second},
		})
		name := s.Name()
		s.ok("echo x >>/tmp/log")
		assert.NilError(t, s.Restart(t.Context()))
		assert.Assert(t, s.Name() != name)
		assert.Equal(t, s.ok("cat /tmp/log; echo $COMMON$OWN $KEY"), "ahead\nown\nco [secret KEY]")
		assert.Equal(t, prepared, 2)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 60"})
		assert.NilError(t, err)
		assert.Equal(t, r.Timeout, 3*time.Second)
	})
}

// A use can only shorten the lifetime that the container has.
func TestLifetime(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	p.Policy.Lifetime = 10 * time.Second
	w := p.pool(t, warm.Options{Size: 2})
	w.full(2)
	begin := time.Now()
	short := w.take(execpolicy.Spec{Limits: execpolicy.Limits{Lifetime: time.Second}})
	long := w.take(execpolicy.Spec{Limits: execpolicy.Limits{Lifetime: time.Hour}})
	<-short.Done()
	assert.Assert(t, time.Since(begin) >= time.Second)
	_, err := short.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, execpolicy.ErrExpired)
	assert.Equal(t, long.ok("echo lives"), "lives")
	<-long.Done()
	assert.Assert(t, time.Since(begin) < patience)
	_, err = long.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, execpolicy.ErrExpired)
}

// A log takes records.
type log struct {
	mu     sync.Mutex
	events []execpolicy.Event
}

func (l *log) auditor() execpolicy.Auditor {
	return execpolicy.Auditor(func(e execpolicy.Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
		return nil
	})
}

// kinds returns the records in short, and checks that none is missing.
func (l *log) kinds(t *testing.T) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for i, e := range l.events {
		assert.Check(t, e.Seq == i+1 && e.Name != "", "%+v", e)
		all = append(all, strings.TrimSpace(string(e.Kind)+" "+e.Script))
	}
	return strings.Join(all, ", ")
}

// The records go over to the user's auditor, or the pool's goes on.
func TestAudit(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			p := onFake(t, fakeengine.Faults{})
			var pools, users log
			p.Spec.Audit = pools.auditor()
			p.Spec.Startup = []string{": ahead"}
			w, err := warm.New(p.Policy, p.Spec, warm.Options{Size: 1, MaxStarting: 1})
			assert.NilError(t, err)
			pool{w, t}.full(1)
			const before = "spawn, start, command : ahead, result"
			assert.Equal(t, pools.kinds(t), before)
			spec := execpolicy.Spec{
				Startup: []string{": own"},
				Env:     map[string]string{"OWN": "o"},
				Secrets: []execpolicy.Secret{{Name: "KEY", Value: "hush-hush"}},
			}
			if own {
				spec.Audit = users.auditor()
			}
			// Of the next session there are to be no records among those of this one.
			p.Fake.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": {Stderr: "docker: no room today", Exit: 125}}})
			s, err := w.Take(t.Context(), spec)
			assert.NilError(t, err)
			_, err = s.Run(t.Context(), execpolicy.Command{Script: "echo $KEY"})
			assert.NilError(t, err)
			name := s.Name()
			p.Fake.Set(fakeengine.Faults{})
			assert.NilError(t, s.Close())
			assert.NilError(t, w.Close())
			const after = "start, command : own, result, command echo $KEY, result, end"
			records := &pools
			if own {
				assert.Equal(t, users.kinds(t), after)
				records = &users
			}
			var of []string
			named := 0
			for _, e := range records.events {
				if e.Name != name {
					continue
				}
				of = append(of, strings.TrimSpace(string(e.Kind)+" "+e.Script))
				if e.Kind == execpolicy.EventStart && e.Secrets != nil {
					named++
					assert.DeepEqual(t, e.Secrets, []string{"KEY"})
					assert.Assert(t, slices.Contains(e.Env, "OWN"))
				}
			}
			assert.Equal(t, named, 1)
			want := after
			if !own {
				want = before + ", " + after
			}
			assert.Equal(t, strings.Join(of, ", "), want)
		})
	}
}

// A workspace is copied into a session that was started ahead, and what has become of it
// out again.
func TestWorkspace(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		w := p.pool(t, warm.Options{Size: 1})
		for _, mode := range []workspace.Mode{workspace.Auto, workspace.Copied} {
			dir := t.TempDir()
			assert.NilError(t, os.Chmod(dir, 0o777))
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("in"), 0o644))
			s, err := workspace.Start(t.Context(), p.Policy, execpolicy.Spec{Workspace: dir}, workspace.Options{Mode: mode, Take: w.Take})
			assert.NilError(t, err)
			assert.Assert(t, s.Copied())
			session{s.Session, t}.ok(`[ "$(cat in)" = in ] && echo out >out`)
			assert.NilError(t, s.Close())
			out, err := os.ReadFile(filepath.Join(dir, "out"))
			assert.NilError(t, err)
			assert.Equal(t, string(out), "out\n")
		}
		_, err := workspace.Start(t.Context(), p.Policy, execpolicy.Spec{Workspace: t.TempDir()},
			workspace.Options{Mode: workspace.Mounted, Take: w.Take})
		assert.ErrorIs(t, err, execpolicy.ErrNoMount)
		assert.Equal(t, w.Stats().Taken, int64(2))
	})
}

// The caller's maps are the caller's.
func TestSpecIsNotChanged(t *testing.T) {
	p := onFake(t, fakeengine.Faults{})
	p.Spec.Env = map[string]string{"COMMON": "c"}
	w := p.pool(t, warm.Options{Size: 1})
	own := map[string]string{"OWN": "o"}
	w.take(execpolicy.Spec{Env: own})
	assert.DeepEqual(t, slices.Sorted(maps.Keys(own)), []string{"OWN"})
	assert.DeepEqual(t, slices.Sorted(maps.Keys(p.Spec.Env)), []string{"COMMON"})
	p.Spec.Env["COMMON"] = "changed"
	assert.Equal(t, w.take(execpolicy.Spec{}).ok("echo $COMMON"), "c")
}
