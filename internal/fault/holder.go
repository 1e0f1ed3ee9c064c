//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// The variables that make the suite's program a holder of one session, which is going to
// be killed.
const (
	holderVar = "COFFERDAM_FAULT_HOLDER" // the round's seed
	engineVar = "COFFERDAM_FAULT_ENGINE" // in JSON, or kubernetes
	imageVar  = "COFFERDAM_FAULT_IMAGE"
)

// readyTimeout is the deadline of a holder's command before its transfers, if programs
// keep it from its end.
const readyTimeout = 3 * time.Second

// hold is the holder's main function. It says the container's name, and goes on with the
// round's programs until it is killed.
func hold() error {
	go func() {
		// The suite has gone.
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	seed, err := strconv.ParseUint(os.Getenv(holderVar), 10, 64)
	if err != nil {
		return err
	}
	s, err := heldSuite()
	if err != nil {
		return err
	}
	p := s.plan(seed)
	session, err := execpolicy.Start(context.Background(), s.policy(p.settings), s.spec(p.settings))
	if err != nil {
		return err
	}
	fmt.Println(session.Name())
	for i, prog := range p.beside(true) {
		// The jobs before it may leave no room for one more.
		if _, err := session.StartJob(context.Background(), execpolicy.Command{Script: prog.script}); err != nil && i == 0 {
			return err
		}
	}
	c := execpolicy.Command{Script: p.script(), Timeout: -1}
	if p.ending.own {
		c.Timeout = readyTimeout
	}
	r, err := session.Run(context.Background(), c)
	if r != nil {
		fmt.Println(r.Outcome, err)
	} else {
		fmt.Println(err)
	}
	if p.ending.own {
		upload(session)
	}
	select {}
}

// heldSuite returns the suite that a holder is told of.
func heldSuite() (*suite, error) {
	id := os.Getenv(markerVar)
	if os.Getenv(engineVar) == kubernetes {
		return newPodSuite(id, os.Stderr)
	}
	e := new(dockercli.Engine)
	if err := json.Unmarshal([]byte(os.Getenv(engineVar)), e); err != nil {
		return nil, err
	}
	return &suite{engine: e, image: os.Getenv(imageVar), id: id}, nil
}

// upload writes files, small ones and large ones, until the session has ended.
func upload(s *execpolicy.Session) {
	for {
		for _, size := range []int{smallFile, hugeFile} {
			err := s.WriteFile(context.Background(), "uploaded", make([]byte, size), 0o600)
			if errors.Is(err, execpolicy.ErrEnded) {
				return
			}
		}
	}
}

// A holder is the suite's program as the holder of one session.
type holder struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader // what it prints
}

// holder starts the suite's program as a holder.
func (s *suite) holder(seed uint64) (*holder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	// What it makes for temporary files has to be where this program looks.
	cmd.Env = append(s.environ(), "TMPDIR="+s.temp, holderVar+"="+strconv.FormatUint(seed, 10))
	engine := kubernetes
	if s.pods == nil {
		e := *s.engine
		e.PassedOver = nil // the holder names no choice
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		engine = string(text)
	}
	cmd.Env = append(cmd.Env, engineVar+"="+engine, imageVar+"="+s.image)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &holder{cmd, stdin, bufio.NewReader(stdout)}, nil
}

// release kills the holder, if it lives.
func (h *holder) release() {
	h.cmd.Process.Kill()
	h.cmd.Wait()
	h.stdin.Close()
}

// killHost kills a program whose session is busy.
func (r *round) killHost(ctx context.Context) {
	h := r.hold(ctx)
	if h == nil {
		return
	}
	defer h.release()
	time.Sleep(r.after)
	r.killHolder(h)
}

// killTransferringHost kills a program while it writes files beside its session's
// programs.
func (r *round) killTransferringHost(ctx context.Context) {
	h := r.hold(ctx)
	if h == nil {
		return
	}
	defer h.release()
	if _, err := r.line(h, "the command before the transfer", readyTimeout+r.suite.termination()); err != nil {
		return
	}
	time.Sleep(r.after)
	r.killHolder(h)
}

// killStartingHost kills a program at some moment of its start.
func (r *round) killStartingHost(ctx context.Context) {
	h, err := r.suite.holder(r.seed)
	if err != nil {
		r.wrong("%v", err)
		return
	}
	defer h.release()
	time.Sleep(r.after)
	r.killHolder(h)
	began := time.Now()
	r.seeOthers(ctx)
	r.looked = time.Since(began)
}

// seeOthers sees the containers that were not there before the round: a program that was
// killed at its start had no time to name its own.
func (r *round) seeOthers(ctx context.Context) {
	if r.suite.pods != nil {
		return
	}
	before := r.suite.now()
	for _, name := range r.suite.labeled.Containers() {
		if _, there := before["container "+name]; !there {
			r.see(ctx, name, &r.containers)
		}
	}
}

// hold starts a holder and waits for its session, or returns nil.
func (r *round) hold(ctx context.Context) *holder {
	h, err := r.suite.holder(r.seed)
	if err != nil {
		r.wrong("%v", err)
		return nil
	}
	name, err := r.line(h, "the start of another program", shellTimeout+r.suite.termination())
	if err != nil {
		h.release()
		return nil
	}
	r.see(ctx, name, &r.containers)
	return h
}

// line returns the next line that a holder prints.
func (r *round) line(h *holder, what string, bound time.Duration) (line string, err error) {
	r.suite.call(r.plan, what, bound, func() { line, err = h.lines.ReadString('\n') })
	if err != nil {
		r.wrong("the program that was to be killed ended: %v", err)
	}
	return strings.TrimSpace(line), err
}

// killHolder kills a holder, after its guard if the plan says so. The holder is stopped
// first, so that it starts no other guard meanwhile. It has none before it has a
// container, nor when that has ended.
func (r *round) killHolder(h *holder) {
	if r.guard != "" {
		if err := freeze(h.cmd.Process); err != nil {
			r.wrong("%v", err)
		}
		guarded := slices.ContainsFunc(r.containers, func(id string) bool { return len(processesIn(id)) > 0 })
		r.strike(h.cmd.Process.Pid, guarded)
		// Nobody is left who removes a pod that has ended.
		r.suite.orphans = r.suite.pods != nil
	}
	h.release()
}

// freeze stops a process, and returns when each of its threads is stopped or gone: one
// that is starting a program has started it then.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var states []string
	if !leftover.Patient.Until(func() bool {
		states = threads(p.Pid)
		return !slices.ContainsFunc(states, func(s string) bool { return !strings.Contains("TXZ", s) })
	}) {
		return fmt.Errorf("the threads of process %d do not stop: %q", p.Pid, states)
	}
	return nil
}

// threads returns the states of a process's threads.
func threads(pid int) []string {
	var states []string
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		_, behind, _ := strings.Cut(string(stat), ") ")
		state, _, _ := strings.Cut(behind, " ")
		states = append(states, state)
	}
	return states
}
