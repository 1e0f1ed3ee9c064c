package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// Spawn starts spec.Command in a container. The process it returns is the engine's client; the container is behind it.
func (p DockerPolicy) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	if spec.Secrets != nil {
		return nil, spec.Secrets.refuse()
	}
	e, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	c := &container{engine: e, name: newName(), keep: p.KeepContainer, ownPIDs: !p.extra(e, "pid")}
	if c.argv, err = p.argv(e, spec, c.name); err != nil {
		return nil, err
	}
	if spec.Audit != nil {
		if err := spec.Audit.Spawn(ctx, e, c.name, c.argv); err != nil {
			return nil, err
		}
	}
	pipes, err := newPipes()
	if err != nil {
		return nil, err
	}
	// From here on a container may come into being.
	g := guardOf(e, c.keep)
	g.add(c.name)
	c.guard.Store(g)
	c.client, err = procgroup.Start(procgroup.Cmd{
		Path:   c.argv[0],
		Args:   c.argv,
		Env:    c.environ(spec),
		Dir:    clientDir(e),
		Stdin:  pipes.inside[0],
		Stdout: pipes.inside[1],
		Stderr: pipes.inside[2],
	})
	pipes.closeInside()
	if err != nil {
		pipes.closeOutside()
		c.unguard()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return &Process{
		Name:            c.name,
		Stdin:           pipes.outside[0],
		Stdout:          pipes.outside[1],
		Stderr:          pipes.outside[2],
		Done:            c.client.Done(),
		Kill:            c.kill,
		Answered:        func() { c.answered.Store(true) },
		Limits:          p.Limits,
		OwnPIDNamespace: c.ownPIDs,
		Worker:          spec.Command,
		Scratch:         scratchDir,
		Dir:             p.sessionDir(),
		DirWritable:     !p.compat && spec.Workspace == "",
		// The root of a read-only container, which would be the home of a user without one, can't be written to.
		Env:       map[string]string{"HOME": "/tmp"},
		ExitCode:  func() int { return c.client.State().ExitCode() },
		Diagnose:  c.diagnose,
		Mend:      func(ctx context.Context, cause error) error { return p.pull(ctx, e, cause) },
		OOMKilled: c.oomKilled,
	}, nil
}

// clientDir returns where the client works; empty is where this program does. Podman's monitor leaves a file called oom in that
// directory when the kernel kills for memory. In /proc nobody can leave anything.
func clientDir(e *dockercli.Engine) string {
	if e.Kind == dockercli.Podman && runtime.GOOS == "linux" {
		return "/proc"
	}
	return ""
}

// sessionDir returns where a session works.
func (p *DockerPolicy) sessionDir() string {
	if p.compat {
		return ""
	}
	return workspaceDir
}

// newName returns a name that no other container has or will have.
func newName() string { return "cofferdam-" + strings.ToLower(token()) }

// A container is one run of the engine's client.
type container struct {
	engine *dockercli.Engine
	argv   []string
	name   string
	keep   bool
	// ownPIDs says that the container is known to have a process namespace of its own.
	ownPIDs bool
	client  *procgroup.Process
	guard   atomic.Pointer[guard] // nil once it does not watch any more

	answered  atomic.Bool // the command inside was heard
	killLater sync.Once
}

// errMayCome says that there is no container, and that the engine may have been asked for it by a client that was cut off.
var errMayCome = errors.New("it could still come into being")

// environ returns the client's environment, with the values that it is to pass on.
func (c *container) environ(spec Spec) []string {
	env := c.engine.RunEnv()
	if len(spec.Supervisor) > 0 {
		return env
	}
	env = slices.Clip(env)
	for name, value := range spec.Env {
		env = append(env, name+"="+value)
	}
	return env
}

func (c *container) diagnose(exitCode int, stderr []byte) error {
	return dockercli.NewRunError(c.argv, exitCode, stderr, nil)
}

