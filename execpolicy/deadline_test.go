//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// prompt bounds a call that has nothing to wait for. Not even on a busy machine does it
// come near a [Limits.TerminationTimeout] that is ample, which is what these tests have.
const prompt = 20 * time.Second

const (
	// soon is when the calls of these tests are told to end: long enough for what has to
	// come before, but for a machine that is busy, on which they are tried again with
	// more.
	soon = 300 * time.Millisecond
	// latest is when that must have been long enough.
	latest = 20 * time.Second
)

// errGone is the cause of these tests' cancels.
var errGone = errors.New("the user has gone")

// stop stops an engine's client that this test has started: nothing passes it until it is
// resumed.
func stop(t *testing.T, client *os.Process) {
	t.Helper()
	assert.NilError(t, client.Signal(syscall.SIGSTOP))
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(client.Pid) + "/task/*/stat")
		for _, file := range threads {
			stat, _ := os.ReadFile(file)
			if _, fields, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(fields, "T") {
				return poll.Continue("%s: %s", file, stat)
			}
		}
		return poll.Success()
	})
}

func resume(t *testing.T, client *os.Process) {
	t.Helper()
	assert.NilError(t, client.Signal(syscall.SIGCONT))
}

// longScript returns 1 MiB that does what the script does: more than lies between the
// host and the shell can hold.
func longScript(script string) string {
	return strings.Repeat(": "+strings.Repeat("x", 125)+"\n", 1<<13) + script
}

// An ending is a way in which a call is told to end.
type ending struct {
	name    string
	outcome execpolicy.Outcome
	err     error // of a command that runs
}

var endings = []ending{
	{"deadline", execpolicy.OutcomeCanceled, context.DeadlineExceeded},
	{"cancel", execpolicy.OutcomeCanceled, context.Canceled},
	{"cause", execpolicy.OutcomeCanceled, errGone},
	{timeout, execpolicy.OutcomeTimedOut, nil},
	{"close", execpolicy.OutcomeCanceled, execpolicy.ErrClosed},
}

const timeout = "timeout" // the policy's, or the command's own

// begin returns the context of a call that is told to end after that time.
func (e ending) begin(s session, after time.Duration) context.Context {
	ctx := s.t.Context()
	switch e.name {
	case "deadline":
		ctx, cancel := context.WithTimeout(ctx, after)
		s.t.Cleanup(cancel)
		return ctx
	case "cancel":
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(after, cancel)
		return ctx
	case "cause":
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(after, func() { cancel(errGone) })
		return ctx
	case "close":
		time.AfterFunc(after, func() { s.Close() })
	}
	return ctx
}

// timeout returns the command's timeout.
func (e ending) timeout(after time.Duration) time.Duration {
	if e.name == timeout {
		return after
	}
	return -1
}

// An obstacle is what a command that has to be ended does, or what is done to it.
type obstacle struct {
	command execpolicy.Command
	stuck   bool // its writers take nothing
	silent  bool // its stdin's Read does not return
	stopped bool // the engine's client is
}

// longProgram is the obstacle of a program behind much that is sent before it.
const longProgram = "a program after 1 MiB"

var obstacles = map[string]obstacle{
	"a program":                  {command: execpolicy.Command{Script: "sleep 4811"}},
	longProgram:                  {command: execpolicy.Command{Script: longScript("sleep 4812")}},
	"a flood":                    {command: execpolicy.Command{Script: "yes & yes >&2"}},
	"a flood and stuck writers":  {command: execpolicy.Command{Script: "yes & yes >&2"}, stuck: true},
	"a stdin that does not come": {command: execpolicy.Command{Script: "cat"}, silent: true},
	"1 MiB that does not get through": {command: execpolicy.Command{Script: longScript("sleep 4813")},
		stopped: true},
	"a stdin of 2 MiB that is stuck on its way": {command: execpolicy.Command{Script: "cat"}, stopped: true},
}

// together runs subtests at the same time. Unlike parallel ones they do not take turns,
// because they mostly wait.
func together(t *testing.T, tests map[string]func(t *testing.T)) {
	var running sync.WaitGroup
	for name, test := range tests {
		running.Go(func() { t.Run(name, test) })
	}
	running.Wait()
}

