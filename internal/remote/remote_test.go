package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/remote"
)

// holderVar makes the test binary a program that has a session, and is going to be
// killed.
const holderVar = "COFFERDAM_TEST_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVar) != "" {
		hold()
	}
	os.Exit(m.Run())
}

// hold opens a session, says its container's name when a command runs in it, and waits
// for the end.
func hold() {
	e, err := enginetest.FromEnviron()
	if err != nil {
		fmt.Println(err)
		return
	}
	p := place{engine: e.Engine, image: e.Image, labels: e.Labels}
	s, err := execpolicy.Start(context.Background(), p.policy(), p.spec())
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Run(context.Background(), execpolicy.Command{Script: "echo; trap '' HUP TERM; while :; do sleep 1; done",
		Stdout: places.OnWrite(func() { fmt.Println(s.Name()) }), Timeout: patience})
}

const (
	// patience is for what takes a moment on an idle machine.
	patience = time.Minute
	// stopping is the TerminationTimeout where an engine can't be reached, and slack what
	// a busy machine may take on top of it.
	stopping = 3 * time.Second
	slack    = 10 * time.Second
)

// A place is an engine that is reached from afar.
type place struct {
	*remote.Engine
	engine *dockercli.Engine
	image  string
	labels map[string]string
}

func (p place) policy() execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{
		Engine: p.engine, Image: p.image,
		EngineSeccomp: places.NoFilter(p.engine),
		Limits:        execpolicy.Limits{CommandTimeout: patience, StartupTimeout: patience, TerminationTimeout: patience},
		// A daemon that is started anew gives what it finds 10 s to obey a SIGTERM.
		ExtraRunArgs: []string{"--stop-timeout=1"},
	}
}

// cutOff returns the policy of sessions whose engine can't be reached when they end.
func (p place) cutOff() execpolicy.DockerPolicy {
	policy := p.policy()
	policy.TerminationTimeout = stopping
	return policy
}

func (p place) spec() execpolicy.Spec { return execpolicy.Spec{Labels: maps.Clone(p.labels)} }

// client runs the engine's client and returns the words that it prints.
func (p place) client(t *testing.T, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.engine.Path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	assert.NilError(t, err, "%q: %s", args, out)
	return strings.Fields(string(out))
}

func (p place) names(t *testing.T) []string {
	t.Helper()
	return p.client(t, "ps", "--all", "--format={{.Names}}")
}

// gone waits until the engine has no container of that name.
func (p place) gone(t *testing.T, name string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if names := p.names(t); slices.Contains(names, name) {
			return poll.Continue("left: %q", names)
		}
		return poll.Success()
	}, poll.WithTimeout(2*patience), poll.WithDelay(100*time.Millisecond))
}

// A running command is one that was started and has printed something.
type running struct {
	result *execpolicy.Result
	err    error
	done   chan struct{}
}

func start(t *testing.T, s *execpolicy.Session, c execpolicy.Command) *running {
	t.Helper()
	printed := make(chan struct{}, 1)
	c.Stdout = places.OnWrite(func() {
		select {
		case printed <- struct{}{}:
		default:
		}
	})
	r := &running{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.result, r.err = s.Run(t.Context(), c)
	}()
	select {
	case <-printed:
	case <-r.done:
		t.Fatalf("the command has ended: %v", r.err)
	}
	return r
}

// What is promised of a session holds however its engine is reached.
func TestRemote(t *testing.T) {
	for _, way := range remote.Ways {
		t.Run(way, func(t *testing.T) {
			enginetest.Check(t)
			e, err := remote.Start(t.Context(), way, os.Stderr)
			if errors.Is(err, errors.ErrUnsupported) {
				leftout.Skip(t, "%v", err)
			}
			assert.NilError(t, err)
			t.Cleanup(func() { assert.Check(t, e.Close()) })
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					p := place{e, e.Engine(), e.Image(), map[string]string{"cofferdam-test": "remote"}}
					enginetest.Check(t, enginetest.Engine{Engine: p.engine, Name: way, Image: p.image, Labels: p.labels})
					c.do(t, p)
				})
			}
		})
	}
}

