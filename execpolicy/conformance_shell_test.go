package execpolicy_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// shellCases are about what a shell says itself.
var shellCases = []conformanceCase{
	{name: "a line has its number", do: func(t *testing.T, s session) {
		if s.ok("echo $LINENO") == "" {
			s.t.Log("this shell numbers no lines")
		}
		long := strings.Repeat("# A line of which there are so many that they take more than one operation.\n", 100)
		for _, c := range []execpolicy.Command{
			{},
			{Dir: "/tmp"},
			{Env: map[string]string{"A": "1", "B": "two\nlines\n'"}},
			{Stdin: strings.NewReader("in\n")},
			{Dir: "/", Env: map[string]string{"A": "\n\n"}, Stdin: strings.NewReader("in\n")},
		} {
			for _, before := range []string{"", "\n", long} {
				c.Script = before + "echo one $LINENO\n" + "echo two \\\n$LINENO\ncofferdam_nosuch\necho last $LINENO\n"
				n := strings.Count(before, "\n")
				r := s.run(c)
				assert.Assert(t, r.Outcome == execpolicy.OutcomeExited && r.ExitCode == 0, r.Text())
				if !bytes.HasPrefix(r.Stdout, []byte("one\n")) {
					two := regexp.MustCompile(`two \d+`).ReplaceAll(r.Stdout, nil)
					assert.Equal(t, string(two), fmt.Sprintf("one %d\n\nlast %d\n", n+1, n+5))
				}
				said := regexp.MustCompile(fmt.Sprintf(`(: |line )%d: (eval: |)cofferdam_nosuch: .*not found\n$`, n+4))
				assert.Assert(t, said.Match(r.Stderr), "%s", r.Stderr)
				assert.Equal(t, bytes.Count(r.Stderr, []byte("\n")), 1)
			}
		}
		// One that begins with a mark, because something was printed before.
		s.ok("while sleep 0.01; do echo noise >&2; done & job=$!")
		want := "1\n2\n"
		if s.ok("echo $LINENO") == "" {
			want = "\n\n"
		}
		wait(t, func() bool {
			r := s.script("echo $LINENO\necho $LINENO")
			assert.Equal(t, string(r.Stdout), want)
			return r.BackgroundBytes > 0
		}, "no job prints")
		s.ok("kill $job; unset job")
	}},
	{name: "a mistake of a script has a name that means something", do: func(t *testing.T, s session) {
		for _, script := range []string{"cofferdam_nosuch", "echo >/cofferdam/nosuch", "cd /cofferdam/nosuch",
			"kill %9", "echo ${x"} {
			r := s.script(script)
			assert.Assert(t, len(r.Stderr) > 0 && !bytes.Contains(r.Stderr, []byte("/proc/")), "%q: %s", script, r.Stderr)
		}
		if name := s.ok("echo ${BASH_SOURCE-}"); name != "" {
			assert.Assert(t, strings.HasSuffix(name, "/script"), name)
			assert.Assert(t, bytes.HasPrefix(s.script("cofferdam_nosuch").Stderr, []byte(name+": line 1: ")))
		}
	}},
	{name: "a session goes on without its script's name", do: func(t *testing.T, s session) {
		name := s.ok("for f in /.cofferdam/script ${BASH_SOURCE-}; do [ -f $f ] && echo $f; done | tail -n 1; kept=5")
		if name == "" {
			return // on the host only bash tells it
		}
		s.ok("rm -f " + name)
		assert.Equal(t, s.ok("echo $kept"), "5")
		assert.Equal(t, string(s.run(execpolicy.Command{Argv: []string{"echo", "next"}}).Stdout), "next\n")
		s.ok("mkdir " + name)
		assert.Equal(t, s.ok("echo $kept"), "5")
		s.restart()
	}},
	{name: "a program that was killed is told from one that exits", do: func(t *testing.T, s session) {
		bash := s.ok("echo ${BASH_VERSION-}") != ""
		s.ok("kept=5")
		// SIGINT and SIGQUIT are ignored in a session.
		for _, n := range []int{1, 4, 6, 8, 9, 11, 13, 14, 15, 31, 64} {
			for _, c := range []execpolicy.Command{
				{},
				{Env: map[string]string{"A": "a\nb: c"}, Dir: "/"},
				{Stdin: strings.NewReader("in\n")},
			} {
				kill := fmt.Sprintf("kill -%d $$; sleep 10", n)
				c.Argv = []string{"sh", "-c", "echo out; echo err >&2; " + kill, "a\nb"}
				r := s.run(c)
				if n == 13 || n == 15 && bash {
					// Of these some shells say nothing.
					assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
					assert.Equal(t, r.ExitCode, 128+n)
				} else {
					assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled, r.Text())
					assert.Equal(t, r.Signal, n)
					assert.Equal(t, r.ExitCode, -1)
					assert.Assert(t, strings.HasSuffix(r.Text(), fmt.Sprintf("\n\nKilled by signal %d.", n)))
				}
				assert.Equal(t, string(r.Stdout), "out\n")
				assert.Equal(t, string(r.Stderr), "err\n")
				assert.Assert(t, !r.StateLost)
			}
			c := execpolicy.Command{Argv: []string{"sh", "-c", fmt.Sprintf("exit %d", 128+n)}}
			r := s.run(c)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, 128+n)
			assert.Equal(t, r.Signal, 0)
			// It may be killed by a script of another shell, which is what the program
			// is.
			c.Argv[2] = "sh -c '" + fmt.Sprintf("kill -%d $$", n) + "' 2>/dev/null; exit $?"
			r = s.run(c)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, 128+n)
		}
		assert.Equal(t, s.ok("echo $kept; unset kept"), "5")
	}},
	{name: "a background job that is killed is not taken for the program", do: func(t *testing.T, s session) {
		const job = "sh -c 'sleep 4791 & echo $! >>sleeps; wait'"
		s.ok("( " + job + " 'a\nb' ) & kept=$!; " + job + " 'c\nd' & kept=\"$kept $!\"")
		s.ok("until [ -e sleeps ] && [ $(wc -l <sleeps) = 2 ]; do sleep 0.01; done")
		jobs := strings.Fields(s.ok("echo $kept"))
		r := s.run(execpolicy.Command{Argv: append([]string{"sh", "-c", "kill -9 \"$@\"; sleep 0.1; exit 139", "sh"},
			jobs...)})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
		assert.Equal(t, r.ExitCode, 139)
		assert.Equal(t, string(r.Stdout)+string(r.Stderr), "")
		s.ok("wait; unset kept")
		s.ok("kill $(cat sleeps) && rm sleeps")
	}},
	{name: "a program has nothing but its own on its streams", do: func(t *testing.T, s session) {
		for _, set := range []string{":", "set -x", "set -v", "set -u", "set -e", "set -f",
			"alias command=false break=false read=false printf=false"} {
			s.script(set)
			for _, c := range []execpolicy.Command{
				{Argv: []string{"sh", "-c", "printf out; printf err >&2; kill -11 $$"}},
				{Argv: []string{"sh", "-c", "printf out; printf err >&2; exit 3"}},
				{Argv: []string{"sh", "-c", "printf out; printf err >&2; sleep 4792"}, Timeout: short},
				{Argv: []string{"sh", "-c", "printf out; printf err >&2; [ $(ls /proc/self/fd | wc -l) = 4 ]"}},
			} {
				// On a busy machine a shell may not answer in time after the deadline.
				r := s.until(func(r *execpolicy.Result) bool { return c.Timeout == 0 || len(r.Stderr) > 0 && !r.StateLost },
					nil, s.command(c))
				assert.Equal(t, string(r.Stdout), "out", "%s; %q: %+v", set, c.Argv[2], r)
				assert.Equal(t, string(r.Stderr), "err", set)
				assert.Assert(t, !r.StateLost, set)
				assert.Equal(t, r.Outcome == execpolicy.OutcomeTimedOut, c.Timeout > 0)
			}
			s.script("set +x +v +u +e +f; \\unalias -a")
		}
	}},
	{name: "a program that is not there is told in a line", do: func(t *testing.T, s session) {
		for _, c := range []execpolicy.Command{
			{}, {Dir: "/"}, {Stdin: strings.NewReader("in\n")}, {Env: map[string]string{"PATH": "/bin", "A": "b\nc"}},
		} {
			c.Argv = []string{"cofferdam_nosuch", "a", "b"}
			r := s.run(c)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, 127)
			assert.Assert(t, bytes.HasSuffix(r.Stderr, []byte(": cofferdam_nosuch: not found\n")), "%s", r.Stderr)
			assert.Equal(t, bytes.Count(r.Stderr, []byte("\n")), 1)
			assert.Assert(t, !bytes.Contains(r.Stderr, []byte("/proc/")), "%s", r.Stderr)
			c.Argv = []string{"/etc/passwd"}
			r = s.run(c)
			assert.Equal(t, r.ExitCode, 126, r.Text())
			assert.Assert(t, bytes.Contains(r.Stderr, []byte("/etc/passwd")), "%s", r.Stderr)
		}
	}},
	{name: "a result is rendered with its output, whatever its outcome", do: func(t *testing.T, s session) {
		for _, c := range []struct {
			command execpolicy.Command
			want    string
		}{
			{execpolicy.Command{Script: "seq 1 2; echo err >&2; sleep 4794", Timeout: short},
				"Timed out after 0.1 s: the command was ended."},
			{execpolicy.Command{Argv: []string{"sh", "-c", "seq 1 2; echo err >&2; kill -11 $$"}},
				"Killed by signal 11 (segmentation fault)."},
			{execpolicy.Command{Script: "seq 1 2; echo err >&2; (exit 3)"}, "Exit code: 3"},
			{execpolicy.Command{Script: "seq 1 2; echo err >&2; exit 3"},
				"Exit code: 3\nThe shell was replaced: its variables and functions are gone, files stay."},
			{execpolicy.Command{Script: "seq 1 2; echo err >&2; sleep 0.3; yes", OutputLimit: 10},
				"Too much output: the command was ended."},
		} {
			// On a busy machine a shell that is ended with its command may not answer in
			// time.
			lost := strings.Contains(c.want, "The shell was replaced")
			r := s.until(func(r *execpolicy.Result) bool {
				return bytes.Contains(r.Stdout, []byte("2")) && bytes.HasPrefix(r.Stderr, []byte("err")) && r.StateLost == lost
			}, nil, s.command(c.command))
			text := r.Render(execpolicy.RenderOptions{})
			assert.Assert(t, strings.HasPrefix(text, "1\n2\n") && strings.Contains(text, "\n[stderr]\nerr\n") &&
				strings.HasSuffix(text, "\n\n"+c.want), text)
		}
		s.ok(":")
	}},
	{name: "an error in a subshell ends that, and not the command or its time", do: func(t *testing.T, s session) {
		s.ok("OWN=own; export SENT=sent; unset NONE")
		env := map[string]string{"OWN": "1", "SENT": "2 3", "NONE": "4\n5"}
		for _, c := range []struct {
			script, out string
			code        int
		}{
			{"set -u; echo $missing | cat; set +u", "", 0},
			{"set -u; echo $missing | cat; set +u; (exit 7)", "", 7},
			{"(: ${missing?}); echo \"$OWN,$SENT\"; set +u", "1,2 3\n", 0},
			{"x=$(set -u; echo $missing); sh -c 'echo \"$NONE\"'", "4\n5\n", 0},
		} {
			r := s.run(execpolicy.Command{Script: c.script, Env: env, Dir: "/"})
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, "%s: %s", c.script, r.Text())
			assert.Equal(t, r.ExitCode, c.code, c.script)
			assert.Equal(t, string(r.Stdout), c.out, c.script)
			assert.Assert(t, !r.StateLost, c.script)
			assert.Equal(t, s.ok("echo $OWN,$SENT,${NONE-none}; sh -c 'echo ${OWN-none},$SENT,${NONE-none}'"),
				"own,sent,none\nnone,sent,none")
		}
		s.ok("unset OWN SENT")
	}},
	{name: "the environment of a program is its own", do: func(t *testing.T, s session) {
		s.ok("A=of_the_shell; readonly CF_FIXED=1; mkdir -p /tmp/cofferdam_bin; printf '#!/bin/sh\necho found' " +
			">/tmp/cofferdam_bin/cofferdam_program; " +
			"chmod 755 /tmp/cofferdam_bin/cofferdam_program; cofferdam_program() { echo no; }")
		r := s.run(execpolicy.Command{Argv: []string{"sh", "-c", "echo $A"}, Env: map[string]string{"A": "b\nc"}})
		assert.Equal(t, string(r.Stdout), "b c\n")
		assert.Equal(t, s.ok("echo $A"), "of_the_shell")
		// Where a program is looked for is part of it.
		r = s.run(execpolicy.Command{Argv: []string{"cofferdam_program"},
			Env: map[string]string{"PATH": "/tmp/cofferdam_bin"}})
		assert.Equal(t, string(r.Stdout), "found\n", r.Text())
		s.ok("rm -r /tmp/cofferdam_bin; unset -f cofferdam_program")
		r = s.run(execpolicy.Command{Argv: []string{"sh", "-c", "echo out"}, Env: map[string]string{"CF_FIXED": "2"}})
		assert.Assert(t, len(r.Stderr) > 0 || r.ExitCode == 0, r.Text())
	}},
}

// A program that can't be started, because there may be no more processes, is not taken
// for one that has ended without a word.
func TestProgramAtTheProcessLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		shells := p.shells(t)
		// It takes bash half a minute to give up.
		for _, name := range []string{"sh", "dash"} {
			t.Run(name, func(t *testing.T) {
				spec := p.spec()
				spec.Command = workers[name]
				if !slices.ContainsFunc(shells, func(path string) bool { return filepath.Base(path) == spec.Command[0] }) {
					leftout.Skip(t, "the image has no %s", spec.Command[0])
				}
				s := open(t, p.policy(), spec)
				s.ok("kept=5; ulimit -u 1 2>/dev/null || ulimit -p 1")
				for _, stdin := range []io.Reader{nil, strings.NewReader("in\n")} {
					r := s.run(execpolicy.Command{Argv: []string{"true"}, Stdin: stdin})
					assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
					assert.Assert(t, r.ExitCode > 0 && r.ExitCode < 128, r.Text())
					assert.Assert(t, bytes.Contains(r.Stderr, []byte("fork")), r.Text())
					assert.Assert(t, !r.StateLost)
				}
				assert.Equal(t, s.ok("echo $kept"), "5")
			})
		}
	})
}