// pull mends a start that failed because the image is missing.
func (p *DockerPolicy) pull(ctx context.Context, e *dockercli.Engine, cause error) error {
	if !errors.Is(cause, dockercli.ErrImageMissing) || p.PullTimeout < 0 {
		return cause
	}
	timeout := p.PullTimeout
	if timeout == 0 {
		timeout = defaultPullTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.Pull(ctx, dockercli.PullOptions{Image: p.image(), Progress: p.PullProgress})
}

func (c *container) oomKilled(ctx context.Context) (killed, known bool) {
	killed, err := c.engine.OOMKilled(ctx, c.name)
	return killed, err == nil
}

const (
	// After helpAfter a removal that hangs is helped, also from inside: code that spins at a priority above its process 1 can hold it up
	// for minutes.
	helpAfter = time.Second
	// lookAgain is the pause between two looks. A container may come into being after one that has found none.
	lookAgain = 200 * time.Millisecond
	// createGrace is for an engine under load to make the container of a client that has gone.
	createGrace = 3 * time.Second
	// clientGrace is for a client to see that its container is gone, and for one that does not to be ended.
	clientGrace = time.Second
	// downGrace is how long an engine that is not there is waited for by those who want an answer.
	downGrace = 2 * time.Second
	// forceTimeout is how long one of the attempts waits that are made when nobody waits any more, and longestPause is between two.
	forceTimeout = 10 * time.Second
	longestPause = time.Minute
)

// kill makes sure that the container is gone. The client is never signalled while its container may still start, unless the engine does not
// answer: that is how containers are lost.
func (c *container) kill(ctx context.Context) error {
	defer c.turn(ctx)()
	select {
	case <-c.client.Done():
		if !c.mayBeLeft() {
			c.unguard()
			return nil
		}
	default:
	}
	err := c.force(ctx)
	select {
	case <-c.client.Done():
	default:
		// The engine does not answer, or the client does not see the end.
		if stopErr := c.client.Stop(context.WithoutCancel(ctx), min(clientGrace, remaining(ctx)/2)/4); stopErr != nil {
			err = errors.Join(err, stopErr)
		} else if err != nil && remaining(ctx) > clientGrace {
			// Without it nothing can come into being any more.
			err = c.force(ctx)
		}
	}
	if err == nil {
		c.unguard()
		return nil
	}
	// The guard goes on watching for it, and takes over when this program ends.
	c.killLater.Do(func() { go c.forceLater() })
	if err == errMayCome {
		// The engine answers, and there is nothing.
		return nil
	}
	return fmt.Errorf("container %s: %w: %w", c.name, ErrStillThere, err)
}

// forceLater removes the container as soon as the engine answers again. It may come into being only then.
func (c *container) forceLater() {
	for pause := lookAgain; ; pause = min(2*pause, longestPause) {
		time.Sleep(pause)
		ctx, cancel := context.WithTimeout(context.Background(), forceTimeout)
		err := c.force(ctx)
		cancel()
		if err == nil {
			c.unguard()
			return
		}
	}
}

// remaining returns how much time there is.
func remaining(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return math.MaxInt64
}

// removals holds those that are removed by force.
var removals = make(chan struct{}, 4)

// turn waits for the container's own end, or for its turn to be removed, and returns what ends the turn. A hundred that are closed at once
// only need time, of which a hundred clients that remove them would leave none. A removal that hangs does not hold up the others for long.
func (c *container) turn(ctx context.Context) (end func()) {
	select {
	case <-c.client.Done():
		return func() {}
	default:
	}
	select {
	case removals <- struct{}{}:
		return func() { <-removals }
	case <-c.client.Done():
	case <-ctx.Done():
	case <-time.After(remaining(ctx) / 3):
	}
	return func() {}
}

// unguard ends the guard's watch.
func (c *container) unguard() {
	if g := c.guard.Swap(nil); g != nil {
		g.remove(c.name)
	}
}

// mayBeLeft reports whether the client's own end leaves it open if the container has ended too: a client that was told to end while the
// container started may have lost it, and say 0. A supervisor may exit with some of the others, which costs one look.
func (c *container) mayBeLeft() bool {
	if !c.answered.Load() {
		return true
	}
	switch c.client.State().ExitCode() {
	case -1, 1, 125, 126, 127, 130, 143, 255:
		return true
	}
	return false
}

// force removes the container, and again, until it is seen to be gone and the client, which could still create it, has ended.
func (c *container) force(ctx context.Context) error {
	// A client that hangs has half a second to end when its time is over.
	left := remaining(ctx)
	ctx, cancel := context.WithTimeout(ctx, left-min(2*clientGrace, left/2))
	defer cancel()
	defer c.help(ctx).Stop()
	var seen time.Time         // to have been there, or not to be known
	var cut time.Time          // when its client was cut off
	var down time.Time         // since when the engine refuses to be asked
	hung, none := false, false // none was there when its client had ended
	for {
		// Asked before: a client that has ended creates nothing after the look.
		over, client := false, c.client.Done()
		select {
		case <-client:
			over, client = true, nil
			if cut.IsZero() && c.cutOff() {
				cut = time.Now()
			}
		default:
		}
		asked := time.Now()
		mayCome := seen.IsZero() && !cut.IsZero() && time.Since(cut) < createGrace
		err := c.gone(ctx)
		if errors.Is(err, dockercli.ErrEngineDown) || time.Since(asked) > clientGrace {
			// The start of a client that has ended may still be before an engine that has not answered.
			hung, seen = true, time.Now()
		}
		switch {
		case !errors.Is(err, dockercli.ErrEngineDown):
			down = time.Time{}
		case down.IsZero():
			down = asked
		case over && time.Since(down) > downGrace:
			return err
		}
		if err != nil {
			if seen.IsZero() {
				seen = time.Now()
			}
			if err = c.end(ctx); err == nil {
				err = c.gone(ctx)
			}
		}
		clear := err == nil && over && !hung
		switch {
		case clear && !mayCome, err == nil && !seen.IsZero() && time.Since(seen) > clientGrace:
			return nil
		case ctx.Err() != nil:
			// A look that the end of the time cuts short tells nothing.
			if none || clear {
				return errMayCome
			} else if err == nil {
				err = errMayCome
			}
			return errors.Join(err, context.Cause(ctx))
		}
		none = clear
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		case <-client:
		}
	}
}

