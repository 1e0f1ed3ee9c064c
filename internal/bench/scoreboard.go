package main

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/random"
)

const (
	boardRounds   = 12
	boardBurst    = 10
	outputRounds  = 3
	boardDeadline = time.Second
	// overdue is how long after its deadline a command may return.
	overdue = 15 * time.Second
	// survivalTime is how long what has lost its host may take to end.
	survivalTime = 3 * time.Second
	samplePause  = 20 * time.Millisecond
)

// A contender is one of those whom the scoreboard compares, on one engine.
type contender struct {
	name    string // in the data
	program string // that takes part
	as      string // its first argument
	engine  string
	// slow contenders run as few commands as they can.
	slow bool
}

var contenders = []contender{
	{"cofferdam", "contend", "cofferdam", "docker", false},
	{"cofferdam-podman", "contend", "cofferdam", "podman", false},
	{"docker-exec", "contend", "exec", "docker", false},
	{"podman-exec", "contend", "exec", "podman", false},
	{"docker-run", "contend", "run", "docker", true},
	{"podman-run", "contend", "run", "podman", true},
	{"langchain", "contend", "langchain", "docker", false},
	{"docker-client", "peers", "docker-client", "docker", false},
	{"testcontainers", "peers", "testcontainers", "docker", false},
}

// scoreboard holds this library against what else a user would pick, and writes the
// results into the module, which must be the working directory: see [record.write]. Each
// contender is a process of its own, and they take turns. All but LangChain's have the
// flags of the zero policy, or their like.
//
//   - A warm command is one that does nothing, in a container that has run others.
//   - A first command lasts from the start of a container to the result of a command.
//   - An output is 256 MiB of lines. Its memory is the most that the contender's process
//     and the clients below it have resident, read 50 times a second.
//   - A deadline of a second ends a command that ignores signals and has a process in the
//     background. What is left is counted of these two, when the contender has said that
//     the command is over, or 15 seconds later.
//   - A kill is a SIGKILL of the contender while such a command runs. What is left is
//     counted three seconds later.
//   - A size is that of a stripped program that runs a command, less that of one which
//     runs the engine's client.
func scoreboard(ctx context.Context, _ execpolicy.DockerPolicy, t *table) (err error) {
	programs, err := os.MkdirTemp("", "cofferdam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	for _, program := range []string{"contend", "peers"} {
		if _, err := build(ctx, filepath.Join("internal/bench", program), ".", filepath.Join(programs, program)); err != nil {
			return err
		}
	}
	b := board{ctx: ctx, programs: programs, label: "cofferdam-bench=" + random.Token(), containers: map[string]contest.Container{}}
	defer func() { err = errors.Join(err, b.removeAll()) }()
	for _, name := range []string{"docker", "podman"} {
		if err := b.ready(ctx, name); err != nil {
			return err
		}
	}
	for _, measure := range []func() error{b.commands, b.outputs, b.endings, func() error { return b.sizes(ctx) }} {
		if err := measure(); err != nil {
			return err
		}
	}
	b.judge(t)
	return b.write(".")
}

// A board has the results so far.
type board struct {
	record
	ctx        context.Context // whose end ends every contender
	programs   string
	label      string
	engines    []*dockercli.Engine
	containers map[string]contest.Container // by the engine's name
}

// ready makes an engine ready, and finds what its containers are to be.
func (b *board) ready(ctx context.Context, name string) error {
	engine, err := dockercli.Lookup(ctx, name)
	if err != nil {
		return err
	}
	p := execpolicy.DockerPolicy{Engine: engine}
	if p.Image, err = setup.Ready(ctx, engine, os.Stderr); err != nil {
		return err
	}
	key, value, _ := strings.Cut(b.label, "=")
	b.engines = append(b.engines, engine)
	b.containers[name] = contest.Container{
		Engine: append([]string{engine.Path}, engine.Global...),
		Image:  p.Image,
		Labels: map[string]string{key: value},
		Flags: []string{
			"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
			"--memory=512m", "--memory-swap=512m", "--cpus=1", "--pids-limit=256", "--user=65534:65534",
			"--tmpfs=/tmp", "--ulimit=nofile=1024:1024", "--ulimit=nproc=32768:32768", "--log-driver=none",
		},
	}
	b.keep(fmt.Sprintf("%s: %s", name, engine.ServerVersion))
	return nil
}

