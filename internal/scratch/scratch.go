// Package scratch is about what packages that build on a session keep in its container
// for a while.
package scratch

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
)

// Timeout bounds each thing that is done around a program, all of which take a tenth of a
// second.
const Timeout = 30 * time.Second

// Dir returns a directory's name that is like no other's, in /tmp or in what env has as
// TMPDIR. An error wraps [execpolicy.ErrInvalid].
func Dir(env map[string]string) (string, error) {
	temp, ok := env["TMPDIR"]
	if !ok {
		temp = "/tmp"
	} else if !path.IsAbs(temp) {
		return "", fmt.Errorf("%w: TMPDIR is %q, which is not absolute", execpolicy.ErrInvalid, temp)
	}
	return path.Join(temp, ".cofferdam-"+strings.ToLower(rand.Text())), nil
}

// Clean runs what cleans up, whose end may come no earlier than the session's, and waits
// for that as long as ctx lasts.
func Clean(ctx context.Context, s *execpolicy.Session, argv ...string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ours.SkipHooks(context.WithoutCancel(ctx)), execpolicy.Command{Argv: argv, Timeout: Timeout})
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
