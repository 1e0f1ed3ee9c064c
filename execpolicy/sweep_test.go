package execpolicy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// A program is what the test binary does when a test starts it as another program.
type program struct {
	Name   string
	Engine *dockercli.Engine
	Image  string
	Labels map[string]string
}

const (
	programVar = "COFFERDAM_TEST_PROGRAM" // a program in JSON

	// promptExit lets a program that was built with the race detector end when it has
	// ended. It would wait for a second otherwise.
	promptExit = "GORACE=atexit_sleep_ms=0"
)

// programs are the main functions. Each ends by itself when its stdin does.
var programs = map[string]func(program){"leaver": leave, "sibling": stay, "client": passOn, "finder": find}

func runProgram() {
	text, ok := os.LookupEnv(programVar)
	if !ok {
		return
	}
	os.Unsetenv(programVar)
	var r program
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		fail(err)
	}
	programs[r.Name](r)
	os.Exit(0)
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func (r program) variable(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(r)
	assert.NilError(t, err)
	return programVar + "=" + string(text)
}

// A process is a program that was started.
type process struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// startProgram starts another program.
func startProgram(t *testing.T, r program, change func(cmd *exec.Cmd)) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^$")}
	p.Env = append(os.Environ(), promptExit, r.variable(t))
	p.Stderr = os.Stderr
	if change != nil {
		change(p.Cmd)
	}
	return p.begin(t)
}

func (p *process) begin(t *testing.T) *process {
	t.Helper()
	var err error
	p.stdin, err = p.StdinPipe()
	assert.NilError(t, err)
	stdout, err := p.StdoutPipe()
	assert.NilError(t, err)
	p.stdout = bufio.NewReader(stdout)
	assert.NilError(t, p.Start())
	t.Cleanup(p.kill)
	return p
}

// kill kills the program, once, and waits for it.
func (p *process) kill() {
	if p.ProcessState == nil {
		p.Process.Kill()
		p.Wait()
	}
}

// line returns the next line that the program prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.stdout.ReadString('\n')
	assert.NilError(t, err, text)
	return strings.TrimSuffix(text, "\n")
}

// newCat starts a process that lives until its stdin ends.
func newCat(t *testing.T) *process {
	t.Helper()
	return (&process{Cmd: exec.Command("cat")}).begin(t)
}

// labelsOf returns the labels of a container that this program would start.
func labelsOf(t *testing.T, p execpolicy.DockerPolicy, spec execpolicy.Spec, name string) map[string]string {
	t.Helper()
	argv, err := p.Argv(&dockercli.Engine{Path: "docker"}, spec, name)
	assert.NilError(t, err)
	labels := map[string]string{}
	for _, word := range argv {
		if label, ok := strings.CutPrefix(word, "--label="); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
	}
	return labels
}

// supervisor stands for that of a session.
var supervisor = []string{"sh"}

func TestLabels(t *testing.T) {
	before := time.Now().Unix()
	spec := execpolicy.Spec{Supervisor: supervisor, Labels: map[string]string{"mine": "x"}}
	l := labelsOf(t, execpolicy.DockerPolicy{}, spec, "cofferdam-name")
	number := func(key string) int64 {
		n, err := strconv.ParseInt(l[key], 10, 64)
		assert.NilError(t, err, key)
		return n
	}
	assert.Equal(t, l["mine"], "x")
	assert.Equal(t, l["cofferdam.name"], "cofferdam-name")
	assert.Equal(t, l["cofferdam.pid"], strconv.Itoa(os.Getpid()))
	assert.Equal(t, l["cofferdam.keep"], "false")
	created := number("cofferdam.created")
	assert.Assert(t, before <= created && created <= time.Now().Unix())
	if runtime.GOOS == "linux" {
		assert.Equal(t, l["cofferdam.pid-start"], leftover.StartOf(os.Getpid()))
		for kind, key := range map[string]string{"pid": "cofferdam.pidns", "time": "cofferdam.timens"} {
			if link, err := os.Readlink("/proc/self/ns/" + kind); err == nil {
				assert.Equal(t, kind+":["+l[key]+"]", link)
			}
		}
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		assert.NilError(t, err)
		assert.Equal(t, l["cofferdam.boot"], strings.TrimSpace(string(boot)))
	}
	kept := labelsOf(t, execpolicy.DockerPolicy{KeepContainer: true}, execpolicy.Spec{}, "cofferdam-name")
	assert.Equal(t, kept["cofferdam.keep"], "true")
	// What one container has all have, or an image that was made of one could fill it in.
	compat := labelsOf(t, execpolicy.Compat(), execpolicy.Spec{}, "cofferdam-name")
	delete(l, "mine")
	for _, other := range []map[string]string{kept, compat} {
		assert.DeepEqual(t, slices.Sorted(maps.Keys(other)), slices.Sorted(maps.Keys(l)))
	}
}

