package container

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// pendingTimeout is how long one attempt waits that is made when nobody waits any
	// more, and longestPause is between two rounds of them.
	pendingTimeout = 10 * time.Second
	longestPause   = time.Minute
	// maxPending is how many containers there may be. The guard has the others, too, when
	// this program ends.
	maxPending = 1000
)

// pending are the containers that are removed as soon as their engines answer again, or
// as they come into being. There is one goroutine for all of them, as long as there are
// any.
var pending = struct {
	sync.Mutex
	all     map[*Container]struct{}
	running bool          // the goroutine
	changed chan struct{} // one was added, or the last taken away
}{all: map[*Container]struct{}{}, changed: make(chan struct{}, 1)}

func addPending(c *Container) {
	pending.Lock()
	defer pending.Unlock()
	if len(pending.all) == maxPending {
		return
	}
	pending.all[c] = struct{}{}
	if !pending.running {
		pending.running = true
		go removePending()
	}
	wakePending()
}

func dropPending(c *Container) {
	pending.Lock()
	defer pending.Unlock()
	if delete(pending.all, c); len(pending.all) == 0 && pending.running {
		wakePending()
	}
}

func wakePending() {
	select {
	case pending.changed <- struct{}{}:
	default:
	}
}

func removePending() {
	for pause := lookAgain; ; pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-pending.changed:
			pause = lookAgain
			time.Sleep(pause)
		}
		var all []*Container
		pending.Lock()
		for c := range pending.all {
			all = append(all, c)
		}
		pending.running = len(all) > 0
		pending.Unlock()
		if len(all) == 0 {
			return
		}
		down := map[*guard]bool{} // that of the engine
		for _, c := range all {
			g := c.guard.Load()
			if down[g] {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), pendingTimeout)
			err := c.Force(ctx)
			cancel()
			if err == nil {
				c.unguard()
			}
			down[g] = errors.Is(err, dockercli.ErrEngineDown)
		}
	}
}
