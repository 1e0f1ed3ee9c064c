package python_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// short is the deadline of what is meant to miss it.
const short = 300 * time.Millisecond

// begun is said by code that is to be interrupted only then.
const begun = "print('begun', flush=True)"

// A place opens sessions on one engine.
type place places.Place

func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second},
		func(t *testing.T, p places.Place) { f(t, place(p)) })
}

// A notebook is an interpreter, its session and the test that it is for.
type notebook struct {
	*python.Interpreter
	session *execpolicy.Session
	t       *testing.T
}

func (p place) open(t *testing.T) notebook {
	t.Helper()
	s := places.Open(t, p.Policy, p.Spec)
	py, err := python.Start(t.Context(), s, python.Options{})
	assert.NilError(t, err)
	return notebook{py, s, t}
}

func (n notebook) run(s python.Snippet) *python.Result {
	n.t.Helper()
	r, err := n.Run(n.t.Context(), s)
	assert.NilError(n.t, err, s.Code)
	return r
}

// ok runs code that is expected to succeed without a loss of state.
func (n notebook) ok(code string) *python.Result {
	n.t.Helper()
	r := n.run(python.Snippet{Code: code})
	if r.Exception != nil {
		n.t.Fatalf("%s: %s", code, r.Exception.Traceback)
	}
	assert.Equal(n.t, r.Outcome, execpolicy.OutcomeExited, code)
	assert.Equal(n.t, r.ExitCode, 0, "%s: %s", code, r.Text())
	assert.Assert(n.t, !r.StateLost, code)
	return r
}

// ended runs code that is expected to be ended in that way. That everything is gone may
// have been said too late.
func (n notebook) ended(s python.Snippet, want execpolicy.Outcome) *python.Result {
	n.t.Helper()
	r, err := n.Run(n.t.Context(), s)
	assert.Assert(n.t, err == nil || errors.Is(err, execpolicy.ErrStillThere), "%s: %v", s.Code, err)
	assert.Equal(n.t, r.Outcome, want, "%s: %s", s.Code, r.Text())
	return r
}

// interrupt runs code and cancels it as soon as it has printed something.
func (n notebook) interrupt(code string) *python.Result {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	r, err := n.Run(ctx, python.Snippet{Code: code, Stdout: places.OnWrite(func() { cancel() })})
	assert.ErrorIs(n.t, err, context.Canceled, code)
	assert.Equal(n.t, r.Outcome, execpolicy.OutcomeCanceled, code)
	return r
}

// slow says what a busy machine has done to the end of a snippet that obeys, if it has:
// it was too late for the first step, or the answer came too late. The library has to say
// so.
func slow(t *testing.T, r *python.Result) string {
	t.Helper()
	if r.Escalation == execpolicy.EscalationTerm && r.Gone && !r.StateLost {
		return ""
	}
	assert.Assert(t, r.StateLost || r.Escalation == execpolicy.EscalationTerm, "%+v", r.Result)
	return fmt.Sprintf("it went as far as %v, gone %v, state lost %v", r.Escalation, r.Gone, r.StateLost)
}

func (n notebook) value(code string) string {
	n.t.Helper()
	return n.ok(code).Value
}

// fails runs code that is expected to raise an exception.
func (n notebook) fails(code, kind string) *python.Exception {
	n.t.Helper()
	r := n.run(python.Snippet{Code: code})
	assert.Assert(n.t, r.Exception != nil, "%s: %s", code, r.Text())
	assert.Equal(n.t, r.Exception.Type, kind, r.Exception.Traceback)
	assert.Equal(n.t, r.ExitCode, 1)
	assert.Equal(n.t, r.Value, "")
	assert.Assert(n.t, !r.StateLost)
	return r.Exception
}

// shell runs a command in the session.
func (n notebook) shell(script string) string {
	n.t.Helper()
	r, err := n.session.Run(n.t.Context(), execpolicy.Command{Script: script})
	assert.NilError(n.t, err)
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

// killRun kills what waits for the snippet, which is the newest process.
const killRun = "import os\nos.kill(max(int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()), 9)"

// A runCase is run in an interpreter that it may share with others.
type runCase struct {
	name string
	do   func(t *testing.T, n notebook)
}

func TestRun(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		n := p.open(t)
		for _, c := range cases {
			ok := t.Run(c.name, func(t *testing.T) {
				c.do(t, notebook{n.Interpreter, n.session, t})
			})
			if !ok {
				n.session.Close()
				n = p.open(t)
			}
		}
		n.Close()
		n.left("0")
	})
}

