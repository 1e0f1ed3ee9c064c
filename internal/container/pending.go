package container

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// pendingTimeout is how long the first attempt waits that is made when nobody waits
	// any more. The next have twice as long each, up to longestAttempt, for an engine
	// that is only slow. longestPause is between two rounds of them.
	pendingTimeout = 10 * time.Second
	longestAttempt = 30 * time.Second
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
	all     map[*Container]time.Duration // the time of the next attempt
	running bool                         // the goroutine
	changed chan struct{}                // one was added, or the last taken away
}{all: map[*Container]time.Duration{}, changed: make(chan struct{}, 1)}

// addPending reports whether there is room for the container.
func addPending(c *Container) bool {
	pending.Lock()
	defer pending.Unlock()
	if pending.all[c] == 0 {
		if len(pending.all) == maxPending {
			return false
		}
		pending.all[c] = pendingTimeout
	}
	if !pending.running {
		pending.running = true
		go removePending()
	}
	wakePending()
	return true
}

// giveMoreTime gives it to the next attempt for a container.
func giveMoreTime(c *Container) {
	pending.Lock()
	defer pending.Unlock()
	if timeout, ok := pending.all[c]; ok {
		pending.all[c] = min(2*timeout, longestAttempt)
	}
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
		pending.Lock()
		all := maps.Clone(pending.all)
		pending.running = len(all) > 0
		pending.Unlock()
		if len(all) == 0 {
			return
		}
		down := map[*Guard]bool{} // that of the engine
		for c, timeout := range all {
			g := c.guard.Load()
			if down[g] {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			err := c.Force(ctx)
			cancel()
			if err == nil {
				c.unguard()
			} else {
				giveMoreTime(c)
			}
			down[g] = errors.Is(err, dockercli.ErrEngineDown)
		}
	}
}
