package execpolicy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
)

// filtered is a spec whose output passes rules.
func (p place) filtered(t *testing.T, rules ...redact.Rule) execpolicy.Spec {
	t.Helper()
	r, err := redact.New(rules...)
	assert.NilError(t, err)
	spec := p.spec()
	spec.Filter = r.Writer
	return spec
}

const card = "4532-0151-1283-0366"

// What a filter takes out is nowhere: not in the result, its text, its head or tail, nor
// with the caller's writers.
func TestFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.MaxOutputBytes = 4000
		s := open(t, policy, p.filtered(t, redact.Rule{Type: "email"},
			redact.Rule{Type: "credit_card", Strategy: redact.Mask}, redact.Secrets("two\nlines", "hunter2")))
		t.Run("3.2.5 D29 both streams, everywhere", func(t *testing.T) {
			s := session{s.Session, t}
			var out, errOut bytes.Buffer
			r := s.run(execpolicy.Command{
				Script: "echo 'Contact: user@example.com'; printf 'two\\nlines, hun'; sleep 0.05; printf ter2; echo '" +
					card + "' >&2; printf user@",
				Stdout: &out, Stderr: &errOut,
			})
			want := "Contact: [REDACTED_EMAIL]\n[REDACTED_SECRET], [REDACTED_SECRET]user@"
			assert.Equal(t, string(r.Stdout), want)
			assert.Equal(t, out.String(), want)
			assert.Equal(t, string(r.Stderr), "****-****-****-0366\n")
			assert.Equal(t, errOut.String(), "****-****-****-0366\n")
			assert.Equal(t, r.StdoutInfo, execpolicy.StreamInfo{Bytes: int64(len(want)), Lines: 2, Cut: len(want)})
			for _, part := range []string{"Contact: [REDACTED_EMAIL]\n", "[stderr] ****-****-****-0366\n",
				"[REDACTED_SECRET], [REDACTED_SECRET]user@"} {
				assert.Assert(t, strings.Contains(r.Text(), part), r.Text())
			}
		})
		t.Run("before anything is cut", func(t *testing.T) {
			s := session{s.Session, t}
			r := s.script("i=0; while [ $i -lt 1000 ]; do echo $i user@example.com; i=$((i + 1)); done")
			assert.Assert(t, r.StdoutInfo.DroppedBytes > 0)
			assert.Equal(t, r.StdoutInfo.Lines, int64(1000))
			assert.Assert(t, !strings.Contains(string(r.Stdout), "@"))
			assert.Assert(t, !strings.Contains(r.Text(), "@"))
		})
		t.Run("binary output that has nothing", func(t *testing.T) {
			s := session{s.Session, t}
			r := s.script(`printf 'a\000\377\r\n\n\001'`)
			assert.Equal(t, string(r.Stdout), "a\x00\xff\r\n\n\x01")
		})
		t.Run("one command's end is not the next one's beginning", func(t *testing.T) {
			s := session{s.Session, t}
			assert.Equal(t, string(s.script("printf hun").Stdout), "hun")
			assert.Equal(t, string(s.script("printf ter2").Stdout), "ter2")
		})
		t.Run("a command that is ended", func(t *testing.T) {
			s := session{s.Session, t}
			r := s.until(func(r *execpolicy.Result) bool { return inside(r) && len(r.Stdout) > 0 }, nil,
				s.shortly("printf 'user@example.com'; sleep 4901"))
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			assert.Equal(t, string(r.Stdout), "[REDACTED_EMAIL]")
		})
		t.Run("the output limit counts what is printed", func(t *testing.T) {
			s := session{s.Session, t}
			// A line that does not end is held.
			r := s.run(execpolicy.Command{Script: "printf %01000d 0; sleep 4902", OutputLimit: 999})
			assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
			assert.Equal(t, r.StdoutInfo.Bytes, int64(1000))
		})
		t.Run("a background job while no command runs", func(t *testing.T) {
			s := session{s.Session, t}
			s.ok("{ while [ ! -e /tmp/go ]; do sleep 0.01; done; echo user@example.com; >/tmp/gone; } & :")
			s.ok(">/tmp/go; while [ ! -e /tmp/gone ]; do sleep 0.01; done")
			assert.Assert(t, !strings.Contains(s.ok("true"), "@"))
		})
	})
}