func TestExpiry(t *testing.T) {
	const s, forever = time.Second, time.Duration(1<<63 - 1)
	session := execpolicy.Spec{Supervisor: supervisor}
	const hour = 3600
	for _, c := range []struct {
		name   string
		limits execpolicy.Limits
		spec   execpolicy.Spec
		after  int64 // of the creation, or 0 for never: the start, the life, the end, and an hour for clocks
	}{
		{"zero is a day", execpolicy.Limits{}, session, 30 + 24*hour + 10 + hour},
		{"a lifetime of its own", execpolicy.Limits{Lifetime: 5 * s}, session, 30 + 5 + 10 + hour},
		{"every limit", execpolicy.Limits{Lifetime: 5 * s, StartupTimeout: 100 * s, CommandTimeout: 1000 * s,
			TerminationTimeout: 7 * s}, session,
			100 + 5 + 7 + hour},
		{"no limit of a start, which is a part of life", execpolicy.Limits{Lifetime: 5 * s, StartupTimeout: -forever},
			session, 5 + 10 + hour},
		{"as long as can be", execpolicy.Limits{Lifetime: forever, StartupTimeout: forever,
			TerminationTimeout: forever}, session,
			3*int64(forever/s) + hour},
		{"for ever", execpolicy.Limits{Lifetime: -1}, session, 0},
		{"no session, which nobody ends", execpolicy.Limits{Lifetime: 5 * s}, execpolicy.Spec{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := labelsOf(t, execpolicy.DockerPolicy{Limits: c.limits}, c.spec, "cofferdam-name")
			if c.after == 0 {
				assert.Equal(t, l["cofferdam.expires"], "never")
				return
			}
			created, err := strconv.ParseInt(l["cofferdam.created"], 10, 64)
			assert.NilError(t, err)
			expires, err := strconv.ParseInt(l["cofferdam.expires"], 10, 64)
			assert.NilError(t, err)
			assert.Equal(t, expires-created, c.after)
		})
	}
}

// A sweepCase is a container with labels made up from those of this program, and what
// becomes of it.
type sweepCase struct {
	name   string
	change func(l map[string]string)
	// removed says that it goes; byProof that it goes where processes can be looked at.
	removed, byProof bool
}

