//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// What goes by blocks is what goes by lines.
func TestBlocks(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		for _, u := range []Unit{
			{Script: "echo \"$x\" 'it''s' \\\\\necho two"},
			{Script: ":\n", Env: []string{"x=a'b\nc"}},
			{Script: "echo \"$x\"; pwd", Env: []string{"x=a'b\nc"}, Dir: "/tmp", Back: "/"},
			{Script: "pwd", Dir: "/no/such", Back: "/"},
			{Script: "set -u; unset cf_vars"},
			{Script: "pwd", Env: []string{"x=y"}, Dir: "/no/such", Back: "/"},
			{Script: "set +u"},
			{Argv: []string{"printf", "%s|", "", "a b", "c\nd", "e'f", "-", "#"}},
			{Argv: []string{"sh", "-c", "exit 5"}},
			{Script: "return 0 #" + testPrefix[1:] + "\necho no"},
			{Script: "return 0 #" + testPrefix + "\necho no"},
			{Script: "echo return\nreturn 4\n"},
			{Script: "printf '%s' '" + every() + "'"},
			{Script: "printf '%s' '" + strings.Repeat("0123456789\n", 2500) + "'"},
			{Script: "echo " + strings.Repeat("long ", 5000)},
		} {
			var seen [2]string
			for i, blocks := range []bool{false, true} {
				w.blocks = blocks
				w.n++
				tag := fmt.Sprintf("B%d", w.n)
				w.send(string(Next(tag)))
				w.operate(u.Ops())
				late := time.After(patience)
				for over := false; !over; {
					select {
					case ev, ok := <-w.events[0]:
						assert.Assert(t, ok, "process 1 has ended: %.300q", seen)
						if strings.HasPrefix(ev, fmt.Sprintf("%d %s ", Begin, tag)) {
							continue
						}
						rest, end := strings.CutPrefix(ev, fmt.Sprintf("%d %s ", End, tag))
						if over = end; end {
							rest = " ended " + rest
						}
						seen[i] += strings.TrimPrefix(rest, "=")
					case <-late:
						t.Fatalf("no end: %.300q", seen)
					}
				}
			}
			assert.Assert(t, len(seen[0]) > len(" ended ") && seen[0] == seen[1], "%.300q, by a block: %.300q", seen[0], seen[1])
		}
	})
}

// A unit in a block comes between what is sent by lines: a tick, and a part
// of a unit that was taken back.
func TestBlockBesideLines(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.blocks = true
		for i := range 20 {
			w.send(Tick + string(Next("gone")) + "b\n+echo no\n-" + strings.Repeat("x", 40*i) + "\n" + Tick)
			status, died, out := w.run(fmt.Sprintf("echo %d\n(exit 3)", i))
			assert.Assert(t, !died && status == 3, "%d %v", status, died)
			assert.Equal(t, out[0], fmt.Sprintf("%d\n", i))
		}
	})
}

// Whatever variables the image has, blocks are read where there is no keep-alive.
func TestBlockWithAVariableOfTheImage(t *testing.T) {
	t.Setenv("cf_alive", "1")
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.blocks = true
		status, died, out := w.run("echo on")
		assert.Assert(t, !died && status == 0, "%d %v", status, died)
		assert.Equal(t, out[0], "on\n")
	})
}

// Bash reads a block a byte at a time, so it does that while nothing else runs. Others
// read it in large pieces, and do no more for a text of many lines than for one line.
func TestBlockOfManyLines(t *testing.T) {
	script := strings.Repeat(": 0123456789\n", 200)
	shells(t, func(t *testing.T, shell, worker string) {
		w := start(t, shell, worker)
		w.blocks = true
		w.tellsOfCont()
		_, _, out := w.run(script)
		if strings.Contains(shell, "bash") && !strings.Contains(out[0], "continued") {
			w.awaitOutput("continued")
		}
	})
	one := Block(testPrefix, Unit{Script: strings.ReplaceAll(script, "\n", ";")}.Ops())
	many := Block(testPrefix, Unit{Script: script}.Ops())
	assert.Equal(t, strings.ReplaceAll(string(many), "0123456789\n", "0123456789;"), string(one))
}

// A unit with the line that ends a block goes by lines.
func TestBlockHoldsItsEndOnce(t *testing.T) {
	ops := Unit{Script: "'\nreturn 0 #" + testPrefix + "\n'"}.Ops()
	assert.Assert(t, Block(testPrefix, ops) == nil)
	assert.Assert(t, Block(testPrefix[1:]+"x", ops) != nil)
}

// Nobody inside can open the FIFO of blocks: whoever reads from it could make process 1
// wait for a block, and miss the end of stdin.
func TestBlocksAreOutOfReach(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil || os.Geteuid() != 0 {
		leftout.Skip(t, "no process namespace can be made here for another user: %v", err)
	}
	shells(t, func(t *testing.T, shell, worker string) {
		w := startFor(t, 65534, shell, worker, true)
		w.blocks = true
		w.run(":")
		// Neither does an upload leave a way to it.
		w.send(string(Upload("i", 3)) + "abc" + Thaw)
		_, _, out := w.run("for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in *ops*) echo \"$f is it\" ;; esac; done\n" +
			"for p in 1 $PPID; do sh -c 'exec 3<>/proc/$1/fd/3' sh $p 2>/dev/null && echo opened; done; echo done")
		assert.Equal(t, out[0], "done\n")
	})
}