// commands measures the first command and those after it.
func (b *board) commands() error {
	warm := make([]*rival, len(contenders))
	for i, c := range contenders {
		r, err := b.start(c)
		if err != nil {
			return err
		}
		defer r.end()
		if _, err := r.ask(contest.Request{Op: contest.Run, Script: ":"}); err != nil {
			return err
		}
		warm[i] = r
	}
	for range fewer(boardRounds) {
		for _, i := range rand.Perm(len(contenders)) {
			c, burst := contenders[i], boardBurst
			if c.slow {
				burst = 2
			}
			a, err := warm[i].ask(contest.Request{Op: contest.Run, Script: ":", Times: burst})
			if err != nil {
				return err
			}
			for _, taken := range a.Times {
				b.add("Command", c.name, sample{float64(taken), "ns/op"})
			}
		}
		for _, i := range rand.Perm(len(contenders)) {
			if err := b.first(contenders[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// first measures the second container of a contender's process, which has found its
// engine by then, and the first command there.
func (b *board) first(c contender) error {
	r, err := b.start(c)
	if err != nil {
		return err
	}
	defer r.end()
	var total time.Duration
	for _, request := range []contest.Request{
		{Op: contest.Close},
		{Op: contest.Start, Container: b.containers[c.engine]},
		{Op: contest.Run, Script: ":"},
	} {
		a, err := r.ask(request)
		if err != nil {
			return err
		}
		if request.Op != contest.Close {
			total += a.Times[0]
		}
	}
	b.add("First", c.name, sample{float64(total), "ns/op"})
	return r.close()
}

// outputs measures an output of 256 MiB.
func (b *board) outputs() error {
	// A line of 64 bytes.
	script := fmt.Sprintf("yes %063d | head -c %d", 0, outputBytes)
	rounds := outputRounds
	if short {
		rounds = 1
	}
	for range rounds {
		for _, i := range rand.Perm(len(contenders)) {
			c := contenders[i]
			r, err := b.start(c)
			if err != nil {
				return err
			}
			defer r.end()
			stop := r.sample()
			a, err := r.ask(contest.Request{Op: contest.Run, Script: script})
			peak := stop()
			if err != nil {
				return err
			}
			b.add("Output", c.name, sample{float64(a.Times[0]), "ns/op"}, sample{float64(peak), "peak-B"})
			if err := r.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endings measures a deadline and a SIGKILL of the host.
func (b *board) endings() error {
	for _, c := range contenders {
		if err := b.deadline(c); err != nil {
			return err
		}
		if err := b.kill(c); err != nil {
			return err
		}
	}
	return nil
}

// stubborn returns a script that two processes keep running, each a sleep of so many
// seconds.
func stubborn() (script, seconds string) {
	seconds = ownSleep()
	return fmt.Sprintf("trap '' TERM INT HUP; sleep %s & sleep %[1]s", seconds), seconds
}

func (b *board) deadline(c contender) error {
	r, err := b.start(c)
	if err != nil {
		return err
	}
	defer r.end()
	script, seconds := stubborn()
	begin := time.Now()
	if err := r.requests.Encode(contest.Request{Op: contest.Run, Script: script, Timeout: boardDeadline}); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		var a contest.Response
		answered <- r.responses.Decode(&a)
	}()
	select {
	case err = <-answered:
	case <-time.After(boardDeadline + overdue):
	}
	if err != nil {
		return err
	}
	took := time.Since(begin)
	left, err := runningSleeps(seconds)
	if err != nil {
		return err
	}
	b.add("Deadline", c.name, sample{float64(took), "ns/op"}, sample{float64(left), "left"})
	return nil
}

func (b *board) kill(c contender) error {
	r, err := b.start(c)
	if err != nil {
		return err
	}
	defer r.end()
	script, seconds := stubborn()
	if err := r.requests.Encode(contest.Request{Op: contest.Run, Script: script}); err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(samplePause) {
		running, err := runningSleeps(seconds)
		if err != nil || time.Now().After(end) {
			return errors.Join(err, fmt.Errorf("%s: %d processes of a command run", c.name, running))
		}
		if running == 2 {
			break
		}
	}
	if err := r.cmd.Process.Kill(); err != nil {
		return err
	}
	time.Sleep(survivalTime)
	left, err := runningSleeps(seconds)
	b.add("Kill", c.name, sample{float64(left), "left"})
	return err
}

// sizes measures programs.
func (b *board) sizes(ctx context.Context) error {
	bare := int64(0)
	for _, s := range []struct{ name, dir, pattern string }{
		{"bare", ".", "./internal/bench/testdata/bare"},
		{"cofferdam", ".", "./internal/bench/testdata/library"},
		{"docker-client", "internal/bench/peers", "./testdata/dockerclient"},
		{"testcontainers", "internal/bench/peers", "./testdata/testcontainers"},
	} {
		out := filepath.Join(b.programs, "size-"+s.name)
		n, err := build(ctx, s.dir, s.pattern, out)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(out)
		if err != nil {
			return err
		}
		if bare == 0 {
			bare = n
			continue
		}
		b.add("Size", s.name, sample{float64(n - bare), "B"}, sample{float64(len(info.Deps)), "modules"})
	}
	return nil
}

// judge prints a line for each contender.
func (b *board) judge(t *table) {
	for _, c := range contenders {
		if strings.HasPrefix(c.name, "cofferdam") {
			for _, task := range []string{"Deadline", "Kill"} {
				left := b.median(task, c.name, "left")
				t.line(task+", "+c.name, fmt.Sprintf("%.0f left", left), "", "none left", left == 0, ratio{value: left})
			}
			continue
		}
		ours := b.times("Command", strings.TrimSuffix("cofferdam-"+c.engine, "-docker"))
		theirs := b.times("Command", c.name)
		t.atLeast("warm command, times faster", ours.String(), theirs.String()+", "+c.name, 20, theirs.over(ours))
	}
}

// removeAll removes every container of the board's.
func (b *board) removeAll() error {
	var errs []error
	for _, e := range b.engines {
		list := exec.Command(e.Path, append(e.Global, "ps", "--all", "--quiet", "--filter=label="+b.label)...)
		ids, err := list.Output()
		errs = append(errs, err)
		if fields := strings.Fields(string(ids)); len(fields) > 0 {
			remove := append(append(e.Global, "rm", "--force", "--volumes"), fields...)
			errs = append(errs, exec.Command(e.Path, remove...).Run())
		}
	}
	return errors.Join(errs...)
}

// A rival is the process of a contender, which has started its container.
type rival struct {
	name      string
	cmd       *exec.Cmd
	requests  *json.Encoder
	responses *json.Decoder
	closed    bool
}

func (b *board) start(c contender) (*rival, error) {
	r := &rival{name: c.name, cmd: exec.CommandContext(b.ctx, filepath.Join(b.programs, c.program), c.as)}
	r.cmd.Env = append(os.Environ(), "TESTCONTAINERS_RYUK_DISABLED=true")
	r.cmd.Stderr = os.Stderr
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.requests, r.responses = json.NewEncoder(stdin), json.NewDecoder(bufio.NewReader(stdout))
	if _, err := r.ask(contest.Request{Op: contest.Start, Container: b.containers[c.engine]}); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// tell returns what the contender answers, also if that is an error.
func (r *rival) tell(request contest.Request) (a contest.Response, err error) {
	late := time.AfterFunc(patience, func() { r.cmd.Process.Kill() })
	defer late.Stop()
	err = errors.Join(r.requests.Encode(request), r.responses.Decode(&a))
	if err != nil {
		err = fmt.Errorf("%s does not answer: %w", r.name, err)
	}
	return a, err
}

// ask returns what the contender answers, which must not be an error.
func (r *rival) ask(request contest.Request) (contest.Response, error) {
	a, err := r.tell(request)
	if err == nil && a.Err != "" {
		err = fmt.Errorf("%s: %s: %s", r.name, request.Op, a.Err)
	}
	return a, err
}

func (r *rival) close() error {
	_, err := r.ask(contest.Request{Op: contest.Close})
	r.end()
	return err
}

// end ends the contender's process. A client of its own ends with the container.
func (r *rival) end() {
	if r.closed {
		return
	}
	r.closed = true
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

// sample reads the memory of the contender again and again, until the function that it
// returns is called, which returns the most.
func (r *rival) sample() func() int64 {
	var stopped atomic.Bool
	peak := make(chan int64)
	go func() {
		var most int64
		for !stopped.Load() {
			all, _ := processes()
			var sum int64
			for _, p := range below(all, map[int]bool{r.cmd.Process.Pid: true}) {
				sum += resident(p.pid)
			}
			most = max(most, sum)
			time.Sleep(samplePause)
		}
		peak <- most
	}()
	return func() int64 {
		stopped.Store(true)
		return <-peak
	}
}