func sweepCases(t *testing.T) []sweepCase {
	sibling := newCat(t)
	dead := newCat(t)
	deadPID, deadStart := strconv.Itoa(dead.Process.Pid), leftover.StartOf(dead.Process.Pid)
	dead.kill()
	zombie := newCat(t)
	zombieStart := leftover.StartOf(zombie.Process.Pid)
	zombie.Process.Kill()
	if runtime.GOOS == "linux" {
		wait(t, func() bool { return leftover.StatOf(zombie.Process.Pid)[2] == "Z" }, "no zombie")
	}
	past, future := strconv.FormatInt(time.Now().Unix()-10, 10), strconv.FormatInt(time.Now().Unix()+3600, 10)

	alive := []string{"pid", strconv.Itoa(sibling.Process.Pid), "pid-start", leftover.StartOf(sibling.Process.Pid)}

	set := func(pairs ...string) func(map[string]string) {
		return func(l map[string]string) {
			for pair := range slices.Chunk(pairs, 2) {
				l["cofferdam."+pair[0]] = pair[1]
			}
		}
	}
	// of a program that is gone
	gone := func(pairs ...string) func(map[string]string) {
		return set(append([]string{"pid", deadPID, "pid-start", deadStart}, pairs...)...)
	}
	without := func(key string, change func(map[string]string)) func(map[string]string) {
		return func(l map[string]string) {
			change(l)
			delete(l, "cofferdam."+key)
		}
	}
	// odd are labels of the caller's that look like the library's where they are not told
	// apart.
	odd := func(change func(map[string]string)) func(map[string]string) {
		return func(l map[string]string) {
			change(l)
			l["odd"] = "a,cofferdam.expires=1,\"b\"\nlabel \"cofferdam.expires\" \"1\"\ncofferdam.expires=1\n"
			l["a,cofferdam.expires"] = "1"
			l["\"cofferdam.expires\""] = "1"
		}
	}

	cases := []sweepCase{
		{name: "this program", change: set()},
		{name: "a live sibling", change: set(alive...)},
		{name: "a live sibling and odd labels", change: odd(set(alive...))},
		{name: "gone", change: gone(), byProof: true},
		{name: "gone and odd labels", change: odd(gone()), byProof: true},
		{name: "gone and never expires", change: gone("expires", "never"), byProof: true},
		{name: "another process has the number", change: set("pid-start", "1"), byProof: true},
		{name: "dead and not waited for", change: set("pid", strconv.Itoa(zombie.Process.Pid), "pid-start",
			zombieStart), byProof: true},

		{name: "another host", change: gone("host", "elsewhere")},
		{name: "another boot", change: gone("boot", "00000000-0000-4000-8000-000000000000")},
		{name: "another process namespace", change: gone("pidns", "4026531999")},
		{name: "another time namespace", change: set("pid-start", "1", "timens", "4026531999")},

		{name: "no host", change: without("host", gone())},
		{name: "no boot", change: without("boot", gone())},
		{name: "an empty boot", change: gone("boot", "")},
		{name: "no process namespace", change: without("pidns", gone())},
		{name: "no pid", change: without("pid", gone())},
		{name: "an empty pid", change: gone("pid", "")},
		{name: "a group for a pid", change: gone("pid", "-"+deadPID)},
		{name: "pid 0", change: gone("pid", "0")},
		{name: "more than a pid", change: gone("pid", deadPID+"\n")},
		{name: "a signed pid", change: gone("pid", "+"+deadPID)},
		{name: "a pid that the kernel would cut short", change: gone("pid", strconv.Itoa(1<<32+dead.Process.Pid))},
		{name: "no start", change: without("pid-start", gone())},
		{name: "no number for a start", change: gone("pid-start", "then")},
		{name: "its own start, written otherwise", change: set("pid-start", "0"+leftover.StartOf(os.Getpid()))},

		{name: "expired elsewhere", change: gone("host", "elsewhere", "boot", "other", "expires", past), removed: true},
		{name: "expired here", change: set("expires", past), removed: true},
		{name: "expired and odd labels", change: odd(set("expires", past)), removed: true},
		{name: "not expired elsewhere", change: gone("host", "elsewhere", "expires", future)},
		{name: "never expires elsewhere", change: gone("host", "elsewhere", "expires", "never")},
		{name: "no expiry elsewhere", change: without("expires", gone("host", "elsewhere"))},
		{name: "expiry negative", change: set("expires", "-"+past)},
		{name: "expiry malformed", change: set("expires", past+"s")},
		{name: "expiry empty", change: set("expires", "")},

		{name: "kept and gone", change: gone("keep", "true")},
		{name: "kept and expired", change: set("keep", "true", "expires", past)},
		{name: "perhaps kept and gone", change: gone("keep", "perhaps")},
		{name: "perhaps kept and expired", change: without("keep", set("expires", past))},

		{name: "labels of another container", change: gone("name", "cofferdam-other")},
		{name: "expired labels of another container", change: set("name", "cofferdam-other", "expires", past)},
		{name: "no name in the labels", change: without("name", set("expires", past))},
		{name: "only the name looks like ours", change: func(l map[string]string) { clear(l) }},
		{name: "labels look like ours", change: func(l map[string]string) {
			clear(l)
			l["cofferdam"], l["xcofferdam.name"], l["cofferdam.namex"], l["cofferdam.expires"] = "1", "1", "1", past
		}},
	}
	return append(cases, systemCases(t)...)
}

