package dockercli

import (
	"context"
	"io"
	"sync"
)

// PullOptions are the arguments of pull.
type PullOptions struct {
	// Image is the image's reference. Podman may ask which registry is meant if it names
	// none, and then fails.
	Image string
	// Platform is the image's, such as "linux/arm64". If empty, the engine's own.
	Platform string
	// Progress takes what the client prints, as it comes. If nil, that is dropped. An
	// error of Progress is ignored. If a Write does not return, Pull fails when the
	// client has ended.
	Progress io.Writer
}

// Pull gets an image from its registry. Its error matches [ErrPull], unless the client
// could not reach the engine or refused an argument.
func (e *Engine) Pull(ctx context.Context, o PullOptions) error {
	argv, err := e.pullArgs(o)
	if err != nil {
		return err
	}
	c := call{verb: "pull", argv: argv}
	if o.Progress != nil {
		w := &progressWriter{w: o.Progress}
		c.stdout, c.stderr = w, w
	}
	_, err = e.do(ctx, c)
	if failed, ok := err.(*Error); ok && (failed.Class == nil || failed.Class == ErrImageMissing || failed.Cause != nil) {
		failed.Class = ErrPull
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
