//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/egress"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/pods"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

const (
	// terminationTimeout is the library's default.
	terminationTimeout = 10 * time.Second
	// shellTimeout is the sessions' StartupTimeout, which a shell that is replaced has
	// too.
	shellTimeout = 15 * time.Second
	// keepAlive is far from what a busy machine adds to an answer.
	keepAlive = 15 * time.Second
	// slack is for what a busy machine adds to a bound, beside the time for which it
	// stands still.
	slack = time.Second
	// hangTimeout is how long after its bound a call that does not return ends the suite.
	hangTimeout = 30 * time.Second
	// maxUses is the number of rounds that share a session.
	maxUses = sameSettings
	// label is that of the suite's containers.
	label = "cofferdam-fault"
)

// A suite is one engine under attack.
type suite struct {
	spelled string // how the engine was looked up
	version string // its own
	engine  *dockercli.Engine
	image   string
	id      string // the label's value, and the marker's
	labeled leftover.Engine
	// pods are where sessions run, in place of engine and labeled. It is nil for an
	// engine.
	pods *pods.Place
	// orphans says that pods that have ended may be there, because their program and its
	// guard were killed.
	orphans   bool
	temp      string
	bystander *bystander
	// private is an engine of the suite's own, nil if there is none here.
	private *private.Daemon
	out     io.Writer

	transport execpolicy.Transport // of its sessions
	missing   []string             // programs that the image does not have
	idle      scene                // without a session
	stopped   []leftover.Process   // guards
	open      *opened              // the session that rounds share, if any
	stats     stats
	counting  sync.Mutex // of stats.hangs and stats.survivors
}

// opened is a session with what there is beside it.
type opened struct {
	plan    plan // of the round that has opened it
	session *execpolicy.Session
	ids     []string // the containers', the present one's last
	seed    uint64   // of its settings
	uses    int
	spent   bool
	struck  bool // its guard was
	starved bool // its end may not be known in time
	scene   scene
}

// id returns the ID of the session's container.
func (o *opened) id() string { return o.ids[len(o.ids)-1] }

// newSuite gets an engine ready.
func newSuite(ctx context.Context, spelled string, out io.Writer) (*suite, error) {
	id := strings.ToLower(rand.Text())
	// What is started from here on is known by it.
	if err := os.Setenv(markerVar, id); err != nil {
		return nil, err
	}
	if spelled == kubernetes {
		s, err := newPodSuite(id, out)
		if err != nil {
			return nil, err
		}
		return s, s.prepare()
	}
	s := &suite{spelled: spelled, id: id, out: out}
	var err error
	if s.engine, err = setup.Lookup(ctx, spelled); err != nil {
		return nil, err
	}
	s.version = s.engine.ServerVersion
	if s.engine.Kind == dockercli.Podman {
		// Podman without root may look for its state below TMPDIR.
		s.engine.Env = os.Environ()
	}
	if s.image, err = setup.Ready(ctx, s.engine, os.Stderr); err != nil {
		return nil, err
	}
	s.labeled = leftover.Engine{Engine: s.engine, Labels: map[string]string{label: s.id}}
	if s.engine.Kind == dockercli.Docker {
		s.private, err = private.Start(ctx, os.Stderr)
		if err != nil && required(spelled) {
			return nil, err
		}
		if err != nil {
			fmt.Fprintf(out, "endings of an engine are left out: %v\n", err)
		}
	}
	return s, s.prepare()
}

// prepare makes what is the same for all engines.
func (s *suite) prepare() (err error) {
	if s.temp, err = os.MkdirTemp("", "cofferdam-fault-"); err != nil {
		return err
	}
	if s.bystander, err = newBystander(); err != nil {
		return err
	}
	return os.Setenv("TMPDIR", s.temp)
}

// kind names the engine.
func (s *suite) kind() string {
	if s.pods != nil {
		return kubernetes
	}
	return s.engine.Kind.String()
}

// termination is the TerminationTimeout of sessions.
func (s *suite) termination() time.Duration {
	if s.pods != nil {
		return podTermination
	}
	return terminationTimeout
}

// containerID returns the ID of a session's container.
func (s *suite) containerID(ctx context.Context, name string) (string, error) {
	if s.pods != nil {
		id, err := s.containerOf(name)
		if err == nil && id == "" {
			err = dockercli.ErrNoContainer
		}
		return id, err
	}
	c, err := s.engine.Inspect(ctx, name)
	if err != nil {
		return "", err
	}
	if s.engine.Lacks(dockercli.LimitProcesses) {
		findNamespace(c.ID, name)
	}
	return c.ID, nil
}

