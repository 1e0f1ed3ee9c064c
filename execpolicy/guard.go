package execpolicy

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

//go:embed guard.sh
var guardScript string

// A guard is a small shell process on the host, in a session of its own, which outlives this program by some seconds and removes what
// it left: the second line behind a container's own lifeline. There is one for all containers of an engine, as long as there are any.
// A host without sh has none.
type guard struct {
	mu    sync.Mutex
	argv  []string // the removal, without the names
	env   []string
	names int
	pipe  *os.File
	proc  *procgroup.Process
}

var guards = struct {
	sync.Mutex
	byCommand map[string]*guard
}{byCommand: map[string]*guard{}}

// guardOf returns the guard of an engine's containers.
func guardOf(e *dockercli.Engine, keep bool) *guard {
	argv, _ := e.RemoveArgs() // without names there is nothing to refuse
	if keep {
		argv, _ = e.KillArgs("KILL")
	}
	key := strings.Join(argv, "\x00") + "\x00\x00" + strings.Join(e.Env, "\x00")
	guards.Lock()
	defer guards.Unlock()
	g := guards.byCommand[key]
	if g == nil {
		g = &guard{argv: argv, env: e.Env}
		guards.byCommand[key] = g
	}
	return g
}

// add makes the guard watch over a name.
func (g *guard) add(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names++
	if g.pipe == nil {
		g.start()
	}
	g.tell("+" + name)
}

// remove ends the watch over a name, and the guard with the last one.
func (g *guard) remove(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names--
	g.tell("-" + name)
	if g.names > 0 || g.pipe == nil {
		return
	}
	g.pipe.Close()
	select {
	case <-g.proc.Done():
	case <-time.After(time.Second):
		// Somebody stopped it.
		g.proc.Stop(context.Background(), 0)
	}
	g.pipe, g.proc = nil, nil
}

func (g *guard) tell(line string) {
	if g.pipe != nil {
		g.pipe.WriteString(line + "\n")
	}
}

func (g *guard) start() {
	sh, err := exec.LookPath("sh")
	if err != nil {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	proc, err := procgroup.Start(procgroup.Cmd{
		Path:       sh,
		Args:       append([]string{"sh", "-c", guardScript, "cofferdam-guard"}, g.argv...),
		Env:        g.env,
		Dir:        "/",
		Stdin:      r,
		NewSession: true,
	})
	if err != nil {
		w.Close()
		return
	}
	g.pipe, g.proc = w, proc
}
