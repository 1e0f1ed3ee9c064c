package fakeengine

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// keeperVerb and initVerb are what this program is started with in its other roles: the
// keeper of a container, and process 1 of a container before the command takes its place.
const (
	keeperVerb = "fakeengine-keeper"
	initVerb   = "fakeengine-init"
)

// A keeper is the parent of a container's process 1, as the engine's daemon is, or
// podman's helper.
type keeper struct {
	kind                  dockercli.Kind
	state                 state
	stdin, stdout, stderr *os.File
	stdinWrite            *os.File

	start chan struct{} // closed when the client wants the container to start
	gone  chan struct{} // closed when the client is gone

	mu     sync.Mutex
	events *json.Encoder
	kill   func() // kills the container, when there is one
}

// keep is the whole program.
func keep(kind dockercli.Kind) int {
	file := func(fd uintptr) *os.File { return os.NewFile(fd, "") }
	k := &keeper{
		kind: kind, state: state(os.Getenv(stateVar)),
		stdin: file(3), stdout: file(4), stderr: file(5), stdinWrite: file(8),
		start: make(chan struct{}), gone: make(chan struct{}),
		events: json.NewEncoder(file(7)),
	}
	for fd := uintptr(3); fd <= 8; fd++ {
		closeOnExec(fd)
	}
	orders := json.NewDecoder(file(6))
	var first message
	if orders.Decode(&first) != nil || first.Spec == nil {
		return 1
	}
	go k.obey(orders)
	go k.watch()
	k.serve(*first.Spec)
	return 0
}

func (k *keeper) send(m message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.events.Encode(m)
}

// obey does what the client says until it is gone.
func (k *keeper) obey(orders *json.Decoder) {
	keepStdin := false
	for {
		var m message
		if orders.Decode(&m) != nil {
			break
		}
		switch m.Event {
		case "start":
			close(k.start)
		case "eof":
			k.stdinWrite.Close()
		case "keep":
			keepStdin = true
		}
	}
	close(k.gone)
	// An engine that stands still does not see its client go.
	for k.state.control().hangs("run", k.state.lastCall()+1) {
		time.Sleep(pollDelay)
	}
	if !keepStdin {
		k.stdinWrite.Close()
	}
}

// watch sees to it that nothing outlives the test.
func (k *keeper) watch() {
	for !k.state.orphaned() {
		time.Sleep(10 * pollDelay)
	}
	k.mu.Lock()
	if k.kill != nil {
		k.kill()
	}
	os.Exit(1)
}

func (k *keeper) serve(s spec) {
	for start := time.Now(); time.Since(start) < k.state.control().CreateDelay; {
		time.Sleep(pollDelay)
	}
	if k.state.control().Closing {
		return
	}
	r, err := k.state.create(s)
	if errors.Is(err, fs.ErrExist) {
		other, _ := k.state.find(s.Name)
		k.send(message{Event: "refused", Refusal: nameInUse(k.kind, s.Name, other.ID)})
		return
	}
	if err != nil {
		k.send(message{Event: "refused", Refusal: &refusal{125, err.Error() + "\n"}})
		return
	}
	k.send(message{Event: "created"})
	select {
	case <-k.start:
	case <-k.gone:
		// A container that was created and never started stays, even with --rm.
		select {
		case <-k.start:
		default:
			return
		}
	}
	k.runContainer(r)
}

// runContainer starts the container and sees it to its end.
func (k *keeper) runContainer(r *record) {
	stdin := k.stdin
	if !r.Interactive {
		stdin, _ = os.Open(os.DevNull)
	}
	var copies sync.WaitGroup
	var theirs [2]*os.File
	for i, to := range []*os.File{k.stdout, k.stderr} {
		from, w, err := os.Pipe()
		if err != nil {
			k.send(message{Event: "refused", Refusal: refuseStart(k.kind, 126, err.Error())})
			return
		}
		theirs[i] = w
		copies.Go(func() {
			if _, err := io.Copy(to, from); err != nil {
				// The container must not feel that its client is gone.
				_, _ = io.Copy(io.Discard, from)
			}
			to.Close()
		})
	}
	p, refused := start(k.kind, r.spec, k.state.path(rootDir), [3]*os.File{stdin, theirs[0], theirs[1]})
	stdin.Close()
	k.stdin.Close()
	theirs[0].Close()
	theirs[1].Close()
	if refused == nil {
		refused = k.begin(r, p)
	}
	if refused != nil {
		_ = r.set(status{Status: "created", ExitCode: refused.Code, Error: refused.Error()})
		if r.Remove {
			_ = k.state.destroy(r.container)
		}
		k.send(message{Event: "refused", Refusal: refused})
		return
	}
	st := status{Status: "running", Process: p.process, StartedAt: time.Now().UTC()}
	if r.set(st) != nil {
		p.kill()
	}
	k.send(message{Event: "started", Process: p.process})
	code := p.wait()
	st.Status, st.Process, st.ExitCode, st.FinishedAt = "exited", process{}, code, time.Now().UTC()
	_ = r.set(st)
	if r.Remove {
		_ = k.state.destroy(r.container)
	}
	copies.Wait()
	k.send(message{Event: "exited", Code: code})
}

// begin lets process 1 become the command, after everybody can see, and kill, it.
func (k *keeper) begin(r *record, p *child) *refusal {
	k.mu.Lock()
	k.kill = p.kill
	k.mu.Unlock()
	if r.set(status{Status: "starting", Process: p.process}) != nil {
		p.kill()
		p.wait()
		return refuseRun(k.kind, refusal{125, "No such container: " + r.ID},
			refusal{127, "no container with ID " + r.ID + " found: no such container"})
	}
	refused := p.release()
	if refused != nil {
		p.wait()
	}
	return refused
}
