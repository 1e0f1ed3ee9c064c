//go:build linux

package execpolicy_test

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A raw is process 1 of a container, and a host that sends what a test says and no more.
type raw struct {
	t    *testing.T
	p    place
	name string
	in   io.WriteCloser
	out  *bufio.Reader
	done <-chan struct{}
}

// startRaw starts process 1 with its worker.
func (p place) startRaw(t *testing.T, policy execpolicy.Policy) raw {
	t.Helper()
	spec := p.spec()
	spec.Supervisor = shellwire.Boot()
	proc, err := policy.Spawn(t.Context(), spec)
	assert.NilError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ample)
		defer cancel()
		assert.Check(t, proc.Kill(ctx))
	})
	go io.Copy(io.Discard, proc.Stderr)
	const prefix = "PREFIX7"
	setup := shellwire.Setup{Prefix: prefix, Dir: proc.Scratch, Namespace: true, Worker: []string{"sh"}, Name: proc.Name}
	w := raw{t, p, proc.Name, proc.Stdin, bufio.NewReader(proc.Stdout), proc.Done}
	w.send(string(setup.Text()))
	w.run("first", "echo ready")
	w.expect("ready")
	proc.Answered()
	return w
}

func (w raw) run(tag, script string) {
	w.send(string(shellwire.Next(tag)) + string(shellwire.Unit{Script: script}.Ops()))
}

// expect reads what is printed up to one of the lines, and returns that.
func (w raw) expect(lines ...string) string {
	w.t.Helper()
	for {
		got, err := w.out.ReadString('\n')
		assert.NilError(w.t, err, "%q", got)
		if got = strings.TrimSuffix(got, "\n"); slices.Contains(lines, got) {
			return got
		}
	}
}

// ends reads the rest, and waits for the end of process 1.
func (w raw) ends(format string, args ...any) {
	w.t.Helper()
	go io.Copy(io.Discard, w.out)
	select {
	case <-w.done:
	case <-time.After(patience):
		w.t.Fatalf(format, args...)
	}
}

func (w raw) send(ops string) {
	w.t.Helper()
	_, err := io.WriteString(w.in, ops)
	assert.NilError(w.t, err)
}

// inside runs a script beside the session, as its user, and returns what it prints.
func (w raw) inside(script string) string {
	cmd, cancel := w.p.command("exec", w.name, "busybox", "sh", "-c", script)
	defer cancel()
	// It ends with the container, if that ends.
	out, _ := cmd.Output()
	return string(out)
}

// withEachShell runs f with images whose sh is each of the shells.
func withEachShell(t *testing.T, f func(t *testing.T, p place, shell string)) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		for _, shell := range enginetest.Chosen(t, []string{"busybox", "dash", "bash"}) {
			t.Run(shell, func(t *testing.T) {
				f(t, place{engine: e.Engine, labels: e.Labels, image: e.Derive(t, "ln -sf $(command -v "+shell+") /bin/sh")}, shell)
			})
		}
	})
}

// readers lists the processes that wait for raw bytes: the children of process 1 that are
// not stopped.
const readers = `for p in /proc/[0-9]*; do
	{ read -r pid name state parent rest <$p/stat; } 2>/dev/null || continue
	[ "$parent $state" = "1 S" ] || continue
`

// While raw bytes go in, process 1 waits for what reads them. Nobody inside may hold that
// up, nor get hold of its stdin that way.
func TestReaderOfATransfer(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, shell string) {
		for name, op := range map[string]string{
			"a piece":      string(shellwire.Upload("piece", 1000)),
			"a small file": strings.SplitAfter(string(shellwire.Put("/tmp/small", "END", make([]byte, 1000), 0o600)), "\n")[0],
		} {
			w := p.startRaw(t, p.policy())
			w.send(op + strings.Repeat("x", 500))
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				if w.inside(readers+"echo $pid; done") == "" {
					return poll.Continue("nothing reads %s", name)
				}
				return poll.Success()
			}, poll.WithTimeout(patience))
			// Beside dash, a dd that goes by its name stays readable.
			if shell != "dash" {
				said := w.inside(readers +
					`if (exec 7<>$p/fd/0) 2>/dev/null; then echo opened $pid; else echo refused $pid; fi; done`)
				assert.Assert(t, strings.HasPrefix(said, "refused ") && !strings.Contains(said, "opened"), "%s: %q", name, said)
			}
			w.inside(readers + `kill -STOP $pid; done`)
			w.ends("%s: process 1 waits for what was stopped", name)
		}
	})
}

// Where no process can be made for another shell, process 1 says so, by its end, and does
// not try for long: it would miss the end of its stdin meanwhile. Bash tries for a
// quarter of a minute by itself.
func TestNoProcessForAnotherShell(t *testing.T) {
	enginetest.Alone(t)
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.PidsLimit = 32
		w := p.startRaw(t, policy)
		w.run("bomb", `python3 -c '
import os, time
full = False
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError:
        if not full: print("full", flush=True)
        full = True' &`)
		w.expect("full")
		enginetest.Within(t, 10*time.Second, "the end", func() {
			w.run("kill", "kill -9 $$")
			w.expect("PREFIX7x1 137")
			w.send(shellwire.StartWorker)
			w.in.Close()
			w.ends("process 1 does not end")
		})
	})
}
