// Command remote runs the tests of sessions on engines that are reached as those on other
// machines are. Its arguments name the ways, as [remote.Ways] does; without one, it goes
// every way. After a "--" come arguments of go test, in place of those that choose the
// suites:
//
//	go run ./internal/remote docker-ssh -- -run=TestSweep ./execpolicy
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/remote"
)

// suites are the arguments of go test.
var suites = []string{"-timeout=80m", "-run=Conformance|SIGKILL|Attack|File|Tree|Secret|Sweep|InForce|StartRefuses",
	"./execpolicy", "./execpolicy/attest"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ways, args := os.Args[1:], suites
	if i := slices.Index(ways, "--"); i >= 0 {
		ways, args = ways[:i], ways[i+1:]
	}
	if len(ways) == 0 {
		ways = remote.Ways
	}
	var err error
	for _, way := range ways {
		if ctx.Err() == nil {
			err = errors.Join(err, test(ctx, way, args))
		}
	}
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// test runs go test on an engine.
func test(ctx context.Context, way string, args []string) (err error) {
	fmt.Printf("== %s\n", way)
	begin := time.Now()
	e, err := remote.Start(ctx, way, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	// An engine that is named is the only one, and has to be there.
	cmd.Env = append(os.Environ(), "ENGINE="+e.Client, "COFFERDAM_REQUIRE_ENGINES="+e.Client, "COFFERDAM_MAKE_IMAGE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", way, err)
	}
	fmt.Printf("== %s passed within %v\n", way, time.Since(begin).Round(time.Second))
	return nil
}
