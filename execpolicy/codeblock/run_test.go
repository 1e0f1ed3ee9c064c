package codeblock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// A place opens sessions on one engine.
type place places.Place

func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second},
		func(t *testing.T, p places.Place) { f(t, place(p)) })
}

// A session is an open session and the test that it is for.
type session struct {
	*execpolicy.Session
	t *testing.T
}

func (p place) open(t *testing.T) session {
	t.Helper()
	return session{places.Open(t, p.Policy, p.Spec), t}
}

// ok is [places.OK].
func (s session) ok(script string) string {
	s.t.Helper()
	return places.OK(s.t, s.Session, script)
}

// blocks runs blocks, and answer those of a Markdown text.
func (s session) blocks(o codeblock.Options, blocks ...codeblock.Block) *codeblock.Report {
	s.t.Helper()
	r, err := codeblock.Run(s.t.Context(), s.Session, blocks, o)
	assert.NilError(s.t, err)
	return r
}

func (s session) answer(text string) *codeblock.Report {
	s.t.Helper()
	return s.blocks(codeblock.Options{}, codeblock.Parse(text)...)
}

func python(code string) codeblock.Block { return codeblock.Block{Language: "python", Code: code} }
func bash(code string) codeblock.Block   { return codeblock.Block{Language: "bash", Code: code} }
func sh(code string) codeblock.Block     { return codeblock.Block{Language: "sh", Code: code} }

// refused checks that the last of the blocks was refused and did nothing.
func refused(t *testing.T, r *codeblock.Report, want error, words ...string) {
	t.Helper()
	last := r.Steps[len(r.Steps)-1]
	assert.ErrorIs(t, last.Err, want)
	assert.Assert(t, last.Result == nil)
	assert.Assert(t, last.File == "")
	assert.Assert(t, !last.OK())
	assert.Equal(t, r.ExitCode(), 1)
	for _, w := range words {
		assert.ErrorContains(t, last.Err, w)
		assert.Assert(t, cmp.Contains(r.Output(), w))
	}
}

// ended runs blocks of which the first is expected to be ended in that way.
func (s session) ended(o codeblock.Options, want execpolicy.Outcome, blocks ...codeblock.Block) *codeblock.Report {
	s.t.Helper()
	var r *codeblock.Report
	s.untilGone(func() *execpolicy.Result {
		var err error
		r, err = codeblock.Run(s.t.Context(), s.Session, blocks, o)
		assert.Assert(s.t, err == nil || errors.Is(err, execpolicy.ErrStillThere), err)
		assert.Equal(s.t, len(r.Steps), 1)
		assert.Equal(s.t, r.ExitCode(), -1)
		assert.Equal(s.t, r.Steps[0].Result.Outcome, want)
		return r.Steps[0].Result
	})
	return r
}

// interrupted runs a block until it has printed something, and cancels it then.
func (s session) interrupted(o codeblock.Options, blocks ...codeblock.Block) *codeblock.Report {
	s.t.Helper()
	var r *codeblock.Report
	s.untilGone(func() *execpolicy.Result {
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		o.Stdout = places.OnWrite(func() { cancel() })
		var err error
		r, err = codeblock.Run(ctx, s.Session, blocks, o)
		assert.ErrorIs(s.t, err, context.Canceled)
		assert.Equal(s.t, len(r.Steps), 1)
		assert.Equal(s.t, r.ExitCode(), -1)
		assert.Equal(s.t, r.Steps[0].Result.Outcome, execpolicy.OutcomeCanceled)
		assert.Assert(s.t, strings.HasPrefix(r.Output(), "begun\n"), r.Output())
		// The session's shell may have said that its child was terminated.
		assert.Assert(s.t, strings.HasSuffix(r.Output(), "\nCode execution was cancelled.\n"), r.Output())
		return r.Steps[0].Result
	})
	return r
}