var cases = []runCase{
	{"state is kept", func(t *testing.T, n notebook) {
		assert.Equal(t, n.value("import math\nx = 5\ndef f(y):\n    return math.pi * x * y"), "")
		assert.Equal(t, n.value("f(2)"), "31.41592653589793")
		assert.Equal(t, n.value("x = 0; f(1)"), "0.0")
		assert.Equal(t, n.value("class A: pass\nimport pickle\nisinstance(pickle.loads(pickle.dumps(A())), A), __name__"), "(True, '__main__')")
		n.ok("import os; os.chdir('/'); os.environ['KEPT'] = '1'")
		assert.Equal(t, n.value("os.getcwd() + os.environ['KEPT']"), "'/1'")
		assert.Equal(t, n.shell("pwd"), "/workspace")
	}},
	{"values", func(t *testing.T, n notebook) {
		for code, want := range map[string][2]string{
			"": {}, "\n": {}, "# only a comment": {}, "None": {}, "x = 1": {}, "1;": {"1", "1"}, "pass": {}, "print()": {},
			"2 + 2":                             {"4", "4"},
			"x = [1, None, True]\nx":            {"[1, None, True]", "[1, null, true]"},
			"'é\\n\\x00'":                       {`'é\n\x00'`, `"\u00e9\n\u0000"`},
			"'\\ud800'":                         {`'\ud800'`, `"\ud800"`},
			"{1}":                               {"{1}", ""},
			"float('nan')":                      {"nan", ""},
			"if True:\r\n    y = 7\r\ny":        {"7", "7"},
			"x = 1; x +\\\n1":                   {"2", "2"},
			"# -*- coding: latin-1 -*-\n'\xe9'": {"'é'", `"\u00e9"`},
			// A comment makes nothing else of text.
			"# coding: utf-7\n# +AAo-1": {},
			"\ufeff3":                   {"3", "3"},
		} {
			r := n.ok(code)
			assert.Equal(t, r.Value, want[0], "%q", code)
			assert.Equal(t, string(r.JSON), want[1], "%q", code)
		}
		r := n.ok("'x' * (1 << 21)")
		assert.Equal(t, len(r.Value), 1<<20+len("\n...\n"))
		assert.Assert(t, r.JSON == nil)
		assert.Equal(t, len(n.ok("'\\0' * (1 << 18)").Value), 1<<20+len("\n...\n"))
		n.ok("r = []\nr.append(r)\nr")
		n.ok("open = len = type = str = os = json = range = Exception = int = None")
		assert.Equal(t, n.value("del open, len, type, str, os, json, range, Exception, int\n5"), "5")
	}},
	{"streams", func(t *testing.T, n notebook) {
		var out, errOut strings.Builder
		r := n.run(python.Snippet{Code: "import sys\nprint(1)\nprint(2, file=sys.stderr, end='')\n3", Stdout: &out,
			Stderr: &errOut})
		assert.Equal(t, out.String(), "1\n")
		assert.Equal(t, errOut.String(), "2")
		assert.Equal(t, string(r.Stdout)+string(r.Stderr)+r.Value, "1\n23")
		assert.Equal(t, string(n.ok("import subprocess\nprint(1, flush=True)\nsubprocess.run(['echo', '2']).returncode").Stdout), "1\n2\n")
		assert.Equal(t, n.fails("input()", "EOFError").Message, "EOF when reading a line")
		n.fails("print('\\ud800')", "UnicodeEncodeError")
		assert.Equal(t, string(n.ok("sys.stdout.buffer.write(b'\\xff\\0')").Stdout), "\xff\x00")
		n.ok("old = sys.stdout\nsys.stdout = None")
		n.ok("del sys.stdout")
		n.ok("import io; sys.stdout = io.StringIO(); print('no')")
		r = n.ok("sys.stdout = old; print('yes')")
		assert.Equal(t, string(r.Stdout), "yes\n")
		places.Eventually(t, func() string {
			n.ok("import sys; old = sys.stdout")
			r := n.ended(python.Snippet{Code: "while True: print('x' * 1000)", OutputLimit: 100_000},
				execpolicy.OutcomeOutputLimit)
			if again := slow(t, r); again != "" {
				return again
			}
			assert.Equal(t, n.value("old is sys.stdout"), "True")
			return ""
		})
	}},
	{"exceptions", func(t *testing.T, n notebook) {
		n.ok("def f(x):\n    return 1 / x\n")
		e := n.fails("y = 1\nf(0)", "ZeroDivisionError")
		assert.Equal(t, e.Message, "division by zero")
		assert.Assert(t, cmp.Regexp(`^Traceback \(most recent call last\):
  File "<snippet \d+>", line 2, in <module>
    f\(0\)
(    [\^~]+
)?  File "<snippet \d+>", line 2, in f
    return 1 / x
(           [\^~ ]+
)?ZeroDivisionError: division by zero
$`, e.Traceback))
		e = n.fails("x = 1\nif x\n", "SyntaxError")
		assert.Assert(t, cmp.Regexp(`^  File "<snippet \d+>", line 2\n`, e.Traceback))
		assert.Equal(t, n.fails("import sys; sys.exit(3)", "SystemExit").Message, "3")
		n.fails("raise KeyboardInterrupt", "KeyboardInterrupt")
		n.fails("raise GeneratorExit", "GeneratorExit")
		n.fails("class E(BaseException):\n    def __str__(self): raise ValueError\nraise E", "E")
		for _, base := range []string{"BaseException", "KeyboardInterrupt"} {
			e := n.fails("class E("+base+"):\n    def __str__(self): raise self\nraise E", "E")
			assert.Equal(t, e.Message, "<exception str() failed>")
		}
		n.fails("class R:\n    def __repr__(self): raise ValueError('r')\nR()", "ValueError")
		n.fails("import no_such_module", "ModuleNotFoundError")
		n.fails("def g(): g()\ng()", "RecursionError")
		n.fails("await x", "SyntaxError")
		n.fails("\xff", "SyntaxError")
		r := n.run(python.Snippet{Code: "x = '\x00'"})
		assert.Assert(t, r.Exception != nil)
		e = n.fails("raise ValueError('x' * (1 << 21))", "ValueError")
		assert.Assert(t, len(e.Message) < 1<<20+10 && len(e.Traceback) < 1<<20+10)
		e = n.fails("def line(i): exec('\\n' * i + 'raise ValueError(i)')\ntry:\n    line(1)\nexcept ValueError "+
			"as v:\n    w = v\nraise KeyError('é') from w", "KeyError")
		assert.Assert(t, cmp.Contains(e.Traceback, "direct cause"))
		n.fails("(\n", "SyntaxError")
	}},
}

// lost runs code that is expected to cost the interpreter, and checks that the next
// snippet has a new one and says nothing of it.
func (n notebook) lost(s python.Snippet, want execpolicy.Outcome) *python.Result {
	n.t.Helper()
	n.ok("kept = 1")
	r := n.run(s)
	assert.Equal(n.t, r.Outcome, want, "%s: %s", s.Code, r.Text())
	assert.Assert(n.t, r.StateLost, s.Code)
	assert.Assert(n.t, r.Exception == nil)
	assert.Equal(n.t, n.value("'kept' in globals()"), "False", s.Code)
	return r
}

// pid returns the number of the interpreter's process.
func (n notebook) pid() string {
	n.t.Helper()
	return n.value("import os; os.getpid()")
}

