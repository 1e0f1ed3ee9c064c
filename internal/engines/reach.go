// Package engines reaches engines, which may be on other machines, and asks each of them
// once what does not change in a program's life.
package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// Key tells engines apart.
func Key(e *dockercli.Engine) string {
	return fmt.Sprintf("%q", []any{e.Path, e.Global, e.Env})
}

// Connecting is the turn of those whose client has yet to reach a remote engine:
// sessions, jobs, and the questions before a start. An sshd refuses some of more than ten
// clients that it does not know yet, and others remove containers meanwhile.
var Connecting = turn.New(4)

// connectTime is how long one has the turn at most. An engine may not answer at all, and
// a session may wait for its process to be ready before it asks whether the engine does.
const connectTime = 30 * time.Second

// Connect waits for the turn to reach an engine, and returns what gives it back. Only a
// remote engine has to be waited for.
func Connect(ctx context.Context, e *dockercli.Engine) (connected func(), err error) {
	if !e.Remote {
		return func() {}, nil
	}
	return Connecting.Hold(ctx, connectTime)
}

// maxRetries is how many times an engine is asked again: as often as a start is tried
// again.
const maxRetries = 2

// inTurn calls ask, which asks an engine something, in the turn of those who have yet to
// reach a remote one. If the client was not let in, it asks again.
func inTurn(ctx context.Context, e *dockercli.Engine, ask func() error) error {
	if !e.Remote {
		return ask()
	}
	for try := 0; ; try++ {
		if err := Connecting.Take(ctx); err != nil {
			return err
		}
		err := ask()
		Connecting.Give()
		failed, ok := err.(*dockercli.Error)
		if !ok || !NotLetIn(failed) || try == maxRetries || Pause(ctx, err) != nil {
			return err
		}
	}
}

// OnFirst returns a stream that calls first when its first byte comes. Code inside of a
// container can hold up what comes then, but not that.
func OnFirst(stream io.ReadCloser, first func()) io.ReadCloser {
	return &heard{stream, first}
}

type heard struct {
	io.ReadCloser
	first func()
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	if n > 0 {
		h.first()
	}
	return n, err
}

// ErrTurnedAway says why a remote engine was not reached.
var ErrTurnedAway = errors.New("the SSH server refused the connection, as it does if too many are being opened at the same time")

// NotLetIn reports whether a remote engine's client was turned away by the sshd, at once
// or when it asked for the version of the engine's API.
func NotLetIn(err *dockercli.Error) bool { return err.TurnedAway() || err.Unnegotiated() }

// turnedAwayPause is how long a start waits after an sshd has refused its connection.
// Others connect meanwhile.
const turnedAwayPause = time.Second

// Pause waits until an sshd may accept a connection that it has refused. It returns cause
// if ctx ends first.
func Pause(ctx context.Context, cause error) error {
	select {
	case <-time.After(turnedAwayPause):
		return nil
	case <-ctx.Done():
		return cause
	}
}