func (s *suite) close() {
	if s.private != nil {
		if err := s.private.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	s.bystander.close()
	if s.pods == nil {
		s.labeled.Remove()
	} else if err := s.pods.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(s.temp)
	os.Setenv("TMPDIR", filepath.Dir(s.temp))
}

func (s *suite) environ() []string {
	if s.pods == nil && s.engine.Env != nil {
		return slices.Clone(s.engine.Env)
	}
	return os.Environ()
}

// plan returns the plan of a round.
func (s *suite) plan(seed uint64) plan {
	// What an engine takes is seldom, because it takes long.
	ends := slices.Concat(endings, endings, dockerEndings)
	set := newSettings(seed)
	switch {
	case s.pods != nil:
		ends = endings
		set.engineSeccomp = true // the only one that a pod can have
	case s.engine.Kind == dockercli.Podman:
		ends = slices.Concat(endings, podmanEndings)
	}
	set.egress = set.egress && s.mayEgress()
	p := newPlan(seed, set, programs, ends)
	if s.pods != nil && p.ending.starts {
		// A pod to which nobody has attached lives to its deadline if nobody removes it.
		p.guard = ""
	}
	return p
}

// mayEgress reports whether sessions here can have a way out.
func (s *suite) mayEgress() bool {
	return s.pods == nil && !s.engine.Rootless && s.engine.Kind != dockercli.Nerdctl && os.Geteuid() == 0
}

func (s *suite) policy(set settings) execpolicy.Policy {
	if s.pods != nil {
		return s.podPolicy(set)
	}
	return s.enginePolicy(set)
}

func (s *suite) enginePolicy(set settings) execpolicy.DockerPolicy {
	transport := execpolicy.TransportAuto
	if setup.Attaches(s.engine) || set.keepAlive {
		transport = execpolicy.TransportAttach
	}
	p := execpolicy.DockerPolicy{
		AllowMissingLimits: len(s.engine.MissingLimits) > 0,
		Limits:             execpolicy.Limits{StartupTimeout: shellTimeout},
		Engine:             s.engine, Image: s.image, MemoryBytes: set.memory, PidsLimit: set.pids, EngineSeccomp: set.engineSeccomp,
		Transport: transport,
	}
	if set.keepAlive {
		p.KeepAlive = keepAlive
	}
	if set.egress {
		p.Egress = egress.Allow("192.0.2.1:443") // where nobody is
	}
	return p
}

func (s *suite) spec(set settings) execpolicy.Spec {
	return execpolicy.Spec{Command: strings.Fields(set.shell), Labels: map[string]string{label: s.id}}
}

// call makes a call that has to return within a bound. One that is late is a hang; one
// that does not return ends the suite, with a word on where it is.
func (s *suite) call(p plan, what string, bound time.Duration, f func()) {
	timer := time.AfterFunc(bound+hangTimeout, func() {
		s.letGo()
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%s hangs in the round of seed %d: %v\n%s\n%s\n",
			what, p.seed, p, s.replay(p.seed), stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	})
	began, stood := time.Now(), standstill()
	f()
	timer.Stop()
	if took := time.Since(began); took > bound+slack+stood() {
		s.counting.Lock()
		defer s.counting.Unlock()
		s.stats.hangs++
		fmt.Fprintf(s.out, "%s took %v, allowed are %v, in the round of seed %d: %v\n", what, took, bound, p.seed, p)
	}
}

// standstill returns a function that ends a measurement, of the time for which this
// program could not run though it wanted to.
func standstill() (stop func() time.Duration) {
	end, sum := make(chan struct{}), make(chan time.Duration)
	go func() {
		var overslept time.Duration
		for over := false; !over; {
			const nap = 20 * time.Millisecond
			began := time.Now()
			select {
			case <-end:
				over = true
			case <-time.After(nap):
			}
			overslept += max(0, time.Since(began)-nap)
		}
		sum <- overslept
	}()
	return func() time.Duration {
		close(end)
		return <-sum
	}
}

// replay returns the command that does a round again.
func (s *suite) replay(seed uint64) string {
	return fmt.Sprintf("make fault ENGINE='%s' ROUNDS=1 SEED=%d", s.spelled, seed)
}

// take learns what the image has.
func (s *suite) take(ctx context.Context) error {
	r, err := execpolicy.Run(ctx, s.policy(settings{}), s.spec(settings{shell: "sh"}),
		execpolicy.Command{Script: "for p in bash busybox dash python3; do command -v $p >/dev/null || echo $p; done"})
	if err != nil {
		return err
	}
	s.missing = strings.Fields(string(r.Stdout))
	if s.transport = execpolicy.TransportAttach; s.pods == nil {
		if s.transport, _, err = s.enginePolicy(settings{}).FindTransport(ctx); err != nil {
			return err
		}
	}
	if len(s.missing) > 0 {
		fmt.Fprintf(s.out, "left out is what needs %s\n", strings.Join(s.missing, ", "))
	}
	return nil
}

// can reports whether a plan can be done here.
func (s *suite) can(p plan) bool {
	return !(p.ending.away && s.private == nil) && !(p.ending.client && s.transport != execpolicy.TransportAttach) && !slices.ContainsFunc(s.missing, p.needs)
}

// begin sees to a session that fits.
func (s *suite) begin(ctx context.Context, p plan) error {
	if s.open != nil && s.open.seed == p.seed/sameSettings && s.open.uses < maxUses {
		s.open.uses++
		return nil
	}
	if err := s.end(); err != nil {
		return err
	}
	o := &opened{plan: p, seed: p.seed / sameSettings, uses: 1}
	var err error
	s.call(p, "Start", shellTimeout+s.termination(), func() {
		o.session, err = execpolicy.Start(ctx, s.policy(p.settings), s.spec(p.settings))
	})
	if err != nil {
		return err
	}
	id, err := s.containerID(ctx, o.session.Name())
	if err != nil {
		return err
	}
	o.ids = []string{id}
	s.open, o.scene = o, s.look()
	if got := o.session.Transport(); s.pods == nil && !p.settings.keepAlive && got != s.transport {
		return fmt.Errorf("the session's streams pass through %v, and not %v", got, s.transport)
	}
	return nil
}

// end ends the session that is open, if any, and looks for what it has left.
func (s *suite) end() error {
	o := s.open
	if o == nil {
		return nil
	}
	s.open = nil
	var err error
	s.call(o.plan, "Close", s.termination(), func() { err = o.session.Close() })
	if err == nil && s.pods == nil {
		err = s.allDead("Close", o.ids...)
	}
	if o.starved && errors.Is(err, execpolicy.ErrStillThere) {
		err = nil
	}
	s.letGo()
	left, took := s.settle(leftover.Patient, s.idle, o.ids...)
	s.stats.gone.add(took)
	if len(left) > 0 {
		s.stats.survivors += len(left)
		maps.Copy(s.idle, s.look()) // each is told of once
		s.remove(o.ids)
		return fmt.Errorf("left behind:\n\t\t%s", strings.Join(left, "\n\t\t"))
	}
	return err
}

// survived counts survivors, also while a command runs beside what ends it.
func (s *suite) survived(n int) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.stats.survivors += n
}