// dead waits until a process is.
func (n notebook) dead(pid string) {
	n.t.Helper()
	poll.WaitOn(n.t, func(poll.LogT) poll.Result {
		if n.shell("kill -0 "+pid+" 2>/dev/null && echo lives") != "" {
			return poll.Continue("%s lives", pid)
		}
		return poll.Success()
	}, poll.WithTimeout(places.Patience))
}

// left waits until there are so many interpreters' directories: who canceled a snippet
// does not wait for the end of its interpreter.
func (n notebook) left(want string) {
	n.t.Helper()
	poll.WaitOn(n.t, func(poll.LogT) poll.Result {
		if got := n.shell("ls -d /tmp/.cofferdam-* 2>/dev/null | wc -l"); got != want {
			return poll.Continue("there are %s", got)
		}
		return poll.Success()
	}, poll.WithTimeout(places.Patience))
}

func TestEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		n := p.open(t)
		for _, c := range ends {
			ok := t.Run(c.name, func(t *testing.T) { c.do(t, notebook{n.Interpreter, n.session, t}) })
			if !ok {
				n.session.Close()
				n = p.open(t)
			}
		}
		n.Close()
		n.left("0")
	})
}

var ends = []runCase{
	{"a snippet that says it was missed runs once", func(t *testing.T, n notebook) {
		const missed = `
import os, time
folder = open('/proc/self/cmdline').read().split('\0')[-2]
open(folder + '/missed', 'w').close()
with open('/tmp/runs', 'a') as f: f.write('x')
`
		r := n.ended(python.Snippet{Timeout: time.Second, Code: missed + "try: time.sleep(4868)\nfinally: os._exit(0)"},
			execpolicy.OutcomeTimedOut)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, n.shell("cat /tmp/runs; rm /tmp/runs"), "x")
		r = n.run(python.Snippet{Code: missed + "os._exit(0)"})
		assert.Assert(t, r.Outcome == execpolicy.OutcomeExited && r.StateLost, "%v", r.Outcome)
		assert.Equal(t, n.shell("cat /tmp/runs; rm /tmp/runs"), "x")
	}},
	{"a module of the session's directory stands in for none of the library's", func(t *testing.T, n notebook) {
		n.shell("for name in types ast json os traceback; do echo 'raise Exception' >$name.py; done")
		other, err := python.Start(t.Context(), n.session, python.Options{})
		assert.NilError(t, err)
		assert.Equal(t, notebook{other, n.session, t}.value("6"), "6")
		assert.NilError(t, other.Close())
		n.shell("rm *.py; rm -rf __pycache__")
	}},
	{"what obeys keeps its state", func(t *testing.T, n notebook) {
		for _, code := range []string{
			"while True: pass", begun + "\nwhile True: pass", begun + "\ntime.sleep(4811)",
			begun + "\nsubprocess.run(['sleep', '4811'])",
			"kept = 2; " + begun + "\nfor i in range(10**12): kept = 2",
			"import threading; " + begun + "; threading.Event().wait()",
			"try:\n    " + begun + "\n    while True: pass\nfinally: kept = 2",
			"class R:\n    def __repr__(self):\n        " + begun + "\n        while True: pass\nR()",
			"class E(Exception):\n    def __str__(self):\n        " + begun + "\n        while True: pass\nraise E",
			"import os\ntry:\n    os.kill(os.getpid(), 2)\n    while True: pass\nexcept KeyboardInterrupt: kept = 2\n" +
				begun + "\nwhile True: pass",
			"import signal; signal.signal(signal.SIGCHLD, lambda *_: 0); " + begun + "\nwhile True: pass",
		} {
			places.Eventually(t, func() string {
				n.ok("kept = 1; import time, subprocess")
				var r *python.Result
				if strings.Contains(code, begun) {
					r = n.interrupt(code)
				} else {
					// A deadline does what a cancel does.
					r = n.ended(python.Snippet{Code: code, Timeout: short}, execpolicy.OutcomeTimedOut)
				}
				if again := slow(t, r); again != "" {
					return again
				}
				want := "1"
				if strings.Contains(code, "kept") {
					want = "2"
				}
				// The interrupt does not come again.
				assert.Equal(t, n.value("time.sleep(0.01); kept"), want, code)
				if strings.Contains(code, "subprocess") {
					// It may end because its child did.
					return ""
				}
				if r.Exception == nil {
					// The library has waited a second for it.
					return "nothing was heard of the exception"
				}
				assert.Equal(t, r.Exception.Type, "KeyboardInterrupt")
				if r.Exception.Traceback == "KeyboardInterrupt\n" {
					return "the interrupt came between two parts of the snippet"
				}
				assert.Assert(t, cmp.Regexp(`File "<snippet \d+>", line \d(.|\n)*\nKeyboardInterrupt\n$`,
					r.Exception.Traceback), code)
				assert.Assert(t, !strings.Contains(r.Exception.Traceback, "interrupt\n    raise"), r.Exception.Traceback)
				assert.Assert(t, !strings.Contains(r.Exception.Traceback, `"<string>"`), r.Exception.Traceback)
				return ""
			})
		}
		n.ok("import time; time.sleep(0.1)")
	}},
	{"a cancel", func(t *testing.T, n notebook) {
		places.Eventually(t, func() string {
			r := n.interrupt("kept = 1; " + begun + "\nwhile True: pass")
			if again := slow(t, r); again != "" {
				return again
			}
			assert.Equal(t, n.value("'kept' in globals()"), "True")
			return ""
		})
		r := n.interrupt("kept = 1; import signal; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN)\n" + begun + "\nwhile True: pass")
		assert.Assert(t, r.StateLost)
		assert.Equal(t, n.value("'kept' in globals()"), "False")
		n.left("1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := n.Run(ctx, python.Snippet{Code: "1"})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Assert(t, r == nil)
	}},
	{"what does not obey is killed", func(t *testing.T, n notebook) {
		for _, code := range []string{
			"import time\ntry:\n    " + begun + "\n    time.sleep(4815)\nexcept BaseException: time.sleep(4815)",
			"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); " + begun + "\nwhile True: pass",
			"import signal; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); " + begun +
				"\nwhile True: pass",
			"import os, signal; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); " + begun +
				"\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
			"import gc, os, sys\nfor r in os.listdir('/tmp'):\n    for f in 'ask', 'answer', 'reply', 'pid':\n       " +
				" try: os.unlink('/tmp/' + r + '/' + f)\n        except OSError: pass\nimport signal; signal.signal(2, " +
				"signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); " + begun + "\nwhile True: pass",
		} {
			pid := n.value("f = 1; import os; os.getpid()")
			assert.Assert(t, n.interrupt(code).StateLost, code)
			assert.Equal(t, n.value("'f' in globals()"), "False", code)
			if !strings.Contains(code, "unlink") {
				n.dead(pid)
			}
		}
		n.left("1")
		places.Eventually(t, func() string {
			pid := n.value("f = 1; import os; os.getpid()")
			if !n.ended(python.Snippet{Code: "sum(range(10**13))", Timeout: short}, execpolicy.OutcomeTimedOut).StateLost {
				return "it had not begun"
			}
			assert.Equal(t, n.value("'f' in globals()"), "False")
			n.dead(pid)
			return ""
		})

		pid := n.pid()
		n.run(python.Snippet{Code: "import os, sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nos.closerange(0, 100)"})
		// It could say how the snippet has ended, and no more.
		assert.Assert(t, n.run(python.Snippet{Code: "1"}).StateLost)
		assert.Equal(t, n.value("'f' in globals()"), "False")
		n.dead(pid)
	}},
	{"the interpreter ends", func(t *testing.T, n notebook) {
		for code, status := range map[string]int{
			"import os; os._exit(0)":                                            0,
			"import os; os._exit(7)":                                            7,
			"import os; os.kill(os.getpid(), 9)":                                137,
			"import os; os.abort()":                                             134,
			"import ctypes; ctypes.string_at(1)":                                139,
			"import os; os.execvp('sh', ['sh', '-c', 'exit 5'])":                5,
			"import os, time\nif os.fork() == 0: time.sleep(4812)\nos._exit(6)": 6,
		} {
			if strings.Contains(code, "ctypes") && n.shell("python3 -c 'import ctypes' 2>/dev/null || echo none") != "" {
				continue
			}
			r := n.lost(python.Snippet{Code: "print('printed')\n" + code}, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, status, code)
			assert.Equal(t, string(r.Stdout), "printed\n", code)
		}
		// It may also end when no snippet runs.
		dir := n.value("open('/proc/self/cmdline').read().split('\\0')[-2]")
		n.ok("import threading, os, time\ndef leave():\n    while not os.path.exists('/tmp/go'): " +
			"time.sleep(0.01)\n    os._exit(0)\nthreading.Thread(target=leave).start()")
		n.shell("touch /tmp/go; until [ -e " + dir + "/dead ]; do sleep 0.01; done; rm /tmp/go")
		r := n.run(python.Snippet{Code: "1"})
		assert.Equal(t, r.Value, "1")
		assert.Assert(t, r.StateLost)
		n.ok("1")
	}},
	{"what is done to the library's own", func(t *testing.T, n notebook) {
		const dir = "import os, glob\nd = glob.glob('/tmp/.cofferdam-*')[0]\n"
		// Whatever is in the reply's place: the host returns.
		for _, code := range []string{
			dir + "os.mkfifo(d + '/reply')", dir + "os.mkdir(d + '/reply')", dir + "os.symlink('/dev/zero', d + '/reply')",
			dir + "os.symlink('/etc/passwd', d + '/reply')", dir + "os.rename(d, d + '-moved')",
			dir + "import shutil; shutil.rmtree(d)",
			dir + "import shutil; shutil.rmtree(d); open(d, 'w')", dir + "import shutil; shutil.rmtree(d); os.symlink(d, d)",
			dir + "os.unlink(d + '/answer'); open(d + '/answer', 'w')", dir + "os.truncate(d + '/ask', 0)",
			dir + "open(d + '/answer', 'wb').write(b'x 0\\n' * 100)",
			"import os, sys\nos.kill(-1, 9)",
			"import json; json.dump = json.dumps = None",
			"import sys, builtins; sys.modules.clear(); builtins.__dict__.clear()",
			killRun,
		} {
			snippet := python.Snippet{Code: code}
			for _, silent := range []string{"rename", "rmtree", "kill(-1"} {
				if strings.Contains(code, silent) {
					// Nothing says any more that it has ended.
					snippet.Timeout = 2 * short
				}
			}
			r, err := n.Run(t.Context(), snippet)
			assert.Assert(t, r != nil, "%s: %v", code, err)
			// One after it may see the end of it.
			if r, err = n.Run(t.Context(), python.Snippet{Code: "2"}); err != nil || r.Value != "2" {
				r, err = n.Run(t.Context(), python.Snippet{Code: "2"})
			}
			assert.NilError(t, err, code)
			assert.Equal(t, r.Value, "2", code)
			n.shell("rm -rf /tmp/.cofferdam-*-moved")
			assert.Equal(t, n.shell("ls -d /tmp/.cofferdam-* | wc -l"), "1", code)
		}
	}},
	{"the shell is lost between two snippets", func(t *testing.T, n notebook) {
		n.ok("x = 5")
		n.shell("(until [ -e /tmp/go ]; do sleep 0.01; done; kill -9 $$; " + enginetest.LossTold + "; >/tmp/done) >/dev/null 2>&1 &")
		assert.NilError(t, n.session.WriteFile(t.Context(), "/tmp/go", nil, 0o600))
		enginetest.Wait(t, func() bool {
			_, err := n.session.Stat(t.Context(), "/tmp/done")
			return err == nil
		}, "the shell lives")
		r := n.run(python.Snippet{Code: "x / 0"})
		assert.Assert(t, r.Exception != nil && r.Exception.Type == "ZeroDivisionError", "%+v %+v", r.Result, r.Exception)
		assert.Assert(t, r.Result.StateLost && !r.StateLost)
		assert.Equal(t, n.value("x"), "5")
		n.shell("rm /tmp/go")
	}},
	{"the interpreter and the shell are lost between two snippets", func(t *testing.T, n notebook) {
		pid := n.pid()
		n.shell("(until [ -e /tmp/go ]; do sleep 0.01; done; seq 100 >&2; kill -9 " + pid + " $$; " + enginetest.LossTold + "; >/tmp/both) &")
		assert.NilError(t, n.session.WriteFile(t.Context(), "/tmp/go", nil, 0o600))
		enginetest.Wait(t, func() bool {
			_, err := n.session.Stat(t.Context(), "/tmp/both")
			return err == nil
		}, "they live")
		r := n.run(python.Snippet{Code: "6 * 7"})
		assert.Equal(t, r.Value, "42")
		assert.Assert(t, r.Result.StateLost && r.StateLost)
		assert.Assert(t, r.BackgroundBytes >= 292)
		n.shell("rm /tmp/go")
	}},
	{"the interpreter and the shell are lost, and the next one can't start", func(t *testing.T, n notebook) {
		n.shell(`printf '#!/bin/sh\nexec python3 "$@"\n' >/tmp/program; chmod +x /tmp/program`)
		p, err := python.Start(t.Context(), n.session, python.Options{Program: "/tmp/program"})
		assert.NilError(t, err)
		defer p.Close()
		n = notebook{p, n.session, t}
		pid := n.pid()
		n.shell("(until [ -e /tmp/go ]; do sleep 0.01; done; seq 100 >&2; kill -9 " + pid + " $$; " + enginetest.LossTold + "; >/tmp/neither) &")
		n.shell("mv /tmp/program /tmp/away")
		assert.NilError(t, n.session.WriteFile(t.Context(), "/tmp/go", nil, 0o600))
		enginetest.Wait(t, func() bool {
			_, err := n.session.Stat(t.Context(), "/tmp/neither")
			return err == nil
		}, "they live")
		_, err = p.Run(t.Context(), python.Snippet{Code: "6 * 7"})
		assert.ErrorIs(t, err, python.ErrStart)
		n.shell("mv /tmp/away /tmp/program; rm /tmp/go")
		r := n.run(python.Snippet{Code: "6 * 7"})
		assert.Equal(t, r.Value, "42")
		assert.Assert(t, r.Result.StateLost && r.StateLost)
		assert.Assert(t, r.BackgroundBytes >= 292)
	}},
	{"the interpreter, who waits for it and the shell are lost between two snippets", func(t *testing.T, n notebook) {
		_, err := n.session.Run(t.Context(), execpolicy.Command{Argv: []string{"sh", "-c", "kill -9 -1"}})
		assert.NilError(t, err)
		r := n.run(python.Snippet{Code: "6 * 7"})
		assert.Equal(t, r.Value, "42", r.Text())
		assert.Assert(t, r.StateLost)
	}},
	{"the interpreter's number is replaced", func(t *testing.T, n notebook) {
		n.shell("sleep 4815 & echo $! >/tmp/bystander")
		r := n.ended(python.Snippet{Code: "import glob, signal\nwith open(glob.glob('/tmp/.cofferdam-*/pid')[0], 'w') as f: f.write('-1  .\\n')\n" +
			"signal.signal(2, signal.SIG_IGN)\nsignal.signal(15, signal.SIG_IGN)\nwhile True: pass", Timeout: short}, execpolicy.OutcomeTimedOut)
		assert.Assert(t, r.StateLost)
		assert.Equal(t, n.shell("kill -9 $(cat /tmp/bystander) && echo it lived; rm /tmp/bystander"), "it lived")
	}},
	{"what runs a snippet is replaced", func(t *testing.T, n notebook) {
		const at = "import os, glob\nf = glob.glob('/tmp/.cofferdam-*')[0] + '/run'\nos.unlink(f)\n"
		for code, want := range map[string]execpolicy.Outcome{
			at: execpolicy.OutcomeExited, at + "open(f, 'w').write('exit 3')": execpolicy.OutcomeExited,
			at + "os.mkfifo(f)": execpolicy.OutcomeTimedOut, at + "os.mkdir(f)": execpolicy.OutcomeExited,
			at + "open(f, 'w').write('while :; do :; done')": execpolicy.OutcomeTimedOut,
		} {
			n.ok(code)
			timeout := time.Duration(0)
			if want == execpolicy.OutcomeTimedOut {
				timeout = short
			}
			r := n.ended(python.Snippet{Code: "1", Timeout: timeout}, want)
			assert.Assert(t, r.StateLost && r.Value == "" && r.Exception == nil, code)
			assert.Assert(t, !r.Result.StateLost, code)
			assert.Equal(t, n.value("2"), "2")
		}
		n.left("1")
	}},
	{"marks that are faked", func(t *testing.T, n notebook) {
		const tag = "import os, sys\nf = sys._getframe()\nwhile 'answer' not in f.f_locals: f = f.f_back\n" +
			"tag, out = f.f_locals['tag'], f.f_locals['out']\n"
		// What a snippet says of itself in this way is not longer than a mark, and what
		// is no mark is output.
		r := n.ok(tag + "tag")
		assert.Equal(t, len(r.Value), 15)
		r = n.ok(tag + "s = tag + 'e 0 ' + 'x' * 40000 + tag + '\\n'\nprint(s, end='')\nlen(s)")
		assert.Equal(t, fmt.Sprint(len(r.Stdout)), r.Value)
		r = n.ok(tag + "print(tag[:9], end='')\n'x' * 5000")
		assert.Equal(t, len(r.Stdout), 9)
		assert.Equal(t, len(r.Value), 5002)
		r = n.ok(tag + "os.set_blocking(1, False)\nprint('x', end='')\n7")
		assert.Equal(t, string(r.Stdout)+r.Value, "x7")
		r, err := n.Run(t.Context(), python.Snippet{Code: tag + "print(tag + 'e 0 x' + tag)\nos.close(out)"})
		assert.ErrorIs(t, err, python.ErrReply)
		assert.Assert(t, r.StateLost && r.Value == "")
		assert.Equal(t, string(r.Stdout), "")
		assert.Equal(t, string(n.ok("import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1); print(5)").Stdout), "")
		assert.Equal(t, n.value("9"), "9")
		// Marks without an end are ended by the limit of the output.
		n.ended(python.Snippet{
			Code:        tag + "while True: os.write(out, (tag + 'b' + 'x' * 200 + '\\n').encode() * 15)",
			OutputLimit: 100_000, Timeout: time.Hour,
		}, execpolicy.OutcomeOutputLimit)
		n.ok("import os")
		// One that can't reach the stdout any more stores its reply.
		r = n.ok(tag + "os.close(out)\n7")
		assert.Equal(t, r.Value, "7")
		assert.Equal(t, n.value("8"), "8")
	}},
	{"replies that are faked", func(t *testing.T, n notebook) {
		const fake = `
import os, glob, sys
d = glob.glob('/tmp/.cofferdam-*')[0]
def fake(text):
    f = sys._getframe()
    while 'answer' not in f.f_locals: f = f.f_back
    tag = f.f_locals['tag'].encode()
    f = open(d + '/reply', 'wb'); f.write(text.replace(b'TAG', tag)); f.close()
    os.write(os.open(d + '/answer', os.O_RDWR), tag + b' 0\n')
    # The true reply is not to come before the false one was read.
    import time
    while not os.path.exists('/tmp/go'): time.sleep(0.01)
`
		for text, words := range map[string]string{
			`b'x'`:                             "invalid character",
			`b'{"tag": "TAG", "json": "NaN"}'`: "not JSON",
			`b' ' * (45 << 20)`:                "larger than the limit",
		} {
			r, err := n.Run(t.Context(), python.Snippet{Code: fake + "fake(" + text + ")"})
			assert.ErrorIs(t, err, python.ErrReply, text)
			assert.ErrorContains(t, err, words)
			assert.Assert(t, r.StateLost && r.Value == "" && r.JSON == nil)
			assert.Equal(t, n.value("3"), "3")
		}
		r, err := n.Run(t.Context(), python.Snippet{Code: fake + "fake(b'{\"tag\": \"TAG\", \"problem\": \"\\\\u001b[2J\"}')"})
		assert.ErrorIs(t, err, python.ErrNoRoom)
		assert.ErrorContains(t, err, `\x1b`)
		assert.Assert(t, !r.StateLost)
		n.shell("touch /tmp/go")
		assert.Equal(t, n.value("4"), "4")
		n.shell("rm /tmp/go")
	}},
	{"copies and what is left in the background", func(t *testing.T, n notebook) {
		r := n.ok("import os, sys\nc = os.fork()\nif c: os.waitpid(c, 0)\nprint('parent' if c else 'child')\nbool(c)")
		assert.Equal(t, string(r.Stdout), "child\nparent\n")
		assert.Equal(t, r.Value, "True")
		r = n.ok("c = os.fork()\nif c: s = os.waitpid(c, 0)[1]\nelse: 1 / 0\ns")
		assert.Equal(t, r.Value, "256")
		assert.Assert(t, cmp.Contains(string(r.Stderr), "ZeroDivisionError"))
		n.ok("import threading, time\nticks = 0\ndef tick():\n    global ticks\n    while True: ticks += 1; " +
			"time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()")
		assert.Equal(t, n.value("old = ticks\nwhile ticks == old: pass\nTrue"), "True")
		n.ok("import subprocess; bg = subprocess.Popen(['sleep', '4813'])")
		assert.Equal(t, n.value("bg.poll() is None"), "True")
		n.ok("bg.kill()")
		n.ok("def flood():\n    while True: sys.stdout.write('x' * 1000)\nthreading.Thread(target=flood, daemon=True).start()")
		assert.Equal(t, n.value("4"), "4")
		n.lost(python.Snippet{Code: "os._exit(1)"}, execpolicy.OutcomeExited)
		n.ok("import atexit, sys; atexit.register(print, 'never')")
	}},
	{"no room is left", func(t *testing.T, n notebook) {
		n.ok("kept = 1")
		n.shell("rm /tmp/.cofferdam-*/spare; dd if=/dev/zero of=/tmp/full bs=65536; dd if=/dev/zero of=/tmp/full bs=1 oflag=append conv=notrunc; :")
		r, err := n.Run(t.Context(), python.Snippet{Code: "'x' * 100000"})
		if n.shell("df -P /tmp | tail -1 | grep -q 100% && echo full") == "full" {
			assert.ErrorIs(t, err, python.ErrNoRoom)
			assert.ErrorContains(t, err, "No space left")
			assert.Assert(t, !r.StateLost)
		}
		n.shell("rm /tmp/full")
		assert.Equal(t, n.value("kept"), "1")
	}},
}