var cases = []struct {
	name string
	do   func(t *testing.T, p place)
}{
	{"a session", func(t *testing.T, p place) {
		assert.Assert(t, p.engine.Remote)
		s := places.Open(t, p.policy(), p.spec())
		assert.Equal(t, s.Transport(), execpolicy.TransportAttach)
		assert.Equal(t, places.OK(t, s, "x=5; cd /tmp; pwd"), "/tmp")
		text := bytes.Repeat([]byte("\x00\x10\x11\xffbytes\n"), 50_000)
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "cat; echo $x >&2; (exit 3)", Stdin: bytes.NewReader(text)})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, r.ExitCode, 3)
		assert.Assert(t, bytes.Equal(r.Stdout, text), "%d bytes of %d", len(r.Stdout), len(text))
		assert.Equal(t, string(r.Stderr), "5\n")

		r, err = s.Run(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4771", Timeout: time.Second})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, string(r.Stdout), "begun\n")
		assert.Assert(t, r.Gone && !r.StateLost, "%v %v", r.Gone, r.StateLost)
		assert.Equal(t, places.OK(t, s, "echo $x"), "5")
		name := s.Name()
		assert.NilError(t, s.Close())
		assert.Assert(t, !slices.Contains(p.names(t), name))
	}},
	{"a copied workspace", func(t *testing.T, p place) {
		dir := t.TempDir()
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("from here\n"), 0o644))
		spec := p.spec()
		spec.Workspace = dir
		_, err := execpolicy.Start(t.Context(), p.policy(), spec)
		assert.ErrorIs(t, err, execpolicy.ErrNoMount)
		s, err := workspace.Start(t.Context(), p.policy(), spec, workspace.Options{})
		assert.NilError(t, err)
		t.Cleanup(func() { s.Close() })
		assert.Equal(t, places.OK(t, s.Session, "cat in; echo from there >out"), "from here")
		assert.NilError(t, s.Close())
		out, err := os.ReadFile(filepath.Join(dir, "out"))
		assert.NilError(t, err)
		assert.Equal(t, string(out), "from there\n")
	}},
	// Only the time that its labels tell proves that nobody uses it: its program may run
	// on another machine.
	{"Sweep", func(t *testing.T, p place) {
		left := func(name, expires string) string {
			name += fmt.Sprintf("-%d", os.Getpid())
			labels := container.Labels(name, false, 0, p.labels)
			labels["cofferdam.expires"], labels["cofferdam.host"] = expires, "another"
			run := []string{"run", "--detach", "--network=none", "--pull=never", "--name=" + name}
			for k, v := range labels {
				run = append(run, "--label="+k+"="+v)
			}
			p.client(t, append(run, "--", p.image, "sleep", "4772")...)
			return name
		}
		old, young := left("cofferdam-old", "1"), left("cofferdam-young", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		removed, err := execpolicy.Sweep(t.Context(), p.engine)
		assert.NilError(t, err)
		assert.DeepEqual(t, removed, []string{old})
		assert.DeepEqual(t, p.names(t), []string{young})
		assert.NilError(t, p.engine.Remove(t.Context(), young))
	}},
	{"SIGKILL of the program", func(t *testing.T, p place) {
		e := enginetest.Engine{Engine: p.engine, Image: p.image, Labels: p.labels}
		name, kill := enginetest.Child(t, append(e.Environ(t), holderVar+"=1"))
		assert.Assert(t, strings.HasPrefix(name, "cofferdam-"), name)
		assert.Assert(t, slices.Contains(p.names(t), name))
		kill()
		p.gone(t, name)
	}},
	{"the engine is killed during a command", func(t *testing.T, p place) {
		s := places.Open(t, p.cutOff(), p.spec())
		c := start(t, s, execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4773"})
		assert.NilError(t, p.Kill())
		enginetest.Within(t, stopping+slack, "Run", func() { <-c.done })
		lost(t, c)
		enginetest.Within(t, stopping+slack, "Start", func() {
			_, err := execpolicy.Start(t.Context(), p.cutOff(), p.spec())
			assert.ErrorIs(t, err, dockercli.ErrEngineDown)
		})
		enginetest.Within(t, stopping+slack, "Close", func() { s.Close() })
		assert.NilError(t, p.Daemon.Start(t.Context()))
		p.gone(t, s.Name())
		assert.Equal(t, places.OK(t, places.Open(t, p.policy(), p.spec()), "echo again"), "again")
	}},
	{"the link breaks during a command", func(t *testing.T, p place) {
		s := places.Open(t, p.policy(), p.spec())
		c := start(t, s, execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4774"})
		p.Link.Break()
		enginetest.Within(t, patience, "Run", func() { <-c.done })
		lost(t, c)
		p.gone(t, s.Name())
		assert.NilError(t, s.Restart(t.Context()))
		assert.Equal(t, places.OK(t, s, "echo again"), "again")
		assert.NilError(t, s.Close())
	}},
	{"the link is cut during a command", func(t *testing.T, p place) {
		s := places.Open(t, p.cutOff(), p.spec())
		c := start(t, s, execpolicy.Command{Script: "echo begun; trap '' TERM; sleep 4775", Timeout: 2 * time.Second})
		p.Link.Cut()
		mend := func() { p.Link.Mend() }
		defer mend()
		enginetest.Within(t, 2*time.Second+stopping+slack, "Run", func() { <-c.done })
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeTimedOut)
		assert.ErrorIs(t, c.err, execpolicy.ErrStillThere)
		assert.Assert(t, !c.result.Gone)
		assert.Equal(t, string(c.result.Stdout), "begun\n")
		enginetest.Within(t, stopping+slack, "Close", func() { assert.ErrorIs(t, s.Close(), execpolicy.ErrStillThere) })
		mend()
		p.gone(t, s.Name())
	}},
}

// A socket that is forwarded looks like one of this machine, and its engine may see other
// files under the same names.
func TestForwardedSocket(t *testing.T) {
	enginetest.Check(t)
	const way = "docker-ssh"
	e, err := remote.Start(t.Context(), way, os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, e.Close()) })
	socket := filepath.Join(filepath.Dir(e.Elsewhere), "s")
	ctx, cancel := context.WithCancel(t.Context())
	forward := e.Forward(ctx, socket)
	assert.NilError(t, forward.Start())
	t.Cleanup(func() {
		cancel()
		forward.Wait()
	})
	var engine *dockercli.Engine
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if engine, err = dockercli.Lookup(t.Context(), "docker --host unix://"+socket); err != nil {
			return poll.Continue("%v", err)
		}
		return poll.Success()
	}, poll.WithTimeout(patience))
	assert.Assert(t, !engine.Remote)
	p := place{e, engine, e.Image(), map[string]string{"cofferdam-test": "forwarded"}}

	for name, dir := range map[string]string{"another directory": "there", "none": "here"} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, enginetest.Engine{Engine: e.Engine(), Name: way, Labels: p.labels})
			dir := filepath.Join(e.Elsewhere, dir)
			assert.NilError(t, os.MkdirAll(dir, 0o755))
			enginetest.GiveAway(t, dir)
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("of this machine"), 0o644))
			spec := p.spec()
			spec.Workspace, spec.Startup = dir, []string{"touch started"}
			_, err := execpolicy.Start(t.Context(), p.policy(), spec)
			assert.ErrorIs(t, err, execpolicy.ErrNoMount)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			s, err := workspace.Start(t.Context(), p.policy(), spec, workspace.Options{})
			assert.NilError(t, err)
			t.Cleanup(func() { s.Close() })
			assert.Equal(t, places.OK(t, s.Session, "cat file"), "of this machine")
			assert.NilError(t, s.Close())
		})
	}
	t.Run("the same directory", func(t *testing.T) {
		enginetest.Check(t, enginetest.Engine{Engine: e.Engine(), Name: way, Labels: p.labels})
		spec := p.spec()
		spec.Workspace = enginetest.OrdinaryDir(t)
		s := places.Open(t, p.policy(), spec)
		places.OK(t, s, "echo from there >file")
		text, err := os.ReadFile(filepath.Join(spec.Workspace, "file"))
		assert.NilError(t, err)
		assert.Equal(t, string(text), "from there\n")
	})
}

