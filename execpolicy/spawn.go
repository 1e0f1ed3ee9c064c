package execpolicy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/clientfile"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/gate"
	"github.com/seed-64a260eb/cofferdam/internal/mountproof"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// Check returns the error with which Spawn would refuse the spec, or nil. To check the
// spec of a session, call the function [Check]: without a session Egress is refused, and
// so are variables such as PATH. The method looks for the engine as
// [DockerPolicy.FindEngine] does, because what is refused depends on it. Without an
// engine it returns what is wrong on any engine or, if nothing is, the error of
// FindEngine.
func (p DockerPolicy) Check(ctx context.Context, spec Spec) error {
	e, err := p.engine(ctx)
	if err != nil {
		return cmp.Or(problems.Join(p.validate(spec)...), err)
	}
	if asked, err := p.askLimits(ctx, e); err == nil {
		// An engine that can't be asked is refused for no limits.
		e = asked
	}
	return p.checkAll(ctx, e, spec)
}

// checkAll returns all that is wrong, also what only the engine can tell.
func (p *DockerPolicy) checkAll(ctx context.Context, e *dockercli.Engine, spec Spec) error {
	_, err := p.argv(e, spec, container.NewName())
	return problems.Join(err, p.noEgress(e, spec), p.checkRuntime(ctx, e))
}

// Spawn starts spec.Command in a container. If Command is empty, Spawn starts sh or, with
// [Compat], /bin/bash. The Process that Spawn returns is the engine's client, connected
// to the container. A session over FIFOs has no client. Most callers use [Start] or
// [Run]. An error wraps [ErrInvalid], [ErrAudit] or [ErrStart], or is that of the
// engine's client or of [DockerPolicy.FindEngine].
func (p DockerPolicy) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	e, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	if e.MissingLimits == nil {
		asked, askErr := p.askLimits(ctx, e)
		if askErr == nil {
			e = asked
		}
		// What is wrong is said, whether or not the engine can be asked.
		if _, err := p.argv(e, spec, container.NewName()); err != nil {
			return nil, err
		}
		if askErr != nil {
			return nil, askErr
		}
	}
	looksUp, pulls := p.looksUp(e), p.Pull == dockercli.PullAlways
	if looksUp || pulls || p.Runtime != "" {
		// What is wrong is said before anything is started.
		if err := p.checkAll(ctx, e, spec); err != nil {
			return nil, err
		}
	}
	if pulls {
		if err := p.pull(ctx, e); err != nil {
			return nil, fmt.Errorf("%w: %w; the engine is %v", ErrStart, err, e)
		}
	}
	if looksUp {
		if err := p.lookUp(ctx, e, spec); err != nil {
			return nil, err
		}
	}
	return p.spawn(ctx, e, spec)
}

// spawn starts spec.Command in a container of that engine. Spawn calls it after lookUp,
// and lookUp calls it for its own container: it looks nothing up itself.
func (p *DockerPolicy) spawn(ctx context.Context, e *dockercli.Engine, spec Spec) (*Process, error) {
	name := container.NewName()
	fifos := p.fifos(e, spec, name)
	argv, err := p.argvBy(e, spec, name, fifos)
	if err := problems.Join(err, p.noEgress(e, spec)); err != nil {
		return nil, err
	}
	connected, err := p.connect(ctx, e, spec)
	if err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			connected()
		}
	}()
	if err := spec.RecordSpawn(ctx, name, p.redacted(argv, spec)); err != nil {
		return nil, err
	}
	profile := new(clientfile.File)
	if text := p.seccompProfile(e); text != "" {
		if profile, err = clientfile.New(text); err != nil {
			return nil, fmt.Errorf("%w: %w; the engine is %v", ErrStart, err, e)
		}
		argv[slices.Index(argv, "--security-opt="+seccompOption+clientfile.Path)] = "--security-opt=" + seccompOption + profile.Path
	}
	c := &container.Container{Engine: e, Name: name, Argv: argv, Keep: p.KeepContainer, OwnPIDs: !p.extra(e, "pid"),
		FIFOs: fifos}
	if err := c.Start(clientEnv(e, spec), profile.Pipe); err != nil {
		profile.Abandon()
		if errors.Is(err, fifo.ErrNotMade) && p.Transport == TransportAuto {
			// Nothing was started.
			if !fifo.IsShortage(err) {
				fifo.Suspect(engines.Key(e), err)
			}
			q := *p
			q.Transport = TransportAttach
			return q.spawn(ctx, e, spec) // which is not remote
		}
		return nil, fmt.Errorf("%w: %w; the engine is %v", ErrStart, err, e)
	}
	started = true
	profile.Started(c.Started())
	return p.process(c, spec, connected), nil
}