// Whatever a command does, every way of ending it ends it at once, says so, and leaves a
// session that works.
func TestEveryEnding(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		tests := map[string]func(t *testing.T){}
		for name, o := range obstacles {
			if name == longProgram && p.engine == clusterEngine {
				leftout.Note(t, "in a cluster, %s: all of it is on its way at once, and what ends it comes behind", name)
				continue
			}
			tests[name] = func(t *testing.T) {
				policy := p.policy()
				if o.stopped {
					policy = p.attached()
				}
				policy.TerminationTimeout = ample
				s := open(t, policy, p.spec())
				s.ok("state=kept")
				ends := endings
				if name != "a program" {
					ends = endings[2:]
				}
				for _, e := range ends {
					t.Run(e.name, func(t *testing.T) {
						s := session{s.Session, t}
						for after := soon / 2; !o.end(s, p, e, after); after *= 2 {
							if e.name == "close" {
								s = open(t, policy, p.spec())
							}
						}
					})
				}
			}
		}
		together(t, tests)
	})
}

// end has the command ended, and reports whether it had been sent by then.
func (o obstacle) end(s session, p place, e ending, after time.Duration) (sent bool) {
	t := s.t
	c := o.command
	if o.stopped && c.Script == "cat" {
		c.Stdin = strings.NewReader(strings.Repeat("x", 2<<20)) // more than lies between the host and the shell can hold
	}
	c.Timeout = e.timeout(after)
	if o.stuck {
		out, errs := make(stuck), make(stuck)
		defer close(out)
		defer close(errs)
		c.Stdout, c.Stderr = out, errs
	}
	var client *os.Process
	if o.stopped {
		client = p.client(t, s.Name())
		defer client.Release()
		stop(t, client)
		defer client.Signal(syscall.SIGCONT)
	}
	if o.silent {
		r, w := io.Pipe()
		defer w.Close()
		c.Stdin = r
	}
	var r *execpolicy.Result
	var err error
	enginetest.Within(t, after+prompt, "the command", func() { r, err = s.Run(e.begin(s, after), c) })
	sent = r != nil || o.silent
	if !sent && after > latest {
		t.Fatal(err)
	}
	switch {
	case !sent, o.silent:
		// Then it did not run.
		assert.Assert(t, r == nil)
		if e.err == nil {
			e.err = context.DeadlineExceeded
		}
		assert.ErrorIs(t, err, e.err)
	case e.err != nil:
		assert.ErrorIs(t, err, e.err)
		assert.Equal(t, r.Outcome, e.outcome)
	default:
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, e.outcome)
	}
	if e.name == "close" {
		enginetest.Within(t, prompt, "Close", func() { assert.NilError(t, s.Close()) })
		return sent
	}
	if client != nil {
		resume(t, client)
	}
	if r != nil && r.StateLost {
		s.ok("state=kept")
	}
	assert.Equal(t, s.ok("echo $state"), "kept")
	return sent
}

// A command that was sent and is not answered, because the client stands still, costs the
// session, and the result says so.
func TestClientThatStandsStill(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		tests := map[string]func(t *testing.T){}
		for _, e := range endings[2:] {
			tests[e.name] = func(t *testing.T) {
				for after := soon; !p.standStill(t, e, after); after *= 2 {
				}
			}
		}
		together(t, tests)
	})
}