// untilGone runs what is ended until it is known that it is gone, with the session's
// shell where it was: on a busy machine the answer may come too late.
func (s session) untilGone(run func() *execpolicy.Result) {
	s.t.Helper()
	dir := s.ok("pwd")
	places.Eventually(s.t, func() string {
		s.ok("cd " + dir)
		if r := run(); !r.Gone || r.StateLost {
			return fmt.Sprintf("gone %v, shell lost %v", r.Gone, r.StateLost)
		}
		return ""
	})
}

// A runCase is run in a session that it may share with others, in a directory of its own.
type runCase struct {
	name string
	do   func(t *testing.T, s session)
}

func runCases(t *testing.T, cases []runCase) {
	everywhere(t, func(t *testing.T, p place) {
		s := p.open(t)
		for i, c := range cases {
			ok := t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				s.ok(fmt.Sprintf("mkdir -p /workspace/%d; cd /workspace/%d", i, i))
				c.do(t, s)
			})
			if !ok {
				s.Close()
				s = p.open(t)
			}
		}
	})
}

func TestRun(t *testing.T) { runCases(t, blockCases) }

var blockCases = []runCase{
	{"stdin is at its end", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{},
			python(`import sys, subprocess
print(repr(sys.stdin.read()), subprocess.run(["cat"], capture_output=True).stdout)
try:
    input()
except EOFError:
    print("EOF")
`),
			sh("cat\nread x || echo EOF\nsh\necho on\n"),
			bash("cat\nread x || echo EOF\nbash\necho on\n"),
			sh("# filename: a.sh\ncat\nread x || echo EOF\n"),
			python("# filename: a.py\nimport sys; print(repr(sys.stdin.read()))\n"))
		assert.Equal(t, r.Output(), "'' b''\nEOF\nEOF\non\nEOF\non\nEOF\n''\n")
	}},
	{"the session's directory and environment", func(t *testing.T, s session) {
		dir := s.ok("export KEPT=5; pwd")
		code := "import os; print(os.getcwd(), os.environ['KEPT'], os.environ.get('ONLY'))"
		assert.Equal(t, s.blocks(codeblock.Options{}, python(code)).Output(), dir+" 5 None\n")
		s.ok("mkdir sub")
		o := codeblock.Options{Dir: dir + "/sub", Env: map[string]string{"ONLY": "x"}}
		assert.Equal(t, s.blocks(o, python("# filename: a.py\n"+code)).Output(), dir+"/sub 5 x\n")
		assert.Equal(t, s.ok("ls sub; pwd"), "a.py\n"+dir)
		// A block is a program of its own: it leaves nothing in the session's shell.
		assert.Equal(t, s.blocks(codeblock.Options{}, sh("cd /; KEPT=6; exit 0")).ExitCode(), 0)
		assert.Equal(t, s.ok("pwd; echo $KEPT"), dir+"\n5")
	}},
	{"modules of earlier blocks", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("# filename: shapes.py\ndef area(): return 6\n"),
			python("from shapes import area\nprint(area())\n"),
			python("# filename: main.py\nimport shapes; print(shapes.area())\n"))
		assert.Equal(t, r.Output(), "6\n6\n")
	}},
	{"a file is replaced", func(t *testing.T, s session) {
		s.blocks(codeblock.Options{}, sh("# filename: a.sh\necho a long line that was there before\n"),
			sh("# filename: a.sh\necho 2\n"))
		assert.Equal(t, s.ok("cat a.sh; ls -A"), "# filename: a.sh\necho 2\na.sh")
	}},
	{"what was printed before it was killed", func(t *testing.T, s session) {
		const code = "import os\nprint('printed')\nos.kill(os.getpid(), 9)\n"
		for _, b := range []codeblock.Block{python(code), python("# filename: killed.py\n" + code)} {
			assert.Equal(t, string(s.blocks(codeblock.Options{}, b).Steps[0].Result.Stdout), "printed\n")
		}
		r, err := codeblock.Call(t.Context(), s.Session, python(code), 1, codeblock.Options{})
		assert.NilError(t, err)
		assert.Equal(t, string(r.Stdout), "printed\n")
	}},
	{"the shell's lines", func(t *testing.T, s session) {
		for _, b := range []codeblock.Block{
			bash("echo 1\nno-such-command\necho 2\n"), bash("# filename: a.sh\nno-such-command\necho 2\n"),
		} {
			r := s.blocks(codeblock.Options{}, b)
			assert.Assert(t, cmp.Contains(r.Output(), "line 2: no-such-command: "))
			assert.Equal(t, r.ExitCode(), 0)
		}
		for _, b := range []codeblock.Block{sh("echo 1\necho 2\nif then\n"), bash("echo 1\necho 2\nif then\n")} {
			r := s.blocks(codeblock.Options{}, b)
			assert.Assert(t, cmp.Regexp("(?s)^.*: (line 3|3): .*", r.Output()))
		}
		for _, b := range []codeblock.Block{
			sh("echo \"open"), bash("echo \"open"), sh("if"), bash("set -e; false; echo no"), sh("set -u; echo $no"),
		} {
			r := s.blocks(codeblock.Options{}, b)
			assert.Assert(t, r.ExitCode() > 0, "%v: %s", b, r.Output())
		}
		r := s.blocks(codeblock.Options{}, bash("cat <<E\n$((1+1))\nE\nf() { echo f; }\nf\ntrap 'echo bye' EXIT\nexit 0"))
		assert.Equal(t, r.Output(), "2\nf\nbye\n")
	}},
	{"long code", func(t *testing.T, s session) {
		lines := strings.Repeat("x = '"+strings.Repeat("é", 500)+"'\n", 1000)
		r := s.blocks(codeblock.Options{}, python(lines+"print(len(x))"), python("# filename: a.py\n"+lines+"print(len(x))"),
			sh(strings.Repeat(": 'é'\n", 100000)+"echo end"))
		assert.Equal(t, r.Output(), "500\n500\nend\n")
		r = s.blocks(codeblock.Options{}, python("#"+strings.Repeat("x", execpolicy.MaxStdin)))
		refused(t, r, execpolicy.ErrStdinTooLong)
	}},
	{"empty code", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python(""), sh(""), python("\n"))
		assert.Equal(t, r.ExitCode(), 0)
		assert.Equal(t, len(r.Steps), 3)
	}},
	{"javascript", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{},
			codeblock.Block{Language: "js", Code: "console.log(require('fs').readFileSync(0, 'utf8') + process.cwd())"},
			codeblock.Block{Language: "node",
				Code: "// filename: lib.js\nmodule.exports = 6; console.log(__filename.slice(-7))"},
			codeblock.Block{Language: "JavaScript", Code: "console.log(require('./lib.js')); process.exit(4)"})
		if s.ok("command -v node || echo none") == "none" {
			refused(t, r, codeblock.ErrProgram, "javascript", "node")
			return
		}
		assert.Equal(t, r.Output(), s.ok("pwd")+"\n/lib.js\n/lib.js\n6\n")
		assert.Equal(t, r.ExitCode(), 4)
	}},
	{"python where it has its old name", func(t *testing.T, s session) {
		s.ok(`mkdir bin; ln -s "$(command -v python3)" bin/python; ln -s "$(readlink -f "$(command -v sh)")" bin/sh`)
		o := codeblock.Options{Env: map[string]string{"PATH": s.ok("pwd") + "/bin"}}
		r := s.blocks(o, python("print(1)"))
		assert.Equal(t, r.Output(), "1\n")
		assert.Equal(t, r.Steps[0].Program, "python")
		s.ok("rm bin/python")
		refused(t, s.blocks(o, python("print(1)")), codeblock.ErrProgram, "python3 or python")
	}},
	{"a program that only a function has the name of", func(t *testing.T, s session) {
		s.ok("nosuch() { echo function; }; alias nosuch2='echo alias'")
		o := codeblock.Options{Languages: map[string]codeblock.Language{"x": {Programs: []string{"nosuch", "nosuch2"}}}}
		refused(t, s.blocks(o, codeblock.Block{Language: "x"}), codeblock.ErrProgram, "nosuch or nosuch2")
	}},
	{"a language that needs a file", func(t *testing.T, s session) {
		o := codeblock.Options{Languages: map[string]codeblock.Language{
			"go": {Programs: []string{"bash"}, Args: []string{"-u"}, Extension: ".go"},
		}}
		block := codeblock.Block{Language: "Go",
			Code: `echo "${0##*/}"; stat -c %a "${0%/*}"; pwd; ls "${0%/*}"; cat; echo "$0" >where; exit 3`}
		r := s.blocks(o, block)
		assert.Equal(t, r.ExitCode(), 3)
		assert.Equal(t, r.Output(), "main.go\n700\n"+s.ok("pwd")+"\nmain.go\n")
		assert.Equal(t, s.ok("ls -d $(cat where) 2>/dev/null; :"), "")
		// It is gone as well if the program was told to end and did.
		r = s.interrupted(o, codeblock.Block{Language: "go", Code: `echo "$0" >where; echo begun; exec sleep 4805`})
		if r.Steps[0].Result.Escalation == execpolicy.EscalationTerm {
			assert.Equal(t, s.ok("ls -d $(cat where) 2>/dev/null; :"), "")
		}
		assert.Equal(t, s.blocks(o, codeblock.Block{Language: "go", Code: "# filename: a.go\necho $0 $-"}).Output()[:7],
			"./a.go ")
	}},
	{"a name that is too long", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, codeblock.Block{Language: "sh", Code: "# filename: " + strings.Repeat("a", 5<<20)})
		refused(t, r, codeblock.ErrFilename, "5242880 bytes")
		assert.Assert(t, len(r.Steps[0].Err.Error()) < 200)
	}},
	{"a language that is only stored", func(t *testing.T, s session) {
		o := codeblock.Options{Languages: map[string]codeblock.Language{"html": {}}}
		r := s.blocks(o, codeblock.Block{Language: "html", Code: "<!-- filename: web/index.html -->\n<p>"},
			sh("cat web/index.html"))
		assert.Equal(t, r.Output(), "Code saved to web/index.html\n<!-- filename: web/index.html -->\n<p>")
		assert.Assert(t, r.Steps[0].OK())
		assert.Equal(t, r.ExitCode(), 0)
		refused(t, s.blocks(o, codeblock.Block{Language: "html", Code: "<p>"}), codeblock.ErrFilename, "html")
	}},
	{"blocks that nobody wants to be run", func(t *testing.T, s session) {
		var o codeblock.Options
		var known []codeblock.Block
		for _, b := range codeblock.Parse("```text\n1\n```\n```py\nprint(1)\n```\n```\n2\n```\n```json\n3\n```\n") {
			if o.Knows(b) {
				known = append(known, b)
			}
		}
		assert.Equal(t, s.blocks(o, known...).Output(), "1\n")
	}},
	{"options that are no good", func(t *testing.T, s session) {
		for want, o := range map[string]codeblock.Options{
			`"cobol" is not known`:      {Default: "cobol"},
			`"Go": a name is one word`:  {Languages: map[string]codeblock.Language{"Go": {}}},
			`"a b": a name is one word`: {Languages: map[string]codeblock.Language{"a b": {}}},
			"a program's name":          {Languages: map[string]codeblock.Language{"x": {Programs: []string{"-x"}}}},
			"more than 100 programs":    {Languages: map[string]codeblock.Language{"x": {Programs: strings.Fields(strings.Repeat("x ", 101))}}},
			`"go" is not an extension`:  {Languages: map[string]codeblock.Language{"x": {Extension: "go"}}},
			"an argument can't hold":    {Languages: map[string]codeblock.Language{"x": {Args: []string{"a\x00"}}}},
			"OutputLimit":               {OutputLimit: -1},
			`"A B" is not the name of`:  {Env: map[string]string{"A B": "x"}},
			"a directory's name":        {Dir: "a\x00"},
		} {
			r, err := codeblock.Run(t.Context(), s.Session, []codeblock.Block{sh("# filename: ran\necho ran >ran")}, o)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, want)
			assert.Assert(t, r == nil)
			_, err = codeblock.Call(t.Context(), s.Session, sh("echo ran >ran"), nil, o)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, want)
		}
		assert.Equal(t, s.ok("ls -A"), "")
	}},
	{"what was lost before is told", func(t *testing.T, s session) {
		s.ok("x=1")
		s.ok("(until [ -e /tmp/go ]; do sleep 0.01; done; seq 100; kill -9 $$; " + enginetest.LossTold + "; >/tmp/done) >&2 &")
		assert.NilError(t, s.Session.WriteFile(t.Context(), "/tmp/go", nil, 0o600))
		enginetest.Wait(t, func() bool {
			_, err := s.Session.Stat(t.Context(), "/tmp/done")
			return err == nil
		}, "the shell lives")
		r := s.blocks(codeblock.Options{}, python("# filename: a.py\nprint(1)"), sh("echo $x"))
		assert.Equal(t, r.Output(), "1\n\n")
		assert.Assert(t, r.Steps[0].Result.StateLost && !r.Steps[1].Result.StateLost)
		assert.Assert(t, r.Steps[0].Result.BackgroundBytes >= 292)
	}},
	{"both streams as they come", func(t *testing.T, s session) {
		var out, errOut strings.Builder
		o := codeblock.Options{Stdout: &out, Stderr: &errOut}
		r := s.blocks(o, python("# filename: a.py\nimport sys; print(1); print(2, file=sys.stderr)"), sh("echo 3"))
		assert.Equal(t, out.String(), "1\n3\n")
		assert.Equal(t, errOut.String(), "2\n")
		assert.Equal(t, r.Output(), "1\n2\n3\n")
	}},
}

