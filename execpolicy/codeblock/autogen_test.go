package codeblock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// short is the deadline of what is meant to miss it.
const short = 300 * time.Millisecond

// The numbers are those of the cases that AutoGen's executor, extractor and agent are
// tested with.
func TestAutoGen(t *testing.T) { runCases(t, autogenCases) }

var autogenCases = []runCase{
	{"1 a python block", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("import sys; print('hello world!')"))
		assert.Equal(t, r.ExitCode(), 0)
		assert.Equal(t, r.Output(), "hello world!\n")
		assert.Equal(t, r.Steps[0].Language, "python")
		assert.Equal(t, r.Steps[0].Program, "python3")
	}},
	{"2 35 several blocks", func(t *testing.T, s session) {
		r := s.answer("```python\nprint(100 + 100, end='')\n```\nand\n```sh\necho and " +
			"more\n```\nand\n```python\nprint(1)\n```\n")
		assert.Equal(t, r.ExitCode(), 0)
		assert.Equal(t, r.Output(), "200and more\n1\n")
		assert.Equal(t, len(r.Steps), 3)
	}},
	{"3 38 bash", func(t *testing.T, s session) {
		r := s.answer("```bash\na=(x y); echo 'hello world!' ${a[1]}\n```\n")
		assert.Equal(t, r.ExitCode(), 0, r.Output())
		assert.Equal(t, r.Output(), "hello world! y\n")
	}},
	{"4 8 the file holds the code", func(t *testing.T, s session) {
		const code = "# filename: test.py\nprint(__file__[-9:], len(open(__file__).read()))"
		r := s.blocks(codeblock.Options{}, python(code))
		assert.Equal(t, r.Output(), fmt.Sprintf("./test.py %d\n", len(code)), "%+v", r.Steps)
		assert.Equal(t, r.Steps[0].File, "test.py")
		assert.Equal(t, s.ok("cat test.py"), code)
	}},
	{"5 a deadline", func(t *testing.T, s session) {
		r := s.ended(codeblock.Options{Timeout: short}, execpolicy.OutcomeTimedOut,
			python("import time; time.sleep(4801)"), python("print('no')"))
		assert.Assert(t, strings.HasSuffix(r.Output(), "Timeout: the code was ended after 0.3 seconds.\n"), r.Output())
	}},
	{"6 a cancel", func(t *testing.T, s session) {
		const code = "import os, time; print('begun', flush=True)\nwhile not os.path.exists('go'): " +
			"time.sleep(0.01)\nopen('late', 'w')"
		s.interrupted(codeblock.Options{}, python(code), python("print('no')"))
		// It is not there later either.
		assert.Equal(t, s.ok("touch go; sleep 0.2; ls"), "go")
	}},
	{"7 a name outside of the workspace", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("# filename: /tmp/test.py\nprint('no')"))
		refused(t, r, codeblock.ErrFilename, "not in the workspace", "/tmp/test.py")
		assert.Equal(t, s.ok("ls /tmp/test.py 2>/dev/null; :"), "")
	}},
	{"15 33 41 an error in the code", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("print(open('no-such-file').read())"))
		assert.Equal(t, r.ExitCode(), 1)
		assert.Assert(t, cmp.Contains(r.Output(), "No such file or directory"))
		r = s.blocks(codeblock.Options{}, python("print('before', flush=True)\nno_such_name\n"))
		assert.Assert(t, !r.Steps[0].OK())
		assert.Assert(t, cmp.Contains(r.Output(), "NameError"))
		assert.Assert(t, strings.HasPrefix(r.Output(), "before\n"))
		// The line is that of the block.
		assert.Assert(t, cmp.Contains(r.Output(), "line 2"))
	}},
	{"18 19 20 21 what is left of the code", func(t *testing.T, s session) {
		before := s.ok("find / -xdev -newermt '-1 day' -type f 2>/dev/null; find /tmp /workspace")
		r := s.blocks(codeblock.Options{}, python("pass"), sh("true"), sh("exit 3"))
		assert.Equal(t, r.ExitCode(), 3)
		assert.Equal(t, s.ok("find / -xdev -newermt '-1 day' -type f 2>/dev/null; find /tmp /workspace"), before)
		s.blocks(codeblock.Options{}, sh("# filename: kept.sh\nexit 3"))
		assert.Equal(t, s.ok("ls -A"), "kept.sh")
	}},
	{"24 an interpreter of one's own", func(t *testing.T, s session) {
		s.ok("mkdir -p venv/bin; ln -s \"$(command -v python3)\" venv/bin/python")
		o := codeblock.Options{Languages: map[string]codeblock.Language{"python": {Programs: []string{"./venv/bin/python"}}}}
		block := codeblock.Block{Language: "py", Code: "import sys; print(sys.executable)"}
		r := s.blocks(o, block)
		assert.Equal(t, r.Output(), s.ok("pwd")+"/venv/bin/python\n")
	}},
	{"25 a program is looked for in the container", func(t *testing.T, s session) {
		o := codeblock.Options{Languages: map[string]codeblock.Language{"pwsh": {Programs: []string{"pwsh", "powershell"}}}}
		r := s.blocks(o, codeblock.Block{Language: "PWSH", Code: "# filename: a.ps1\nexit 0"})
		refused(t, r, codeblock.ErrProgram, "pwsh or powershell")
		assert.Equal(t, s.ok("ls"), "")
	}},
	{"28 a module that is missing", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("import no_such_module"))
		assert.Equal(t, r.ExitCode(), 1)
		assert.Assert(t, cmp.Contains(r.Output(), "ModuleNotFoundError"))
	}},
	{"30 32 success and failure", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python("len('x')"), python("len(1)"))
		assert.Assert(t, r.Steps[0].OK())
		assert.Assert(t, !r.Steps[1].OK())
		assert.Equal(t, r.ExitCode(), 1)
		assert.Assert(t, cmp.Contains(r.Output(), "TypeError"))
	}},
	{"34 untagged", func(t *testing.T, s session) {
		blocks := codeblock.Parse("```\nprint('hi')\n```\n")
		refused(t, s.blocks(codeblock.Options{}, blocks...), codeblock.ErrLanguage, "names none")
		assert.Equal(t, s.blocks(codeblock.Options{Default: "python"}, blocks...).Output(), "hi\n")
	}},
	{"36 indented", func(t *testing.T, s session) {
		assert.Equal(t, s.answer("Example:\n   ```python\n   if True:\n       print('hi')\n   ```\n").Output(), "hi\n")
	}},
	{"37 CRLF and spaces behind the language", func(t *testing.T, s session) {
		assert.Equal(t, s.answer("Example:\r\n``` python  \r\nif True:\r\n    print('hi')\r\n```\r\n").Output(), "hi\n")
		assert.Equal(t, s.answer("```sh\r\necho hi\r\n```\r\n").Output(), "hi\n")
	}},
	{"39 an unknown language", func(t *testing.T, s session) {
		const first, last = "```python\nprint(1)\n```\n", "```python\nprint(2)\n```\n"
		r := s.answer(first + "```csharp\n// filename: a.cs\nConsole.Write(1);\n```\n" + last)
		refused(t, r, codeblock.ErrLanguage, `"csharp"`)
		assert.Equal(t, r.Output(), "1\nError: unknown language: \"csharp\"\n")
		assert.Equal(t, s.ok("ls"), "")
	}},
	{"40 43 no block", func(t *testing.T, s session) {
		r, err := codeblock.Run(t.Context(), s.Session, codeblock.Parse("no code"), codeblock.Options{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "no code blocks")
		assert.Assert(t, r == nil)
	}},
	{"42 no output", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, sh(":"))
		assert.Equal(t, r.Output(), "")
		assert.Equal(t, r.Steps[0].Result.Text(), "<no output>")
	}},
	{"44 the first that fails ends it", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, sh("echo 1"), sh("echo 2; exit 7"), sh("echo 3"))
		assert.Equal(t, r.ExitCode(), 7)
		assert.Equal(t, r.Output(), "1\n2\n")
		assert.Equal(t, len(r.Steps), 2)
	}},
}

