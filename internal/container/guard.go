package container

import (
	"cmp"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// guardScript is what the guard runs. Its comments stand here, so that no program carries
// them.
//
// Its arguments are what removes containers, what kills process 1 of one, and what begins
// to run a command in one; the names are appended. It reads lines that add a name
// (+) or take one away (-) until its stdin ends. A name is NAME, or
// NAME:PID:START:QUOTA:FREEZER once the container may be killed from inside: PID and
// START are those of its process 1, or 0, QUOTA is the control group that bounds its use
// of the processors, and FREEZER the one that can freeze it, or nothing. lives PID START
// reports whether that process lives. thaw FREEZER lets run what code inside has frozen,
// which would not die, and lift QUOTA takes the bound away from what has to die.
//
// A name that begins with / is that of a directory of FIFOs, which is removed first. It
// is this user's and nobody else can enter it; what others may have put in its place is
// left alone. This program may have ended in the middle of removing it.
//
// Then it tries for eight seconds, since a container may still come into being after a
// removal that found none, and for a minute while it sees a process 1 alive. It does not
// wait for a removal that hangs before it starts the next. It does not remove a container
// that lives: the engine could forget what it can't end. Nor does it kill process 1
// before the other processes inside: podman takes no more commands for a container whose
// process 1 takes long to obey. Where no command can be run inside, as in a container
// that is paused, there is nothing to lose, and the first attempt removes it. For half a
// minute the next ones only kill: at a second removal podman forgets what the first one
// still waits for. The bound is taken away when the engine has taken a kill, of which
// docker's client waits for the end.
//
//go:embed guard.sh
var guardScript string

// A Guard is a small shell process on the host, in a session of its own, which outlives
// this program by a minute, or by more if the engine hangs, and ends and removes what it
// left: the second line of defence after a container's own lifeline. There is one for all
// containers of an engine, as long as there are any. A host without sh has none.
type Guard struct {
	name string // of the process; if empty, "cofferdam-guard"

	mu sync.Mutex
	// What it is told to run, as words of a shell without the names: what removes
	// containers, what kills process 1 of some, and what begins to run a command in one.
	removal, kill, exec string
	env                 []string
	watched             map[string]string // by name, what the guard is told of it
	pipe                *os.File
	proc                *procgroup.Process
}

// fifoGuard has the directories of the FIFOs of all containers, and no container. Their
// own guards have them, too: they are left only if somebody kills both with this program.
var fifoGuard = &Guard{name: "cofferdam-fifos", watched: map[string]string{}}

var guards = struct {
	sync.Mutex
	byCommand map[string]*Guard
}{byCommand: map[string]*Guard{}}

// guardGrace is how long the guard has to read a line. It takes microseconds, and one
// that somebody has stopped is replaced.
const guardGrace = 100 * time.Millisecond

// guardOf returns the guard of an engine's containers.
func guardOf(e *dockercli.Engine, keep bool) *Guard {
	// Without names there is nothing to refuse.
	argv, _ := e.RemoveArgs()
	killArgv, _ := e.KillArgs("KILL")
	if keep {
		argv = killArgv
	}
	execArgv, _ := e.ExecArgs(dockercli.ExecOptions{Container: "name", Command: []string{"command"}})
	execArgv = execArgv[:len(execArgv)-2]
	return NewGuard(argv, killArgv, execArgv, e.Env)
}

// NewGuard returns the guard of all that is removed by that command line, in that
// environment, with names appended. The others kill process 1, and begin to run a
// command inside; they are of no use before the guard is told of a process 1.
func NewGuard(removal, kill, exec, env []string) *Guard {
	key := strings.Join(removal, "\x00") + "\x00\x00" + strings.Join(env, "\x00")
	guards.Lock()
	defer guards.Unlock()
	g := guards.byCommand[key]
	if g == nil {
		g = &Guard{watched: map[string]string{}, removal: quoteAll(removal), kill: quoteAll(kill), exec: quoteAll(exec), env: env}
		guards.byCommand[key] = g
	}
	return g
}

// Add makes the guard watch over a name.
func (g *Guard) Add(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched[name] = name
	if g.pipe == nil {
		g.start()
	} else {
		g.notify("+" + name)
	}
}

// know makes the guard watch over a name in another way: what runs in the container may
// be killed from inside, and its process 1 is that one. A name that was taken away stays
// away: its container may be gone by the time that it is heard.
func (g *Guard) know(name string, first FirstProcess) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watched[name] == "" {
		return
	}
	group := func(dir, not string) string {
		if dir = ownGroup(dir); strings.ContainsAny(dir, not+" \t\n*?[\\") {
			return "" // the names are words of a shell
		}
		return dir
	}
	entry := strings.Join([]string{
		name, strconv.Itoa(first.PID), strconv.FormatUint(first.Start, 10), group(first.Quota, ":"), group(first.Freezer, ""),
	}, ":")
	g.watched[name] = entry
	g.notify("+" + entry + "\n-" + name)
}

// Remove takes a name from the guard, and ends the guard with the last one.
func (g *Guard) Remove(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := g.watched[name]
	delete(g.watched, name)
	if g.notify("-" + entry); len(g.watched) == 0 {
		g.stop()
	}
}

// notify sends lines to the guard, or replaces one that does not read them: a guard that
// somebody has stopped holds up no start. One that could not be started is started now,
// if there is something to watch over.
func (g *Guard) notify(lines string) {
	if g.pipe != nil && g.send(lines) == nil {
		return
	}
	g.stop()
	if len(g.watched) > 0 {
		g.start()
	}
}

func (g *Guard) send(lines string) error {
	g.pipe.SetWriteDeadline(time.Now().Add(guardGrace))
	_, err := g.pipe.WriteString(lines + "\n")
	return err
}

// stop ends the guard. One that may not have read all must not see the end of its pipe,
// at which it would begin to remove.
func (g *Guard) stop() {
	if g.pipe == nil {
		return
	}
	g.proc.Stop(context.Background(), 0)
	g.pipe.Close()
	g.pipe, g.proc = nil, nil
}

func quoteAll(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, shellquote.Quote(w))
	}
	return strings.Join(quoted, " ")
}

// guardDir is where the guard and its clients work: see [dockercli.Engine.Dir].
func guardDir() string {
	if runtime.GOOS == "linux" {
		return "/proc"
	}
	return "/"
}

func (g *Guard) start() {
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
		Args:       []string{"sh", "-c", guardScript, cmp.Or(g.name, "cofferdam-guard"), g.removal, g.kill, g.exec},
		Env:        g.env,
		Dir:        guardDir(),
		Stdin:      r,
		NewSession: true,
	})
	if err != nil {
		w.Close()
		return
	}
	g.pipe, g.proc = w, proc
	for _, entry := range g.watched {
		if g.send("+"+entry) != nil {
			g.stop()
			return
		}
	}
}