// A copy of the session's shell talks with the interpreter, whatever was done to the
// shell.
func TestUnusualShells(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := places.Open(t, p.Policy, p.Spec)
		for _, shell := range []string{"sh", "bash", "dash", "busybox sh"} {
			words := strings.Fields(shell)
			if (notebook{session: s, t: t}).shell("command -v "+words[0]) == "" {
				continue
			}
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				p := p
				p.Spec.Command = words
				n := p.open(t)
				for _, script := range []string{
					"read() { :; }; exit() { :; }; trap() { :; }; printf() { :; }; kill() { :; }; same() { :; }",
					"alias read=false printf=false exit=true set=false trap=false kill=false same=false",
					"readonly dir=1 tag=1 word=1 status=1 pid=1 line=1 stat=1 start=1 failed=1",
					"IFS=0123456789; \\command set -eu; \\command set -f", "\\command set +e; \\command set -C",
					"\\command trap '' TERM INT; \\command trap 'echo left' EXIT",
					`case ${BASH_VERSION+b} in b) \command set -ET; \command trap '[ -z "${cf_dir-}" ] || echo trapped >&3' DEBUG RETURN ERR ;; esac`,
					`case ${BASH_VERSION+b} in b) \command trap - DEBUG RETURN ERR; shopt -s expand_aliases ;; esac; alias same='echo x'`,
					"\\command set -xv", "exec 3<&0 4<&0", "unset IFS; readonly IFS",
				} {
					n.shell(script)
					for _, code := range []string{
						"6 * 7", "4811\n" + strings.Repeat("#é'\"$x\\\n", 50) + "6 * 7", "6 * 7" + strings.Repeat("\n#", 5000),
					} {
						r := n.ok(code)
						assert.Equal(t, r.Value, "42", script)
						assert.Equal(t, string(r.Stdout)+string(r.Stderr), "", script)
					}
				}
				places.Eventually(t, func() string {
					n.ok("kept = 1")
					if again := slow(t, n.interrupt(begun+"\nwhile True: pass")); again != "" {
						return again
					}
					assert.Equal(t, n.value("kept"), "1")
					return ""
				})
				n.lost(python.Snippet{Code: "import os; os._exit(9)"}, execpolicy.OutcomeExited)
				r := n.run(python.Snippet{Code: killRun})
				assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled, r.Text())
			})
		}
	})
}

