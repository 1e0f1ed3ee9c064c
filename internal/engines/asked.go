package engines

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/shared"
)

// runtimes are the runtimes that engines are known to have. What an engine lacks may be
// there the next time.
var runtimes sync.Map

// runtimeTimeout bounds the question for a runtime.
const runtimeTimeout = 10 * time.Second

// CheckRuntime returns an error that wraps [dockercli.ErrNoRuntime] if the engine does
// not have the runtime. An engine that can't be asked fails to start anything, and says
// why itself.
func CheckRuntime(ctx context.Context, e *dockercli.Engine, name string) error {
	key := Key(e) + " " + name
	if _, ok := runtimes.Load(key); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	err := inTurn(ctx, e, func() error { return e.CheckRuntime(ctx, name) })
	if err == nil {
		runtimes.Store(key, nil)
	}
	if !errors.Is(err, dockercli.ErrNoRuntime) {
		return nil
	}
	return err
}

// probed has, by Key, what engines that callers have made themselves say of themselves,
// as a *shared.Value[*dockercli.Engine] each.
var probed sync.Map

// WithLimits returns the engine with its MissingLimits, for which it is asked if they are
// not known. That takes a tenth of a second, once for each engine.
func WithLimits(ctx context.Context, e *dockercli.Engine) (*dockercli.Engine, error) {
	if e.MissingLimits != nil {
		return e, nil
	}
	value, _ := probed.LoadOrStore(Key(e), shared.New("the engine's limits",
		func(ctx context.Context) (*dockercli.Engine, error) { return probe(ctx, e) }))
	known, err := value.(*shared.Value[*dockercli.Engine]).Get(ctx)
	if err != nil {
		return nil, err
	}
	asked := *e
	asked.MissingLimits = known.MissingLimits
	// What an engine that a caller has made does not say is as true of it.
	asked.Socket, asked.Rootless = cmp.Or(asked.Socket, known.Socket), asked.Rootless || known.Rootless
	return &asked, nil
}

// probe is Probe, in the engine's turn.
func probe(ctx context.Context, e *dockercli.Engine) (known *dockercli.Engine, err error) {
	err = inTurn(ctx, e, func() error {
		known, err = e.Probe(ctx)
		return err
	})
	return known, err
}
