package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/kube"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/pods"
)

const (
	// termination and keepAlive are those of sessions whose plug is pulled.
	termination = 10 * time.Second
	keepAlive   = 3 * time.Second
	// patience is a command's time: by then it is known that it was lost.
	patience = 45 * time.Second
	// slack is what a busy machine may add to a bound.
	slack = 10 * time.Second
)

// A begun is a writer that says when something came.
type begun chan struct{}

func (b begun) Write(p []byte) (int, error) {
	select {
	case b <- struct{}{}:
	default:
	}
	return len(p), nil
}

// A busy session runs a command.
type busy struct {
	*execpolicy.Session
	node   string
	result *execpolicy.Result
	err    error
	done   chan struct{}
}

func startBusy(t *testing.T, p pods.Place, timeout time.Duration) *busy {
	t.Helper()
	p.Policy.TerminationTimeout = termination
	s, err := execpolicy.Start(t.Context(), p.Policy, p.Spec())
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	b := &busy{Session: s, done: make(chan struct{})}
	b.node, err = pods.Kubectl("get", "pod", "--output=jsonpath={.spec.nodeName}", s.Name())
	assert.NilError(t, err)
	started := make(begun, 1)
	go func() {
		defer close(b.done)
		b.result, b.err = s.Run(context.WithoutCancel(t.Context()), execpolicy.Command{
			Script: "echo begun; trap '' TERM; while :; do sleep 1; done",
			Stdout: started, Timeout: timeout,
		})
	}()
	select {
	case <-started:
	case <-b.done:
		t.Fatalf("the command has ended: %v", b.err)
	}
	return b
}

// ends waits for the command's end, closes the session, and returns whether the cluster
// has said that nothing is left.
func (b *busy) ends(t *testing.T, by time.Duration, honest ...execpolicy.Outcome) (gone bool) {
	t.Helper()
	enginetest.Within(t, by+termination+slack, "the command's end", func() { <-b.done })
	assert.Assert(t, b.result != nil, "%v", b.err)
	t.Logf("%v, %v", b.result.Outcome, b.err)
	assert.Assert(t, slices.Contains(honest, b.result.Outcome), "%v", b.result.Outcome)
	lost := b.result.Outcome == execpolicy.OutcomeSessionLost
	assert.Equal(t, errors.Is(b.err, execpolicy.ErrEnded), lost, "%v", b.err)
	var err error
	enginetest.Within(t, termination+slack, "Close", func() { err = b.Close() })
	t.Logf("Close: %v", err)
	if err != nil {
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
	}
	return err == nil
}

func order(t *testing.T, what func(context.Context, string) error, part string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	assert.NilError(t, what(ctx, part), part)
}

// plugs are the parts of a cluster that go away, and how they come back.
var plugs = []struct {
	name       string
	pull, mend func(context.Context, string) error
	part       func(node string) string
	// by is how long the command may go on, and outcomes are the honest ones.
	by       time.Duration
	outcomes []execpolicy.Outcome
}{
	{"the kubelet is killed", kubeplug.Kill, kubeplug.Start, kubelet, patience, lost},
	{"the kubelet stands still", kubeplug.Pause, kubeplug.Resume, kubelet, patience, lost},
	{"the API server is killed", kubeplug.Kill, kubeplug.Start, server, patience, lost},
	{"the API server stands still", kubeplug.Pause, kubeplug.Resume, server, patience, lost},
	// What is connected stays so.
	{"etcd is killed", kubeplug.Kill, kubeplug.Start, etcd, short, unharmed},
	{"etcd stands still", kubeplug.Pause, kubeplug.Resume, etcd, short, unharmed},
	{"the node is lost", kubeplug.Kill, kubeplug.Start, node, patience, lost},
	{"the node is cut off", kubeplug.Cut, kubeplug.Mend, node, patience, lost},
}

const short = 5 * time.Second

var (
	lost     = []execpolicy.Outcome{execpolicy.OutcomeSessionLost}
	unharmed = []execpolicy.Outcome{execpolicy.OutcomeTimedOut}
)

func server(string) string       { return "apiserver" }
func etcd(string) string         { return "etcd" }
func node(name string) string    { return name }
func kubelet(node string) string { return strings.Replace(node, "node", "kubelet", 1) }

