package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

func TestJobs(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.ok("job", "action", "list"), "There are no jobs.")
		assert.Equal(t, s.ok("job", "action", "start", "command", `while read -r line; do echo "got $line"; done; exit 3`), "Job 1 has started.")
		assert.Equal(t, s.ok("job", "action", "start", "command", "sleep 600"), "Job 2 has started.")
		// The shell does not wait for them.
		assert.Equal(t, s.ok("shell", "command", "echo on"), "on\n")
		assert.Equal(t, s.ok("job", "action", "write", "job", 1, "text", "a\n"), "Wrote 2 bytes to job 1.")
		s.until("got a\n\nJob 1 runs, for ", "job", "action", "status", "job", 1)
		assert.Equal(t, s.ok("job", "action", "write", "job", 1, "text", "b\n", "eof", true), "Wrote 2 bytes to job 1.")
		text := s.ok("job", "action", "status", "job", 1, "wait", 60)
		assert.Assert(t, strings.HasPrefix(text, "got a\ngot b\n\nExit code: 3\n\nJob 1 has ended after "), text)
		assert.Equal(t, s.fails("job", "action", "write", "job", 1, "text", "c\n"), "Job 1 has ended.")
		assert.Equal(t, s.fails("job", "action", "signal", "job", 1, "signal", "SIGTERM"), "Job 1 has ended.")
		assert.Equal(t, s.ok("job", "action", "list"), "Job 1 has ended: while read -r line; do echo \"got $line\"; done; exit 3\nJob 2 runs: sleep 600\n")
		text = s.ok("job", "action", "kill", "job", 2)
		assert.Assert(t, cmp.Contains(text, "Job 2 has ended after "))
		assert.Equal(t, s.ok("job", "action", "start", "command", "trap 'echo hup' HUP; echo ready; while :; do sleep 0.1; done"), "Job 3 has started.")
		s.until("ready\n", "job", "action", "status", "job", 3)
		assert.Equal(t, s.ok("job", "action", "signal", "job", 3, "signal", "SIGHUP"), "Sent SIGHUP to job 3.")
		s.until("hup\n", "job", "action", "status", "job", 3)
		// What is left out is counted while a job runs, too.
		assert.Equal(t, s.ok("job", "action", "start", "command", "seq 1000000; sleep 600"), "Job 4 has started.")
		s.until("\n1000000\n", "job", "action", "status", "job", 4)
		assert.Assert(t, cmp.Regexp(`\n\.\.\. 68\d{5} bytes \(99\d{4} lines\) dropped \.\.\.\n`, s.ok("job", "action", "status", "job", 4)))
		// They end with the session that they are in.
		s.ok("shell", "restart", true)
		assert.Assert(t, cmp.Contains(s.ok("job", "action", "status", "job", 3), "Job 3 has ended after "))
	})
}

// until calls a tool until its text has something in it.
func (s set) until(want, name string, properties ...any) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := s.ok(name, properties...)
		if strings.Contains(text, want) {
			return
		}
		assert.Assert(s.t, time.Now().Before(end), "%s, and not %s", text, want)
	}
}

func TestJobsBadInput(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		for _, c := range []struct {
			says       string
			properties []any
		}{
			{`"action" is missing`, nil},
			{`"action" must be one of start, status, write, signal, kill, list`, []any{"action", "stop"}},
			{`"command" is missing: start needs a command.`, []any{"action", "start"}},
			{`"job" is missing: kill needs the number of a job.`, []any{"action", "kill"}},
			{"There is no job 7. There are no jobs.", []any{"action", "status", "job", 7}},
			{"NUL", []any{"action", "start", "command", "a\x00b"}},
			{`"signal" must be one of SIGHUP`, []any{"action", "signal", "job", 1, "signal", "SIGKILL"}},
		} {
			assert.Check(t, cmp.Contains(s.fails("job", c.properties...), c.says))
		}
		s.ok("job", "action", "start", "command", "sleep 600")
		assert.Equal(t, s.fails("job", "action", "status", "job", 1, "wait", 61), `"wait" must be from 0 to 60.`)
		assert.Equal(t, s.fails("job", "action", "signal", "job", 1), `"signal" is missing.`)
		// More than the kernel keeps for a job that does not read.
		assert.Equal(t, s.fails("job", "action", "write", "job", 1, "text", strings.Repeat("x", 1<<20)),
			"Job 1 does not read what was written to it so far. It goes on waiting for the job.")
		assert.Equal(t, s.fails("job", "action", "write", "job", 1, "text", "y"),
			"Job 1 has not read what was written to it before, so this was not written.")
		for i := 2; i <= execpolicy.MaxJobs; i++ {
			s.ok("job", "action", "start", "command", "sleep 600")
		}
		assert.Equal(t, s.fails("job", "action", "start", "command", "true"), fmt.Sprintf("the session has %d jobs already; wait for one to end, or kill one", execpolicy.MaxJobs))
	})
}

// A shell may be in a directory that is no more.
func TestJobsWithoutDirectory(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("shell", "command", "mkdir /tmp/d; cd /tmp/d; rmdir /tmp/d")
		assert.Assert(t, cmp.Contains(s.fails("job", "action", "start", "command", "true"), "can't be entered"))
		s.ok("shell", "command", "cd /tmp")
		s.ok("job", "action", "start", "command", "true")
	})
}

func TestJobsAreApproved(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		var asked []string
		p.Spec.Approve = func(ctx context.Context, r execpolicy.Request) error {
			asked = append(asked, fmt.Sprintf("%s %s", r.Kind, r.Code))
			if strings.Contains(r.Code, "bad") {
				return errors.New("not that")
			}
			return nil
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("job", "action", "start", "command", "sh")
		assert.Assert(t, cmp.Contains(s.fails("job", "action", "start", "command", "bad"), "not that"))
		assert.Assert(t, cmp.Contains(s.fails("job", "action", "write", "job", 1, "text", "bad\n"), "not that"))
		assert.DeepEqual(t, asked, []string{"script sh", "script bad", "input bad\n"})
	})
}

func TestJobsFilterBehindEscapes(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		rules, err := redact.New(redact.Rule{Type: "ip", Strategy: redact.Block})
		assert.NilError(t, err)
		p.Spec.Filter = rules.Writer
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("job", "action", "start", "command", `printf '10.1.\033[m2.3\n'; sleep 4872`)
		s.until("Output blocked: detected ip.\n\nJob 1 runs, for ", "job", "action", "status", "job", 1)
		text := s.ok("job", "action", "kill", "job", 1)
		assert.Assert(t, strings.HasPrefix(text, "Output blocked: detected ip.\n\nJob 1 has ended after "), text)
	})
}

func TestJobsHideSecrets(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		p.Spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2-hunter2"}}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("job", "action", "start", "command", "echo $TOKEN; : hunter2-hunter2")
		for _, text := range []string{s.ok("job", "action", "status", "job", 1, "wait", 60), s.ok("job", "action", "list")} {
			assert.Check(t, cmp.Contains(text, "[secret TOKEN]"))
			assert.Check(t, !strings.Contains(text, "hunter2"))
		}
	})
}
