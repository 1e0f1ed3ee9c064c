package execpolicy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// Check returns what Spawn would refuse. It looks for the engine as
// [DockerPolicy.FindEngine] does, because what can be refused depends on it; without one
// it returns what is wrong on any engine or, if that is nothing, the error of the search.
func (p DockerPolicy) Check(ctx context.Context, spec Spec) error {
	e, err := p.engine(ctx)
	if err != nil {
		return cmp.Or(problems.Join(p.validate(spec)...), err)
	}
	_, err = p.argv(e, spec, newName())
	return err
}

// Spawn starts spec.Command in a container. The process it returns is the engine's
// client; the container is behind it.
func (p DockerPolicy) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	e, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	if p.looksUp(e) {
		// What is wrong is said before anything is started.
		if _, err := p.argv(e, spec, newName()); err != nil {
			return nil, err
		}
		if err := p.lookUp(ctx, e, spec); err != nil {
			return nil, err
		}
	}
	return p.spawn(ctx, e, spec)
}

// spawn starts spec.Command in a container of that engine.
func (p *DockerPolicy) spawn(ctx context.Context, e *dockercli.Engine, spec Spec) (*Process, error) {
	var err error
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
	profile := &handover{begin: func(<-chan struct{}) {}, cancel: func() {}}
	if text := p.seccompProfile(e); text != "" {
		if profile, err = hand(text); err != nil {
			pipes.closeInside()
			pipes.closeOutside()
			return nil, fmt.Errorf("%w: %w", ErrStart, err)
		}
		c.argv[slices.Index(c.argv, "--security-opt="+seccompOption+profileFile)] = "--security-opt=" + seccompOption + profile.path
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
		Extra:  profile.file,
	})
	pipes.closeInside()
	if err != nil {
		profile.cancel()
		pipes.closeOutside()
		c.unguard()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	profile.begin(c.client.Done())
	return &Process{
		Name:            c.name,
		Stdin:           pipes.outside[0],
		Stdout:          pipes.outside[1],
		Stderr:          pipes.outside[2],
		Done:            c.client.Done(),
		Kill:            c.kill,
		Answered:        c.hear,
		Limits:          p.Limits,
		OwnPIDNamespace: c.ownPIDs,
		Worker:          spec.Command,
		Scratch:         scratchDir,
		Dir:             p.sessionDir(),
		DirWritable:     !p.compat && spec.Workspace == "",
		// The root of a read-only container, which would be the home of a user without
		// one, can't be written to.
		Env:       map[string]string{"HOME": "/tmp"},
		ExitCode:  func() int { return c.client.State().ExitCode() },
		Diagnose:  c.diagnose,
		Recover:   func(ctx context.Context, cause error) error { return p.pull(ctx, e, cause) },
		OOMKilled: c.oomKilled,
	}, nil
}

// clientDir returns where the client works; empty is where this program does. Podman's
// monitor leaves a file called oom in that directory when the kernel kills for memory. In
// /proc nobody can leave anything.
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

	answered  atomic.Bool               // the command inside was heard
	unreached atomic.Bool               // the client has ended, and said that it never reached its engine
	cut       atomic.Pointer[time.Time] // when the client was first seen to have been cut off
	first     atomic.Pointer[firstProcess]
	// failedInside is how many commands in a row could not be run inside to kill what is
	// there.
	failedInside atomic.Int32
}

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

// hear notes that the command inside was heard, and finds out who it is.
func (c *container) hear() {
	if c.answered.Load() {
		return
	}
	if c.ownPIDs && !c.engine.Remote {
		first := findFirst(c.name, c.client.Pid())
		c.first.Store(&first)
	}
	c.answered.Store(true)
	first := c.found()
	if g := c.guard.Load(); g != nil && c.ownPIDs && (first.pid != 0 || !c.engine.PodmanService) {
		g.know(c.name, first)
	}
}

// found returns process 1, once the command inside was heard and if it was found then.
func (c *container) found() firstProcess {
	if first := c.first.Load(); first != nil {
		return *first
	}
	return firstProcess{}
}

func (c *container) diagnose(exitCode int, stderr []byte) error {
	err := dockercli.NewRunError(c.argv, exitCode, stderr, nil)
	c.unreached.Store(err.Unreached())
	if bytes.Contains(stderr, []byte("open "+profileFile)) {
		return fmt.Errorf("%w; the client reads the filter of system calls from descriptor 3, which a program in its place has to pass on, "+
			"unless EngineSeccomp is set", err)
	}
	if docker := c.engine.PassedOver; docker != nil {
		// Docker may have the image, or what else is amiss here. That docker is down is
		// no cause of this error.
		return fmt.Errorf("%w; %s was used because docker could not be: %v", err, c.engine.Kind, docker)
	}
	return err
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

func (c *container) oomKilled(ctx context.Context, since time.Time) (killed, known bool) {
	if c.engine.Remote {
		since = time.Time{} // its clock is another
	}
	killed, err := c.engine.OOMKilled(ctx, c.name, since)
	return killed, err == nil
}

// kill makes sure that the container is gone. The client is never signalled while its
// container may still start, unless the engine does not answer: that is how containers
// are lost.
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
	// The guard goes on watching for it, too, and takes over when this program ends.
	watch(c)
	if err == errMayCome {
		// The engine answers, and there is nothing.
		return nil
	}
	return fmt.Errorf("container %s: %w: %w", c.name, ErrStillThere, err)
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

// turn waits for the container's own end, or for its turn to be removed, and returns what
// ends the turn. A hundred that are closed at once only need time, of which a hundred
// clients that remove them would leave none. A removal that hangs does not hold up the
// others for long.
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

// unguard ends the watch over the container.
func (c *container) unguard() {
	unwatch(c)
	if g := c.guard.Swap(nil); g != nil {
		g.remove(c.name)
	}
}

// mayBeLeft reports whether the client's own end leaves it open if the container has
// ended too: a client that was told to end while the container started may have lost it,
// and say 0. A supervisor may exit with some of the others, which costs one look.
func (c *container) mayBeLeft() bool {
	if !c.answered.Load() || c.found().evidence() == lives {
		return true
	}
	switch c.client.State().ExitCode() {
	case -1, 1, 125, 126, 127, 130, 143, 255:
		return true
	}
	return false
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
