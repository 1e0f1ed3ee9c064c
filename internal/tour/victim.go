package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// victimArg makes the tour a program that waits to be killed.
const victimArg = "victim"

// goneTimeout is how long after a program's death its containers may live. A machine on
// which that is over before there were a few looks at the engine's list is so slow that
// it is given the time of these looks.
const goneTimeout = 2 * time.Second

// busy are commands that would go on for ever, each in its own way, once they have said
// so.
var busy = []string{
	`trap '' TERM INT HUP; echo busy; while :; do :; done`,
	`(trap '' HUP; setsid sleep 1000) & echo busy; sleep 1000`,
	`echo busy; yes`,
}

// killProgram runs the tour as another program, kills that while its sessions are busy,
// and counts what is left.
func killProgram(ctx context.Context, h *host) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	id := h.id + "-victim"
	cmd := exec.CommandContext(ctx, self, victimArg, h.image, id)
	cmd.Env = append(h.environ(), "ENGINE="+h.spec)
	cmd.Stderr = os.Stderr
	// It ends by itself if this program does.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(stdout)
	ready := 0
	for ready < len(busy) && lines.Scan() {
		ready++
	}
	names, err := h.engine.PS(ctx, map[string]string{label: id})
	cmd.Process.Kill()
	killed := time.Now()
	cmd.Wait()
	if err != nil {
		return "", err
	}
	if ready < len(busy) {
		return "", fmt.Errorf("%d of %d sessions became busy", ready, len(busy))
	}
	var left []string
	var clients int
	leftover.Patience{Time: goneTimeout, Looks: 20}.Until(func() bool {
		left, err = h.engine.PS(ctx, map[string]string{label: id})
		// The engine's clients have the label on their command lines.
		clients = strings.Count(hostProcesses(ctx), id)
		return err != nil || len(left)+clients == 0
	})
	text := fmt.Sprintf("%d containers, %d left %v later (%d ms)", len(names), len(left), goneTimeout,
		time.Since(killed).Milliseconds())
	if clients > 0 {
		text += fmt.Sprintf(", and %d clients", clients)
	}
	return text, err
}

// victim starts sessions, says on a line for each that it is busy, and waits. It returns
// an exit status.
func victim(ctx context.Context, image, id string) int {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	engine, err := setup.Lookup(ctx, os.Getenv("ENGINE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	policy := execpolicy.DockerPolicy{Engine: engine, Image: image}
	var all sync.WaitGroup
	for _, s := range busy {
		all.Go(func() {
			var once sync.Once
			say := writerFunc(func([]byte) { once.Do(func() { fmt.Println("busy") }) })
			_, err := execpolicy.Run(ctx, policy, execpolicy.Spec{Labels: map[string]string{label: id}},
				execpolicy.Command{Script: s, Stdout: say, Timeout: stepTimeout})
			if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "a busy session ended:", err)
			}
		})
	}
	all.Wait()
	return 1
}