// standStill has a command ended whose client stands still, and reports whether it had
// been sent by then.
func (p place) standStill(t *testing.T, e ending, after time.Duration) (sent bool) {
	policy := p.attached()
	policy.TerminationTimeout = ample
	s := open(t, policy, p.spec())
	client := p.client(t, s.Name())
	defer client.Release()
	stop(t, client)
	defer client.Signal(syscall.SIGCONT)
	var r *execpolicy.Result
	var err error
	enginetest.Within(t, after+prompt, "the command", func() {
		r, err = s.Run(e.begin(s, after), execpolicy.Command{Script: "echo out", Timeout: e.timeout(after)})
	})
	if r == nil && e.err != nil && errors.Is(err, e.err) && after < latest {
		return false
	}
	if r == nil {
		t.Fatal(err)
	}
	assert.Equal(t, r.Outcome, e.outcome)
	assert.Equal(t, r.Escalation, execpolicy.EscalationRemoval)
	assert.Assert(t, r.StateLost)
	if e.err == nil {
		assert.NilError(t, err)
	} else {
		assert.ErrorIs(t, err, e.err)
		assert.Assert(t, !errors.Is(err, execpolicy.ErrStillThere), "%v", err)
	}
	<-s.Done()
	_, err = s.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.Assert(t, errors.Is(err, execpolicy.ErrEnded) || errors.Is(err, execpolicy.ErrClosed), "%v", err)
	return true
}

// A client that stands still may hold a lock without which nothing can be removed: it is
// ended while the removal waits.
func TestClientThatHoldsUpTheRemoval(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Podman, fakeengine.Faults{})
	// Behind the removal it would be ended later than this test waits.
	limits := execpolicy.Limits{TerminationTimeout: 3 * patience}
	s := open(t, execpolicy.DockerPolicy{Engine: fake.Engine, Limits: limits}, execpolicy.Spec{})
	client := place{}.client(t, s.Name())
	defer client.Release()
	stop(t, client)
	defer client.Signal(syscall.SIGCONT)
	fake.Set(fakeengine.Faults{Hang: []string{"rm"}})
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	removals := func() int {
		return len(slices.DeleteFunc(fake.Calls(), func(call []string) bool { return !slices.Contains(call, "rm") }))
	}
	wait(t, func() bool { return removals() > 0 }, "there is no removal")
	wait(t, func() bool { return errors.Is(client.Signal(syscall.Signal(0)), os.ErrProcessDone) }, "the client is left")
	select {
	case err := <-closed:
		t.Errorf("the client was ended only behind the removal: %v", err)
	default:
	}
	assert.Equal(t, removals(), 1, "%q", fake.Calls())
	fake.Set(fakeengine.Faults{})
	assert.NilError(t, <-closed)
}

// What was sent for commands that never ran does not fill the container.
func TestStdinOfCommandsThatNeverRan(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		s.ok("state=kept")
		for range 4 {
			_, err := s.Run(t.Context(),
				execpolicy.Command{Script: "cat", Dir: "/no/such",
					Stdin: strings.NewReader(strings.Repeat("x", execpolicy.MaxStdin))})
			assert.ErrorIs(t, err, execpolicy.ErrNoDir)
		}
		r := s.run(execpolicy.Command{Script: "wc -c; echo $state", Stdin: strings.NewReader("123")})
		assert.Equal(t, strings.Join(strings.Fields(string(r.Stdout)), " "), "3 kept")
	})
}

// A start is ended in time while its client has not come to anything: by its context, and
// by its own deadline.
func TestStartBehindASlowClient(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	tests := map[string]func(t *testing.T){}
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		for _, e := range endings[:4] {
			tests[kind.String()+"/"+e.name] = func(t *testing.T) {
				fake := fakeengine.New(t, kind, fakeengine.Faults{Hang: []string{"run"}})
				limits := execpolicy.Limits{StartupTimeout: time.Minute, TerminationTimeout: 3 * time.Second}
				if e.name == timeout {
					limits.StartupTimeout, e.err = soon, context.DeadlineExceeded
				}
				p := execpolicy.DockerPolicy{Engine: fake.Engine, Limits: limits}
				enginetest.Within(t, soon+limits.TerminationTimeout+slack, "the start", func() {
					_, err := execpolicy.Start(e.begin(session{t: t}, soon), p, execpolicy.Spec{})
					assert.ErrorIs(t, err, execpolicy.ErrStart)
					assert.ErrorIs(t, err, e.err)
				})
				assert.Equal(t, len(fake.Containers()), 0)
			}
		}
	}
	together(t, tests)
}

