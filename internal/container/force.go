package container

import (
	"context"
	"errors"
	"time"
)

const (
	// lookAgain is the pause between two looks. A container may come into being after one
	// that has found none.
	lookAgain = 200 * time.Millisecond
	// createGrace is for an engine under load to make the container of a client that has
	// gone.
	createGrace = 3 * time.Second
	// clientGrace is for a client to see that its container is gone, and for one that
	// does not to be ended.
	clientGrace = time.Second
	// downGrace is how long an engine that is not there is waited for by those who want
	// an answer.
	downGrace = 2 * time.Second
)

var (
	// errThere says that the engine has the container.
	errThere = errors.New("it is there")
	// errMayCome says that there is no container, and that the engine may have been asked
	// for it by a client that was cut off.
	errMayCome = errors.New("it could still come into being")
	// errLives says that process 1 was seen.
	errLives = errors.New("its processes live on")
)

// force has a container removed, and again, until it is seen to be gone and its client,
// which could still create it, has ended. Of the engine it needs observe, which looks at
// the container and at the client, and end, which ends what runs inside and removes the
// container.
func force(
	ctx context.Context,
	client <-chan struct{}, // closed when it has ended
	observe func(context.Context) observation,
	end func(context.Context) error,
) error {
	var r removal
	for {
		o := observe(ctx)
		clear := r.clear
		next := r.next(o)
		if next == stepRemove {
			if err := end(ctx); err != nil {
				o.err = err
			} else {
				o = observe(ctx)
				next = r.next(o)
			}
		}
		switch {
		case next == stepDone:
			return nil
		case next == stepGiveUp:
			return o.err
		case ctx.Err() != nil:
			// A look that the end of the time cuts short tells nothing.
			if clear || r.clear {
				return errMayCome
			}
			return errors.Join(o.reason(), context.Cause(ctx))
		}
		ended := client
		if o.over {
			ended = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.pause(time.Now())):
		case <-ended:
		}
	}
}

// An observation is what one look at a container and at its client shows.
type observation struct {
	asked, answered time.Time // when the engine was asked, and when it had answered
	// err is the engine's answer. It is nil if there is no such container, or one that
	// has ended and is to be kept; it wraps errThere if there is one.
	err error
	// down says that err means that the engine does not answer, or is not there.
	down bool
	// unasked says that err means that the engine could not be connected to.
	unasked bool
	first   evidence
	// began says that the command inside was heard: the engine has nothing to create any
	// more.
	began bool
	// over says that the client had ended before the engine was asked: it has asked for
	// nothing since.
	over bool
	// cut is when it was first seen that a signal had ended the client before the command
	// was heard: the engine, which may have been asked for the container, goes on without
	// it. The zero time means that this is not so.
	cut time.Time
	// unreached says that the client could not connect to the engine.
	unreached bool
}

// reason returns what is not as it should be.
func (o observation) reason() error {
	switch {
	case o.err != nil:
		return o.err
	case o.first == processLives:
		return errLives
	}
	return errMayCome
}

// A removal is what earlier observations have shown.
type removal struct {
	there bool      // it was
	down  time.Time // since when the engine refuses to be asked
	none  time.Time // since when there is nothing, by the engine's answers
	// hung says that the engine did not answer, or answered late: what it was asked for
	// before may come after its answer.
	hung bool
	// clear says that there is nothing, that the client has ended and that the engine
	// answers.
	clear bool
}

// A step is what an observation calls for.
type step int

const (
	stepLook   step = iota // look once more
	stepRemove             // it is there, or may be
	stepDone               // it is gone
	stepGiveUp             // the engine is not there
)

// next returns what is to be done after an observation. It depends on nothing but the
// observations so far.
func (r *removal) next(o observation) step {
	if !o.down {
		r.down = time.Time{}
	} else if r.down.IsZero() {
		r.down = o.asked
	}
	if o.err != nil {
		r.none = time.Time{}
	} else if r.none.IsZero() {
		r.none = o.answered
	}
	r.there = r.there || errors.Is(o.err, errThere)
	r.hung = r.hung || o.down || o.answered.Sub(o.asked) > clientGrace
	r.clear = o.err == nil && o.over && o.first != processLives && (o.began || !r.hung)

	switch {
	case o.unreached && o.unasked:
		return stepDone // nothing was asked for
	case o.down && o.over && o.answered.Sub(r.down) > downGrace:
		return stepGiveUp
	case o.err != nil:
		return stepRemove
	case !o.began && !r.there && !o.cut.IsZero() && o.asked.Sub(o.cut) < createGrace:
		return stepLook
	case o.first == processLives:
		return stepLook // the engine has forgotten it
	case r.clear, (o.over || o.began || r.there) && o.asked.Sub(r.none) >= clientGrace:
		return stepDone
	}
	return stepLook
}

// pause returns how long to wait from now until the next look. One that comes too early
// to tell anything would cost a slow engine the time in which another could.
func (r *removal) pause(now time.Time) time.Duration {
	if r.hung && !r.none.IsZero() {
		return max(lookAgain, r.none.Add(clientGrace).Sub(now))
	}
	return lookAgain
}