// Output that is blocked is nowhere, and the command has run.
func TestFilterBlocks(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.filtered(t, redact.Rule{Type: "email", Strategy: redact.Block}))
		for _, c := range []struct{ name, script string }{
			{"a line", "echo before; echo user@example.com; echo after; kept=5; (exit 3)"},
			{"the end", "echo before >&2; printf user@example.com; kept=5; (exit 3)"},
			{"stderr", "echo before; echo user@example.com >&2; kept=5; (exit 3)"},
			{"both", "echo user@example.com; echo user@example.com >&2; kept=5; (exit 3)"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				s.ok("kept=")
				var out bytes.Buffer
				r, err := s.Run(t.Context(), execpolicy.Command{Script: c.script, Stdout: &out, Stderr: &out})
				assert.ErrorIs(t, err, execpolicy.ErrBlocked)
				var blocked *redact.BlockedError
				assert.Assert(t, errors.As(err, &blocked))
				assert.Equal(t, blocked.Type, "email")
				assert.Equal(t, err.Error(), "output blocked: detected email")
				assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
				assert.Equal(t, r.ExitCode, 3)
				assert.Equal(t, r.Text(), "Output blocked: detected email.")
				assert.Assert(t, r.Stdout == nil && r.Stderr == nil)
				assert.Equal(t, r.StdoutInfo, execpolicy.StreamInfo{})
				assert.Equal(t, r.StderrInfo, execpolicy.StreamInfo{})
				printed := fmt.Sprintf("%+v %v %s", r, err, out.String())
				assert.Assert(t, !strings.Contains(printed, "user@"), printed)
				assert.Equal(t, s.ok("echo $kept"), "5")
			})
		}
	})
}

// A lapse is a filter that fails at once, and at nothing later.
type lapse struct {
	io.Writer
	failed bool
}

func (l *lapse) Write(p []byte) (int, error) {
	if !l.failed {
		l.failed = true
		return 0, io.ErrNoProgress
	}
	return l.Writer.Write(p)
}

func (l *lapse) Close() error { return nil }

// Any error of a filter blocks, and the first is enough.
func TestFilterThatFails(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Filter = func(w io.Writer) io.WriteCloser { return &lapse{Writer: w} }
		s := open(t, p.policy(), spec)
		begun := make(signal, 1)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo one; sleep 0.1; echo two", Stdout: begun})
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
		assert.ErrorIs(t, err, io.ErrNoProgress)
		assert.Equal(t, len(begun), 0)
		assert.Assert(t, r.Stdout == nil)
		// One that prints nothing has nothing to be blocked.
		assert.Equal(t, s.ok("true"), "")
	})
}

// What scripts say on stderr is quoted by errors.
func TestFilterOfScripts(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const script = `echo "no $(printf '%s@%s' user example.com)" >&2; (exit 4)`
		spec := p.filtered(t, redact.Rule{Type: "email"})
		spec.Startup = []string{script}
		_, err := execpolicy.Start(t.Context(), p.policy(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrScript)
		assert.ErrorContains(t, err, "exit code 4: no [REDACTED_EMAIL]")
		assert.Assert(t, !strings.Contains(err.Error(), "user@"))

		spec = p.filtered(t, redact.Rule{Type: "email", Strategy: redact.Block})
		spec.Shutdown = []string{script}
		err = open(t, p.policy(), spec).Close()
		assert.ErrorIs(t, err, execpolicy.ErrScript)
		assert.ErrorContains(t, err, "exit code 4: detected email")
		assert.Assert(t, !strings.Contains(err.Error(), "user@"))
	})
}

// A tail is a filter that holds all until it is closed.
type tail struct {
	bytes.Buffer
	w      io.Writer
	closed chan struct{}
}

func (l *tail) Close() error {
	defer close(l.closed)
	_, err := l.WriteTo(l.w)
	return err
}

// What a filter holds to the end comes at once, though the command's writer takes
// nothing, and the call ends in time.
func TestFilterBeforeAWriterThatIsStuck(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.TerminationTimeout = 2 * time.Second
		spec := p.spec()
		var closed []chan struct{}
		spec.Filter = func(w io.Writer) io.WriteCloser {
			l := &tail{w: w, closed: make(chan struct{})}
			closed = append(closed, l.closed)
			return l
		}
		s := open(t, policy, spec)
		never, stuck := io.Pipe()
		defer never.Close()
		// The writer is left behind at the deadline, by which the command has to have
		// ended.
		unhurried(t, 5*short, func(limit time.Duration) error {
			if s.over() {
				assert.NilError(t, s.Restart(t.Context()))
			}
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "head -c 300000 /dev/zero", Stdout: stuck, Timeout: limit})
			if r == nil {
				return err
			}
			if r.Outcome != execpolicy.OutcomeExited {
				return errors.New(r.Text())
			}
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, len(r.Stdout), 300000)
			return nil
		})
		if s.over() {
			assert.NilError(t, s.Restart(t.Context()))
		}
		var out bytes.Buffer
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "head -c 300000 /dev/zero", Stdout: &out})
		assert.NilError(t, err)
		assert.Equal(t, out.Len(), 300000)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		for _, c := range closed {
			<-c
		}
	})
}
