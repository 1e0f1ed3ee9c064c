package main

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/internal/random"
)

const (
	boardRounds   = 20
	boardBurst    = 10
	outputRounds  = 3
	endingRounds  = 3
	boardDeadline = 2 * time.Second
	// maxOverdue is how long after its deadline a command of a session may have ended.
	maxOverdue = time.Second
	// maxOutputMemory bounds what a session's host takes for an output, in bytes.
	maxOutputMemory = 64 << 20
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
	slow    bool // runs as few commands as it can
	bounds  bool // keeps no more than a part of an output
}

var contenders = []contender{
	{"cofferdam", "contend", "cofferdam", "docker", false, true},
	{"cofferdam-podman", "contend", "cofferdam", "podman", false, true},
	{"docker-exec", "contend", "exec", "docker", false, false},
	{"podman-exec", "contend", "exec", "podman", false, false},
	{"docker-run", "contend", "run", "docker", true, false},
	{"podman-run", "contend", "run", "podman", true, false},
	{"langchain", "contend", "langchain", "docker", false, true},
	{"docker-client", "peers", "docker-client", "docker", false, false},
	{"testcontainers", "peers", "testcontainers", "docker", false, false},
}

// scoreboard holds this library against what else a user would pick, and writes the
// results into the module, which must be the working directory: see [record.write]. Each
// contender is a process of its own, and they take turns. All but LangChain's have the
// flags of the zero policy, or their like.
//
//   - A warm command is one that does nothing, in a container that has run others.
//   - A first command lasts from the start of a container to the result of a command.
//   - An output is 256 MiB of lines, of which cofferdam keeps 1 MiB, LangChain 100 lines
//     and the others all. Its memory is the most that the contender's process and the
//     clients below it have resident, read 50 times a second.
//   - A deadline of two seconds ends a command that ignores signals and has a process in
//     the background. What is left is counted of these two, when the contender has said
//     that the command is over, or 15 seconds later, which is no time of its own.
//   - A kill is a SIGKILL of the contender while such a command runs. What is left is
//     counted three seconds later, and so are its containers. Testcontainers-go has a
//     container of its own, Ryuk, that removes what a killed program has left. It is
//     switched off here, as its image has to be pulled.
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
	b := board{ctx: ctx, programs: programs, label: "cofferdam-bench=" + random.Token(),
		engines: map[string]*dockercli.Engine{}, containers: map[string]contest.Container{}}
	defer func() { err = errors.Join(err, b.removeAll()) }()
	for _, name := range []string{"docker", "podman"} {
		if err := b.ready(ctx, name); err != nil {
			return err
		}
	}
	b.keep("cpu: " + processor())
	b.keep("date: " + time.Now().UTC().Format(time.DateOnly))
	for _, measure := range []func() error{b.commands, b.outputs, b.endings, func() error { return b.sizes(ctx) }} {
		if err := measure(); err != nil {
			return err
		}
	}
	b.judge(t)
	if short {
		return nil // its percentiles say nothing
	}
	return b.write(".")
}

// A board has the results so far.
type board struct {
	record
	ctx        context.Context // whose end ends every contender
	programs   string
	label      string
	rivals     int // how many were started
	engines    map[string]*dockercli.Engine
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
	b.engines[name] = engine
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
			if a.Bytes == 0 || !c.bounds && a.Bytes != outputBytes {
				return fmt.Errorf("%s: %d bytes of an output came", c.name, a.Bytes)
			}
			b.add("Output", c.name, sample{float64(a.Times[0]), "ns/op"}, sample{float64(peak), "peak-B"},
				sample{float64(a.Bytes), "kept-B"})
			if err := r.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endings measures a deadline and a SIGKILL of the host.
func (b *board) endings() error {
	for range fewer(endingRounds) {
		for _, c := range contenders {
			if err := b.deadline(c); err != nil {
				return err
			}
			if err := b.kill(c); err != nil {
				return err
			}
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
	var a contest.Response
	answered := make(chan error, 1)
	go func() { answered <- r.responses.Decode(&a) }()
	if err := r.runs(seconds); err != nil {
		return err
	}
	var samples []sample
	select {
	case err := <-answered:
		if err != nil || a.Err == "" {
			return errors.Join(err, fmt.Errorf("%s: a command that does not end has ended", c.name))
		}
		samples = append(samples, sample{float64(time.Since(begin)), "ns/op"})
	case <-time.After(boardDeadline + overdue):
		if c.as == "cofferdam" {
			return fmt.Errorf("%s: no answer %v after the deadline", c.name, overdue)
		}
	}
	left, err := runningSleeps(seconds)
	b.add("Deadline", c.name, append(samples, sample{float64(left), "left"})...)
	return err
}

// runs waits until both processes of a stubborn script run.
func (r *rival) runs(seconds string) error {
	for end := time.Now().Add(patience); ; time.Sleep(samplePause) {
		running, err := runningSleeps(seconds)
		if err != nil || time.Now().After(end) {
			return errors.Join(err, fmt.Errorf("%s: %d processes of a command run", r.name, running))
		}
		if running == 2 {
			return nil
		}
	}
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
	if err := r.runs(seconds); err != nil {
		return err
	}
	// It alone, and not its clients.
	host, err := os.FindProcess(r.proc.Pid())
	if err != nil {
		return err
	}
	if err := host.Kill(); err != nil {
		return err
	}
	time.Sleep(survivalTime)
	left, err := runningSleeps(seconds)
	if err != nil {
		return err
	}
	containers, err := b.list(c.engine, r.label)
	b.add("Kill", c.name, sample{float64(left), "left"}, sample{float64(len(containers)), "containers"})
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
				left := slices.Max(append(b.values(task, c.name, "left"), b.values(task, c.name, "containers")...))
				t.line(task+", "+c.name, fmt.Sprintf("%.0f left", left), "", "none left", left == 0, ratio{value: left})
			}
			t.within("Deadline, "+c.name+", its time", "", boardDeadline+maxOverdue, times.median, b.times("Deadline", c.name))
			memory := int64(slices.Max(b.values("Output", c.name, "peak-B")))
			t.line("256 MiB of output, "+c.name+", memory", mib(memory), "", "at most "+mib(maxOutputMemory),
				memory <= maxOutputMemory, ratio{value: float64(memory) / maxOutputMemory})
			first, theirs := b.times("First", c.name), b.times("First", c.engine+"-exec")
			t.atMost("first command, "+c.name, first.String(), theirs.String()+", "+c.engine+" run and exec", 1.1, first.over(theirs))
			continue
		}
		ours := b.times("Command", strings.TrimSuffix("cofferdam-"+c.engine, "-docker"))
		theirs := b.times("Command", c.name)
		t.atLeast("warm command, times faster", ours.String(), theirs.String()+", "+c.name, 20, theirs.over(ours))
	}
}

