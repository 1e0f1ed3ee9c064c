package execpolicy_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A conformanceCase is one command and what comes of it, or what do does. The cases of a
// list share a session, one after another.
type conformanceCase struct {
	name   string // with the ids of the reference that it stands for
	script string
	// out and err are the streams; "*" is anything. text is the rendered result, if it is
	// not empty.
	out, err, text string
	code           int // -1 is anything but 0
	lost           bool
	do             func(t *testing.T, s session)
}

func (c conformanceCase) run(t *testing.T, s session) {
	s.t = t
	if c.do != nil {
		c.do(t, s)
		return
	}
	r := s.script(c.script)
	assert.Equal(t, r.Outcome, execpolicy.OutcomeExited, r.Text())
	if c.code < 0 {
		assert.Assert(t, r.ExitCode > 0)
	} else {
		assert.Equal(t, r.ExitCode, c.code, r.Text())
		// A syntax error ends some shells and not others.
		assert.Equal(t, r.StateLost, c.lost)
	}
	if c.out != "*" {
		assert.Equal(t, string(r.Stdout), c.out)
	}
	if c.err != "*" {
		assert.Equal(t, string(r.Stderr), c.err)
	}
	if c.text != "" {
		assert.Equal(t, r.Text(), c.text)
	}
	if r.StateLost {
		assert.Equal(t, s.ok("echo again"), "again")
	}
}

// sessionEnv is the environment of the session that the cases share.
var sessionEnv = map[string]string{"NUM": "42", "BOOL": "true", "LINES2": "a\nb\n",
	"QUOTES": `it's "$HOME" \n`, "EMPTY": ""}

func TestConformance(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		shells := p.shells(t)
		for _, name := range slices.Sorted(maps.Keys(workersAt(t, p))) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				spec := p.spec()
				spec.Command, spec.Env = workers[name], sessionEnv
				if !slices.ContainsFunc(shells, func(path string) bool { return filepath.Base(path) == spec.Command[0] }) {
					leftout.Skip(t, "the image has no %s", spec.Command[0])
				}
				policy := p.policy()
				runCases(t, policy, spec, slices.Concat(protocolCases, outputCases, commandCases, killCases, shellCases))
				policy.MaxOutputLines, policy.MaxOutputBytes = 5, 50
				runCases(t, policy, spec, limitCases)
			})
		}
	})
}

// runCases runs the cases in one session, and in a new one behind each that failed.
func runCases(t *testing.T, policy execpolicy.Policy, spec execpolicy.Spec, cases []conformanceCase) {
	s := open(t, policy, spec)
	for _, c := range cases {
		if !t.Run(c.name, func(t *testing.T) { c.run(t, s) }) {
			s.Close()
			s = open(t, policy, spec)
		}
	}
}

// shells returns those of the workers' programs that the image has.
func (p place) shells(t *testing.T) []string {
	s := open(t, p.policy(), p.spec())
	defer s.Close()
	return strings.Fields(s.ok("for name in busybox dash bash; do command -v $name; done; :"))
}

// mark is what each mark on the streams begins with: 130 random bits.
var mark = regexp.MustCompile("[A-Z2-7]{26}")