// A told context tells that a command of the session was asked for, whose turn may not
// have come.
type told struct {
	context.Context
	tell func()
}

func (c told) Value(key any) any {
	if _, ok := key.(*bool); ok { // package ours has such keys
		c.tell()
	}
	return c.Context.Value(key)
}

func TestSessions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("many at once, in order", func(t *testing.T) {
			t.Parallel()
			n := p.open(t)
			n.ok("x = 0")
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					_, err := n.Run(t.Context(), python.Snippet{Code: "x += 1"})
					assert.Check(t, err)
				})
			}
			all.Wait()
			assert.Equal(t, n.value("x"), "20")
			other, err := python.Start(t.Context(), n.session,
				python.Options{Program: "python3", Dir: "/", Env: map[string]string{"ONLY": "é", "TMPDIR": "/workspace"}})
			assert.NilError(t, err)
			two := notebook{other, n.session, t}
			assert.Equal(t, two.value("import os; os.getcwd(), os.environ['ONLY'], 'x' in globals()"), "('/', 'é', False)")
			assert.Equal(t, n.value("x"), "20")
		})
		t.Run("a restart", func(t *testing.T) {
			t.Parallel()
			n := p.open(t)
			n.ok("x = 1")
			assert.NilError(t, n.session.Restart(t.Context()))
			r := n.run(python.Snippet{Code: "'x' in globals()"})
			assert.Equal(t, r.Value, "False")
			assert.Assert(t, r.StateLost)
			n.ok("1")
		})
		t.Run("a restart that is waited for", func(t *testing.T) {
			t.Parallel()
			p := p
			restarts, goOn := make(chan struct{}), make(chan struct{})
			first := true
			p.Spec.Prepare = func(context.Context, *execpolicy.Session) error {
				if !first {
					restarts <- struct{}{}
					<-goOn
				}
				first = false
				return nil
			}
			n := p.open(t)
			for _, lives := range []bool{true, false} {
				n.ok("kept = 1; import os")
				if !lives {
					assert.Assert(t, n.run(python.Snippet{Code: "os._exit(1)"}).StateLost)
				}
				var all sync.WaitGroup
				all.Go(func() { assert.Check(t, n.session.Restart(t.Context())) })
				<-restarts
				ctx := told{t.Context(), sync.OnceFunc(func() { goOn <- struct{}{} })}
				r, err := n.Run(ctx, python.Snippet{Code: "print('kept' in globals())\n7"})
				all.Wait()
				assert.NilError(t, err)
				assert.Equal(t, string(r.Stdout)+r.Value, "False\n7", r.Text())
				assert.Equal(t, r.StateLost, lives)
				n.ok("1")
			}
		})
		t.Run("closed", func(t *testing.T) {
			t.Parallel()
			n := p.open(t)
			pid := n.pid()
			done := make(chan error)
			go func() {
				_, err := n.Run(t.Context(), python.Snippet{Code: "print(1, flush=True)\nwhile True: pass",
					Stdout: places.OnWrite(func() { go n.Close() })})
				done <- err
			}()
			assert.ErrorIs(t, <-done, python.ErrClosed)
			n.Close()
			for range 50 {
				_, err := n.Run(t.Context(), python.Snippet{Code: "1"})
				assert.ErrorIs(t, err, python.ErrClosed)
				assert.Assert(t, !errors.Is(err, python.ErrStart), "%v", err)
			}
			n.dead(pid)
			n.left("0")
			n.session.Close()
			_, err := python.Start(t.Context(), n.session, python.Options{})
			assert.ErrorIs(t, err, python.ErrStart)
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
		})
		t.Run("the session closed meanwhile", func(t *testing.T) {
			t.Parallel()
			n := p.open(t)
			_, err := n.Run(t.Context(), python.Snippet{Code: "print(1, flush=True)\nwhile True: pass",
				Stdout: places.OnWrite(func() { go n.session.Close() })})
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			_, err = n.Run(t.Context(), python.Snippet{Code: "1"})
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			assert.NilError(t, n.Close())
		})
		t.Run("starts that fail", func(t *testing.T) {
			t.Parallel()
			n := p.open(t)
			for words, o := range map[string]python.Options{
				"nosuch is not in the container": {Program: "nosuch"}, "did not start": {Program: "true"},
				"can't be entered": {Dir: "/no/such"},
				"No such file":     {Env: map[string]string{"TMPDIR": "/no/such"}},
			} {
				_, err := python.Start(t.Context(), n.session, o)
				assert.ErrorIs(t, err, python.ErrStart)
				assert.ErrorContains(t, err, words)
			}
			for _, o := range []python.Options{{Program: "-x"}, {Env: map[string]string{"TMPDIR": "x"}},
				{Env: map[string]string{"a b": "x"}}} {
				_, err := python.Start(t.Context(), n.session, o)
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			}
			_, err := n.Run(t.Context(), python.Snippet{Code: strings.Repeat("#", execpolicy.MaxStdin+1)})
			assert.ErrorIs(t, err, execpolicy.ErrStdinTooLong)
			assert.Equal(t, n.shell("ls -d /tmp/.cofferdam-* | wc -l"), "1")
		})
		t.Run("memory", func(t *testing.T) {
			t.Parallel()
			if p.Policy.Image == "" {
				leftout.Note(t, "the fake engine has no limits")
				return
			}
			n := p.open(t)
			places.Eventually(t, func() string {
				n.ok("kept = 1")
				r := n.run(python.Snippet{Code: "x = []\nwhile True: x.append(bytes(1 << 20))"})
				if r.Outcome == execpolicy.OutcomeExited && r.ExitCode == 137 && r.OOMAfter < 0 {
					return "the kernel's count came too late"
				}
				assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled, r.Text())
				assert.Assert(t, r.StateLost && r.Exception == nil)
				assert.Equal(t, n.value("'kept' in globals()"), "False")
				return ""
			})
		})
	})
}

