//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// The variables that make the suite's program a holder of one session, which is going to be killed.
const (
	holderVar = "COFFERDAM_FAULT_HOLDER" // the round's seed
	engineVar = "COFFERDAM_FAULT_ENGINE" // the client's path and global flags, a line each
	kindVar   = "COFFERDAM_FAULT_KIND"
	imageVar  = "COFFERDAM_FAULT_IMAGE"
)

// hold is the holder's main function. It says the container's name, and goes on with the round's programs until it is killed.
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
	client := strings.Split(os.Getenv(engineVar), "\n")
	e := &dockercli.Engine{Path: client[0], Global: client[1:]}
	if os.Getenv(kindVar) == dockercli.Podman.String() {
		e.Kind = dockercli.Podman
	}
	s := &suite{engine: e, image: os.Getenv(imageVar), id: os.Getenv(markerVar)}
	p := s.plan(seed)
	session, err := execpolicy.Start(context.Background(), s.policy(p.settings), s.spec(p.settings))
	if err != nil {
		return err
	}
	fmt.Println(session.Name())
	r, err := session.Run(context.Background(), execpolicy.Command{Script: p.script(), Timeout: -1})
	if r != nil {
		fmt.Println(r.Outcome, err)
	}
	select {}
}

// holder starts the suite's program as a holder.
func (s *suite) holder(seed uint64) (cmd *exec.Cmd, lines *bufio.Reader, release func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(self)
	cmd.Env = append(s.environ(), holderVar+"="+strconv.FormatUint(seed, 10), kindVar+"="+s.engine.Kind.String(), imageVar+"="+s.image,
		engineVar+"="+strings.Join(append([]string{s.engine.Path}, s.engine.Global...), "\n"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, bufio.NewReader(stdout), func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	}, nil
}

// killHost kills a program whose session is busy.
func (r *round) killHost(ctx context.Context) {
	_, lines, kill, err := r.suite.holder(r.seed)
	if err != nil {
		r.wrong("%v", err)
		return
	}
	defer kill()
	var name string
	r.suite.call(r.plan, "the start of another program", shellTimeout+terminationTimeout, func() { name, err = lines.ReadString('\n') })
	if err != nil {
		r.wrong("the program that was to be killed ended: %v", err)
		return
	}
	if c, err := r.suite.engine.Inspect(ctx, strings.TrimSpace(name)); err == nil {
		r.containers = append(r.containers, c.ID)
	}
	time.Sleep(r.after)
	kill()
}

// killStartingHost kills a program at some moment of its start.
func (r *round) killStartingHost(context.Context) {
	_, _, kill, err := r.suite.holder(r.seed)
	if err != nil {
		r.wrong("%v", err)
		return
	}
	time.Sleep(r.after)
	kill()
}