// The engine may make a container long after the client that asked for it was told to end
// by somebody.
func TestContainerThatComesAfterItsClientsEnd(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{CreateDelay: 1500 * time.Millisecond})
	_, err := execpolicy.Start(t.Context(), ended{execpolicy.DockerPolicy{Engine: fake.Engine}, soon}, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.Equal(t, len(fake.Containers()), 0)
	time.Sleep(1500 * time.Millisecond) // it would have come by then
	assert.Equal(t, len(fake.Containers()), 0)
}

// On a real engine a client is stopped right behind its start. That nothing is left is
// known, unless the engine takes longer to say so than what is left of the time when the
// client has been ended, which one that is busy may do, but not always.
func TestStartOfAClientThatIsStopped(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.TerminationTimeout = 5 * time.Second
		for tries := 1; ; tries++ {
			ctx, cancel := context.WithCancelCause(t.Context())
			stopping := spawning{policy, func(proc *execpolicy.Process) {
				client := p.client(t, proc.Name)
				defer client.Release()
				stop(t, client)
				cancel(errGone)
			}}
			var err error
			enginetest.Within(t, policy.TerminationTimeout+slack, "the start",
				func() { _, err = execpolicy.Start(ctx, stopping, p.spec()) })
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, errGone)
			if !errors.Is(err, execpolicy.ErrStillThere) {
				break
			}
			assert.Assert(t, tries < 5, "%v", err)
		}
	})
}

// A spawning policy does something with each process.
type spawning struct {
	execpolicy.Policy
	then func(*execpolicy.Process)
}

func (p spawning) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		p.then(proc)
	}
	return proc, err
}

// A pull ends with the start's context, at its own deadline, and whatever becomes of its
// progress. It does not count in the start's time.
func TestPull(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	tests := map[string]func(t *testing.T){}
	for _, e := range endings[:4] {
		tests[e.name] = func(t *testing.T) {
			progress := make(stuck)
			defer close(progress)
			fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true, Hang: []string{"pull"}})
			p := execpolicy.DockerPolicy{Engine: fake.Engine, PullProgress: progress,
				Limits: execpolicy.Limits{TerminationTimeout: ample}}
			if e.name == timeout {
				p.PullTimeout, e.err = soon, context.DeadlineExceeded
			}
			// What the start itself needs comes before the pull.
			enginetest.Within(t, soon+prompt, "the start", func() {
				_, err := execpolicy.Start(e.begin(session{t: t}, soon), p, execpolicy.Spec{})
				assert.ErrorIs(t, err, execpolicy.ErrStart)
				assert.ErrorIs(t, err, e.err)
			})
			fake.Set(fakeengine.Faults{ImageMissing: true})
			p.PullTimeout, p.PullProgress = 0, nil
			s := open(t, p, execpolicy.Spec{})
			assert.Equal(t, s.ok("echo pulled"), "pulled")
		}
	}
	tests["longer than a start"] = func(t *testing.T) {
		// On a busy machine what is left of a start may take longer than that, too.
		for limit := 2 * time.Second; ; limit *= 2 {
			delay := map[string]time.Duration{"pull": limit + limit/10}
			fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true, Delay: delay})
			p := execpolicy.DockerPolicy{Engine: fake.Engine, Limits: execpolicy.Limits{StartupTimeout: limit}}
			s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
			if err == nil {
				assert.NilError(t, s.Close())
				break
			}
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Assert(t, limit < latest, "%v", err)
		}
	}
	together(t, tests)
}

// Restart ends with its context while the new session starts. Then the session has ended,
// and Restart may be tried again.
func TestRestartIsEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		spec.Startup = []string{"[ ! -e hang ] || sleep 4814"}
		policy := p.policy()
		policy.StartupTimeout = -1 // nothing but its context ends the script
		s := open(t, policy, spec)
		hang := filepath.Join(spec.Workspace, "hang")
		assert.NilError(t, os.WriteFile(hang, nil, 0o666))
		for _, e := range endings[:3] {
			t.Run(e.name, func(t *testing.T) {
				err := s.Restart(e.begin(session{s.Session, t}, soon))
				assert.ErrorIs(t, err, execpolicy.ErrStart)
				assert.ErrorIs(t, err, e.err)
				<-s.Done()
				_, err = s.Run(t.Context(), execpolicy.Command{Script: ":"})
				assert.ErrorIs(t, err, execpolicy.ErrEnded)
			})
		}
		assert.NilError(t, os.Remove(hang))
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, s.ok("echo again"), "again")
	})
}

