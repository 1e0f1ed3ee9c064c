package fakeengine

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// pollDelay is the pause between two looks at the faults.
const pollDelay = 10 * time.Millisecond

// A client is one run of the program.
type client struct {
	kind   dockercli.Kind
	state  state
	number int // of the call
	verb   string
	line   commandLine
	stdout io.Writer
	stderr io.Writer

	// exitCode is what the program ends with if its verb is not refused.
	exitCode int

	mu       sync.Mutex
	onSignal func(os.Signal)
}

func newID() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// pose is the whole program. It returns its exit code.
func pose(kind dockercli.Kind) int {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case keeperVerb:
			return keep(kind)
		case initVerb:
			return initialize(kind)
		}
	}
	c := &client{kind: kind, state: state(os.Getenv(stateVar)), stdout: os.Stdout, stderr: os.Stderr}
	// Who sees the call may send a signal.
	c.catchSignals()
	var err error
	if c.number, err = c.state.logCall(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "fakeengine: the environment has no state directory in %s: %v\n", stateVar, err)
		return 125
	}
	if r := c.main(os.Args[1:]); r != nil {
		fmt.Fprint(c.stderr, r.Words)
		return r.Code
	}
	return c.exitCode
}

func (c *client) main(words []string) *refusal {
	verb, rest := splitVerb(words)
	c.verb = verb
	if verb == "--version" {
		if r := c.hold(verb, ""); r != nil {
			return r
		}
		if c.kind == dockercli.Podman {
			fmt.Fprintf(c.stdout, "podman version %s\n", versions[c.kind].client)
		} else {
			fmt.Fprintf(c.stdout, "Docker version %s, build e6534b4\n", versions[c.kind].client)
		}
		return nil
	}
	v, ok := verbTable[verb]
	if !ok && c.kind == dockercli.Podman {
		return &refusal{125, fmt.Sprintf("Error: unrecognized command `podman %s`\nTry 'podman --help' for more information\n", verb)}
	}
	if !ok {
		return &refusal{1, fmt.Sprintf("docker: unknown command: docker %s\n\nRun 'docker --help' for more information\n", verb)}
	}
	line, refused := v.parse(c.kind, verb, rest)
	if refused != nil {
		return refused
	}
	c.line = line
	name := line.value("name")
	if verb != "run" && len(line.operands) > 0 {
		name = line.operands[0]
	}
	if r := c.hold(verb, name); r != nil {
		return r
	}
	return v.do(c)
}

// hold is where the faults of a verb that any has come to bear. It returns how the call
// fails, or nil.
func (c *client) hold(verb, about string) *refusal {
	c.stall(verb, c.number)
	start := time.Now()
	for time.Since(start) < c.state.control().delay(verb) {
		c.nap()
	}
	f := c.state.failure(c.state.control(), verb, c.number)
	if f == nil {
		return nil
	}
	if f.Done {
		c.stdout, c.stderr = io.Discard, io.Discard
		_ = verbTable[verb].do(c)
		c.stdout, c.stderr = os.Stdout, os.Stderr
	}
	return &refusal{f.Exit, f.about(about)}
}

// stall returns when the engine answers calls of the verb; n is the number of the call,
// or of the last one.
func (c *client) stall(verb string, n int) {
	for c.state.control().hangs(verb, n) {
		c.nap()
	}
}

// nap waits a little. Nobody is left to wait for when the test is gone.
func (c *client) nap() {
	time.Sleep(pollDelay)
	if c.state.orphaned() {
		os.Exit(125)
	}
}

// die ends this process as the signal would.
func die(sig os.Signal) {
	signal.Reset(sig)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = self.Signal(sig)
	}
	time.Sleep(time.Second)
	os.Exit(128 + int(sig.(syscall.Signal)))
}

func (c *client) catchSignals() {
	c.onSignal = die
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for sig := range signals {
			if c.state.control().IgnoreTerm {
				continue
			}
			c.mu.Lock()
			f := c.onSignal
			c.mu.Unlock()
			f(sig)
		}
	}()
}

// atSignal sets what is done from now on when the client is asked to end.
func (c *client) atSignal(f func(os.Signal)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onSignal = f
}

// container returns the container that the call is about.
func (c *client) container() (container, *refusal) {
	if len(c.line.operands) == 0 {
		return container{}, refuseFlag(c.kind, c.verb, "%s requires at least 1 argument", c.verb)
	}
	name := c.line.operands[0]
	found, ok := c.state.find(name)
	if !ok {
		return container{}, noContainer(c.kind, name)
	}
	return found, nil
}

func (c *client) hasImage(image string) bool {
	return !c.state.control().ImageMissing || c.state.pulled(image)
}

// running says whether a container's process 1 runs, or is about to.
func (c container) running() bool {
	return slices.Contains([]string{"running", "starting"}, c.status().Status)
}