// list returns the containers of an engine that have a label.
func (b *board) list(engine, label string) ([]string, error) {
	e := b.engines[engine]
	ids, err := exec.Command(e.Path, append(slices.Clone(e.Global), "ps", "--all", "--quiet", "--filter=label="+label)...).Output()
	return strings.Fields(string(ids)), err
}

// removeAll removes every container of the board's, also one that an engine was about to
// start.
func (b *board) removeAll() error {
	var errs []error
	for name, e := range b.engines {
		for {
			ids, err := b.list(name, b.label)
			errs = append(errs, err)
			if len(ids) == 0 {
				break
			}
			remove := append(slices.Clone(e.Global), "rm", "--force", "--volumes")
			if err := exec.Command(e.Path, append(remove, ids...)...).Run(); err != nil {
				errs = append(errs, err)
				break
			}
			time.Sleep(time.Second)
		}
	}
	return errors.Join(errs...)
}

// A rival is the process of a contender, which has started its container. It and the
// engine's clients below it end with the board.
type rival struct {
	name, label string // of its containers
	proc        *procgroup.Process
	pipes       *procgroup.Pipes
	requests    *json.Encoder
	responses   *json.Decoder
	forget      func() bool // that it ends with the board
}

func (b *board) start(c contender) (*rival, error) {
	b.rivals++
	key, value := "cofferdam-rival", fmt.Sprintf("%s-%d", strings.TrimPrefix(b.label, "cofferdam-bench="), b.rivals)
	in := b.containers[c.engine]
	in.Labels = maps.Clone(in.Labels)
	in.Labels[key] = value
	r := &rival{name: c.name, label: key + "=" + value}
	pipes, err := procgroup.NewPipes()
	if err != nil {
		return nil, err
	}
	r.proc, err = procgroup.Start(procgroup.Cmd{
		Path: filepath.Join(b.programs, c.program), Args: []string{c.program, c.as},
		Env:   append(os.Environ(), "TESTCONTAINERS_RYUK_DISABLED=true"),
		Stdin: pipes.Inside[0], Stdout: pipes.Inside[1], Stderr: os.Stderr,
	})
	pipes.CloseInside()
	if err != nil {
		pipes.CloseOutside()
		return nil, err
	}
	r.pipes, r.forget = pipes, context.AfterFunc(b.ctx, func() { r.proc.Kill() })
	r.requests, r.responses = json.NewEncoder(pipes.Outside[0]), json.NewDecoder(bufio.NewReader(pipes.Outside[1]))
	if _, err := r.ask(contest.Request{Op: contest.Start, Container: in}); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// tell returns what the contender answers, even if that is an error.
func (r *rival) tell(request contest.Request) (a contest.Response, err error) {
	late := time.AfterFunc(patience, func() { r.proc.Kill() })
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

// end ends the contender's process, and the engine's clients below it.
func (r *rival) end() {
	if r.forget() {
		r.proc.Kill()
	}
	<-r.proc.Done()
	r.pipes.CloseOutside()
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
			for _, p := range below(all, map[int]bool{r.proc.Pid(): true}) {
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