var protocolCases = []conformanceCase{
	{name: "3.2.1 3.2.24 D4 the directory and variables are kept", do: func(t *testing.T, s session) {
		r := s.script("cd /; kept=5; f() { echo f$kept; }")
		assert.Equal(t, r.Dir, "/")
		assert.Equal(t, s.ok("pwd; f"), "/\nf5")
		s.ok("cd /workspace")
	}},
	{name: "3.2.1 echo ready", script: "echo ready", out: "ready\n", text: "ready\n"},
	{name: "3.2.11 3.3.4 3.4.24 D32 the environment is passed",
		script: `echo $NUM $BOOL; printf %s "$LINES2$QUOTES$EMPTY${EMPTY-unset}"`,
		out:    "42 true\na\nb\nit's \"$HOME\" \\n"},
	{name: "3.2.13 success", script: "echo hello; echo there", out: "hello\nthere\n", text: "hello\nthere\n"},
	{name: "3.2.14 3.3.7 false is exit code 1", script: "false", code: 1, text: "<no output>\n\nExit code: 1"},
	{name: "3.2.14 output and exit code", script: "echo no; (exit 42)", out: "no\n", code: 42,
		text: "no\n\nExit code: 42"},
	{name: "3.2.19 no output", script: "true", text: "<no output>"},
	{name: "3.2.20 3.3.6 stderr is marked", script: "echo error >&2", err: "error\n", text: "[stderr] error\n"},
	{name: "3.4.1 D9 no newline at the end", script: "printf abc", out: "abc", text: "abc"},
	{name: "3.4.2 D11 cat returns at once", script: "cat"},
	{name: "3.4.3 D11 read returns at once", script: "read x", code: 1},
	{name: "3.4.11 D11 a bare interpreter returns at once",
		script: "sh; if command -v python3 >/dev/null; then python3; fi"},
	{name: "3.4.4 D12 open quote", script: "echo 'abc", out: "*", err: "*", code: -1},
	{name: "3.4.4 D12 open double quote", script: `echo "abc`, out: "*", err: "*", code: -1},
	{name: "3.4.4 D12 open substitution", do: func(t *testing.T, s session) {
		conformanceCase{script: "echo $(echo", out: "*", err: "*", code: -1}.run(t, s)
		// Bash 5.2.15 has written in front of a block of its memory by now, and may abort
		// at any later command.
		assert.Assert(t, s.script("exit").StateLost)
	}},
	{name: "3.4.5 D12 here-document", script: "cat <<E\nhello\nE", out: "hello\n"},
	{name: "3.4.5 D12 open here-document", do: func(t *testing.T, s session) {
		r := s.script("cat <<E\nhello")
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "3.4.6 D12 trailing backslash", do: func(t *testing.T, s session) {
		r := s.script(`echo a\`)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
		assert.Equal(t, s.ok("echo next"), "next")
	}},
	{name: "D12 syntax error", script: "for", out: "*", err: "*", code: -1},
	{name: "3.4.7 D10 D23 exit", script: "exit 3", code: 3, lost: true, text: "<no output>\n\nExit code: 3"},
	{name: "3.4.8 D10 set -e", script: "set -e; false", code: 1, lost: true},
	{name: "D10 set -u", script: "set -u; echo $no_such_variable_cf", err: "*", out: "*", code: -1},
	{name: "D10 exec of a program", script: "exec sh -c 'echo out; exit 5'", out: "out\n", code: 5, lost: true},
	{name: "D10 return", script: "return 4", code: 4},
	{name: "D10 return with the library's variables set", script: "cf_status=5 cf_tag=x; return 4", code: 5},
	{name: "3.4.9 D13 redirection lasts one command", script: "exec >/dev/null 2>&1; echo no"},
	{name: "3.4.9 D13 after the redirection", script: "echo back", out: "back\n"},
	{name: "3.4.10 D13 printf redefined", script: "printf() { :; }; printf no; echo done", out: "done\n"},
	{name: "3.4.10 D13 after printf", script: "printf no; unset -f printf; printf yes", out: "yes"},
	{name: "D13 more redefined", script: "echo() { :; }; read() { :; }; cd() { :; }; cat() { :; }"},
	{name: "D13 after more", script: "echo no; unset -f echo read cd cat; echo yes", out: "yes\n"},
	{name: "D13 aliases", script: "alias command=false eval=false printf=false exec=false"},
	{name: "D13 after aliases", script: "\\unalias -a; echo yes", out: "yes\n"},
	{name: "D13 descriptors closed", script: "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo yes", out: "yes\n"},
	{name: "D13 IFS", script: "IFS=0123456789"},
	{name: "D13 after IFS", script: "unset IFS; (exit 123)", code: 123},
	{name: "D15 set -x shows no mark", do: func(t *testing.T, s session) {
		for _, script := range []string{"set -x", "echo traced", "set +x", "set -v", "echo verbose", "set +v"} {
			r := s.script(script)
			assert.Assert(t, !mark.Match(r.Stderr) && !mark.Match(r.Stdout), "%s", r.Stderr)
			if word, ok := strings.CutPrefix(script, "echo "); ok {
				assert.Equal(t, string(r.Stdout), word+"\n")
			}
		}
	}},
	{name: "D14 old marks end nothing", do: oldMarks},
	{name: "D6 exit codes are the command's", do: func(t *testing.T, s session) {
		for _, code := range []string{"124", "125", "126", "127", "137", "143", "255"} {
			r := s.script("echo 'Error response from daemon: No such container' >&2; (exit " + code + ")")
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.Text(), "[stderr] Error response from daemon: No such container\n\nExit code: "+code)
		}
	}},
	{name: "D6 the shell's own exit code is the command's", script: "exit 125", code: 125, lost: true},
	{name: "D7 the shell that was asked for answers", do: func(t *testing.T, s session) {
		name := s.ok(`tr '\000' ' ' </proc/$$/cmdline`)
		for worker, argv := range workers {
			if strings.Contains(t.Name(), "/"+worker+"/") {
				assert.Assert(t, strings.HasPrefix(name, argv[0]), name)
			}
		}
	}},
}

var outputCases = []conformanceCase{
	{name: "3.4.12 D28 NUL", script: `printf 'a\000b\n'`, out: "a\x00b\n", text: "a\x00b\n"},
	{name: "3.4.12 D28 invalid UTF-8", script: `printf '\377\376ab\n'`, out: "\xff\xfeab\n", text: "\ufffd\ufffdab\n"},
	{name: "D28 all bytes", do: func(t *testing.T, s session) {
		all := make([]byte, 1<<16)
		for i := range all {
			all[i] = byte(i + i>>8)
		}
		r := s.run(execpolicy.Command{Script: "cat; exec cat >&2", Stdin: strings.NewReader(string(all))})
		assert.Assert(t, string(r.Stdout) == string(all))
		r = s.run(execpolicy.Command{Script: "cat >&2", Stdin: strings.NewReader(string(all))})
		assert.Assert(t, string(r.Stderr) == string(all))
	}},
	{name: "3.4.13 D28 carriage returns", script: `printf 'a\rb\rc\n'; printf 'd\r\n'`, out: "a\rb\rc\nd\r\n",
		text: "a\nb\nc\nd\n"},
	{name: "3.4.14 D21 D26 a line of 3 MB", do: func(t *testing.T, s session) {
		r := s.script("head -c 3000000 /dev/zero | tr '\\000' x; echo; echo end")
		assert.Equal(t, r.ExitCode, 0)
		info := r.StdoutInfo
		assert.Equal(t, info.Bytes, int64(3000005))
		assert.Equal(t, info.Lines, int64(2))
		assert.Equal(t, info.DroppedBytes, int64(3000005-1<<20))
		assert.Equal(t, len(r.Stdout), 1<<20)
		assert.Assert(t, strings.HasSuffix(string(r.Stdout), "xxx\nend\n"))
		assert.Equal(t, r.Text(), "<no output>\n\n... Output truncated at 1048576 bytes (observed 3000005).")
	}},
	{name: "3.4.15 D22 partial stderr", script: "printf partial >&2", err: "partial", text: "[stderr] partial"},
	{name: "3.4.15 D22 after partial stderr", script: "echo e1 >&2", err: "e1\n", text: "[stderr] e1\n"},
	{name: "D22 all of stderr is there", do: func(t *testing.T, s session) {
		r := s.script("i=0; while [ $i -lt 3000 ]; do echo error $i; i=$((i+1)); done >&2")
		assert.Equal(t, r.StderrInfo.Lines, int64(3000))
		assert.Assert(t, strings.HasSuffix(string(r.Stderr), "error 2999\n"))
		assert.Equal(t, s.script("true").BackgroundBytes, int64(0))
	}},
	{name: "D27 streams are apart", script: "echo '[stderr] fake'; echo real >&2", out: "[stderr] fake\n", err: "real\n"},
	{name: "reads and writes of a command wait", do: func(t *testing.T, s session) {
		const script = "cat /proc/self/fdinfo/0 /proc/self/fdinfo/1 /proc/self/fdinfo/2"
		waits := func(c execpolicy.Command) {
			t.Helper()
			out := string(s.run(c).Stdout)
			all := regexp.MustCompile(`(?m)^flags:\s*(\d+)$`).FindAllStringSubmatch(out, -1)
			assert.Equal(t, len(all), 3, out)
			for _, flags := range all {
				const nonblock = 0o4000 // as Linux has it
				n, err := strconv.ParseUint(flags[1], 8, 32)
				assert.NilError(t, err)
				assert.Assert(t, n&nonblock == 0, out)
			}
		}
		for range 2 {
			waits(execpolicy.Command{Script: script})
			waits(execpolicy.Command{Argv: strings.Fields(script)})
			waits(execpolicy.Command{Script: script, Stdin: strings.NewReader("x")})
			// GNU's dd, if it is that, leaves both streams so that they don't.
			s.script("dd oflag=nonblock count=0; dd oflag=nonblock count=0 >&2")
		}
	}},
	{name: "3.4.16 D1 D20 a background flood between commands is bounded and counted", do: func(t *testing.T, s session) {
		s.ok("yes flood & flood=$!")
		wait(t, func() bool { return s.script(":").BackgroundBytes > 0 }, "nothing of the flood was counted")
		r := s.script(`kill $flood; wait $flood; echo end`)
		assert.Assert(t, strings.HasSuffix(string(r.Stdout), "end\n"))
		// What it had printed before it died may still come.
		wait(t, func() bool { r := s.script(":"); return r.BackgroundBytes == 0 && len(r.Stdout) == 0 }, "the flood goes on")
	}},
	{name: "D19 late output is attributed or counted once", do: func(t *testing.T, s session) {
		s.ok("rm -f go leaked; (while [ ! -e go ]; do sleep 0.01; done; echo LEAK; >leaked) & :")
		var seen int64
		count := func(r *execpolicy.Result) string {
			out := string(r.Stdout)
			seen += r.BackgroundBytes + int64(strings.Count(out, "LEAK\n"))*int64(len("LEAK\n"))
			return strings.ReplaceAll(out, "LEAK\n", "")
		}
		count(s.script(">go"))
		wait(t, func() bool { return count(s.script("[ ! -e leaked ] || echo yes")) == "yes\n" }, "no leak")
		count(s.script("wait"))
		assert.Equal(t, seen, int64(len("LEAK\n")))
	}},
}

var limitCases = []conformanceCase{
	{name: "3.2.3 more lines than the limit", script: "seq 1 20", out: "*",
		text: "1\n2\n3\n4\n5\n\n... Output truncated at 5 lines (observed 20)."},
	{name: "3.4.19 exactly the limit of lines", script: "seq 1 5", out: "1\n2\n3\n4\n5\n", text: "1\n2\n3\n4\n5\n"},
	{name: "3.4.19 one line more than the limit", script: "seq 1 6", out: "1\n2\n3\n4\n5\n6\n",
		text: "1\n2\n3\n4\n5\n\n... Output truncated at 5 lines (observed 6)."},
	{name: "3.4.19 lines of both streams count", do: func(t *testing.T, s session) {
		r := s.script("seq 1 5; echo e >&2")
		assert.Equal(t, string(r.Stdout), "1\n2\n3\n4\n5\n")
		assert.Equal(t, string(r.Stderr), "e\n")
		text, ok := strings.CutSuffix(r.Text(), "\n\n... Output truncated at 5 lines (observed 6).")
		assert.Assert(t, ok, r.Text())
		// The line of stderr stands where it came, or came last and is the one that was
		// dropped.
		lines := strings.Split(text, "\n")
		if i := slices.Index(lines, "[stderr] e"); i >= 0 {
			lines = append(slices.Delete(lines, i, i+1), "5")
		}
		assert.DeepEqual(t, lines, []string{"1", "2", "3", "4", "5"})
	}},
	{name: "3.2.15 3.3.3 D26 one line longer than the limit of bytes", do: func(t *testing.T, s session) {
		r := s.script("printf '%0100d\\n' 0")
		assert.Equal(t, r.Text(), "<no output>\n\n... Output truncated at 50 bytes (observed 101).")
		assert.Equal(t, string(r.Stdout), strings.Repeat("0", 49)+"\n")
		assert.Equal(t, r.StdoutInfo.DroppedBytes, int64(51))
	}},
	{name: "3.4.19 exactly the limit of bytes", script: "printf '%049d\\n' 0", out: strings.Repeat("0", 49) + "\n",
		text: strings.Repeat("0", 49) + "\n"},
	{name: "3.4.19 one byte more than the limit", script: "printf 'a\\n%048d\\n' 0", out: "*",
		text: "a\n\n... Output truncated at 50 bytes (observed 51)."},
	{name: "3.4.19 truncated and failed", script: "seq 1 9; (exit 2)", out: "*", code: 2,
		text: "1\n2\n3\n4\n5\n\n... Output truncated at 5 lines (observed 9).\n\nExit code: 2"},
}

var commandCases = []conformanceCase{
	{name: "3.2.12 3.3.1 an empty command is refused", do: func(t *testing.T, s session) {
		for _, c := range []execpolicy.Command{{}, {Script: " \n"}} {
			_, err := s.Run(t.Context(), c)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "must be a non-empty string")
		}
	}},
	{name: "every problem of a command at once", do: func(t *testing.T, s session) {
		_, err := s.Run(t.Context(), execpolicy.Command{Script: "a", Argv: []string{"-b"}, Dir: "\x00",
			OutputLimit: -1, Env: map[string]string{"A=": "\x00"}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		for _, want := range []string{"not both", `"-b"`, "a directory's name can't hold a NUL byte", "OutputLimit",
			`"A="`, "the value of A="} {
			assert.ErrorContains(t, err, want)
		}
	}},
	{name: "Argv is read by no shell", do: func(t *testing.T, s session) {
		words := []string{"printf", `%s|`, "a b", "$HOME", "`x`", "*", "", "it's", "-n", "two\nlines", `\`}
		r := s.run(execpolicy.Command{Argv: words})
		assert.Equal(t, string(r.Stdout), strings.Join(words[2:], "|")+"|")
		assert.Equal(t, s.run(execpolicy.Command{Argv: []string{"no-such-program"}}).ExitCode, 127)
		s.ok("sleep() { echo function; }")
		assert.Equal(t, string(s.run(execpolicy.Command{Argv: []string{"sleep", "0"}}).Stdout), "")
		s.ok("unset -f sleep")
	}},
	{name: "Dir and Env are for one command", do: func(t *testing.T, s session) {
		s.ok("cd /workspace; only=before")
		r := s.run(execpolicy.Command{Script: `pwd; echo "$only"; sh -c 'echo "$only"'`, Dir: "/tmp",
			Env: map[string]string{"only": "it's\n1"}})
		assert.Equal(t, string(r.Stdout), "/tmp\nit's\n1\nit's\n1\n")
		assert.Equal(t, r.Dir, "/workspace")
		assert.Equal(t, s.ok(`pwd; echo "$only"; unset only`), "/workspace\nbefore")
		r = s.run(execpolicy.Command{Argv: []string{"sh", "-c", `pwd; echo "$only"`}, Dir: "/",
			Env: map[string]string{"only": "x"}})
		assert.Equal(t, string(r.Stdout), "/\nx\n")
	}},
	{name: "a Dir that is not there", do: func(t *testing.T, s session) {
		// A shell would shorten the second name to one that is there, but no system call
		// takes it.
		for _, dir := range []string{"/no/such", "/tmp" + strings.Repeat("/.", 2100) + "/.."} {
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo ran", Dir: dir})
			assert.ErrorIs(t, err, execpolicy.ErrNoDir)
			assert.Assert(t, r == nil)
			assert.Equal(t, s.ok("pwd"), "/workspace")
		}
		r := s.run(execpolicy.Command{Script: "pwd", Dir: strings.Repeat("/.", 1900) + "/tmp"})
		assert.Equal(t, string(r.Stdout), "/tmp\n")
	}},
	{name: "commands behind one whose directory is missing run once, and at once", do: func(t *testing.T, s session) {
		for range 50 {
			_, err := s.Run(t.Context(), execpolicy.Command{Script: "true", Dir: "/no/such"})
			assert.ErrorIs(t, err, execpolicy.ErrNoDir)
			for _, word := range []string{"one", "two", "three"} {
				assert.Equal(t, s.ok("echo "+word), word)
			}
		}
	}},
	{name: "1 MiB of stdin is exact", do: func(t *testing.T, s session) {
		stdin := strings.Repeat("0123456789abcde\x00", 1<<16)
		r := s.run(execpolicy.Command{Script: "cat", Stdin: strings.NewReader(stdin)})
		assert.Assert(t, string(r.Stdout) == stdin)
		assert.Equal(t, r.StdoutInfo.DroppedBytes, int64(0))
		assert.Equal(t, string(s.run(execpolicy.Command{Argv: []string{"wc", "-c"},
			Stdin: strings.NewReader("abc")}).Stdout), "3\n")
		assert.Equal(t, s.ok("cat"), "")
	}},
	{name: "stdin of any length about a page", do: func(t *testing.T, s session) {
		for n := 4020; n <= 4110; n++ {
			r := s.run(execpolicy.Command{Script: "wc -c; echo behind a long enough command",
				Stdin: strings.NewReader(strings.Repeat("x", n)), Timeout: -1})
			assert.Equal(t, string(r.Stdout), fmt.Sprintf("%d\nbehind a long enough command\n", n))
		}
	}},
	{name: "3.4.18 D18 a command of 200 KB", do: func(t *testing.T, s session) {
		long := strings.Repeat("it's 0123456789\n", 12800)
		r := s.script("printf %s '" + strings.ReplaceAll(long, "'", `'\''`) + "' | wc -c")
		assert.Equal(t, strings.TrimSpace(string(r.Stdout)), "204800")
		assert.Equal(t, s.ok(strings.Repeat("x='é\u0081'\n", 10000)+`printf %s "$x"`), "é\u0081")
	}},
	{name: "3.4.17 D16 two commands at once run one after the other", do: func(t *testing.T, s session) {
		unhurried(t, 4*short, func(limit time.Duration) error {
			if s.over() {
				assert.NilError(t, s.Restart(t.Context()))
			}
			first := s.start(t.Context(),
				execpolicy.Command{Script: fmt.Sprintf("echo begin; sleep %.1f; echo end", (limit + short).Seconds()), Timeout: -1})
			second := make(chan error)
			go func() {
				// Its clock starts when its turn has come.
				r, err := s.Run(t.Context(), execpolicy.Command{Script: "echo second", Timeout: limit})
				if err == nil && (r.Outcome != execpolicy.OutcomeExited || string(r.Stdout) != "second\n") {
					err = errors.New(r.Text())
				}
				second <- err
			}()
			<-first.done
			assert.Check(t, first.err)
			assert.Equal(t, string(first.result.Stdout), "begin\nend\n")
			return <-second
		})
	}},
}