func TestSweepRemovesOnlyWhatIsProven(t *testing.T) {
	if _, err := exec.LookPath("cat"); err != nil {
		leftout.Skip(t, "%v", err)
	}
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			enginetest.Check(t)
			fake := fakeengine.New(t, kind, fakeengine.Faults{})
			cases := sweepCases(t)
			var removed, left []string
			for i, c := range cases {
				name := fmt.Sprintf("cofferdam-%d", i)
				labels := labelsOf(t, execpolicy.DockerPolicy{}, execpolicy.Spec{Supervisor: supervisor}, name)
				c.change(labels)
				fake.Add(name, labels)
				if c.removed || c.byProof && runtime.GOOS == "linux" {
					removed = append(removed, name)
				} else {
					left = append(left, name)
				}
			}
			t.Cleanup(func() { removeAll(t, fake) })
			got, err := execpolicy.Sweep(t.Context(), fake.Engine)
			assert.NilError(t, err)
			there := fake.Containers()
			for i, c := range cases {
				name := fmt.Sprintf("cofferdam-%d", i)
				assert.Check(t, slices.Contains(there, name) == slices.Contains(left, name), "%s: left is %v", c.name,
					slices.Contains(there, name))
			}
			slices.Sort(got)
			slices.Sort(removed)
			assert.DeepEqual(t, got, removed)
			for _, call := range fake.Calls() {
				assert.Assert(t, call[0] != "kill", "what has ended is left as it is: %q", call)
				if call[0] == "rm" {
					// By the engine's own name for it, and no more than one.
					assert.Equal(t, len(call[slices.Index(call, "--")+1:]), 1)
					assert.Equal(t, len(call[len(call)-1]), 64)
				}
			}
		})
	}
}

// removeAll removes a fake engine's containers.
func removeAll(t *testing.T, e *fakeengine.Engine) {
	argv, err := e.RemoveArgs(e.Containers()...)
	assert.NilError(t, err)
	if len(e.Containers()) > 0 {
		place{engine: e.Engine}.cli(t, argv[1:]...)
	}
}

// expired adds containers that nobody can be using any more, and returns their names.
func expired(t *testing.T, e *fakeengine.Engine, n int) []string {
	var names []string
	for i := range n {
		name := fmt.Sprintf("cofferdam-%d", i)
		labels := labelsOf(t, execpolicy.DockerPolicy{}, execpolicy.Spec{}, name)
		labels["cofferdam.expires"] = "1"
		e.Add(name, labels)
		names = append(names, name)
	}
	return names
}