// Whatever part of the cluster goes away in mid-session, the command ends in time and
// says so, and nothing is left when the part is back.
func TestPlug(t *testing.T) {
	for _, c := range plugs {
		t.Run(c.name, func(t *testing.T) {
			p := pods.In(t)
			p.Policy.KeepAlive = keepAlive
			b := startBusy(t, p, c.by)
			part := c.part(b.node)
			order(t, c.pull, part)
			gone := b.ends(t, c.by, c.outcomes...)
			order(t, c.mend, part)
			if gone {
				names, err := p.Names()
				assert.NilError(t, err)
				assert.Equal(t, len(names), 0, "%q", names)
			}
			left, err := p.Left()
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0, "%q", left)
			// The cluster is as good as before, as soon as it takes its nodes for ready
			// again.
			p.Policy.RoomTimeout = patience
			assert.Equal(t, runs(t, p.Open(t), "echo again"), "again\n")
		})
	}
}

// Without a keep-alive a node that is cut off shows when a command's time is over. Then
// the error has what the cluster says of the node.
func TestPlugWithoutKeepAlive(t *testing.T) {
	p := pods.In(t)
	b := startBusy(t, p, patience)
	order(t, kubeplug.Cut, b.node)
	enginetest.Within(t, patience+termination+slack, "the command's end", func() { <-b.done })
	t.Log(b.err)
	assert.Assert(t, b.result != nil)
	assert.Equal(t, b.result.Outcome, execpolicy.OutcomeTimedOut)
	assert.ErrorIs(t, b.err, execpolicy.ErrStillThere)
	assert.ErrorContains(t, b.err, b.node)
	assert.ErrorContains(t, b.err, "takes that node for lost since")
	order(t, kubeplug.Mend, b.node)
	left, err := p.Left()
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0, "%q", left)
}

// A client that is killed costs the session, and leaves nothing.
func TestPlugClient(t *testing.T) {
	p := pods.In(t)
	b := startBusy(t, p, patience)
	var clients []leftover.Process
	for _, process := range leftover.Processes() {
		attached := slices.Contains(process.Args, "attach") && slices.Contains(process.Args, b.Name())
		if attached && process.Parent == os.Getpid() {
			clients = append(clients, process)
		}
	}
	assert.Equal(t, len(clients), 1, "%v", clients)
	assert.NilError(t, syscall.Kill(clients[0].PID, syscall.SIGKILL))
	assert.Assert(t, b.ends(t, termination, lost...))
}

// hostVar makes the test's program a host that is to be killed, and is the label of its
// pod.
const hostVar = "COFFERDAM_TEST_HOST"

func init() {
	value := os.Getenv(hostVar)
	if value == "" {
		return
	}
	err := host(value)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// host opens a session, says so, and keeps it busy.
func host(value string) error {
	p := pods.New("cofferdam-test", value)
	s, err := execpolicy.Start(context.Background(), p.Policy, p.Spec())
	if err != nil {
		return err
	}
	fmt.Println(s.Name())
	_, err = s.Run(context.Background(), execpolicy.Command{
		Script: "trap '' TERM; while :; do :; done", Timeout: -1})
	return err
}

// guardsOfChild returns the guards of the program that this one has started.
func guardsOfChild() []leftover.Process {
	all := leftover.Processes()
	var guards []leftover.Process
	for _, guard := range all {
		ofChild := slices.ContainsFunc(all, func(p leftover.Process) bool {
			return p.PID == guard.Parent && p.Parent == os.Getpid()
		})
		if ofChild && slices.Contains(guard.Args, "cofferdam-guard") {
			guards = append(guards, guard)
		}
	}
	return guards
}

// The pod of a program that is killed ends with it. The guard removes it or, if that was
// killed as well, Sweep.
func TestPlugHost(t *testing.T) {
	for name, guarded := range map[string]bool{"with its guard": true, "and its guard": false} {
		t.Run(name, func(t *testing.T) {
			p := pods.In(t)
			variable := hostVar + "=" + p.Labels["cofferdam-test"]
			said, kill := enginetest.Child(t, append(os.Environ(), variable))
			names, err := p.Names()
			assert.NilError(t, err)
			assert.DeepEqual(t, names, []string{said})
			if !guarded {
				guards := guardsOfChild()
				assert.Equal(t, len(guards), 1, "%v", guards)
				assert.NilError(t, syscall.Kill(guards[0].PID, syscall.SIGKILL))
			}
			kill()
			ended := func() bool {
				phases, err := p.List("{.items[*].status.phase}")
				return err == nil && (phases == "" || phases == "Succeeded" || phases == "Failed")
			}
			enginetest.Within(t, 5*time.Second+slack, "the pod's end", func() {
				assert.Assert(t, leftover.Patient.Until(ended))
			})
			if !guarded {
				removed, err := kube.Sweep(t.Context(), kube.Cluster{})
				assert.NilError(t, err)
				assert.Assert(t, slices.Contains(removed, said), "%q", removed)
			}
			left, err := p.Left()
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0, "%q", left)
		})
	}
}
