package execpolicy

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// engine returns the engine to drive.
func (p *DockerPolicy) engine(ctx context.Context) (*dockercli.Engine, error) {
	if p.Engine != nil {
		return p.Engine.Resolve()
	}
	found.Lock()
	if found.engine != nil {
		defer found.Unlock()
		return found.engine, nil
	}
	s := found.search
	if s == nil {
		s = &search{done: make(chan struct{})}
		found.search = s
		go s.run(context.WithoutCancel(ctx))
	}
	found.Unlock()
	select {
	case <-s.done:
		return s.engine, s.err
	case <-ctx.Done():
		return nil, fmt.Errorf("looking for an engine: %w", context.Cause(ctx))
	}
}

// A search looks for an engine, on behalf of all who wait for one.
type search struct {
	done   chan struct{} // closed when the rest is known
	engine *dockercli.Engine
	err    error
}

func (s *search) run(ctx context.Context) {
	s.engine, s.err = dockercli.Find(ctx)
	found.Lock()
	defer found.Unlock()
	found.engine, found.search = s.engine, nil
	close(s.done)
}

// FindEngine returns the engine that Spawn drives. That is Engine or, if it is nil, what
// [dockercli.Find] returns, which is remembered for the program's life. Its error is that
// of Find or wraps the cause of ctx.
func (p DockerPolicy) FindEngine(ctx context.Context) (*dockercli.Engine, error) {
	return p.engine(ctx)
}

// found is the engine that was found, to which it costs a tenth of a second to talk.
var found struct {
	sync.Mutex
	engine *dockercli.Engine
	search *search // nil if nobody looks
}