func TestSweepGoesOn(t *testing.T) {
	enginetest.Check(t)
	const denied = "Error response from daemon: something is in the way of NAME\n"
	fail := func(verb string, f fakeengine.Failure) fakeengine.Faults {
		return fakeengine.Faults{Fail: map[string]fakeengine.Failure{verb: f}}
	}
	for _, c := range []struct {
		name    string
		faults  fakeengine.Faults
		removed int // of three
		err     error
		words   string
	}{
		{"one can't be removed", fail("rm", fakeengine.Failure{Exit: 1, Stderr: denied, Times: 1}), 2,
			execpolicy.ErrStillThere, "in the way"},
		{"none can be removed", fail("rm", fakeengine.Failure{Exit: 1, Stderr: denied}), 0,
			execpolicy.ErrStillThere, "in the way"},
		{"one can't be looked at", fail("container inspect", fakeengine.Failure{Exit: 1, Stderr: denied, Times: 1}),
			2, nil, "in the way"},
		{"somebody else has removed one before", fail("container inspect",
			fakeengine.Failure{Exit: 1, Stderr: "Error response from daemon: No such container: NAME\n", Times: 1}), 2, nil, ""},
		{"somebody else removes one", func() fakeengine.Faults {
			f := fakeengine.RemovalInProgress
			f.Done, f.Times = true, 1
			return fail("rm", f)
		}(), 3, nil, ""},
		{"no list", fail("ps", fakeengine.Failure{Exit: 1, Stderr: denied}), 0, nil, "in the way"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := fakeengine.New(t, dockercli.Docker, c.faults)
			t.Cleanup(func() { fake.Set(fakeengine.Faults{}); removeAll(t, fake) })
			names := expired(t, fake, 3)
			removed, err := execpolicy.Sweep(t.Context(), fake.Engine)
			assert.Equal(t, len(removed), c.removed, "%q", removed)
			if c.words == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.words)
			assert.Equal(t, errors.Is(err, execpolicy.ErrStillThere), c.err != nil)
			for _, name := range names {
				// It stands in the error or among the removed.
				in := strings.Contains(err.Error(), "container "+name+":")
				assert.Check(t, in != slices.Contains(removed, name) || strings.HasPrefix(err.Error(), "ps:"), "%s: %v", name, err)
			}
		})
	}
}

func TestSweepIsBoundByItsContext(t *testing.T) {
	enginetest.Check(t)
	for _, verb := range []string{"ps", "container inspect", "rm"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Hang: []string{verb}})
			t.Cleanup(func() { fake.Set(fakeengine.Faults{}); removeAll(t, fake) })
			expired(t, fake, 2)
			want := 2 // the first does not use up the time of the second
			if verb == "ps" {
				want = 1
			}
			for bound, before := 2*time.Second, 0; ; bound *= 2 {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				var removed []string
				var err error
				enginetest.Within(t, bound+slack, "Sweep", func() { removed, err = execpolicy.Sweep(ctx, fake.Engine) })
				cancel()
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, len(removed), 0)
				calls := 0
				for _, call := range fake.Calls() {
					if strings.HasPrefix(strings.Join(call, " "), verb+" ") {
						calls++
					}
				}
				// On a busy machine a client that has its time may come to nothing.
				if calls-before == want {
					break
				}
				// With more, no container would have half of it.
				assert.Assert(t, calls-before < want && bound < slack, "%d calls", calls-before)
				before = calls
			}
		})
	}
	t.Run("in the middle", func(t *testing.T) {
		fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Hang: []string{"container inspect"}})
		t.Cleanup(func() { fake.Set(fakeengine.Faults{}); removeAll(t, fake) })
		expired(t, fake, 3)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		inspected := func() bool {
			return slices.ContainsFunc(fake.Calls(), func(call []string) bool { return call[0] == "container" })
		}
		go func() {
			defer cancel(cause)
			for end := time.Now().Add(patience); !inspected() && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			}
		}()
		removed, err := execpolicy.Sweep(ctx, fake.Engine)
		assert.ErrorIs(t, err, cause)
		assert.ErrorContains(t, err, "2 containers were not looked at")
		assert.Equal(t, len(removed), 0)
	})
	t.Run("before it begins", func(t *testing.T) {
		fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
		t.Cleanup(func() { removeAll(t, fake) })
		expired(t, fake, 1)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		removed, err := execpolicy.Sweep(ctx, fake.Engine)
		assert.ErrorIs(t, err, cause)
		assert.Equal(t, len(removed), 0)
		assert.Equal(t, len(fake.Containers()), 1)
	})
}

// Code that spins above its process 1's priority holds a removal up for minutes.
func TestSweepHelpsARemovalThatHangs(t *testing.T) {
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Hang: []string{"rm"}})
	names := expired(t, fake, 1)
	var removed []string
	swept := make(chan error, 1)
	go func() {
		var err error
		removed, err = execpolicy.Sweep(t.Context(), fake.Engine)
		swept <- err
	}()
	helped := func() bool {
		return slices.ContainsFunc(fake.Calls(), func(call []string) bool { return call[0] == "exec" })
	}
	wait(t, helped, "it is not helped")
	fake.Set(fakeengine.Faults{})
	assert.NilError(t, <-swept)
	assert.DeepEqual(t, removed, names)
}