// autogenElsewhere are AutoGen's cases that are no matter of code blocks, and where they
// belong.
var autogenElsewhere = map[string]string{
	"9": "execpolicy.Start and Close", "10": "execpolicy.Start and Close",
	"11": "execpolicy: Mounts, ExtraHosts and Startup",
	"12": "a policy is a struct: there is nothing to serialise",
	"13": "a timeout of zero is the session's, a negative one none",
	"14": "execpolicy: Workspace, checked by Start", "16": "execpolicy: Workspace, checked by Start",
	"17": "execpolicy: an ephemeral workspace",
	"22": "Go has one scheduler: contexts are independent",
	"23": "execpolicy: Restart",
	"26": "no file of the host is made, so none is cleaned up",
	"27": "functions and dependencies are a set-up phase's", "29": "functions and dependencies are a set-up phase's",
	"31": "functions and dependencies are a set-up phase's",
	"45": "the caller approves between Parse and Run", "46": "the caller approves between Parse and Run",
	"47": "the caller approves between Parse and Run", "48": "the caller approves between Parse and Run",
}

func TestEveryCaseOfAutoGenHasAPlace(t *testing.T) {
	seen := maps.Clone(autogenElsewhere)
	for _, c := range autogenCases {
		for _, word := range strings.Fields(c.name) {
			if strings.Trim(word, "0123456789") != "" {
				break
			}
			assert.Assert(t, seen[word] == "", "case %s is there twice", word)
			seen[word] = c.name
		}
	}
	for n := 1; n <= 48; n++ {
		assert.Check(t, seen[fmt.Sprint(n)] != "", "case %d is missing", n)
	}
	assert.Equal(t, len(seen), 48)
}