// process returns the process of a container that was started. connected is called when
// its client has reached the engine.
func (p *DockerPolicy) process(c *container.Container, spec Spec, connected func()) *Process {
	e := c.Engine
	doubt, dir := fifo.DoubtOf(engines.Key(e)), p.shows(e, spec)
	transport := TransportAttach
	if c.FIFOs != "" {
		transport = TransportFIFO
	}
	var way *gate.Gate
	var openWay func(record func(Event)) error
	if p.Egress != nil {
		way = &gate.Gate{Field: "Egress"}
		openWay = opener(way, p.Egress, c)
	}
	return &Process{
		Name:      c.Name,
		Engine:    e.String(),
		Transport: transport,
		Stdin:     c.Stdin,
		Stdout:    c.Stdout,
		Stderr:    c.Stderr,
		Done:      c.Done(),
		Kill: func(ctx context.Context) error {
			connected()
			doubt.Drop()
			return way.Kill(ctx, c.Kill)
		},
		Answered: func() {
			connected()
			doubt.Confirm()
			c.Hear()
		},
		Limits:          p.Limits,
		OwnPIDNamespace: c.OwnPIDs,
		KeepAlive:       p.keepAlive(e),
		Worker:          spec.Command,
		Scratch:         scratchDir,
		Dir:             p.sessionDir(),
		DirWritable:     !p.compat && spec.Workspace == "",
		Env:             p.sessionEnv(spec),
		ReadableShell:   strings.Contains(p.Runtime, "runsc"),
		ExitCode:        c.ExitCode,
		Diagnose:        func(exitCode int, stderr []byte) error { return diagnose(c, dir, exitCode, stderr) },
		Recover:         func(ctx context.Context, cause error) error { return p.recover(ctx, c, cause) },
		OOMKilled:       c.OOMKilled,
		Exec:            func(ctx context.Context, command []string) (*Process, error) { return p.second(ctx, c, spec, command) },
		ImageID:         c.ImageID,
		mounted:         dir,
		blocks:          c.Ops,
		openWay:         openWay,
	}
}

// keepAlive returns after how long a silent link with that engine ends a session; zero or
// less if there is no keep-alive.
func (p *DockerPolicy) keepAlive(e *dockercli.Engine) time.Duration {
	if p.KeepAlive == 0 && e.Remote {
		return defaultKeepAlive
	}
	return p.KeepAlive
}

// connect waits for the turn of a session, or of its job, to reach its engine, and
// returns what gives it back.
func (p *DockerPolicy) connect(ctx context.Context, e *dockercli.Engine, spec Spec) (connected func(), err error) {
	if len(spec.Supervisor) == 0 {
		return func() {}, nil
	}
	connected, err = engines.Connect(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return connected, nil
}

// second starts one more command in a container of a session.
func (p *DockerPolicy) second(ctx context.Context, c *container.Container, spec Spec, command []string) (*Process, error) {
	connected, err := p.connect(ctx, c.Engine, spec)
	if err != nil {
		return nil, err
	}
	s, err := c.Second(command)
	if err != nil {
		connected()
		return nil, err
	}
	return &Process{
		Name: c.Name, Stdin: s.Stdin, Stdout: engines.OnFirst(s.Stdout, connected), Stderr: s.Stderr, inside: s.Inside,
		Kill: func(ctx context.Context) error {
			connected()
			return s.End(ctx)
		},
		Recover: func(ctx context.Context, cause error) error {
			if c.Engine.Remote && engines.NotLetIn(&dockercli.Error{Stderr: cause.Error()}) {
				return engines.Pause(ctx, cause)
			}
			return cause
		},
	}, nil
}

// sessionDir returns where a session works.
func (p *DockerPolicy) sessionDir() string {
	if p.compat {
		return ""
	}
	return workspaceDir
}

// clientEnv returns the environment of an engine's client, with the values that it is to
// pass on.
func clientEnv(e *dockercli.Engine, spec Spec) []string {
	env := e.RunEnv()
	if len(spec.Supervisor) > 0 {
		return env
	}
	env = slices.Clip(env)
	for name, value := range spec.Env {
		env = append(env, name+"="+value)
	}
	return env
}

func diagnose(c *container.Container, dir mountproof.Dir, exitCode int, stderr []byte) error {
	err := c.Diagnose(exitCode, stderr)
	if bytes.Contains(stderr, []byte("open "+clientfile.Path)) {
		return fmt.Errorf("%w; the client reads the filter of system calls from descriptor 3, which a program in its place has to pass on, "+
			"unless EngineSeccomp is set", err)
	}
	if c.FIFOs != "" && bytes.Contains(stderr, []byte(fifo.Source(c.FIFOs))) {
		return fmt.Errorf("%w: %w", fifo.ErrNotSeen, err)
	}
	if dir.Unseen(stderr) {
		return fmt.Errorf("%w: %w", mountproof.ErrUnseen, err)
	}
	// An engine whose version is known has spoken with this client before.
	if err.TurnedAway() || c.Engine.Remote && c.Engine.ServerVersion != "" && err.Unnegotiated() {
		return fmt.Errorf("%w: %w", engines.ErrTurnedAway, err)
	}
	return err
}

// pull gets the image from its registry, within the policy's time for it.
func (p *DockerPolicy) pull(ctx context.Context, e *dockercli.Engine) error {
	ctx, cancel := context.WithTimeout(ctx, p.pullTimeout())
	defer cancel()
	return e.Pull(ctx, p.pullOptions(e))
}

func (p *DockerPolicy) pullTimeout() time.Duration {
	return cmp.Or(p.PullTimeout, defaultPullTimeout)
}

func (p *DockerPolicy) pullOptions(e *dockercli.Engine) dockercli.PullOptions {
	return dockercli.PullOptions{Image: p.image(e), Platform: p.Platform, Progress: p.PullProgress}
}

// EnsureImage pulls the policy's image as Pull says, so that no session has to wait for
// that, and returns what the engine knows of it. It looks for the engine as
// [DockerPolicy.FindEngine] does, and takes at most PullTimeout after that. Its error
// wraps [ErrInvalid], or is that of FindEngine or of [dockercli.Engine.EnsureImage].
func (p DockerPolicy) EnsureImage(ctx context.Context) (*dockercli.Image, error) {
	v := validation{DockerPolicy: &p}
	v.checkImage()
	if err := problems.Join(v.List...); err != nil {
		return nil, err
	}
	e, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.pullTimeout())
	defer cancel()
	image, err := e.EnsureImage(ctx, p.Pull, p.pullOptions(e))
	if err != nil {
		return nil, fmt.Errorf("%w; the engine is %v", err, e)
	}
	return image, nil
}
