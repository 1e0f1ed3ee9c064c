package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func Example() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: `python3 -c 'print("Hello from sandbox!"); print(2 + 2)'`})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

func ExampleRun() {
	r, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, execpolicy.Spec{}, execpolicy.Command{
		Argv:  []string{"wc", "-l"},
		Stdin: strings.NewReader("one\ntwo\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", r.Stdout)
}

// A program that starts removes what programs have left that were killed with their
// guards.
func ExampleSweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	removed, err := execpolicy.Sweep(ctx, nil)
	for _, name := range removed {
		fmt.Println("removed", name)
	}
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleSession() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for _, script := range []string{"x=5", "while :; do sleep 1; done", "echo x is still $x"} {
		r, err := s.Run(ctx, execpolicy.Command{Script: script, Timeout: time.Second})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Render(execpolicy.RenderOptions{}))
	}
}

func ExampleCommand() {
	s, err := execpolicy.Start(context.Background(), execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(context.Background(), execpolicy.Command{
		Script:      "make test",
		Dir:         "/workspace",
		Env:         map[string]string{"CI": "1"},
		Stdout:      os.Stdout, // as it comes
		Timeout:     5 * time.Minute,
		OutputLimit: 10 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Outcome, r.Duration)
}

func ExampleCommand_invalid() {
	_, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, execpolicy.Spec{}, execpolicy.Command{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, execpolicy.ErrInvalid))
	// Output:
	// invalid: a command must be a non-empty string: set Script or Argv
	// true
}

func ExampleResult() {
	r, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, execpolicy.Spec{},
		execpolicy.Command{Script: "make"})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch r.Outcome {
	case execpolicy.OutcomeExited:
		fmt.Println("exit code", r.ExitCode)
	case execpolicy.OutcomeTimedOut:
		fmt.Println("it took", r.Escalation, "to end it")
	default:
		fmt.Println(r.Outcome)
	}
	fmt.Printf("%d bytes of which %d were dropped\n", r.StdoutInfo.Bytes, r.StdoutInfo.DroppedBytes)
}

func ExampleStreamInfo() {
	r, err := execpolicy.Run(context.Background(),
		execpolicy.DockerPolicy{Limits: execpolicy.Limits{MaxOutputBytes: 1024}}, execpolicy.Spec{},
		execpolicy.Command{Script: "seq 1 100000"})
	if err != nil {
		fmt.Println(err)
		return
	}
	head, tail := r.Stdout[:r.StdoutInfo.Cut], r.Stdout[r.StdoutInfo.Cut:]
	fmt.Printf("%s[%d lines]%s", head, r.StdoutInfo.DroppedLines, tail)
}

func ExampleOutcome() {
	for o := execpolicy.OutcomeExited; o <= execpolicy.OutcomeRefused; o++ {
		fmt.Println(o)
	}
	// Output:
	// exited
	// signaled
	// timed out
	// canceled
	// out of memory
	// output limit
	// session lost
	// refused
}

func ExampleEscalation() {
	for e := execpolicy.Escalation(0); e <= execpolicy.EscalationRemoval; e++ {
		fmt.Println(e)
	}
	// Output:
	// none
	// SIGTERM
	// SIGKILL
	// shell
	// container
	// removal
}