// Each case is what AutoGen does wrong with code blocks.
func TestWhatAutoGenDoesWrong(t *testing.T) { runCases(t, defectCases) }

var defectCases = []runCase{
	{"a program that ignores SIGTERM", func(t *testing.T, s session) {
		places.Eventually(t, func() string {
			r := s.ended(codeblock.Options{Timeout: short}, execpolicy.OutcomeTimedOut,
				sh("trap '' TERM; echo begun; sleep 4802; sleep 4802"))
			if !strings.HasPrefix(r.Output(), "begun\n") {
				return "it had not begun"
			}
			assert.Assert(t, r.Steps[0].Result.Escalation > execpolicy.EscalationTerm)
			return ""
		})
	}},
	{"a grandchild in a session of its own", func(t *testing.T, s session) {
		s.interrupted(codeblock.Options{}, python(`import os, time
if os.fork() == 0:
    os.setsid()
    os.execlp("sleep", "sleep", "4803")
print("begun", flush=True)
time.sleep(4803)
`))
		const walk = `for p in /proc/[0-9]*; do tr '\000' ' ' <$p/cmdline; echo; done 2>/dev/null`
		assert.Assert(t, !strings.Contains(s.ok(walk), "\nsleep 4803"))
	}},
	{"exit codes that look like a deadline or a kill", func(t *testing.T, s session) {
		for _, code := range []int{124, 137, 143, 255} {
			r := s.blocks(codeblock.Options{}, sh(fmt.Sprintf("echo Timeout; exit %d", code)))
			assert.Equal(t, r.ExitCode(), code)
			assert.Equal(t, r.Steps[0].Result.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.Output(), "Timeout\n")
		}
	}},
	{"an image without timeout, pkill and the like", func(t *testing.T, s session) {
		s.ok(`mkdir bin; for name in sh python3 cat; do ln -s "$(command -v $name)" bin/$name; done`)
		o := codeblock.Options{Env: map[string]string{"PATH": s.ok("pwd") + "/bin"}}
		assert.Equal(t, s.blocks(o, sh("echo 1"), python("print(2)")).Output(), "1\n2\n")
		s.interrupted(o, python("import time; print('begun', flush=True); time.sleep(4804)"))
	}},
	{"output that is no UTF-8", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, python(`import os; os.write(1, b"\xff\x00\xfeok\n")`))
		assert.Equal(t, r.ExitCode(), 0)
		assert.Equal(t, string(r.Steps[0].Result.Stdout), "\xff\x00\xfeok\n")
		assert.Equal(t, r.Output(), "\ufffd\x00\ufffdok\n")
	}},
	{"output without an end", func(t *testing.T, s session) {
		r := s.ended(codeblock.Options{OutputLimit: 16 << 20}, execpolicy.OutcomeOutputLimit, sh("echo first; yes"))
		assert.Assert(t, len(r.Output()) < 2<<20)
		assert.Assert(t, strings.HasPrefix(r.Output(), "first\ny\n"))
		assert.Assert(t, cmp.Contains(r.Output(), " lines) dropped ...\n"))
		assert.Assert(t, strings.HasSuffix(r.Output(), "\nThe code was ended: output limit.\n"))
	}},
	{"names that are refused", func(t *testing.T, s session) {
		for _, name := range []string{
			"-c", "./-c", "--help", "", ".", "./", "sub/", "/etc/passwd", "/workspace/x", "..", "../x", "a/../../x", "a/..",
			"a\tb", "a\x00b", "a\x7f",
		} {
			r := s.blocks(codeblock.Options{}, sh("echo before"), python("# filename: "+name+"\nprint('ran')"), sh("echo after"))
			refused(t, r, codeblock.ErrFilename, fmt.Sprintf("%q", name))
			assert.Assert(t, !strings.Contains(r.Output(), "ran") && !strings.Contains(r.Output(), "after"))
		}
		assert.Equal(t, s.ok("ls -A"), "")
	}},
	{"names that are awkward", func(t *testing.T, s session) {
		for _, name := range []string{
			"a:b.sh", "sub/x.sh", "sub/more/x.sh", "a b.sh", "it's.sh", "$HOME", "*", "ünï.sh", `a\b.sh`, "./dot.sh",
			"a//b.sh", "a/./c.sh", "x;echo no",
		} {
			r := s.blocks(codeblock.Options{}, sh("# filename: "+name+"\necho ran; pwd"))
			assert.Equal(t, r.Output(), "ran\n"+s.ok("pwd")+"\n", name)
		}
		assert.DeepEqual(t, strings.Split(s.ok("find . -type f | LC_ALL=C sort"), "\n"), []string{
			"./$HOME", "./*", "./a b.sh", "./a/b.sh", "./a/c.sh", "./a:b.sh", `./a\b.sh`, "./dot.sh", "./it's.sh",
			"./sub/more/x.sh", "./sub/x.sh",
			"./x;echo no", "./ünï.sh",
		})
	}},
	{"a name that is too long", func(t *testing.T, s session) {
		r := s.blocks(codeblock.Options{}, sh("# filename: "+strings.Repeat("x", 300)+"\necho ran"))
		refused(t, r, codeblock.ErrFilename, "can't be stored")
		assert.Equal(t, s.ok("ls -A"), "")
	}},
	{"what was put at the name", func(t *testing.T, s session) {
		s.ok(`echo kept >/tmp/outside; ln -s /tmp/outside link.py; ln -s /tmp/none dangling.py
			ln -s /tmp dir; ln -s / root; ln -s /tmp/none nodir; mkdir is.py; mkfifo fifo.py
			echo kept >other; ln other hard.py; mkdir inner; ln -s inner same`)
		for name, why := range map[string]string{
			"link.py": "is a link", "dangling.py": "is a link", "is.py": "not a regular file", "fifo.py": "not a regular file",
			"dir/x.py": "leads out", "dir/sub/x.py": "leads out", "root/tmp/x.py": "leads out",
			"nodir/x.py": "can't be stored", "link.py/x.py": "can't be stored",
		} {
			refused(t, s.blocks(codeblock.Options{}, python("# filename: "+name+"\nprint('ran')")),
				codeblock.ErrFilename, why, name)
		}
		assert.Equal(t, s.ok("ls /tmp/x.py /tmp/sub /tmp/none 2>/dev/null; ls -A is.py inner; cat /tmp/outside"),
			"inner:\n\nis.py:\nkept")
		// A link to inside is as good as a directory, and a file of many names keeps what
		// the others see.
		r := s.blocks(codeblock.Options{}, python("# filename: same/x.py\nprint(1)"), python("# filename: hard.py\nprint(2)"))
		assert.Equal(t, r.Output(), "1\n2\n")
		assert.Equal(t, s.ok("cat inner/x.py other; rm /tmp/outside"), "# filename: same/x.py\nprint(1)kept")
	}},
	{"a block that prepares for the next one", func(t *testing.T, s session) {
		// The first knows the second's text: whatever can be worked out from it, or
		// guessed, is no place for the second.
		second := python("print('second')\n")
		first := python(`import hashlib, os
code = "print('second')\n"
os.mkdir("/tmp/target")
for text in (code, code.strip()):
    name = "tmp_code_" + hashlib.sha256(text.encode()).hexdigest()
    for end in (".python", ".py", ""):
        for d in (".", "/tmp"):
            os.symlink("/tmp/target/" + name + end, d + "/" + name + end)
`)
		r := s.blocks(codeblock.Options{}, first, second)
		assert.Equal(t, r.Output(), "second\n")
		assert.Equal(t, s.ok("ls -A /tmp/target; rm -r /tmp/target /tmp/tmp_code_*"), "")
	}},
	{"a comment that is no filename", func(t *testing.T, s session) {
		assert.Equal(t, s.blocks(codeblock.Options{}, python("# setup.py\nprint(1)"),
			python("#!filename\nprint(2)")).Output(), "1\n2\n")
		assert.Equal(t, s.ok("ls -A"), "")
	}},
	{"languages in other words", func(t *testing.T, s session) {
		for _, info := range []string{"python", "Python", "PYTHON", "py", "python3", "python3.12", "Python3.11",
			"python title=x"} {
			assert.Equal(t, s.answer("```"+info+"\nprint('hi')\n```\n").Output(), "hi\n", info)
		}
		for _, info := range []string{"sh", "shell", "Bash", "bash -x"} {
			assert.Equal(t, s.answer("~~~ "+info+"\necho hi\n~~~\n").Output(), "hi\n", info)
		}
		for _, info := range []string{"pythonic", "python-repl", "pycon", "console", "text", "json", "zsh",
			"{python}", "-c", "../sh", "cpython"} {
			refused(t, s.answer("```"+info+"\necho hi\n```\n"), codeblock.ErrLanguage, fmt.Sprintf("%q", info))
		}
	}},
	{"a language on the next line", func(t *testing.T, s session) {
		refused(t, s.answer("```\npython\nprint(1)\n```\n"), codeblock.ErrLanguage)
	}},
	{"fences inside of a block", func(t *testing.T, s session) {
		assert.Equal(t, s.answer("````python\nprint('''\n```python\n1\n```''')\n````\n").Output(), "\n```python\n1\n```\n")
	}},
	{"a cancel before anything starts", func(t *testing.T, s session) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the user went away")
		cancel(why)
		r, err := codeblock.Run(ctx, s.Session, []codeblock.Block{sh("echo ran >ran")}, codeblock.Options{})
		assert.ErrorIs(t, err, why)
		assert.Equal(t, len(r.Steps), 1)
		assert.Equal(t, r.Steps[0].Err, err)
		assert.Equal(t, r.ExitCode(), 1)
		assert.Equal(t, s.ok("ls -A"), "")
	}},
}