// Nothing there makes a process namespace: only the interpreter itself may be signalled.
func TestHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		leftout.Skip(t, "there is no /proc")
	}
	enginetest.Check(t)
	temp := t.TempDir()
	open := func() notebook {
		s := places.Open(t, execpolicy.HostPolicy{}, execpolicy.Spec{Workspace: t.TempDir()})
		py, err := python.Start(t.Context(), s, python.Options{Env: map[string]string{"TMPDIR": temp}})
		assert.NilError(t, err)
		return notebook{py, s, t}
	}
	// What does not obey in time costs the session here, and leaves the interpreter's
	// directory.
	var n notebook
	places.Eventually(t, func() string {
		n = open()
		n.ok("kept = 1; import os")
		r, _ := n.Run(t.Context(), python.Snippet{Code: "while True: pass", Timeout: short})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		if r.StateLost {
			n.session.Close()
			left, err := os.ReadDir(temp)
			assert.NilError(t, err)
			for _, dir := range left {
				assert.NilError(t, os.RemoveAll(filepath.Join(temp, dir.Name())))
			}
			return fmt.Sprintf("it went as far as %v", r.Escalation)
		}
		assert.Equal(t, n.value("kept"), "1")
		return ""
	})

	// A process that has the interpreter's number, but is another, lives on.
	other := exec.Command("sleep", "4814")
	assert.NilError(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	r := n.run(python.Snippet{Code: fmt.Sprintf("import glob\nf = glob.glob(%q + '/.coff*/pid')[0]\ns = "+
		"open(f).read().split()\n"+
		"open(f, 'w').write('%d ' + s[1] + '\\n')\nos._exit(3)", temp, other.Process.Pid)})
	assert.Assert(t, r.StateLost)
	n.ok("1")
	n.Close()
	n.Close()
	left, err := os.ReadDir(temp)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
	assert.NilError(t, other.Process.Signal(syscall.Signal(0)))
	assert.Equal(t, n.shell("kill -0 "+strconv.Itoa(other.Process.Pid)+" && cut -d ' ' -f 3 /proc/"+
		strconv.Itoa(other.Process.Pid)+"/stat"), "S")
}

