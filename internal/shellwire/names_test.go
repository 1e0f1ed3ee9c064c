//go:build linux

package shellwire

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// What a command names its functions and aliases costs neither the worker nor a later
// command, is not run for either, and changes no status. Each of the names takes as long as
// a fork bomb would, so that a deadline would pass.
func TestNamesOfFunctions(t *testing.T) {
	names := strings.Fields("command eval exec exit return . source : read printf test [ set unset export " +
		"readonly trap kill wait break continue shift times cat rm cd pwd true false echo umask alias unalias local " +
		"declare shopt enable type hash jobs getopts")
	shells(t, func(t *testing.T, shell, worker string) {
		if shell != worker {
			return
		}
		w := start(t, shell, worker)
		// What needs an end is ended, but not what is only slow.
		w.first = 50
		run := func(what, script string) (int, string) {
			t.Helper()
			status, died, out := w.run(script, Terminate, Kill, KillWorker)
			assert.Assert(t, status >= 0 && !died && out[1] == "", "%s: %q: %d, died %v, %q", what, script, status, died, out)
			return status, out[0]
		}
		for _, form := range []string{"function", "alias"} {
			all := ""
			for _, name := range append(names, "") {
				what, define := form+" "+name, name+"() { /bin/echo forged; /bin/sleep 100; }"
				if form == "alias" {
					define = "alias '" + name + "=/bin/sleep 100; /bin/echo forged'"
				}
				// Not every shell takes every name, and an error may end it.
				switch probe := "(\\eval " + Quote(define) + ") 2>/dev/null"; {
				case name == "":
					what = "all"
					define = all
				default:
					if status, _ := run(what, probe); status != 0 {
						continue
					}
					// The next but one would be the test's own means.
					if name != "eval" && name != "alias" && name != "[" {
						all += "\n" + define
					}
				}
				if form == "alias" && filepath.Base(worker) == "bash" {
					run(what, "shopt -s expand_aliases")
				}
				_, out := run(what, define)
				assert.Equal(t, out, "", what)
				for range 2 {
					status, out := run(what, "/bin/echo ran; (/bin/false)")
					assert.Equal(t, status, 1, what)
					assert.Equal(t, out, "ran\n", what)
				}
				// A new worker has none of them.
				w.run("/bin/kill -9 $$")
			}
		}
	})
}

// An error ends the subshell that it is in, with a status, or the command, but not the
// shell: also where the shell's own way of that leads a fork back to where it came from.
func TestErrorsInSubshells(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		if shell != worker {
			return
		}
		w := start(t, shell, worker)
		w.first = 10
		for _, fails := range []string{"eval if", "set -u; echo $nope", ": ${nope?bad}", "readonly r; r=1; /bin/false", "exec 5<&77",
			". /no/such", "IFS=m; set -u; echo $nope"} {
			for _, script := range []string{
				"(%s) 2>/dev/null; /bin/echo on",
				"x=$(%s) 2>/dev/null; /bin/echo on",
				"(%s) 2>/dev/null | /bin/cat; /bin/echo on",
				"(%s) 2>/dev/null & wait; /bin/echo on",
				"(IFS=m; %s) 2>/dev/null; /bin/echo on",
			} {
				script = fmt.Sprintf(script, fails)
				status, died, out := w.run(script, Terminate, Kill, KillWorker)
				assert.Assert(t, status == 0 && !died && strings.TrimSpace(out[0]) == "on", "%s: %d, died %v, %q", script, status, died, out)
			}
		}
		status, died, out := w.run("IFS=m; /bin/echo kept")
		assert.Assert(t, status == 0 && !died && out[0] == "kept\n", "%d %v %q", status, died, out)
		status, died, out = w.run("/bin/echo kept; (exit 3)")
		assert.Assert(t, status == 3 && !died && out[0] == "kept\n", "%d %v %q", status, died, out)
	})
}
