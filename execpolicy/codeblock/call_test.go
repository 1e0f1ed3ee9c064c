package codeblock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// noCalls checks that no call has left a directory, as soon as those that were canceled
// had their turn.
func (s session) noCalls() {
	s.t.Helper()
	poll.WaitOn(s.t, func(poll.LogT) poll.Result {
		if left := s.ok("ls -d /tmp/.cofferdam-* 2>/dev/null; :"); left != "" {
			return poll.Continue("left: %s", left)
		}
		return poll.Success()
	}, poll.WithTimeout(places.Patience))
}

// value calls code that is expected to return a value.
func (s session) value(b codeblock.Block, input any) string {
	s.t.Helper()
	r, err := codeblock.Call(s.t.Context(), s.Session, b, input, codeblock.Options{})
	assert.NilError(s.t, err)
	assert.Equal(s.t, r.ExitCode, 0, r.Text())
	return string(r.Value)
}

// bad calls code whose result is expected to be refused.
func (s session) bad(b codeblock.Block, o codeblock.Options, want error, words string) {
	s.t.Helper()
	r, err := codeblock.Call(s.t.Context(), s.Session, b, nil, o)
	assert.ErrorIs(s.t, err, want, b.Code)
	assert.ErrorContains(s.t, err, words)
	assert.Equal(s.t, r.Outcome, execpolicy.OutcomeExited, b.Code)
	assert.Equal(s.t, r.ExitCode, 0, b.Code)
	assert.Assert(s.t, r.Value == nil)
}

const echo = "result = INPUT_DATA"

func TestCall(t *testing.T) { runCases(t, callCases) }

