// Package fakekubectl is a test binary that poses as kubectl, so that tests can have a
// cluster where there is none, and one that does what a real one can't be made to do.
//
// The TestMain of a package that uses it calls [Main] first. [New] then makes a cluster
// whose program is a link to the test binary. It knows the requests of package
// internal/kubectl and answers them in the words of Kubernetes 1.33. A pod is a file. Its
// container runs once a client is attached, as one of package fakeengine: before that it
// would only wait.
package fakekubectl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// The names of variables in the client's environment.
const (
	stateVar  = "COFFERDAM_FAKE_KUBECTL" // the state directory
	engineVar = "COFFERDAM_FAKE_KUBECTL_ENGINE"
)

// NetworkPolicy is the name of the namespace's one NetworkPolicy.
const NetworkPolicy = "deny-all"

var ready bool

// Main takes over, and does not return, if this process was started as kubectl, or as an
// engine's client. It has to come before anything else in TestMain.
func Main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(pose(os.Args[1:]))
	}
	fakeengine.Main()
	ready = true
}

// Faults are what the cluster does otherwise than it should. The zero value is none.
type Faults struct {
	// Delay is how long every call takes before anything else happens, as with a slow
	// credential plugin.
	Delay time.Duration
	// Hang are verbs that do not answer: config, create, get, watch, delete, attach. A
	// path in it is that of requests which get no answer, such as "/api/v1/nodes".
	Hang []string
	// Fail is how the calls of a verb fail.
	Fail map[string]Failure
	// SilentWatch lets a watch say nothing.
	SilentWatch bool
	// Admit is merged into each pod that is created: an object into an object, and
	// anything else in its place. What is null is dropped.
	Admit json.RawMessage `json:",omitempty"`
	// AdmitLater is merged as Admit when a pod was created.
	AdmitLater json.RawMessage `json:",omitempty"`
	// Status, if not empty, is the status of every pod that nobody is attached to.
	Status json.RawMessage `json:",omitempty"`
	// NodeDown says that no kubelet tells that a pod has ended.
	NodeDown bool
	// NetworkPolicies, if not empty, are those of the namespace.
	NetworkPolicies json.RawMessage `json:",omitempty"`
	// Nodes, if not empty, are the cluster's. Otherwise the user may not see them.
	Nodes json.RawMessage `json:",omitempty"`
	// Time, if not zero, is the cluster's.
	Time time.Time
}

// A Failure is how a call fails.
type Failure struct {
	// Stderr is what kubectl says. It exits with 1.
	Stderr string
	// Times is how many calls fail. If zero, all do.
	Times int
	// Done says that what was asked for is done all the same.
	Done bool
}

// A Cluster is a fake cluster.
type Cluster struct {
	// Path is its kubectl, and Env the environment that this needs.
	Path string
	Env  []string
	// Engine runs the containers.
	Engine *fakeengine.Engine

	tb    testing.TB
	state state
}

// New returns a cluster of its own, without pods. Pods that are left when the test ends
// fail it.
func New(tb testing.TB, faults Faults) *Cluster {
	tb.Helper()
	if !ready {
		tb.Fatal("fakekubectl: TestMain has to call fakekubectl.Main first")
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pods"), 0o700); err != nil {
		tb.Fatal(err)
	}
	link := filepath.Join(dir, "kubectl")
	if err := os.Symlink(program, link); err != nil {
		tb.Fatal(err)
	}
	engine := fakeengine.New(tb, dockercli.Docker, fakeengine.Faults{})
	c := &Cluster{Path: link, Engine: engine, tb: tb, state: state(dir),
		Env: append(engine.Env, stateVar+"="+dir, engineVar+"="+engine.Path)}
	c.Set(faults)
	tb.Cleanup(c.close)
	return c
}

// Set replaces the faults, from now on.
func (c *Cluster) Set(faults Faults) {
	c.tb.Helper()
	if err := c.state.write("faults", faults); err != nil {
		c.tb.Fatal(err)
	}
}

// Pods returns the names of the pods that there are.
func (c *Cluster) Pods() []string {
	paths, _ := filepath.Glob(filepath.Join(string(c.state), "pods", "*"))
	var names []string
	for _, path := range paths {
		if name := filepath.Base(path); !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// Add creates a pod without a call of kubectl. The object needs a name.
func (c *Cluster) Add(object map[string]any) {
	c.tb.Helper()
	name := object["metadata"].(map[string]any)["name"].(string)
	if err := c.state.write(filepath.Join("pods", name), object); err != nil {
		c.tb.Fatal(err)
	}
}

// Calls returns the words after the program of every call so far, the oldest first.
func (c *Cluster) Calls() []string {
	c.tb.Helper()
	text, _ := os.ReadFile(filepath.Join(string(c.state), "calls"))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (c *Cluster) close() {
	c.Set(Faults{})
	end := time.Now().Add(time.Minute)
	for len(c.Pods()) > 0 && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := c.Pods(); len(left) > 0 {
		c.tb.Errorf("the fake cluster has left the pods %v", left)
	}
}