// An sshd that is busy with clients that it does not know yet turns others away. A job
// begins when it is busy no more.
func TestBusySSHD(t *testing.T) {
	enginetest.Check(t)
	e, err := remote.Start(t.Context(), "docker-ssh", os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, e.Close()) })
	ended := filepath.Join(t.TempDir(), "ended")
	engine := *e.Engine()
	engine.Path = filepath.Join(t.TempDir(), "docker")
	script := "#!/bin/sh\n" + e.Client + ` "$@"` + "\nstatus=$?\ncase $1 in exec) echo >>" + ended + " ;; esac\nexit $status\n"
	assert.NilError(t, os.WriteFile(engine.Path, []byte(script), 0o700))
	p := place{e, &engine, e.Image(), map[string]string{"cofferdam-test": "busy"}}
	enginetest.Check(t, enginetest.Engine{Engine: e.Engine(), Name: "docker-ssh", Labels: p.labels})
	s := places.Open(t, p.policy(), p.spec())

	var knocking []net.Conn
	leave := func() {
		for _, c := range knocking {
			c.Close()
		}
	}
	defer leave()
	// From ten on some are turned away, and with a hundred everybody is.
	for len(knocking) < 100 {
		c, err := net.Dial("tcp", e.Link.Address())
		assert.NilError(t, err)
		greeting := make([]byte, 4)
		if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "SSH-" {
			c.Close()
			continue
		}
		knocking = append(knocking, c)
	}
	turnedAway := make(chan struct{})
	go func() {
		defer close(turnedAway)
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(ended); err == nil {
				break
			}
		}
		leave()
	}()
	j, err := s.StartJob(t.Context(), execpolicy.Command{Script: "echo begun"})
	<-turnedAway
	assert.NilError(t, err)
	result, err := j.Wait(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, string(result.Stdout), "begun\n")
	clients, err := os.ReadFile(ended)
	assert.NilError(t, err)
	assert.Assert(t, len(clients) > 1, "no client was turned away")
}

// lost sees that a command says that its session was lost, and what it has printed.
func lost(t *testing.T, c *running) {
	t.Helper()
	assert.ErrorIs(t, c.err, execpolicy.ErrEnded)
	assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
	assert.Equal(t, string(c.result.Stdout), "begun\n")
	assert.Assert(t, !c.result.Gone || !errors.Is(c.err, execpolicy.ErrStillThere))
}

func TestUnknownWayIsNamed(t *testing.T) {
	_, err := remote.Start(t.Context(), "docker-mail", io.Discard)
	assert.ErrorContains(t, err, "docker-mail: there is no such way; there are docker-tls, ")
}