// Each example prints what it says, on each engine.
func TestExamples(t *testing.T) {
	// The interpreter may obey its interrupt too late.
	places.Examples(t, &sandbox, nil, []places.Example{
		{Name: "Example", Run: Example,
			Want: "\nr is 2\n{'area': 12.57}{\"area\": 12.57}\n\nZeroDivisionError - division by zero\n"},
		{Name: "Interpreter", Run: ExampleInterpreter,
			Want: "exited  state lost: false\ntimed out  state lost: false\nexited 42 state lost: false\n", Late: true},
		{Name: "Options", Run: ExampleOptions, Want: "('/tmp', 'test')\n"},
		{Name: "Snippet", Run: ExampleSnippet, Want: "epoch 0\nepoch 1\nepoch 2\nexited\n"},
		{Name: "Result", Run: ExampleResult, Want: "{'mean': 2.5, 'outliers': None} 2.5 <nil>\n"},
		{Name: "Exception", Run: ExampleException,
			Want: "Fix this ValueError, please:\nTraceback (most recent call last):\n  File \"<snippet 1>\", line " +
				"2, in <module>\n" +
				"    int(price)\nValueError: invalid literal for int() with base 10: 'three'\n"},
	})
}

// A value that Go can't decode costs no interpreter.
func TestDeepJSON(t *testing.T) {
	const most = 10_000
	for depth, want := range map[int]int{most: 2 * most, most + 1: 0} {
		text := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		r := &python.Result{}
		assert.NilError(t, python.Decode(r, []byte(`{"value":"x","json":"`+text+`"}`), ""))
		assert.Equal(t, r.Value, "x")
		assert.Equal(t, len(r.JSON), want)
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"value":"1","json":"1"}`, `{"json":"NaN"}`,
		`{"exception":{"type":"E"}}`, `{"problem":"x"}`, "[]", "null", `{"tag":"another","value":"1"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &python.Result{}
		if err := python.Decode(r, data, ""); err != nil {
			assert.Assert(t, r.Value == "" && r.JSON == nil && r.Exception == nil)
			assert.Assert(t, errors.Is(err, python.ErrReply) || errors.Is(err, python.ErrNoRoom) ||
				errors.Is(err, fs.ErrNotExist))
			return
		}
		assert.Assert(t, r.JSON == nil || json.Valid(r.JSON))
	})
}