// allDead returns an error if processes of containers are alive of which it was said that
// none is. Who says so has no more time for that.
func (s *suite) allDead(who string, ids ...string) (err error) {
	for _, id := range ids {
		if alive := aliveIn(id); len(alive) > 0 {
			s.survived(len(alive))
			err = fmt.Errorf("alive when %s says that nothing is: %v", who, alive)
		}
	}
	return err
}

// remove removes containers that were left behind, so that they hold up nothing else.
func (s *suite) remove(ids []string) {
	if s.pods != nil {
		if err := s.pods.Remove(); err != nil {
			fmt.Fprintln(s.out, err)
		}
		return
	}
	for _, id := range ids {
		s.labeled.List("rm", "--force", id)
	}
}

// finish ends the session, and waits for all that bears the suite's mark to go, with the
// guards of killed programs.
func (s *suite) finish() error {
	if err := s.end(); err != nil {
		return err
	}
	var left []string
	if !leftover.Patient.Until(func() bool {
		left = left[:0]
		for _, p := range all(s.id) {
			if p.PID != s.bystander.cmd.Process.Pid {
				left = append(left, p.String())
			}
		}
		return len(left) == 0
	}) {
		s.stats.survivors += len(left)
		return fmt.Errorf("left behind:\n\t\t%s", strings.Join(left, "\n\t\t"))
	}
	// A container may come into being after its client was killed.
	if left, _ = s.settle(leftover.Patient, s.idle); len(left) > 0 {
		s.stats.survivors += len(left)
		return fmt.Errorf("left behind when all guards had ended:\n\t\t%s", strings.Join(left, "\n\t\t"))
	}
	return nil
}

// now is what there was before the round.
func (s *suite) now() scene {
	if s.open == nil {
		return s.idle
	}
	return s.open.scene
}

// round does one round.
func (s *suite) round(ctx context.Context, p plan) *round {
	r := &round{plan: p, suite: s}
	if !p.ending.alone {
		if err := s.begin(ctx, p); err != nil {
			r.wrong("%v", err)
			return r
		}
		r.session = s.open.session
		s.open.starved = r.starved()
		s.open.spent = s.open.spent || p.any(func(p *program) bool { return p.starves })
		r.strike(os.Getpid(), !s.open.struck)
		r.startJobs(ctx)
	}
	p.ending.do(r, ctx)
	r.endJobs(ctx, false)
	if s.open != nil && s.open.spent {
		if err := s.end(); err != nil {
			r.wrong("%v", err)
		}
	}
	stood := standstill()
	left, took := s.settle(leftover.Patient, s.now(), r.containers...)
	took += r.looked
	if err := p.goneLate(took, stood()); err != nil && s.pods == nil {
		r.wrong("%v", err)
	}
	if p.ending.alone && !p.ending.away {
		if took > s.stats.killed.worst() {
			s.stats.slowest = p.seed
		}
		s.stats.killed.add(took)
	}
	if len(left) > 0 {
		s.stats.survivors += len(left)
		r.wrong("left behind:\n\t\t%s", strings.Join(left, "\n\t\t"))
		// Each is told of once.
		maps.Copy(s.now(), s.look())
		s.remove(r.containers)
	}
	if p.ending.alone {
		s.letGo()
	}
	if err := s.forget(); err != nil {
		r.wrong("%v", err)
	}
	if err := s.bystander.check(); err != nil {
		r.wrong("%v", err)
	}
	return r
}