// help helps a removal that hangs, unless the timer that it returns is stopped before.
func (c *container) help(ctx context.Context) *time.Timer {
	return time.AfterFunc(helpAfter, func() {
		if c.answered.Load() {
			// The client has nothing to create any more, and one that stands still may hold a lock that podman needs for the removal.
			c.client.Stop(ctx, clientGrace/4)
		}
		// In the host's process namespace it would end what is not inside.
		if c.ownPIDs {
			c.engine.Exec(ctx, dockercli.ExecOptions{Container: c.name, Command: []string{"sh", "-c", "kill -9 -1"}})
		}
	})
}

// cutOff reports whether the client was ended by a signal before anything was heard from inside. Then the engine, which may have been asked
// for the container, goes on without it.
func (c *container) cutOff() bool {
	code := c.client.State().ExitCode()
	return !c.answered.Load() && (code == -1 || code == 130 || code == 143)
}

// end removes the container, or only kills it if it is to be kept.
func (c *container) end(ctx context.Context) error {
	if !c.keep {
		return c.engine.Remove(ctx, c.name)
	}
	err := c.engine.Kill(ctx, c.name, "KILL")
	if errors.Is(err, dockercli.ErrNotRunning) || errors.Is(err, dockercli.ErrNoContainer) {
		return nil
	}
	return err
}

// gone returns nil if there is no such container, or it has ended and is to be kept.
func (c *container) gone(ctx context.Context) error {
	state, err := c.engine.Inspect(ctx, c.name)
	switch {
	case errors.Is(err, dockercli.ErrNoContainer):
		return nil
	case err != nil:
		return err
	case c.keep && !state.Running:
		return nil
	}
	return fmt.Errorf("it is %s", state.Status)
}

// pipes are the three pipes of a program: the ends that it gets, and ours.
type pipes struct{ inside, outside [3]*os.File }

func newPipes() (*pipes, error) {
	p := &pipes{}
	for i := range p.inside {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeInside()
			p.closeOutside()
			return nil, fmt.Errorf("%w: %w", ErrStart, err)
		}
		if i == 0 {
			p.inside[i], p.outside[i] = r, w
		} else {
			p.inside[i], p.outside[i] = w, r
		}
	}
	return p, nil
}

func (p *pipes) closeInside()  { closeAll(p.inside[:]) }
func (p *pipes) closeOutside() { closeAll(p.outside[:]) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
