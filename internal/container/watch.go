package container

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// watchTimeout is how long one attempt waits that is made when nobody waits any more,
	// and longestPause is between two rounds of them.
	watchTimeout = 10 * time.Second
	longestPause = time.Minute
	// maxWatched is how many containers are watched. The guard has the others, too, when
	// this program ends.
	maxWatched = 1000
)

// watched are the containers that are removed as soon as their engines answer again, or
// as they come into being. There is one goroutine for all of them, as long as there are
// any.
var watched = struct {
	sync.Mutex
	all     map[*Container]struct{}
	running bool          // the goroutine
	changed chan struct{} // one was added, or the last taken away
}{all: map[*Container]struct{}{}, changed: make(chan struct{}, 1)}

func watch(c *Container) {
	watched.Lock()
	defer watched.Unlock()
	if len(watched.all) == maxWatched {
		return
	}
	watched.all[c] = struct{}{}
	if !watched.running {
		watched.running = true
		go removeWatched()
	}
	wakeWatch()
}

func unwatch(c *Container) {
	watched.Lock()
	defer watched.Unlock()
	if delete(watched.all, c); len(watched.all) == 0 && watched.running {
		wakeWatch()
	}
}

func wakeWatch() {
	select {
	case watched.changed <- struct{}{}:
	default:
	}
}

func removeWatched() {
	for pause := lookAgain; ; pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
		case <-watched.changed:
			pause = lookAgain
			time.Sleep(pause)
		}
		var all []*Container
		watched.Lock()
		for c := range watched.all {
			all = append(all, c)
		}
		watched.running = len(all) > 0
		watched.Unlock()
		if len(all) == 0 {
			return
		}
		down := map[*guard]bool{} // that of the engine
		for _, c := range all {
			g := c.guard.Load()
			if down[g] {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), watchTimeout)
			err := c.Force(ctx)
			cancel()
			if err == nil {
				c.unguard()
			}
			down[g] = errors.Is(err, dockercli.ErrEngineDown)
		}
	}
}
