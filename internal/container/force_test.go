package container

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// The second look at a slow engine comes when it can tell something.
func TestRemovalPause(t *testing.T) {
	const second = time.Second
	begin := time.Now()
	for _, c := range []struct {
		removal removal
		after   time.Duration
		want    time.Duration
	}{
		{removal{}, 0, lookAgain},
		{removal{none: begin}, 0, lookAgain},
		{removal{hung: true}, 0, lookAgain},
		{removal{hung: true, none: begin}, 0, second},
		{removal{hung: true, none: begin}, second / 4, second * 3 / 4},
		{removal{hung: true, none: begin}, 3 * second, lookAgain},
	} {
		assert.Equal(t, c.removal.pause(begin.Add(c.after)), c.want)
	}
}

// What a removal does next follows from what was seen so far, and from nothing else.
func TestRemovalSteps(t *testing.T) {
	const second = time.Second
	begin := time.Now()
	there := fmt.Errorf("%w, running", errThere)
	down := dockercli.NewRunError(nil, -1, nil, context.DeadlineExceeded)
	refused := dockercli.NewRunError(nil, 1,
		[]byte("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"), nil)
	// A look is made at a time, and is answered after some more.
	type look struct {
		at, takes time.Duration
		observation
		want step
	}
	for name, looks := range map[string][]look{
		"nothing, and nobody to make any":       {{0, 0, observation{over: true}, stepDone}},
		"nothing, and the client may make some": {{0, 0, observation{}, stepLook}, {9 * second, 0, observation{}, stepLook}},
		"the client does not see the end": {{0, 0, observation{began: true}, stepLook},
			{2 * second, 0, observation{began: true}, stepDone}},
		"there, and removed": {
			{0, 0, observation{over: true, err: there}, stepRemove}, {0, 0, observation{over: true}, stepDone},
		},
		"there, and removed, and its client does not see it": {
			{0, 0, observation{err: there}, stepRemove}, {0, 0, observation{}, stepLook},
			{second / 2, 0, observation{}, stepLook}, {2 * second, 0, observation{}, stepDone},
		},
		"there after nothing was": {
			{0, 0, observation{err: there}, stepRemove}, {0, 0, observation{}, stepLook},
			{second, 0, observation{err: there}, stepRemove}, {2 * second, 0, observation{}, stepLook},
		},
		"its client was cut off": {
			{0, 0, observation{over: true, cut: begin}, stepLook},
			{2 * second, 0, observation{over: true, cut: begin}, stepLook},
			{4 * second, 0, observation{over: true, cut: begin}, stepDone},
		},
		"its client was cut off, and it came": {
			{0, 0, observation{over: true, cut: begin}, stepLook},
			{second, 0, observation{over: true, cut: begin, err: there}, stepRemove},
			{second, 0, observation{over: true, cut: begin}, stepDone},
		},
		// Each look of such an engine takes more than a second.
		"a slow engine, after the session began": {{0, 1200 * time.Millisecond, observation{over: true, began: true},
			stepDone}},
		"a slow engine, before the session began": {
			{0, 1200 * time.Millisecond, observation{over: true}, stepLook},
			{2200 * time.Millisecond, 1200 * time.Millisecond, observation{over: true}, stepDone},
		},
		"a slow engine whose client was cut off": {
			{0, 1200 * time.Millisecond, observation{over: true, cut: begin}, stepLook},
			{2800 * time.Millisecond, 1200 * time.Millisecond, observation{over: true, cut: begin}, stepLook},
			{4200 * time.Millisecond, 1200 * time.Millisecond, observation{over: true, cut: begin}, stepDone},
		},
		"a slow engine whose client may make some": {
			{0, 1200 * time.Millisecond, observation{}, stepLook},
			{9 * second, 1200 * time.Millisecond, observation{}, stepLook},
		},
		"an engine that hung, and answers": {
			{0, 5 * second, observation{over: true, err: down}, stepGiveUp}, {6 * second, 0, observation{over: true}, stepLook},
			{6 * second, second, observation{over: true}, stepLook}, {8 * second, 0, observation{over: true}, stepDone},
		},
		"an engine that is away for a moment": {
			{0, 0, observation{over: true, err: refused}, stepRemove},
			{second, 0, observation{over: true, err: refused}, stepRemove},
			{3 * second, 0, observation{over: true, err: refused}, stepGiveUp},
		},
		"an engine that is away, with a client that waits for it": {
			{0, 0, observation{err: refused}, stepRemove}, {9 * second, 0, observation{err: refused}, stepRemove},
		},
		"an engine that was never reached": {{0, 0, observation{over: true, unreached: true, err: refused}, stepDone}},
		"an engine that was not reached, and has it": {
			{0, 0, observation{over: true, unreached: true, err: there}, stepRemove},
			{0, 0, observation{over: true, unreached: true}, stepDone},
		},
		"another error": {{0, 0, observation{over: true, err: errors.New("no")}, stepRemove}},
		"the engine has forgotten what lives": {
			{0, 0, observation{over: true, began: true, first: processLives}, stepLook},
			{9 * second, 0, observation{over: true, began: true, first: processLives}, stepLook},
			{9 * second, 0, observation{over: true, began: true, first: processEnded}, stepDone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r removal
			for i, l := range looks {
				o := l.observation
				o.asked = begin.Add(l.at)
				o.answered = o.asked.Add(l.takes)
				o.down, o.unasked = refusal(o.err)
				assert.Equal(t, r.next(o), l.want, "look %d", i)
			}
		})
	}
}