func TestSweepFindsTheEngine(t *testing.T) {
	enginetest.Check(t)
	fake := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	names := expired(t, fake, 1)
	// In a program of its own: what was found is remembered.
	finder := startProgram(t, program{Name: "finder"}, func(cmd *exec.Cmd) {
		cmd.Env = slices.Concat(fake.Env, []string{cmd.Env[len(cmd.Env)-1], "PATH=" + filepath.Dir(fake.Path)})
	})
	assert.Equal(t, finder.line(t), fmt.Sprint(names, nil))
}

// find sweeps the engine that is found.
func find(program) {
	fmt.Println(execpolicy.Sweep(context.Background(), nil))
}

// A program that starts sessions and never sweeps does not carry Sweep.
func TestSweepIsNotInEveryProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "library")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./internal/bench/testdata/library")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	data, err := os.ReadFile(program)
	assert.NilError(t, err)
	for name, want := range map[string]bool{
		"execpolicy.Start": true, "execpolicy.Sweep": false, "dockercli.(*Engine).PS": false,
		"container.Labels": true, "container.Sweep": false, "container.ownerGone": false,
	} {
		assert.Check(t, strings.Contains(string(data), name) == want, name)
	}
}

// leave starts containers that have no lifeline, says their names, and does nothing more.
func leave(r program) {
	e := r.Engine
	for _, kept := range []bool{false, true} {
		for _, script := range []string{"exec sleep 600", "exec true"} {
			if !kept && script == "exec true" {
				continue
			}
			name := fmt.Sprintf("cofferdam-sweep-%d-%d", os.Getpid(), time.Now().UnixNano())
			policy := execpolicy.DockerPolicy{Engine: e, Image: r.Image, KeepContainer: kept, EngineSeccomp: true,
				AllowMissingLimits: len(r.Engine.MissingLimits) > 0}
			argv, err := policy.Argv(e, execpolicy.Spec{Labels: r.Labels, Command: []string{"sh", "-c", script}}, name)
			if err != nil {
				fail(err)
			}
			argv = slices.DeleteFunc(argv, func(word string) bool { return word == "--interactive" })
			argv = slices.Insert(argv, slices.Index(argv, "run")+1, "--detach")
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = e.Env
			if out, err := cmd.CombinedOutput(); err != nil {
				fail(fmt.Errorf("%w: %s", err, out))
			}
			fmt.Print(name, " ")
		}
	}
	fmt.Println()
	io.Copy(io.Discard, os.Stdin)
}

// stay opens a session, says its name, and runs in it what it reads.
func stay(r program) {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{Engine: r.Engine, Image: r.Image, EngineSeccomp: places.NoFilter(r.Engine),
		AllowMissingLimits: len(r.Engine.MissingLimits) > 0},
		execpolicy.Spec{Labels: r.Labels})
	if err != nil {
		fail(err)
	}
	fmt.Println(s.Name())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		result, err := s.Run(ctx, execpolicy.Command{Script: lines.Text()})
		if err != nil {
			fail(err)
		}
		fmt.Printf("%s", result.Stdout)
	}
	if err := s.Close(); err != nil {
		fail(err)
	}
	fmt.Println("closed")
}

