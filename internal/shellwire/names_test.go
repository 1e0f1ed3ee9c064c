//go:build linux

package shellwire

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// What a command names its functions and aliases costs neither the worker nor a later
// command, is not run for either, and changes no status. Each of the names takes as long
// as a fork bomb would, so that a deadline would pass.
func TestNamesOfFunctions(t *testing.T) {
	names := strings.Fields("command eval exec exit return . source : read printf test [ set unset export " +
		"readonly trap kill wait break continue shift times cat rm cd pwd true false echo umask alias unalias local " +
		"declare shopt enable type hash jobs getopts")
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
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
				switch probe := "(\\eval " + shellquote.Quote(define) + ") 2>/dev/null"; {
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
				if form == "alias" && filepath.Base(shell) == "bash" {
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
// So it is with variables for one unit, which have then their values of before.
func TestErrorsInSubshells(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		run := func(script, want string, code int) {
			t.Helper()
			status, died, out := w.run(script)
			assert.Assert(t, status == code && !died && strings.TrimSpace(out[0]) == want,
				"%s, with %q: %d, died %v, %q", script, w.env, status, died, out)
		}
		run("OWN=own; export SENT=sent PATH; unset NONE", "", 0)
		for _, w.env = range [][]string{nil, {"OWN=1", "SENT=2", "NONE=3 4\n"}} {
			for _, fails := range []string{"eval if", "set -u; echo $nope", ": ${nope?bad}", "readonly r; r=1; /bin/false", "exec 5<&77",
				". /no/such", "IFS=m; set -u; echo $nope", "unset -f command; command() { :; }; set -u; echo $nope"} {
				for _, script := range []string{
					"(%s) 2>/dev/null; /bin/echo on",
					"x=$(%s) 2>/dev/null; /bin/echo on",
					"(%s) 2>/dev/null | /bin/cat; /bin/echo on",
					"(%s) 2>/dev/null & wait; /bin/echo on",
					"(IFS=m; %s) 2>/dev/null; /bin/echo on",
				} {
					run(fmt.Sprintf(script, fails), "on", 0)
				}
			}
			run("f() { set -u; echo $nope; }; f 2>/dev/null | /bin/cat", "", 0)
			run("set -u; { echo $nope; } 2>/dev/null | /bin/cat; set +u; (exit 7)", "", 7)
			run("IFS=m; /bin/echo kept", "kept", 0)
			run("/bin/echo kept; (exit 3)", "kept", 3)
		}
		w.env = nil
		run(`unset IFS; echo "$OWN,$SENT,${NONE-none}"`, "own,sent,none", 0)
		run(`sh -c 'echo "${OWN-none},$SENT,${NONE-none}"'`, "none,sent,none", 0)
	})
}

// After a unit with variables of its own they have what they had before, whatever the
// unit did with them and however it ended.
func TestVariablesOfAUnit(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		run := func(script, want string, code int) {
			t.Helper()
			status, died, out := w.run(script)
			assert.Assert(t, status == code && !died && out[0] == want && out[1] == "",
				"%s, with %q: %d, died %v, %q", script, w.env, status, died, out)
		}
		path := os.Getenv("PATH")
		env := []string{"OWN=1", "SENT=it's\ntwo", "NONE=3", "MARKED=4", "PATH=/no", "IFS=x", "EMPTY=", "OPTIND=2", "LIST=5"}
		run("OWN=own EMPTY= LIST='\nexport OWN=\nOWN=cf_kept_'; export SENT=sent MARKED LIST; unset NONE", "", 0)
		same := func() {
			t.Helper()
			w.env = nil
			run(`echo "$OWN,$SENT,${NONE-none},${MARKED-none},$PATH,${EMPTY-none},$OPTIND"`, "own,sent,none,none,"+path+",,1\n", 0)
			run(`sh -c 'echo "${OWN-none},$SENT,${NONE-none},${EMPTY-none}"'; MARKED=m; sh -c 'echo $MARKED'; unset MARKED; \export MARKED`,
				"none,sent,none,none\nm\n", 0)
			run(`case $IFS in " 	`+"\n"+`") ;; *) false;; esac`, "", 0)
			run(`set | grep -c '^cf_kept_'`, "0\n", 1)
			w.env = env
		}
		same()
		for _, c := range []struct {
			script string
			code   int
		}{
			{"(exit 3)", 3}, {"return 4", 4}, {"unset OWN SENT NONE PATH IFS", 0}, {"export OWN NONE; OWN=x NONE=y SENT=z", 0},
			{"IFS=m", 0}, {"alias command=false export=false eval=false", 0}, {"unalias -a", 0},
		} {
			run(c.script, "", c.code)
			same()
		}
		for _, set := range []string{"u", "f", "C", "x", "e"} {
			w.env = nil
			run("set -"+set, "", 0)
			w.env = env
			run("{ set +"+set+"; } 2>/dev/null; [ \"$SENT\" = \"it's\ntwo\" ]", "", 0)
			same()
		}
		// An error ends the unit in shells that don't go on behind it, and bash.
		if filepath.Base(shell) != "bash" {
			status, died, _ := w.run("set -u; echo $nope")
			assert.Assert(t, status > 0 && !died, status)
			w.env = nil
			run("set +u", "", 0)
			same()
			w.env = nil
			run("readonly FIXED=1", "", 0)
			w.env = append(slices.Clone(env), "FIXED=2")
			status, died, out := w.run("echo no")
			assert.Assert(t, status > 0 && !died && out[0] == "" && out[1] != "", "%d %v %q", status, died, out)
			same()
		}
		// What a unit makes of the list is its own, and holds up nobody.
		for _, script := range []string{"cf_vars=abc", "cf_vars='* *'"} {
			run(script, "", 0)
		}
	})
}