// Each has a session of its own.
func TestSessionsOfTheirOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("a directory that is not there", func(t *testing.T) {
			t.Parallel()
			s := p.open(t)
			r, err := codeblock.Run(t.Context(), s.Session, []codeblock.Block{sh("echo ran"), sh("echo no")},
				codeblock.Options{Dir: "/no/such"})
			assert.ErrorIs(t, err, execpolicy.ErrNoDir)
			assert.Equal(t, len(r.Steps), 1)
			assert.Assert(t, r.Steps[0].Result == nil)
		})
		t.Run("closed meanwhile", func(t *testing.T) {
			t.Parallel()
			s := p.open(t)
			o := codeblock.Options{Stdout: places.OnWrite(func() { go s.Close() })}
			r, err := codeblock.Run(t.Context(), s.Session, []codeblock.Block{sh("echo begun; sleep 4806"), sh("echo no")}, o)
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			assert.Equal(t, r.Output(), "begun\nCode execution was cancelled.\n")
			assert.Equal(t, len(r.Steps), 1)
			r, err = codeblock.Run(t.Context(), s.Session, []codeblock.Block{sh("echo no")}, o)
			assert.ErrorIs(t, err, execpolicy.ErrClosed)
			assert.Equal(t, r.Output(), "Error: the session is closed\n")
		})
		t.Run("a file that can't be written to its end", func(t *testing.T) {
			t.Parallel()
			s := p.open(t)
			s.blocks(codeblock.Options{}, sh("# filename: a.sh\necho old"))
			s.ok("ulimit -f 8")
			r := s.blocks(codeblock.Options{}, sh("# filename: a.sh\necho new\n"+strings.Repeat("#", 1<<20)))
			refused(t, r, codeblock.ErrFilename, "can't be stored")
			assert.Equal(t, s.ok("cat a.sh; ls -A"), "# filename: a.sh\necho olda.sh")
		})
		t.Run("nothing can be written", func(t *testing.T) {
			t.Parallel()
			p := p
			p.Spec.Workspace, p.Policy.WorkspaceReadOnly = t.TempDir(), true
			s := p.open(t)
			r := s.blocks(codeblock.Options{}, python("print(1)"), sh("echo 2"), python("# filename: a.py\nprint(3)"))
			refused(t, r, codeblock.ErrFilename, "can't be stored", "a.py")
			assert.Assert(t, strings.HasPrefix(r.Output(), "1\n2\n"))
		})
	})
}