// passOn is an engine's client that shows of all containers only those of its own
// labels.
func passOn(r program) {
	words := slices.Clone(os.Args[1:])
	if i := slices.Index(words, "ps"); i >= 0 {
		for key, value := range r.Labels {
			words = slices.Insert(words, i+1, "--filter=label="+key+"="+value)
		}
	}
	cmd := exec.Command(r.Engine.Path, words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		fail(err)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// ours returns the engine without the containers of those who use it at the same time:
// what they have left is not ours to remove.
func (p place) ours(t *testing.T) *dockercli.Engine {
	if p.fake != nil {
		return p.engine
	}
	self, err := os.Executable()
	assert.NilError(t, err)
	e := *p.engine
	e.Path = self
	e.Env = e.Env[:len(e.Env):len(e.Env)]
	if e.Env == nil {
		e.Env = os.Environ()
	}
	e.Env = append(e.Env, promptExit, program{Name: "client", Engine: &dockercli.Engine{Path: p.engine.Path},
		Labels: p.labels}.variable(t))
	return &e
}

// state returns the state of a container, "" if there is none.
func (p place) state(t *testing.T, name string) string {
	t.Helper()
	container, err := p.engine.Inspect(t.Context(), name)
	if errors.Is(err, dockercli.ErrNoContainer) {
		return ""
	}
	assert.NilError(t, err)
	return container.Status
}

func TestSweep(t *testing.T) {
	if runtime.GOOS != "linux" {
		leftout.Skip(t, "only on Linux can a program's end be proven")
	}
	everywhere(t, func(t *testing.T, p place) {
		labels := maps.Clone(p.labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels["odd"] = "a,b=\"c\"\nlabel \"cofferdam.expires\" \"1\"\n"
		engine := p.ours(t)

		own := open(t, p.policy(), execpolicy.Spec{Labels: labels})
		own.ok("kept=own")
		sibling := startProgram(t, program{Name: "sibling", Engine: p.engine, Image: p.image, Labels: labels}, nil)
		siblings := sibling.line(t)
		ask := func(script string) string {
			t.Helper()
			_, err := fmt.Fprintln(sibling.stdin, script)
			assert.NilError(t, err)
			return sibling.line(t)
		}
		assert.Equal(t, ask("kept=sibling; echo $kept"), "sibling")

		leaver := startProgram(t, program{Name: "leaver", Engine: p.engine, Image: p.image, Labels: labels}, nil)
		names := strings.Fields(leaver.line(t))
		t.Cleanup(func() {
			for _, name := range names {
				assert.Check(t, p.engine.Remove(context.WithoutCancel(t.Context()), name))
			}
		})
		assert.Equal(t, len(names), 3, "%q", names)
		left, keptRunning, keptEnded := names[0], names[1], names[2]
		wait(t, func() bool { return p.state(t, keptEnded) == "exited" }, "%s does not end", keptEnded)
		// A name and no label of ours.
		lookalike := dockercli.RunOptions{
			Name: left + "-x", Labels: p.labels, Remove: true, Network: "none", Pull: "never", LogDriver: "none", Image: p.image,
			Extra: []string{"--detach"}, Command: []string{"sleep", "600"},
		}
		if p.image == "" {
			lookalike.Image = execpolicy.DefaultImage
		}
		if p.engine.Kind == dockercli.Podman {
			lookalike.Ulimits = []string{"nofile=1024:1024", "nproc=4096:4096"} // podman's own is more than every host allows
		}
		argv, err := p.engine.RunArgs(lookalike)
		assert.NilError(t, err)
		p.cli(t, argv[1+len(p.engine.Global):]...)
		t.Cleanup(func() { assert.Check(t, p.engine.Remove(context.WithoutCancel(t.Context()), lookalike.Name)) })

		sweep := func(want ...string) {
			t.Helper()
			removed, err := execpolicy.Sweep(t.Context(), engine)
			assert.NilError(t, err)
			assert.DeepEqual(t, append([]string{}, removed...), append([]string{}, want...))
			assert.Equal(t, ask("echo $kept"), "sibling")
			assert.Equal(t, own.ok("echo $kept"), "own")
			assert.Equal(t, p.state(t, siblings), "running")
			assert.Equal(t, p.state(t, lookalike.Name), "running")
			assert.Equal(t, p.state(t, keptEnded), "exited")
		}
		sweep()
		leaver.kill()
		assert.Equal(t, p.state(t, left), "running")
		assert.Equal(t, p.state(t, keptRunning), "running")
		sweep(left)
		assert.Equal(t, p.state(t, left), "")
		wait(t, func() bool { return p.state(t, keptRunning) == "exited" }, "%s runs", keptRunning)
		sweep()

		assert.NilError(t, sibling.stdin.Close())
		assert.Equal(t, sibling.line(t), "closed")
	})
}
