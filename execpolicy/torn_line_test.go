package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A tearing policy is one whose link brings what is long in two pieces.
type tearingPolicy struct{ execpolicy.Policy }

func (p tearingPolicy) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		proc.Stdin = &tearing{WriteCloser: proc.Stdin}
	}
	return proc, err
}

type tearing struct {
	io.WriteCloser
	begun bool // the supervisor was sent
}

func (w *tearing) Write(b []byte) (int, error) {
	const first = 300
	if !w.begun || len(b) < 2*first {
		w.begun = true
		return w.WriteCloser.Write(b)
	}
	n, err := w.WriteCloser.Write(b[:first])
	if err != nil {
		return n, err
	}
	// Signals come meanwhile.
	time.Sleep(50 * time.Millisecond)
	more, err := w.WriteCloser.Write(b[first:])
	return n + more, err
}

// Busybox forgets what it has read of a line when it gets a SIGCHLD, which anybody inside
// can send. Then the session ends: no other script is run than the one that was sent.
func TestLineThatIsTorn(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.Transport = execpolicy.TransportAttach
		spec := p.spec()
		spec.Command = []string{"sh"}
		var script, want strings.Builder
		for i := range 30 {
			fmt.Fprintf(&script, "echo this is the line of the number %d, which is long\n", i)
			fmt.Fprintf(&want, "this is the line of the number %d, which is long\n", i)
		}
		ended := 0
		for range 8 {
			s := open(t, tearingPolicy{policy}, spec)
			s.ok("(while :; do kill -CHLD 1; sleep 0.001; done) >/dev/null 2>&1 &")
			r, err := s.Run(t.Context(), execpolicy.Command{Script: script.String()})
			if errors.Is(err, execpolicy.ErrEnded) {
				ended++
				assert.Assert(t, r == nil || len(r.Stdout) == 0)
			} else {
				assert.NilError(t, err)
				assert.Equal(t, string(r.Stdout), want.String())
			}
			s.Close()
		}
		t.Logf("%d of 8 sessions have ended", ended)
	})
}