var callCases = []runCase{
	{"the tutorial's", func(t *testing.T, s session) {
		const code = `
# Access input data
numbers = INPUT_DATA['numbers']
# Process
result = {
'sum': sum(numbers),
'average': sum(numbers) / len(numbers),
'count': len(numbers)
}
`
		type stats struct{ Sum, Average, Count float64 }
		v, r, err := codeblock.CallAs[stats](t.Context(), s.Session, python(code),
			map[string]any{"numbers": []int{1, 2, 3, 4, 5}},
			codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, v, stats{15, 3, 5})
		assert.Equal(t, r.Program, "python3")
		assert.Equal(t, r.Language, "python")
		assert.Assert(t, r.Duration > 0)
		assert.Equal(t, string(r.Stdout)+string(r.Stderr), "")
		s.noCalls()
	}},
	{"values survive", func(t *testing.T, s session) {
		values := []string{
			`null`, `true`, `false`, `0`, `-0.5`, `1e+300`, `12345678901234567890123`, `""`, `[]`, `{}`, `[true,false,null]`,
			`"'''\"\"\"\\\n\t\u0000"`, `"é 日本 🚢 \u2028"`, `"\ud800"`, `{"":{"a b":[{"é":null}]}}`,
			`"__OUTPUT_START__\n1\n__OUTPUT_END__"`,
			`"$(touch x) ` + "`touch x`" + ` %s {0}"`, strings.Repeat("[", 900) + strings.Repeat("]", 900),
			strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900),
		}
		for _, value := range values {
			got := s.value(python(echo), json.RawMessage(value))
			assert.Equal(t, plain(t, got), plain(t, value))
			if !strings.Contains(value, `\u`) {
				assert.Equal(t, got, value)
			}
		}
		// To a program that copies a file they are all one.
		for _, value := range []string{"0", "[" + strings.Join(values, ",") + "]"} {
			assert.Equal(t, plain(t, s.value(sh(`cat "$COFFERDAM_INPUT" >"$COFFERDAM_RESULT"`), json.RawMessage(value))),
				plain(t, value))
		}
		assert.Equal(t, s.value(python(echo), nil), "null")
		assert.Equal(t, s.value(python(echo), []any{1, "x", nil, map[string]bool{"<a>": true}}), `[1,"x",null,{"<a>":true}]`)
	}},
	{"what is printed is output", func(t *testing.T, s session) {
		r, err := codeblock.Call(t.Context(), s.Session, python(`
import sys
print("__OUTPUT_START__\n666\n__OUTPUT_END__")
print('{"result": 666}', file=sys.stderr)
result = 1
print("result = 666", flush=True)
`), nil, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, string(r.Value), "1")
		assert.Equal(t, string(r.Stdout), "__OUTPUT_START__\n666\n__OUTPUT_END__\nresult = 666\n")
		assert.Equal(t, string(r.Stderr), "{\"result\": 666}\n")
		s.bad(python(`print("__OUTPUT_START__\n666\n__OUTPUT_END__")`), codeblock.Options{}, codeblock.ErrNoResult,
			"left none")
		s.bad(sh(`echo '__OUTPUT_START__'; echo 666; echo '__OUTPUT_END__'`), codeblock.Options{},
			codeblock.ErrNoResult, "left none")
	}},
	{"no result, or a bad one", func(t *testing.T, s session) {
		for code, words := range map[string]string{
			"result = {1}":                       "TypeError: Object of type set is not JSON serializable",
			"result = [float('nan')]":            "ValueError: Out of range float values are not JSON compliant",
			"result = float('inf')":              "Out of range",
			"result = b'x'":                      "type bytes",
			"result = {(1, 2): 3}":               "TypeError: keys must be",
			"result = []; result.append(result)": "Circular reference",
			"result = 'x' * (80 << 20)":          "No space left on device",
			"result = []\nfor i in range(100000): result = [result]": "RecursionError",
			"import sys; result = sys.exit; sys.exit(0)":             "not JSON serializable",
			"class E(Exception):\n    def __str__(self): return 'a\\x1b[2Jb\\n' * 1000\nclass D(dict):\n    def " +
				"items(self): raise E()\n" +
				"result = D(a=1)": "E: a [2Jb a",
		} {
			s.bad(python(code), codeblock.Options{}, codeblock.ErrBadResult, words)
		}
		s.bad(python("x = 1"), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.bad(python("result = 1; del result"), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.bad(python("import os; result = 1; os._exit(0)"), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.bad(python(""), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.bad(python("result = 'x' * 100"), codeblock.Options{ResultLimit: 101}, execpolicy.ErrTooLarge, "101 bytes")
		s.bad(sh(`head -c 40000000 /dev/zero >"$COFFERDAM_RESULT"`), codeblock.Options{ResultLimit: 1 << 20},
			execpolicy.ErrTooLarge, "limit")
		s.bad(sh(`ln -s /dev/zero "$COFFERDAM_RESULT"`), codeblock.Options{}, codeblock.ErrBadResult, "not a regular file")
		for code, words := range map[string]string{
			`printf '{"a":' >"$COFFERDAM_RESULT"`:                                 "unexpected end of JSON input",
			`: >"$COFFERDAM_RESULT"`:                                              "unexpected end of JSON input",
			`echo NaN >"$COFFERDAM_RESULT"`:                                       "invalid character 'N'",
			`echo '1 2' >"$COFFERDAM_RESULT"`:                                     "after top-level value",
			`printf '"\377"' >"$COFFERDAM_RESULT"`:                                "not UTF-8",
			`mkfifo "$COFFERDAM_RESULT"`:                                          "not a regular file",
			`mkdir "$COFFERDAM_RESULT"`:                                           "not a regular file",
			`echo 1 >"$COFFERDAM_RESULT"; chmod 0 "$COFFERDAM_RESULT"`:            "permission denied",
			`awk 'BEGIN { while (i++ < 20000) printf "[" }' >"$COFFERDAM_RESULT"`: "exceeded max depth",
		} {
			s.bad(sh(code), codeblock.Options{}, codeblock.ErrBadResult, words)
		}
		s.bad(sh(`rm -rf "${COFFERDAM_RESULT%/*}"`), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.bad(sh(`(until [ -e go ]; do sleep 0.05; done; echo 1 >"$COFFERDAM_RESULT") >/dev/null 2>&1 &`),
			codeblock.Options{}, codeblock.ErrNoResult, "left none")
		s.ok("touch go")
		assert.Equal(t, s.value(sh(`printf ' [1] \n\n' >"$COFFERDAM_RESULT"`), nil), "[1]")
		s.noCalls()
	}},
	{"the code is what it says, whatever encoding it names", func(t *testing.T, s session) {
		// In UTF-7 the comment is a newline and a statement.
		assert.Equal(t, s.value(python("# coding: utf-7\nresult = 0\n# +AAo-result = 1"), nil), "0")
		assert.Equal(t, s.value(python("\ufeff# coding: latin-1\nresult = 'é'"), nil), `"é"`)
		assert.Equal(t, s.value(python("# coding: latin-1\nresult = '\xe9'"), nil), `"é"`)
	}},
	{"a program that fails is a result", func(t *testing.T, s session) {
		for code, status := range map[string]int{
			"result = 1; import sys; sys.exit(3)":     3,
			"result = 1; 1 / 0":                       1,
			"result = 1; import sys; sys.exit('why')": 1,
			"(": 1,
		} {
			r, err := codeblock.Call(t.Context(), s.Session, python(code), nil, codeblock.Options{})
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.ExitCode, status, r.Text())
			assert.Assert(t, r.Value == nil)
			_, r, err = codeblock.CallAs[int](t.Context(), s.Session, python(code), nil, codeblock.Options{})
			assert.ErrorIs(t, err, codeblock.ErrNoResult)
			assert.ErrorContains(t, err, fmt.Sprintf("exited with %d", status))
			assert.Equal(t, r.ExitCode, status)
		}
		_, killed, err := codeblock.CallAs[int](t.Context(), s.Session,
			python("result = 1; import os; os.kill(os.getpid(), 9)"), nil, codeblock.Options{})
		assert.ErrorIs(t, err, codeblock.ErrNoResult)
		assert.ErrorContains(t, err, "signaled")
		assert.Equal(t, killed.Outcome, execpolicy.OutcomeSignaled)
		assert.Equal(t, killed.Signal, 9)
		assert.Equal(t, s.value(python("import sys; result = 1; sys.exit(0)"), nil), "1")
		r, err := codeblock.Call(t.Context(), s.Session, sh(`echo 1 >"$COFFERDAM_RESULT"; exit 5`), nil, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, r.ExitCode, 5)
		assert.Assert(t, r.Value == nil)
		_, _, err = codeblock.CallAs[int](t.Context(), s.Session, python("result = 'x'"), nil, codeblock.Options{})
		assert.ErrorIs(t, err, codeblock.ErrBadResult)
		assert.ErrorContains(t, err, "cannot unmarshal string")
		s.noCalls()
	}},
	{"a traceback shows the code and nothing else", func(t *testing.T, s session) {
		r, err := codeblock.Call(t.Context(), s.Session, python("def f():\n    no_such_name\n\nf()\n"), nil,
			codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, strings.ReplaceAll(string(r.Stderr), "    ^^^\n", ""), `Traceback (most recent call last):
  File "<code>", line 4, in <module>
    f()
  File "<code>", line 2, in f
    no_such_name
NameError: name 'no_such_name' is not defined
`)
		r, err = codeblock.Call(t.Context(), s.Session, python("x = 1\nif x\n"), nil, codeblock.Options{})
		assert.NilError(t, err)
		assert.Assert(t, cmp.Contains(string(r.Stderr), `File "<code>", line 2`))
		assert.Assert(t, cmp.Contains(string(r.Stderr), "SyntaxError"))
	}},
	{"the code is a program as any", func(t *testing.T, s session) {
		s.ok("echo 'raise Exception' >json.py; cp json.py types.py; echo 'def area(): return 6' >shapes.py")
		assert.Equal(t, s.value(python("import shapes, json; result = [shapes.area(), hasattr(json, 'dumps')]"), nil),
			"[6,true]")
		assert.Equal(t, s.value(python("import sys; result = [__name__, sys.argv, sys.stdin.read(), sorted(k for "+
			"k in globals() if k[0] != '_')]"), nil),
			`["__main__",["-"],"",["INPUT_DATA","sys"]]`)
		assert.Equal(t, s.value(python("import pickle\nclass A: pass\nresult = isinstance(pickle.loads(pickle.dumps(A())), A)"), nil), "true")
		assert.Equal(t, s.value(python("import atexit, os, threading, time\natexit.register(print, 'bye')\nif "+
			"os.fork() == 0: result = 2\nelse: os.wait(); result = 1"), nil), "1")
		assert.Equal(t, s.value(python("import json, sys\nresult = 1\njson.dumps = None; sys.modules.clear(); "+
			"sys.stdout.close()"), nil), "1")
		assert.Equal(t, s.value(python("open = len = type = str = os = json = max = run = format = range = "+
			"Exception = None; result = 1"), nil), "1")
		assert.Equal(t, s.value(python("# filename: kept.py\r\nif True:\r\n    result = 'é'\r\n"), nil), `"é"`)
		s.ok("rm json.py types.py shapes.py; rm -rf __pycache__; [ -z \"$(ls -A)\" ]")
		dir := s.ok("pwd")
		r, err := codeblock.Call(t.Context(), s.Session, python("import os; result = [os.getcwd(), os.environ['ONLY']]"), nil,
			codeblock.Options{Dir: "/", Env: map[string]string{"ONLY": "x", "TMPDIR": dir}})
		assert.NilError(t, err)
		assert.Equal(t, string(r.Value), `["/","x"]`)
		assert.Equal(t, s.ok("ls -A"), "")
		o := codeblock.Options{Languages: map[string]codeblock.Language{
			"jq": {Programs: []string{"bash"}, Extension: ".jq"}, "html": {}, "python": {Programs: []string{"/usr/bin/env"}},
		}}
		r, err = codeblock.Call(t.Context(), s.Session,
			codeblock.Block{Language: "jq", Code: `cp $COFFERDAM_INPUT $COFFERDAM_RESULT`}, 5, o)
		assert.NilError(t, err)
		assert.Equal(t, string(r.Value), "5")
		_, err = codeblock.Call(t.Context(), s.Session, codeblock.Block{Language: "html"}, nil, o)
		assert.ErrorIs(t, err, codeblock.ErrProgram)
		s.noCalls()
	}},
	{"javascript", func(t *testing.T, s session) {
		js := func(code string) codeblock.Block { return codeblock.Block{Language: "js", Code: code} }
		if s.ok("command -v node || echo none") == "none" {
			_, err := codeblock.Call(t.Context(), s.Session, js("result = 1"), nil, codeblock.Options{})
			assert.ErrorIs(t, err, codeblock.ErrProgram)
			return
		}
		for _, word := range []string{"", "var ", "let ", "const "} {
			assert.Equal(t, s.value(js(word+echo), json.RawMessage(`[true,null,"é\ud800"]`)), `[true,null,"é\ud800"]`)
		}
		assert.Equal(t, s.value(js("setTimeout(() => { result = require('path').basename('a/b') }, 10)"), nil), `"b"`)
		assert.Equal(t, s.value(js("result = 1; process.exit(0)"), nil), "1")
		for code, words := range map[string]string{
			"result = [NaN]": "RangeError: NaN is not JSON", "result = 1n": "BigInt",
			"result = {}; result.x = result": "circular",
		} {
			s.bad(js(code), codeblock.Options{}, codeblock.ErrBadResult, words)
		}
		for _, code := range []string{"", "result = undefined", "result = () => 1", "console.log('__OUTPUT_START__')"} {
			s.bad(js(code), codeblock.Options{}, codeblock.ErrNoResult, "left none")
		}
		r, err := codeblock.Call(t.Context(), s.Session, js("result = 1;\nno_such_name"), nil, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, r.ExitCode, 1)
		assert.Assert(t, cmp.Contains(string(r.Stderr), "<code>:2"))
		s.noCalls()
	}},
	{"it is ended", func(t *testing.T, s session) {
		for _, code := range []string{"while True: pass",
			"import signal, time\nsignal.signal(15, signal.SIG_IGN)\nresult = 1\nwhile True: time.sleep(9)"} {
			s.untilGone(func() *execpolicy.Result {
				r, err := codeblock.Call(t.Context(), s.Session, python(code), nil, codeblock.Options{Timeout: short})
				assert.Assert(t, err == nil || errors.Is(err, execpolicy.ErrStillThere), err)
				assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
				assert.Assert(t, r.Value == nil)
				s.noCalls()
				return r.Result
			})
		}
		s.untilGone(func() *execpolicy.Result {
			_, r, err := codeblock.CallAs[int](t.Context(), s.Session, python("while True: pass"), nil,
				codeblock.Options{Timeout: short})
			if r.Gone {
				assert.ErrorIs(t, err, codeblock.ErrNoResult)
				assert.ErrorContains(t, err, "timed out")
			} else {
				assert.ErrorIs(t, err, execpolicy.ErrStillThere)
			}
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			return r.Result
		})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := codeblock.Call(ctx, s.Session, python("print('begun', flush=True)\nwhile True: pass"), nil,
			codeblock.Options{Stdout: places.OnWrite(func() { cancel() })})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeCanceled)
		s.noCalls()
		_, err = codeblock.Call(ctx, s.Session, python("result = 1"), nil, codeblock.Options{})
		assert.ErrorIs(t, err, context.Canceled)
		s.noCalls()
	}},
	{"nothing is started if it is in no order", func(t *testing.T, s session) {
		for want, err := range map[string]error{
			"ResultLimit":        call(s, python(""), nil, codeblock.Options{ResultLimit: -1}),
			"unsupported value":  call(s, python(""), math.NaN(), codeblock.Options{}),
			"unsupported type":   call(s, python(""), func() {}, codeblock.Options{}),
			"invalid character":  call(s, python(""), json.RawMessage("{x"), codeblock.Options{}),
			"not UTF-8":          call(s, python(""), json.RawMessage("\"\xff\""), codeblock.Options{}),
			"exceeded max depth": call(s, python(""), json.RawMessage(strings.Repeat("[", 20000)), codeblock.Options{}),
			`TMPDIR is "x"`:      call(s, python(""), nil, codeblock.Options{Env: map[string]string{"TMPDIR": "x"}}),
			"NaN; TMPDIR":        call(s, python(""), math.NaN(), codeblock.Options{Env: map[string]string{"TMPDIR": "x"}}),
		} {
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, want)
		}
		assert.ErrorIs(t, call(s, codeblock.Block{Language: "cobol"}, nil, codeblock.Options{}), codeblock.ErrLanguage)
		assert.ErrorIs(t, call(s, python(""), nil, codeblock.Options{Dir: "/no/such"}), execpolicy.ErrNoDir)
		assert.ErrorContains(t, call(s, python(""), nil,
			codeblock.Options{Env: map[string]string{"TMPDIR": "/no/such"}}), "can't be made")
		assert.ErrorIs(t, call(s, python("#"+strings.Repeat("x", execpolicy.MaxStdin)), nil, codeblock.Options{}),
			execpolicy.ErrStdinTooLong)
		s.noCalls()
	}},
}

// call returns the error of a call that is expected to run nothing.
func call(s session, b codeblock.Block, input any, o codeblock.Options) error {
	s.t.Helper()
	r, err := codeblock.Call(s.t.Context(), s.Session, b, input, o)
	assert.Assert(s.t, r == nil)
	return err
}

// plain returns JSON in its one form.
func plain(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	assert.NilError(t, d.Decode(&v))
	out, err := json.Marshal(v)
	assert.NilError(t, err)
	return string(out)
}

// Each example prints what it says, on each engine.
func TestExamples(t *testing.T) {
	// That nothing is left of a loop may be said too late.
	places.Examples(t, &sandbox, nil, []places.Example{
		{Name: "Call", Run: ExampleCall,
			Want: "__OUTPUT_START__ is output as any\n{\"ok\":true,\"missing\":null}\ntrue bad result: TypeError: " +
				"Object of type set is not JSON serializable\n"},
		{Name: "CallAs", Run: ExampleCallAs, Want: "{Sum:15 Count:5 Average:3} <nil>\n"},
		{Name: "Return", Run: ExampleReturn, Want: "exited 0 done\n6\n"},
		{Name: "Call_infiniteLoop", Run: ExampleCall_infiniteLoop,
			Want: "timed out - nothing of the loop is left: true\nthe container is gone: true\n", Late: true},
		{Name: "Call_readOnly", Run: ExampleCall_readOnly,
			Want: "exit code 1, 0 bytes on stdout\nTraceback (most recent call last):\n  File \"<code>\", line 1, in " +
				"<module>\n    open(\"/etc/passwd\", \"w\")\nOSError: [Errno 30] Read-only file system: '/etc/passwd'\n"},
		{Name: "Call_forkBomb", Run: ExampleCall_forkBomb, Want: "Resource temporarily unavailable\nfewer than 50: true\n"},
		{Name: "Call_duration", Run: ExampleCall_duration, Want: "\"done\" true\n"},
	})
}

// 50 MiB go in and come out under the limits of the zero policy: a /tmp of 64 MiB, and
// 512 MiB of memory with that.
func TestLargeCalls(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{}, func(t *testing.T, p places.Place) {
		s := place(p).open(t)
		for name, value := range map[string]string{
			"text":    `{"a":["` + strings.Repeat("é日🚢 ......", 50<<16) + `"]}`,
			"numbers": "[" + strings.Repeat("1234567,", 5<<17) + "1]",
		} {
			t.Run(name, func(t *testing.T) {
				s := session{s.Session, t}
				r, err := codeblock.Call(t.Context(), s.Session, python(echo), json.RawMessage(value), codeblock.Options{})
				assert.NilError(t, err)
				assert.Equal(t, r.ExitCode, 0, r.Text())
				assert.Assert(t, string(r.Value) == value, "%d bytes, not %d", len(r.Value), len(value))
				s.noCalls()
			})
		}
		t.Run("memory", func(t *testing.T) {
			s := session{s.Session, t}
			places.Eventually(t, func() string {
				r, err := codeblock.Call(t.Context(), s.Session, python("x = []\nwhile True: x.append(bytes(1 << 20))"),
					nil, codeblock.Options{})
				assert.NilError(t, err)
				s.noCalls()
				if r.Outcome == execpolicy.OutcomeExited && r.ExitCode == 137 && r.OOMAfter < 0 {
					return "the kernel's count came too late"
				}
				assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled)
				return ""
			})
		})
	})
}

func FuzzResult(f *testing.F) {
	for _, seed := range []string{"", "1", " {\"a\": [null]} ", "NaN", "\"\xff\"", "1 2", "[[", "\"\\ud800\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := codeblock.CheckResult(data)
		if err != nil {
			assert.ErrorIs(t, err, codeblock.ErrBadResult)
			return
		}
		var v any
		assert.NilError(t, json.Unmarshal(value, &v))
	})
}
