package execpolicy_test

import (
	"context"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

const (
	// patience bounds a wait for a condition: no test passes faster or slower for it.
	patience = time.Minute
	// slack is what a busy machine may take on top of what the library may: a bound with
	// it shows that a call does not wait for what takes longer.
	slack = 10 * time.Second
	// ample is a limit of sessions that no test waits out.
	ample = time.Minute
)

// A place is where sessions of a test run.
type place struct {
	engine *dockercli.Engine
	image  string
	labels map[string]string
	fake   *fakeengine.Engine // nil if the engine is real
}

// everywhere runs f on the fake engine and on each real one, or in the cluster, and fails
// on what is left behind.
func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	if inCluster(t) {
		onCluster(t, f)
		return
	}
	places.Everywhere(t, hostLimits, func(t *testing.T, p places.Place) { f(t, placeOf(p)) })
}

// onEngines runs f on each real engine, or in the cluster.
func onEngines(t *testing.T, f func(t *testing.T, p place)) {
	if inCluster(t) {
		onCluster(t, f)
		return
	}
	places.OnEngines(t, hostLimits, func(t *testing.T, p places.Place) { f(t, placeOf(p)) })
}

// onPodman runs f on podman, for what only that does.
func onPodman(t *testing.T, f func(t *testing.T, p place)) {
	places.OnAllEngines(t, hostLimits, func(t *testing.T, p places.Place) {
		if p.Policy.Engine.Kind == dockercli.Podman {
			f(t, placeOf(p))
		}
	})
}

// mountsNothing is why something is left out.
const mountsNothing = "a remote engine can mount nothing of this machine"

func placeOf(p places.Place) place {
	return place{engine: p.Policy.Engine, image: p.Policy.Image, labels: p.Spec.Labels, fake: p.Fake}
}

// workers are the shells that a session can have, by their names in case names.
var workers = map[string][]string{"sh": {"busybox", "sh"}, "dash": {"dash"}, "bash": {"bash"}}

// workersAt returns the workers to try in a place: on a real engine, with -short, one.
func workersAt(t *testing.T, p place) map[string][]string {
	if p.fake != nil {
		return workers
	}
	some := map[string][]string{}
	for _, name := range enginetest.Chosen(t, slices.Sorted(maps.Keys(workers))) {
		some[name] = workers[name]
	}
	return some
}

// A placePolicy is that of a place.
type placePolicy struct{ execpolicy.DockerPolicy }

func (p place) policy() placePolicy {
	return placePolicy{places.Policy(p.engine, p.image, hostLimits)}
}

// hostLimits are those of sessions that are to be ended by what the test does, and never
// by their time.
var hostLimits = execpolicy.Limits{CommandTimeout: ample, StartupTimeout: ample}

func (p place) spec() execpolicy.Spec {
	return execpolicy.Spec{Labels: maps.Clone(p.labels)}
}

// command returns a run of the engine's client, which does not hang for ever.
func (p place) command(args ...string) (cmd *exec.Cmd, cancel context.CancelFunc) {
	// Cleanups call it too, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	cmd = exec.CommandContext(ctx, p.engine.Path, slices.Concat(p.engine.Global, args)...)
	cmd.Env, cmd.WaitDelay = p.engine.Env, time.Second
	return cmd, cancel
}

// cli runs the engine's client and returns what it prints.
func (p place) cli(t *testing.T, args ...string) string {
	t.Helper()
	cmd, cancel := p.command(args...)
	defer cancel()
	out, err := cmd.Output()
	assert.NilError(t, err, "%q: %s", args, out)
	return string(out)
}

// A session is an open session and the test that it is for.
type session struct {
	*execpolicy.Session
	t *testing.T
}

func open(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec) session {
	t.Helper()
	return session{places.Open(t, p, spec), t}
}

// run runs a command that is expected to run.
func (s session) run(c execpolicy.Command) *execpolicy.Result {
	s.t.Helper()
	r, err := s.Run(s.t.Context(), c)
	assert.NilError(s.t, err)
	return r
}

func (s session) script(text string) *execpolicy.Result {
	s.t.Helper()
	return s.run(execpolicy.Command{Script: text})
}

// ok is [places.OK].
func (s session) ok(text string) string {
	s.t.Helper()
	return places.OK(s.t, s.Session, text)
}

// restart restarts a session whose end was not known. To learn of it a busy machine may
// need more than one attempt.
func (s session) restart() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := s.Restart(s.t.Context())
		if err == nil {
			return
		}
		assert.ErrorIs(s.t, err, execpolicy.ErrStillThere)
		assert.Assert(s.t, time.Now().Before(end), "%v", err)
	}
}

// lives reports whether a process inside has a command line that begins with those words.
func (s session) lives(words string) bool {
	s.t.Helper()
	const walk = `for cf_proc in /proc/[0-9]*; do
		tr '\000' ' ' <"$cf_proc/cmdline"; echo
	done 2>/dev/null`
	for line := range strings.Lines(s.ok(walk)) {
		if strings.HasPrefix(line, words) {
			return true
		}
	}
	return false
}

// gone waits until no process inside has such a command line.
func (s session) gone(words string) {
	s.t.Helper()
	wait(s.t, func() bool { return !s.lives(words) }, "%q lives on", words)
}

var wait = enginetest.Wait

// A signal is a writer that says when something has been printed.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

// A running command is one that was started and has printed something.
type running struct {
	result *execpolicy.Result
	err    error
	done   chan struct{}
}

// start runs a command that prints something at its beginning, and returns when it has.
func (s session) start(ctx context.Context, c execpolicy.Command) *running {
	s.t.Helper()
	r, begun := s.tryStart(ctx, c)
	if !begun {
		s.t.Fatalf("the command has ended: %v", r.err)
	}
	return r
}

// tryStart is start of a command that may end before it prints anything. Then it reports
// that it has not begun.
func (s session) tryStart(ctx context.Context, c execpolicy.Command) (r *running, begun bool) {
	printed := make(signal, 1)
	if c.Stdout == nil {
		c.Stdout = printed
	} else {
		c.Stdout = io.MultiWriter(printed, c.Stdout)
	}
	r = &running{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.result, r.err = s.Run(ctx, c)
	}()
	select {
	case <-printed:
		return r, true
	case <-r.done:
		return r, false
	}
}

// workspace makes a directory for nobody in particular, below one that everybody may
// enter.
func newWorkspace(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	assert.NilError(t, mkdirFor(dir, 4711, 4712))
	return dir
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	assert.NilError(t, err)
	return string(text)
}

// attached is policy for sessions whose streams go by the engine's client.
func (p place) attached() placePolicy {
	policy := p.policy()
	policy.Transport = execpolicy.TransportAttach
	return policy
}
