package dockercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// PullOptions are the arguments of pull.
type PullOptions struct {
	// Image is the image's reference. If it names no registry, podman may ask which one
	// is meant, and then fails.
	Image string
	// Platform is the image's, such as "linux/arm64". If empty, the engine's own.
	Platform string
	// Progress takes what the client prints, as it comes. If nil, that is dropped. An
	// error of Progress is ignored. If a Write does not return, Pull fails when the
	// client has ended. Nothing is written if another call already pulls the image.
	Progress io.Writer
}

// Pull gets an image from its registry. Calls of this program that come while the same
// client already pulls the same image wait for that pull, and return its error. If the
// context of the call that began it ends, or its Progress is stuck, one of them begins
// another. The error matches [ErrPull], unless the client could not reach the engine or
// refused an argument.
func (e *Engine) Pull(ctx context.Context, o PullOptions) error {
	argv, err := e.pullArgs(o)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%q", []any{argv, e.Env})
	for {
		own := &pull{done: make(chan struct{})}
		other, begun := pulls.LoadOrStore(key, own)
		if !begun {
			own.err = e.pull(ctx, argv, o.Progress)
			own.abandoned = ctx.Err() != nil || errors.Is(own.err, procgroup.ErrWriterStuck)
			pulls.Delete(key)
			close(own.done)
			return own.err
		}
		p := other.(*pull)
		select {
		case <-p.done:
		case <-ctx.Done():
			failed := newError("pull", argv, -1, nil, context.Cause(ctx))
			failed.Class = ErrPull
			return failed
		}
		if p.err == nil || !p.abandoned {
			return p.err
		}
	}
}

// pulls has the pulls that are under way, as a *pull each, by their command lines.
var pulls sync.Map

// A pull is one for which several may wait.
type pull struct {
	done      chan struct{} // closed when the rest is known
	err       error
	abandoned bool // its error is that of whoever began it, and not the pull's
}

// pull runs the client.
func (e *Engine) pull(ctx context.Context, argv []string, progress io.Writer) error {
	c := call{verb: "pull", argv: argv}
	if progress != nil {
		w := &progressWriter{w: progress}
		c.stdout, c.stderr = w, w
	}
	_, err := e.do(ctx, c)
	if failed, ok := err.(*Error); ok && (failed.Class == nil || failed.Class == ErrImageMissing || failed.Cause != nil) {
		failed.Class = ErrPull
	} else if errors.Is(err, procgroup.ErrWriterStuck) {
		err = fmt.Errorf("pull: %w: %w", ErrPull, err)
	}
	return err
}

func (e *Engine) pullArgs(o PullOptions) ([]string, error) {
	var c checker
	c.image(o.Image)
	f := flags{words: []string{"pull"}}
	f.value("platform", o.Platform)
	argv := append(e.argv(f.words...), "--", o.Image)
	c.words(argv)
	return argv, c.err()
}

// A progressWriter passes on both of a client's streams, one write at a time, and never
// fails.
type progressWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *progressWriter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(b)
	return len(b), nil
}