func ExampleDockerPolicy() {
	p := execpolicy.DockerPolicy{
		Limits:      execpolicy.Limits{CommandTimeout: 10 * time.Second},
		Image:       "python:3.12-slim",
		MemoryBytes: 1 << 30,
		CPUs:        "2",
		Tmpfs:       map[string]int64{"/tmp": 256 << 20},
	}
	s, err := execpolicy.Start(context.Background(), p, execpolicy.Spec{Workspace: "testdata"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
}

// Every problem is reported at once, before anything is started.
func ExampleDockerPolicy_invalid() {
	p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, MemoryBytes: -1, CPUs: "many", User: " "}
	_, err := p.Spawn(context.Background(), execpolicy.Spec{})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", "\n"))
	// Output:
	// invalid: MemoryBytes is -1: it must not be negative
	// CPUs is "many": it has to be a decimal number from 0.01 to 999999
	// User is " ": it has to be a name or a number
}

// A policy that wraps another passes Check on, so that its problems are still reported
// with the rest.
func ExampleChecker() {
	var policy execpolicy.Policy = execpolicy.HostPolicy{MemoryBytes: -1}
	if c, ok := policy.(execpolicy.Checker); ok {
		fmt.Println(c.Check(context.Background(), execpolicy.Spec{Env: map[string]string{"A-B": ""}}))
	}
	// Output:
	// invalid: MemoryBytes is -1: it has to be at least 1024; "A-B" is not the name of an environment variable: letters, digits and "_", not beginning with a digit
}

func ExampleDockerPolicy_Explain() {
	line, err := execpolicy.DockerPolicy{}.Explain(context.Background(), execpolicy.Spec{Command: []string{"id"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line)
}

func ExampleCompat() {
	p := execpolicy.Compat()
	p.Image = "ubuntu:22.04"
	p.MemoryBytes = 1 << 30
	line, err := p.Explain(context.Background(), execpolicy.Spec{Workspace: "/srv/agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(line)
}

// A HostPolicy isolates nothing. It is for programs that are trusted.
func ExampleHostPolicy() {
	p := execpolicy.HostPolicy{CPUTimeSeconds: 10, MemoryBytes: 1 << 30}
	r, err := execpolicy.Run(context.Background(), p, execpolicy.Spec{}, execpolicy.Command{Script: "go version"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

func ExampleSpec() {
	spec := execpolicy.Spec{
		Command:   []string{"bash"},
		Workspace: "/srv/agent",
		Env:       map[string]string{"CI": "1"},
		Secrets:   []execpolicy.Secret{{Name: "TOKEN", Value: os.Getenv("TOKEN")}},
		Startup:   []string{"set -o pipefail", ". venv/bin/activate"},
		Shutdown:  []string{"tar -cf logs.tar logs"},
	}
	s, err := execpolicy.Start(context.Background(), execpolicy.DockerPolicy{}, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
}

func ExampleLimits() {
	p := execpolicy.DockerPolicy{Limits: execpolicy.Limits{
		CommandTimeout: time.Minute,
		MaxOutputLines: 500,
		MaxOutputBytes: 64 << 10,
	}}
	fmt.Println(p.CommandTimeout, p.MaxOutputLines)
	// Output: 1m0s 500
}

// A loud policy prints what it spawns. Whatever spawns a process can be a policy.
type loud struct{ execpolicy.Policy }

func (p loud) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	process, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		fmt.Println("spawned", process.Name)
	}
	return process, err
}

func ExamplePolicy() {
	s, err := execpolicy.Start(context.Background(), loud{execpolicy.DockerPolicy{}}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
}

// A logged policy says what it spawns, and of a workspace what the policy says that it
// wraps.
type logged struct{ execpolicy.WorkspacePolicy }

func (p logged) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	return loud{p.WorkspacePolicy}.Spawn(ctx, spec)
}

func ExampleWorkspacePolicy() {
	policy := execpolicy.DockerPolicy{WorkspaceReadOnly: true}
	for _, p := range []execpolicy.Policy{logged{policy}, loud{policy}} {
		if asked, ok := p.(execpolicy.WorkspacePolicy); ok {
			fmt.Println("saves what a session makes:", asked.SavesWorkspace())
		} else {
			fmt.Println("copies nothing")
		}
	}
	// Output:
	// saves what a session makes: false
	// copies nothing
}

// A Process is read to its ends and killed by whoever spawned it.
func ExampleProcess() {
	ctx := context.Background()
	p, err := execpolicy.DockerPolicy{}.Spawn(ctx, execpolicy.Spec{Command: []string{"tr", "a-z", "A-Z"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var stderr bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(&stderr, p.Stderr)
	}()
	io.WriteString(p.Stdin, "hello\n")
	p.Stdin.Close()
	stdout, _ := io.ReadAll(p.Stdout)
	<-done
	<-p.Done
	fmt.Printf("%s%s", stdout, &stderr)
	if err := p.Kill(ctx); err != nil {
		fmt.Println(err)
	}
}

func ExampleTransport() {
	policy := execpolicy.DockerPolicy{
		Engine:    &dockercli.Engine{Path: "true", Remote: true},
		Transport: execpolicy.TransportFIFO,
	}
	t, why, err := policy.FindTransport(context.Background())
	fmt.Println(t, "because", why)
	fmt.Println(err)
	// Output:
	// attach because the engine may be on another machine
	// invalid: Transport: no FIFOs can be used: the engine may be on another machine
}

// A container that is started by hand can have the filter from a file.
func ExampleDefaultSeccompProfile() {
	if err := os.WriteFile("seccomp.json", []byte(execpolicy.DefaultSeccompProfile()), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("docker run --security-opt=seccomp=seccomp.json …")
}

// A session is started before its user is known.
func ExampleIdle() {
	ctx := context.Background()
	idle, err := execpolicy.StartIdle(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer idle.Close() // does nothing once it is taken
	s, err := idle.Take(ctx, execpolicy.Spec{
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: os.Getenv("TOKEN")}},
		Limits:  execpolicy.Limits{CommandTimeout: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
}
