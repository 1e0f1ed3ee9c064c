//go:build linux

package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

const sessionClosed = "end gone because the session is closed"

// What is a value, a content or an output is in no event.
const auditSecret = "kept-from-the-trail"

var auditCases = []placeCase{
	{"a session", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Env = map[string]string{"TOKEN": auditSecret}
		spec.Startup, spec.Shutdown = []string{"x=1"}, []string{"echo bye"}
		begin := time.Now()
		s := open(t, p.policy(), spec)
		s.ok("echo $TOKEN")
		r := s.run(execpolicy.Command{
			Argv: []string{"sh", "-c", "cat; exit 3"}, Dir: "/tmp", Env: map[string]string{"B": auditSecret, "A": "x"},
			Stdin: strings.NewReader(auditSecret),
		})
		assert.Equal(t, string(r.Stdout), auditSecret)
		name := s.Name()
		state, err := p.engine.Inspect(t.Context(), name)
		assert.NilError(t, err)
		assert.NilError(t, s.Close())
		l.is(t, "spawn", "start",
			`command startup "x=1"`, "result of 3 exited 0",
			`command "echo $TOKEN"`, "result of 5 exited 0 in 0 out 20",
			`command ["sh" "-c" "cat; exit 3"] in /tmp with ["A" "B"]`, "result of 7 exited 3 in 19 out 19",
			`command shutdown "echo bye"`, "result of 9 exited 0 in 0 out 4",
			sessionClosed)
		events := l.all()
		for _, e := range events {
			assert.Equal(t, e.Name, name)
			assert.Assert(t, e.Time.After(begin) && e.Time.Before(time.Now()))
			assert.Assert(t, !strings.Contains(fmt.Sprintf("%+v", e), auditSecret), "%+v", e)
		}
		spawn, start, result := events[0], events[1], events[7]
		assert.Assert(t, slices.Contains(spawn.Argv, "--name="+name), "%q", spawn.Argv)
		assert.Equal(t, start.Image, state.ImageID)
		assert.Assert(t, start.Image != "" && start.Duration > 0)
		assert.DeepEqual(t, start.Env, []string{"HOME", "TOKEN"})
		assert.Equal(t, result.Duration, r.Duration)
		assert.Assert(t, result.OOMBefore == r.OOMBefore && result.OOMAfter == r.OOMAfter)
		assert.Assert(t, events[len(events)-1].Duration >= start.Duration)
	}},
	{"the escalation", func(t *testing.T, p place) {
		const stubborn = "trap '' TERM; while :; do :; done"
		var c *running
		l := trailOf(t, p.policy(), p.spec(), nil, func(s session) bool {
			s.script("true")
			r, err := s.shortly(stubborn)()
			if err != nil || r.Escalation != execpolicy.EscalationShell {
				return false
			}
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			r, err = s.canceled(errGone, execpolicy.Command{Script: "echo begun; sleep 4751"})()
			if err != nil || !inside(r) {
				return false
			}
			r, err = s.Run(t.Context(), execpolicy.Command{Script: "yes", OutputLimit: 1000})
			if err != nil || !inside(r) {
				return false
			}
			c = s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4752"})
			assert.NilError(t, s.Close())
			<-c.done
			return true
		})
		var of []int
		for _, e := range l.all() {
			if e.Kind == execpolicy.EventCommand {
				of = append(of, e.Seq)
			}
		}
		late := " because the deadline has passed: context deadline exceeded"
		l.is(t, "spawn", "start", `command "true"`, "result of 3 exited 0",
			fmt.Sprintf("command %q", stubborn), "kill by SIGTERM"+late, "result of 5 timed out gone"+late,
			`command "echo begun; sleep 4751"`, "kill by SIGTERM because the user has gone",
			fmt.Sprintf("result of %d canceled gone because the user has gone error the user has gone", of[2]),
			`command "yes"`, "kill by SIGTERM because the output limit was passed",
			fmt.Sprintf("result of %d output limit gone because the output limit was passed", of[3]),
			`command "echo begun; sleep 4752"`, "kill by container because the session is closed", sessionClosed,
			fmt.Sprintf("result of %d canceled gone because the session is closed error the session is closed", of[4]))
		var steps []execpolicy.Escalation
		for _, e := range l.all()[5:8] {
			steps = append(steps, e.Escalation)
		}
		assert.DeepEqual(t, steps, []execpolicy.Escalation{execpolicy.EscalationTerm, execpolicy.EscalationKill,
			execpolicy.EscalationShell})
	}},
	{"what does not begin, or is another shell's", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			if strings.Contains(r.Code, "rm ") {
				return errPolicy
			}
			return nil
		}
		spec.Startup = []string{"y=1"}
		s := open(t, p.policy(), spec)
		s.script("rm file")
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "true", Dir: "/nowhere"})
		assert.ErrorIs(t, err, execpolicy.ErrNoDir)
		s.script("exit 4")
		s.script("echo $y")
		_, err = s.Run(t.Context(), execpolicy.Command{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.NilError(t, s.Close())
		_, err = s.Run(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
		l.is(t, "spawn", "start", `command startup "y=1"`, "result of 3 exited 0",
			`command "rm file"`, "result of 5 refused because the command was refused: script \"rm file\": no deletions today",
			`command "true" in /nowhere`, `result of 7 error the directory can't be entered: "/nowhere"`,
			`command "exit 4"`, "result of 9 exited 4",
			`command "echo $y"`, `command startup "y=1"`, "result of 12 exited 0", "result of 11 exited 0 in 0 out 2",
			sessionClosed)
	}},
	{"a session that is lost, and begun anew", func(t *testing.T, p place) {
		spec, l := p.audited()
		s := open(t, p.policy(), spec)
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4753"})
		first := s.Name()
		p.remove(t, first)
		<-c.done
		assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrEnded)
		assert.NilError(t, s.Restart(t.Context()))
		s.ok("true")
		assert.NilError(t, s.Restart(t.Context()))
		assert.NilError(t, s.Close())
		told := l.told()
		assert.DeepEqual(t, told[:3], []string{"spawn", "start", `command "echo begun; sleep 4753"`})
		assert.Assert(t, strings.HasPrefix(told[3],
			"end gone because its program exited with status 137: it was killed"), told[3])
		assert.Assert(t, strings.HasPrefix(told[4],
			"result of 3 session lost in 0 out 6 gone error the session has ended"), told[4])
		assert.DeepEqual(t, told[5:], []string{
			"spawn", "start", `command "true"`, "result of 3 exited 0", "end gone because the session was restarted",
			"spawn", "start", sessionClosed,
		})
		events := l.all()
		var names []string
		for _, e := range events {
			if e.Kind == execpolicy.EventSpawn {
				names = append(names, e.Name)
			}
		}
		assert.Assert(t, len(names) == 3 && names[0] == first && names[1] != first && names[2] != first &&
			names[1] != names[2], "%q", names)
		l.whole(t)
	}},
	{"a session that has lived its time", func(t *testing.T, p place) {
		unhurried(t, time.Second, func(lifetime time.Duration) error {
			spec, l := p.audited()
			s, err := p.living(t, lifetime, spec)
			if err != nil {
				return err
			}
			<-s.Done()
			assert.NilError(t, s.Close())
			if ended := l.all()[1].Error; ended != "" {
				return errors.New(ended) // it ended while the engine was asked for the image
			}
			l.is(t, "spawn", "start", "end gone because the session's lifetime is over")
			return nil
		})
	}},
	{"files", func(t *testing.T, p place) {
		spec, l := p.audited()
		s := open(t, p.policy(), spec)
		ctx := t.Context()
		large := bytes.Repeat([]byte(auditSecret), 20_000)
		assert.NilError(t, s.WriteFile(ctx, "small", []byte(auditSecret), 0o600))
		assert.NilError(t, s.WriteFile(ctx, "large", large, 0o600))
		got, err := s.ReadFile(ctx, "large", 0)
		assert.NilError(t, err)
		assert.Equal(t, len(got), len(large))
		assert.ErrorIs(t, s.WriteFile(ctx, "none/small", []byte(auditSecret), 0o600), fs.ErrNotExist)
		_, err = s.ReadFile(ctx, "none", 0)
		assert.Assert(t, err != nil)
		_, err = s.ReadFile(ctx, "", 0)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.NilError(t, s.CopyFS(ctx, "tree", fstest.MapFS{"a": {Data: []byte(auditSecret), Mode: 0o600}}))
		var archive bytes.Buffer
		assert.NilError(t, s.CopyOut(ctx, "tree", &archive))
		assert.NilError(t, s.CopyIn(ctx, "again", &archive))
		assert.NilError(t, s.Walk(ctx, "tree", func(execpolicy.TreeEntry, io.Reader) error { return nil }))
		assert.NilError(t, s.Close())
		events := l.all()
		var told []string
		for _, e := range events[2 : len(events)-1] {
			if e.Kind == execpolicy.EventKill {
				continue // of a container that has to be removed
			}
			assert.Assert(t, !strings.Contains(fmt.Sprintf("%+v", e), auditSecret), "%+v", e)
			if e.Kind == execpolicy.EventTransfer {
				told = append(told, e.Op+" "+e.Path)
				continue
			}
			assert.Equal(t, e.Kind, execpolicy.EventTransferred)
			assert.Equal(t, e.Of, e.Seq-1)
			assert.Assert(t, e.Duration > 0)
			told[len(told)-1] += fmt.Sprintf(" %t %t %s", e.In > 0, e.Out > 0, e.Error)
		}
		assert.DeepEqual(t, told, []string{
			"write small true false ", "write large true false ", "read large false true ",
			"write none/small true false no such file or directory: the directory \"none\" is missing; MkdirAll makes it",
			"read none false false no such file or directory",
			"copy to tree true false ", "copy from tree false true ", "copy to again true false ", "copy from tree false true ",
		})
		assert.Equal(t, events[3].In, int64(len(auditSecret)))
		assert.Equal(t, events[5].In, int64(len(large)))
		assert.Equal(t, events[7].Out, int64(len(large)))
		// It was tried in two ways.
		assert.Equal(t, events[9].In, int64(len(auditSecret)))
		l.whole(t)
	}},
	{"what the library's own parts do", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Approve = func(context.Context, execpolicy.Request) error { return errPolicy }
		spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
			_, err := s.Run(ctx, execpolicy.Command{Script: ": prepare"})
			return errors.Join(err, put("made", "12")(ctx, s))
		}
		spec.Finish = func(ctx context.Context, s *execpolicy.Session) error {
			_, err := s.ReadFile(ctx, "made", 0)
			return err
		}
		s := open(t, p.policy(), spec)
		assert.NilError(t, s.Close())
		l.is(t, "spawn", "start", `command ": prepare"`, "result of 3 exited 0", `transfer write "made"`,
			"transferred of 5 in 2 out 0",
			`transfer read "made"`, "transferred of 7 in 0 out 2", sessionClosed)
	}},
	{"a start that fails", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Startup = []string{"false"}
		_, err := execpolicy.Start(t.Context(), p.policy(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrScript)
		l.is(t, "spawn", "start", `command startup "false"`,
			`result of 3 error startup script failed: "false": exit code 1: `, "end gone",
			"failed error "+err.Error())
		spec, l = p.audited()
		policy := p.policy()
		policy.ExtraRunArgs = []string{"--privileged"}
		_, err = execpolicy.Start(t.Context(), policy, spec)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		l.is(t, "failed error "+err.Error())
		assert.Equal(t, l.all()[0].Name, "")
	}},
	{"commands at the same time", func(t *testing.T, p place) {
		spec, l := p.audited()
		s := open(t, p.policy(), spec)
		const n = 20
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				_, err := s.Run(t.Context(), execpolicy.Command{Script: fmt.Sprintf("echo %d", i)})
				assert.Check(t, err)
			})
		}
		all.Wait()
		assert.NilError(t, s.Close())
		events := l.all()
		assert.Assert(t, len(events) >= 2*n+3)
		for i := range n {
			assert.Equal(t, events[2+2*i].Kind, execpolicy.EventCommand)
			assert.Equal(t, events[3+2*i].Kind, execpolicy.EventResult)
			assert.Equal(t, events[3+2*i].Of, events[2+2*i].Seq)
		}
		l.whole(t)
	}},
	{"no record, nothing done", func(t *testing.T, p place) {
		const full = " error no record was made: the disk is full"
		for _, c := range []struct {
			kind execpolicy.EventKind
			do   func(t *testing.T, s session)
			told []string // between the start and the end
		}{
			{execpolicy.EventSpawn, nil, nil},
			{execpolicy.EventStart, nil, nil},
			{execpolicy.EventCommand, func(t *testing.T, s session) {
				r, err := s.Run(t.Context(), execpolicy.Command{Script: ">made"})
				assert.Assert(t, r == nil)
				lost(t, err)
				assert.Equal(t, s.ok("ls"), "")
			}, []string{"result of 3" + full, `command "ls"`, "result of 5 exited 0"}},
			{execpolicy.EventResult, func(t *testing.T, s session) {
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo done"})
				lost(t, err)
				assert.Equal(t, string(r.Stdout), "done\n")
			}, []string{`command "echo done"`}},
			{execpolicy.EventTransfer, func(t *testing.T, s session) {
				lost(t, s.WriteFile(t.Context(), "made", []byte("x"), 0o600))
				assert.Equal(t, s.ok("ls"), "")
			}, []string{"transferred of 3" + full, `command "ls"`, "result of 5 exited 0"}},
			{execpolicy.EventTransferred, func(t *testing.T, s session) {
				lost(t, s.WriteFile(t.Context(), "made", []byte("x"), 0o600))
				assert.Equal(t, s.ok("ls"), "made")
			}, []string{`transfer write "made"`, `command "ls"`, "result of 5 exited 0 in 0 out 5"}},
			{execpolicy.EventKill, func(t *testing.T, s session) {
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "sleep 4754", Timeout: short})
				lost(t, err)
				assert.Assert(t, r.Outcome == execpolicy.OutcomeTimedOut && r.Gone)
			}, []string{`command "sleep 4754"`,
				"result of 3 timed out gone because the deadline has passed: context deadline exceeded"}},
			{execpolicy.EventEnd, func(t *testing.T, s session) {
				lost(t, s.Close())
				lost(t, s.Close())
			}, nil},
		} {
			t.Run(string(c.kind), func(t *testing.T) {
				spec, l := p.audited()
				failed := false
				l.on = func(e execpolicy.Event) error {
					// A busy machine may need more than one step.
					if e.Kind == c.kind && (!failed || e.Escalation == execpolicy.EscalationKill ||
						e.Escalation == execpolicy.EscalationShell) {
						failed = true
						return errTrail
					}
					return nil
				}
				s, err := execpolicy.Start(t.Context(), p.policy(), spec)
				want := slices.Concat([]string{"spawn", "start"}, c.told, []string{sessionClosed})
				switch c.kind {
				case execpolicy.EventSpawn:
					lost(t, err)
					want = []string{"failed" + full}
				case execpolicy.EventStart:
					lost(t, err)
					want = []string{"spawn", "end gone", "failed error the session did not start: no record was made: the disk is full; the engine is " + p.engine.String()}
				default:
					assert.NilError(t, err)
					c.do(t, session{s, t})
					if err := s.Close(); c.kind == execpolicy.EventEnd {
						want = want[:2]
					} else {
						assert.NilError(t, err)
					}
				}
				assert.DeepEqual(t, l.told(), want)
			})
		}
	}},
	{"a start without a session", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Command = []string{"true"}
		proc, err := p.policy().Spawn(t.Context(), spec)
		assert.NilError(t, err)
		readAll(t, proc.Stdout)
		readAll(t, proc.Stderr)
		assert.NilError(t, proc.Kill(t.Context()))
		assert.DeepEqual(t, l.told(), []string{"spawn"})
		assert.Equal(t, l.all()[0].Name, proc.Name)
		l.on = func(execpolicy.Event) error { return errTrail }
		_, err = p.policy().Spawn(t.Context(), spec)
		lost(t, err)
	}},
	{"a record that is never taken", func(t *testing.T, p place) {
		policy := p.policy()
		policy.TerminationTimeout = 2 * time.Second
		// Who waited for the record itself would never return.
		const bound = 30 * time.Second
		for _, kind := range []execpolicy.EventKind{execpolicy.EventStart, execpolicy.EventCommand, execpolicy.EventKill} {
			t.Run(string(kind), func(t *testing.T) {
				var spec execpolicy.Spec
				var l *trail
				free := func() {}
				defer func() { free() }()
				begin := func() {
					free()
					spec, l = p.audited()
					release := make(chan struct{})
					l.on = func(e execpolicy.Event) error {
						if e.Kind == kind {
							<-release
						}
						return nil
					}
					free = sync.OnceFunc(func() { close(release) })
				}
				begin()
				if kind == execpolicy.EventStart {
					var err error
					enginetest.Within(t, bound, "the start", func() { _, err = execpolicy.Start(t.Context(), policy, spec) })
					assert.ErrorIs(t, err, execpolicy.ErrAudit)
					free()
					wait(t, func() bool {
						all := l.all()
						return len(all) > 0 && all[len(all)-1].Kind == execpolicy.EventFailed
					}, "the failure was not told")
					// A busy engine may have to be asked to remove the container, and
					// more than once.
					told := l.told()
					assert.DeepEqual(t, told[:2], []string{"spawn", "start"})
					assert.Equal(t, told[len(told)-1], "failed error "+err.Error())
					l.whole(t)
					return
				}
				s := open(t, policy, spec)
				for try := 1; ; try++ {
					var r *execpolicy.Result
					var err error
					enginetest.Within(t, bound, "a command", func() {
						r, err = s.Run(t.Context(), execpolicy.Command{Script: "trap '' TERM; while :; do :; done", Timeout: short})
					})
					assert.ErrorIs(t, err, execpolicy.ErrAudit)
					if kind == execpolicy.EventCommand {
						assert.Assert(t, r == nil)
						break
					}
					assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
					if r.Escalation == execpolicy.EscalationShell && r.Gone {
						break
					}
					// The shell of a busy machine has not ended in time, for which the
					// session has.
					assert.Assert(t, try < tries, "%+v", r)
					begin()
					s.Close()
					s = open(t, policy, spec)
				}
				// Nobody waits for it again: each of these would for the whole time.
				enginetest.Within(t, 3*policy.TerminationTimeout, "what has no record", func() {
					for range 5 {
						_, err := s.Run(t.Context(), execpolicy.Command{Script: "true"})
						assert.ErrorIs(t, err, execpolicy.ErrAudit)
						assert.ErrorIs(t, s.WriteFile(t.Context(), "made", nil, 0o600), execpolicy.ErrAudit)
					}
				})
				enginetest.Within(t, bound, "Close", func() { assert.ErrorIs(t, s.Close(), execpolicy.ErrAudit) })
				<-s.Done()
				// What was handed over is told when it can be, whole and in order.
				free()
				wait(t, func() bool {
					all := l.all()
					return all[len(all)-1].Kind == execpolicy.EventEnd
				}, "the end was not told")
				l.whole(t)
				if kind == execpolicy.EventKill {
					assert.Assert(t, len(l.all()) >= 8)
				}
			})
		}
	}},
	{"more than can wait", func(t *testing.T, p place) {
		spec, l := p.audited()
		release := make(chan struct{})
		l.on = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand {
				<-release
			}
			return nil
		}
		policy := p.policy()
		policy.TerminationTimeout = 2 * time.Second
		s := open(t, policy, spec)
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "true"})
		assert.ErrorIs(t, err, execpolicy.ErrAudit)
		// The first one ends the container, for which an engine under load may need more
		// time than one call has.
		for range tries {
			if err = s.Restart(t.Context()); errors.Is(err, execpolicy.ErrAudit) {
				break
			}
			assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		}
		for range 100 {
			assert.ErrorIs(t, s.Restart(t.Context()), execpolicy.ErrAudit)
		}
		close(release)
		assert.ErrorIs(t, s.Close(), execpolicy.ErrAudit)
		assert.Equal(t, len(l.all()), 2+1+64)
	}},
	{"values of variables on a command line", func(t *testing.T, p place) {
		spec, l := p.audited()
		spec.Env = map[string]string{"TOKEN": auditSecret}
		l.on = func(e execpolicy.Event) error {
			assert.Check(t, slices.Contains(e.Argv, "TOKEN=***"), "%q", e.Argv)
			return errTrail
		}
		policy := execpolicy.Compat()
		policy.Engine = p.engine
		_, err := policy.Spawn(t.Context(), spec)
		lost(t, err)
	}},
	{"a record that is slow", func(t *testing.T, p place) {
		const slow = 200 * time.Millisecond
		on := func(execpolicy.Event) error {
			<-time.After(slow)
			return nil
		}
		l := trailOf(t, p.policy(), p.spec(), on, func(s session) bool {
			r, err := s.shortly("sleep 4755")()
			if err != nil || !inside(r) {
				return false
			}
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			// A command's time begins behind its record, and the record of its end comes
			// behind.
			begin := time.Now()
			r = s.script("echo x")
			took := time.Since(begin)
			assert.Assert(t, took-r.Duration >= 2*slow, "%v, %v", took, r.Duration)
			assert.NilError(t, s.Close())
			return true
		})
		late := " because the deadline has passed: context deadline exceeded"
		l.is(t, "spawn", "start", `command "sleep 4755"`, "kill by SIGTERM"+late, "result of 3 timed out gone"+late,
			`command "echo x"`, l.told()[6], sessionClosed)
		assert.Assert(t, strings.HasSuffix(l.told()[6], " exited 0 in 0 out 2"))
	}},
	{"a record that is waited for", func(t *testing.T, p place) {
		spec, l := p.audited()
		release, asked := make(chan struct{}), make(chan struct{}, 1)
		l.on = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand {
				asked <- struct{}{}
				<-release
			}
			return nil
		}
		s := open(t, p.policy(), spec)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Run(ctx, execpolicy.Command{Script: ">made"})
			done <- err
		}()
		<-asked
		cancel(errGone)
		err := <-done
		assert.ErrorIs(t, err, errGone)
		assert.ErrorIs(t, err, execpolicy.ErrAudit)
		// Nothing was late: the next one waits for it.
		time.AfterFunc(short, func() { close(release) })
		assert.Equal(t, s.ok("ls"), "")
		assert.NilError(t, s.Close())
		l.is(t, "spawn", "start", `command ">made"`, "result of 3 error no record was made: the user has gone",
			`command "ls"`, "result of 5 exited 0", sessionClosed)
	}},
}

// lost checks the error of what has no record.
func lost(t *testing.T, err error) {
	t.Helper()
	assert.ErrorIs(t, err, execpolicy.ErrAudit)
	assert.ErrorIs(t, err, errTrail)
}

// auditOfAnEngine names the cases that are about an engine's command line, or about what
// only an engine's client has. Package kube has those of pods.
var auditOfAnEngine = map[string]bool{
	"a session": true, "a start that fails": true, "a start without a session": true,
	"no record, nothing done": true, "values of variables on a command line": true,
}

func TestAudit(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, c := range auditCases {
			if auditOfAnEngine[c.name] && p.engine == clusterEngine {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.do(t, p)
			})
		}
	})
}