// The startup scripts of a shell that has to be replaced take their time from the
// command's.
func TestStartupCountsAsTheCommands(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		spec.Startup = []string{"[ ! -e hang ] || sleep 4815"}
		policy := p.policy()
		policy.StartupTimeout, policy.TerminationTimeout = ample, 4*time.Second
		s := open(t, policy, spec)
		hang := filepath.Join(spec.Workspace, "hang")
		assert.NilError(t, os.WriteFile(hang, nil, 0o666))
		assert.Assert(t, s.script("exit 3").StateLost)
		const timeout = 3 * time.Second
		enginetest.Within(t, timeout+policy.TerminationTimeout+slack, "the command", func() {
			_, err := s.Run(t.Context(), execpolicy.Command{Script: ":", Timeout: timeout})
			assert.ErrorIs(t, err, execpolicy.ErrScript)
			assert.ErrorIs(t, err, execpolicy.ErrTimeout)
		})
		assert.NilError(t, os.Remove(hang))
		assert.Equal(t, s.ok("echo again"), "again")
	})
}

// Startup scripts have half of TerminationTimeout on top of a command's time, however
// short that is.
func TestStartupIsNotTheCommandsAlone(t *testing.T) {
	enginetest.Check(t)
	limits := hostLimits
	limits.TerminationTimeout = 12 * time.Second
	s := open(t, execpolicy.HostPolicy{Limits: limits}, execpolicy.Spec{Startup: []string{"[ ! -e slow ] || sleep 4"}})
	s.ok(">slow")
	assert.Assert(t, s.script("exit 3").StateLost)
	for try := 1; ; try++ {
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo hi", Timeout: time.Second / 2})
		if err == nil && r.Outcome == execpolicy.OutcomeExited {
			assert.Equal(t, string(r.Stdout), "hi\n")
			break
		}
		// A machine under load may need longer for all of it.
		assert.Assert(t, try < tries, "%v: %+v", err, r)
	}
	// The longest timeout is one that never passes.
	r := s.run(execpolicy.Command{Script: "echo hi; sleep 0.1", Timeout: math.MaxInt64})
	assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
	assert.Assert(t, s.script("exit 3").StateLost)
	r = s.run(execpolicy.Command{Script: "echo hi", Timeout: math.MaxInt64})
	assert.Equal(t, string(r.Stdout), "hi\n")
}

// With an engine that does not answer, Close and Restart come back in time and say what
// is not known; both may be tried again.
func TestRestartAndCloseOfAnEngineThatHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	fakes := []*fakeengine.Engine{fakeengine.New(t, dockercli.Docker, fakeengine.Faults{}),
		fakeengine.New(t, dockercli.Podman, fakeengine.Faults{})}
	enginetest.Check(t) // behind the engines, which what goes on trying needs to the end
	for _, fake := range fakes {
		t.Run(fake.Kind.String(), func(t *testing.T) {
			t.Parallel()
			limits := execpolicy.Limits{StartupTimeout: ample, TerminationTimeout: 3 * time.Second}
			s := open(t, execpolicy.DockerPolicy{Engine: fake.Engine, Limits: limits}, execpolicy.Spec{})
			hung := fakeengine.Faults{Hang: []string{fakeengine.Every}}
			fake.Set(hung)
			enginetest.Within(t, limits.TerminationTimeout+slack, "Restart", func() {
				assert.ErrorIs(t, s.Restart(t.Context()), execpolicy.ErrStillThere)
			})
			fake.Set(fakeengine.Faults{})
			s.restart()
			assert.Equal(t, s.ok("echo again"), "again")
			fake.Set(hung)
			enginetest.Within(t, limits.TerminationTimeout+slack, "Close", func() {
				assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere)
			})
			// The guard removes what Close could not.
			fake.Set(fakeengine.Faults{})
		})
	}
}
