package tool_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

func everywhere(t *testing.T, f func(t *testing.T, p places.Place)) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, f)
}

// A set is open, and the test that it is for.
type set struct {
	*tool.Set
	t *testing.T
}

func open(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec, o tool.Options) set {
	t.Helper()
	s, err := tool.Start(t.Context(), p, spec, o)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, s.Close()) })
	return set{s, t}
}

// call calls a tool with properties in pairs, and returns the reply.
func (s set) call(name string, properties ...any) tool.Reply {
	s.t.Helper()
	r, err := s.Call(s.t.Context(), name, object(properties...))
	assert.NilError(s.t, err)
	assert.Assert(s.t, r.Text != "")
	return r
}

// ok returns the text of a call that is to succeed.
func (s set) ok(name string, properties ...any) string {
	s.t.Helper()
	r := s.call(name, properties...)
	assert.Assert(s.t, !r.Failed, r.Text)
	return r.Text
}

// fails returns the text of a call that is to fail.
func (s set) fails(name string, properties ...any) string {
	s.t.Helper()
	r := s.call(name, properties...)
	assert.Assert(s.t, r.Failed, r.Text)
	return r.Text
}

func object(properties ...any) json.RawMessage {
	m := map[string]any{}
	for i := 0; i < len(properties); i += 2 {
		m[properties[i].(string)] = properties[i+1]
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return text
}

func TestShell(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.ok("shell", "command", "x=4; cd /tmp; echo hello"), "hello\n")
		assert.Equal(t, s.ok("shell", "command", "echo $x; pwd"), "4\n/tmp\n")
		assert.Equal(t, s.ok("shell", "command", "true"), "<no output>")
		assert.Equal(t, s.ok("shell", "command", "true", "restart", nil), "<no output>")
		assert.Equal(t, s.fails("shell", "command", "echo oops >&2; exit 3"), "[stderr]\noops\n\nExit code: 3\n"+
			"The shell was replaced: its variables and functions are gone, files stay.")
		r := s.call("shell", "command", `printf '\033[31mred\033[0m 1%%\r100%%\n'; false`)
		assert.Equal(t, r.Text, "100%\n\nExit code: 1")
		assert.Equal(t, r.Result.ExitCode, 1)
		assert.Assert(t, r.Failed)
		long := s.ok("shell", "command", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done")
		assert.Assert(t, strings.HasPrefix(long, "line 0\n") && strings.HasSuffix(long, "line 2999\n"), long)
		assert.Assert(t, cmp.Contains(long, "dropped"))
		assert.Assert(t, len(long) <= execpolicy.DefaultRenderBytes)
	})
}

// The words are those of LangChain's shell tool.
func TestShellSaysWhatLangChainSays(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.fails("shell"), "Shell tool requires either 'command' or 'restart'.")
		assert.Equal(t, s.fails("shell", "restart", false), "Shell tool requires either 'command' or 'restart'.")
		assert.Equal(t, s.fails("shell", "command", "true", "restart", true), "Specify only one of 'command' or 'restart'.")
		const noString = "Shell tool expects a 'command' string when restart is not requested."
		assert.Equal(t, s.fails("shell", "command", ""), noString)
		assert.Equal(t, s.fails("shell", "command", 123), noString)
		s.ok("shell", "command", "export FOO=bar; echo >/tmp/file")
		assert.Equal(t, s.ok("shell", "restart", true), "Shell session restarted.")
		assert.Equal(t, s.ok("shell", "command", "echo ${FOO:-unset}; ls /tmp"), "unset\n")
		i := 0
		for s.Tools[i].Name != "shell" {
			i++
		}
		const description = "Execute a shell command inside a persistent session. Before running a command, confirm the working directory is correct (e.g., inspect with `ls` or `pwd`) and ensure any parent directories exist. Prefer absolute paths and quote paths containing spaces, such as `cd \"/path/with spaces\"`. Chain multiple commands with `&&` or `;` instead of embedding newlines. Avoid unnecessary `cd` usage unless explicitly required so the session remains stable. Outputs may be truncated when they become very large, and long running commands will be terminated once their configured timeout elapses."
		assert.Equal(t, s.Tools[i].Description, description)
	})
}

func TestDeadline(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		p.Spec.Limits.CommandTimeout = time.Second
		s := open(t, p.Policy, p.Spec, tool.Options{})
		places.Eventually(t, func() string {
			text := s.fails("shell", "command", "echo begun; sleep 60")
			if !strings.HasPrefix(text, "begun\n") || !strings.Contains(text, "\n\nTimed out after 1.0 s: the command was ended.") {
				return text
			}
			return ""
		})
	})
}

func TestPython(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.ok("python", "code", "x = 41"), "<no output>")
		r := s.call("python", "code", "print('hi')\n{'n': x + 1}")
		assert.Equal(t, r.Text, "hi\n{'n': 42}\n")
		assert.Equal(t, string(r.Value), `{"n": 42}`)
		text := s.fails("python", "code", "int('three')")
		assert.Assert(t, cmp.Contains(text, "ValueError: invalid literal"))
		assert.Equal(t, s.fails("python"), `The input of python is not right: "code" is missing. It has "code" (string).`)
		// The files are those of the shell.
		s.ok("python", "code", "open('f', 'w').write('from Python')")
		assert.Equal(t, s.ok("shell", "command", "cat f"), "from Python")
		s.ok("shell", "restart", true)
		assert.Assert(t, cmp.Contains(s.fails("python", "code", "x"), "NameError"))
	})
}

func TestFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.ok("list"), ". is empty.")
		assert.Equal(t, s.ok("write", "path", "src/a b.txt", "content", "one\ntwo\nthree\n"), "Wrote 14 bytes to src/a b.txt.")
		assert.Equal(t, s.ok("read", "path", "src/a b.txt"), "one\ntwo\nthree\n")
		assert.Equal(t, s.ok("read", "path", "src/a b.txt", "offset", 2, "limit", 1),
			"two\n\n[Lines 2 to 2 of 3. Read on with offset 3.]")
		assert.Equal(t, s.ok("read", "path", "src/a b.txt", "offset", 3), "three\n\n[Lines 3 to 3 of 3.]")
		assert.Equal(t, s.fails("read", "path", "src/a b.txt", "offset", 4), "src/a b.txt has only 3 lines.")
		assert.Equal(t, s.fails("read", "path", "src/a b.txt", "offset", 0), `"offset" and "limit" must be 1 or more.`)
		s.ok("shell", "command", "cd src; chmod 755 'a b.txt'")
		assert.Equal(t, s.ok("edit", "path", "src/a b.txt", "old_str", "two\n", "new_str", "2\n"), "Changed src/a b.txt at line 2.")
		assert.Equal(t, s.ok("shell", "command", "cat 'a b.txt'; stat -c %a 'a b.txt'"), "one\n2\nthree\n755\n")
		assert.Equal(t, s.ok("write", "path", "src/a b.txt", "content", ""), "Wrote 0 bytes to src/a b.txt.")
		assert.Equal(t, s.ok("read", "path", "src/a b.txt"), "src/a b.txt is empty.")
		assert.Equal(t, s.ok("shell", "command", "stat -c %a 'a b.txt'; ln -s x link; mkfifo fifo; mkdir d; touch \"$(printf 'a\\nb')\""), "755\n")
		assert.Equal(t, s.ok("list", "path", "src"), "\"a\\nb\"  0 bytes\na b.txt  0 bytes\nd/\nfifo  (special)\nlink  (link)\n")
		assert.Equal(t, s.fails("read", "path", "src/fifo"), "src/fifo is not a regular file. If it is a directory, use list.")
		assert.Equal(t, s.fails("read", "path", "src"), "src is not a regular file. If it is a directory, use list.")
		assert.Equal(t, s.fails("read", "path", "a b.txt"),
			"a b.txt does not exist. A relative path begins where the session began, wherever the shell is now.")
		assert.Equal(t, s.fails("list", "path", "/none"), "/none does not exist.")
		assert.Equal(t, s.fails("list", "path", "src/a b.txt"), "src/a b.txt: not a directory")
		assert.Equal(t, s.fails("write", "path", "/usr/x", "content", ""), "/usr/x: read-only file system")
		assert.Assert(t, cmp.Contains(s.fails("read", "path", strings.Repeat("x", 5000)), "the name is empty, too long or has a NUL byte"))
		assert.Assert(t, cmp.Contains(s.fails("read", "path", strings.Repeat("x", 300)), "file name too long"))
		s.ok("shell", "command", `printf 'a\0b' >/tmp/zero; head -c 5000000 /dev/zero >/tmp/large`)
		assert.Equal(t, s.fails("read", "path", "/tmp/zero"),
			"/tmp/zero is not a text in UTF-8. It has 3 bytes. Use the shell or Python to look into it.")
		assert.Assert(t, cmp.Contains(s.fails("read", "path", "/tmp/large"), "is too large: more than 4194304 bytes"))
		assert.Assert(t, cmp.Contains(s.fails("edit", "path", "/tmp/large", "old_str", "a", "new_str", "b"), "is too large"))
	})
}

// A link is not made a file in the belief that what it leads to is changed.
func TestLinksStay(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("shell", "command", "mkdir d; echo old >d/f; ln -s f d/link; ln -s none d/gone; ln -s d way; ln -s d/link deep")
		for _, name := range []string{"d/link", "./d/link", "way/link", "deep", "d/../d/link"} {
			says := name + " is a link. Change the file that it leads to."
			assert.Check(t, cmp.Equal(s.fails("edit", "path", name, "old_str", "old", "new_str", "new"), says))
			assert.Check(t, cmp.Equal(s.fails("write", "path", name, "content", "new"), says))
		}
		assert.Check(t, cmp.Equal(s.fails("write", "path", "d/gone", "content", ""), "d/gone is a link. Change the file that it leads to."))
		assert.Equal(t, s.ok("shell", "command", "cat d/f; ls d; readlink d/link"), "old\nf\ngone\nlink\nf\n")
		// A link on the way is followed.
		assert.Equal(t, s.ok("edit", "path", "way/f", "old_str", "old", "new_str", "new"), "Changed way/f at line 1.")
		assert.Equal(t, s.ok("shell", "command", "cat d/link"), "new\n")
	})
}

func TestRefusedEdits(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "f", "content", "\tif x {\r\n\t\treturn 1\n\t}\naaa\nx\nx\n")
		for _, c := range []struct{ before, after, says string }{
			{"", "x", "\"old_str\" is empty."},
			{"aaa", "aaa", "so there is nothing to change"},
			{"nowhere", "x", "\"old_str\" is not in f. Not even its first line is: read the file."},
			{"if x {\n    return 1", "x", "\"old_str\" is not in f. Its first line is at line 1, but the rest or the white space differs: read the file there."},
			{"if x {\n\t\treturn 1", "x", `The lines of the file end with "\r\n", and those of "old_str" with "\n".`},
			{"aa", "x", "is in f more than once, at lines 4, 4."},
			{"x\n", "y\n", "is in f more than once, at lines 5, 6."},
			{"\nx", "y", "is in f more than once, at lines 4, 5."},
			{" \n ", "y", "\"old_str\" is not in f."},
		} {
			assert.Check(t, cmp.Contains(s.fails("edit", "path", "f", "old_str", c.before, "new_str", c.after), c.says))
		}
		s.ok("write", "path", "many", "content", strings.Repeat("x\n", 1000))
		assert.Check(t, cmp.Contains(s.fails("edit", "path", "many", "old_str", "x", "new_str", "y"), "8, 9, 10 and others."))
	})
}

// Of what is read all comes, in parts that are within the bounds.
func TestReadOn(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{Render: execpolicy.RenderOptions{MaxBytes: 300, MaxLines: 10}})
		var want strings.Builder
		for i := range 100 {
			fmt.Fprintf(&want, "%d %s\n", i, strings.Repeat("é", i%40))
		}
		s.ok("write", "path", "f", "content", want.String())
		var got strings.Builder
		for next := 1; next > 0; {
			text := s.ok("read", "path", "f", "offset", next)
			assert.Assert(t, len(text) <= 300 && strings.Count(text, "\n") < 10, text)
			lines, notice, ok := strings.Cut(text, "\n[Lines ")
			got.WriteString(lines)
			next = 0
			if ok {
				fmt.Sscanf(notice[strings.Index(notice, ".")+1:], " Read on with offset %d", &next)
			}
		}
		assert.Equal(t, got.String(), want.String())
		s.ok("write", "path", "f", "content", "x\n"+strings.Repeat("é", 500)+"\n")
		text := s.ok("read", "path", "f", "offset", 2)
		assert.Assert(t, cmp.Contains(text, "[The beginning of line 2, which has 820 bytes more."))
	})
}

// No secret is shown, whichever way it comes.
func TestSecrets(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		const secret = "hunter2-hunter2"
		p.Spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: secret}}
		p.Spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			if r.Kind == tool.RequestWrite || strings.Contains(r.Code, "refuse") {
				return errors.New("not into " + secret)
			}
			return nil
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("shell", "command", `echo "$TOKEN" >f; mkdir d; touch "d/$TOKEN"`)
		for _, c := range [][]any{
			{"shell", "command", "cat f"}, {"read", "path", "f"}, {"list", "path", "d"},
			{"python", "code", "open('f').read()"}, {"read", "path", "d/" + secret + "/none"},
			{"python", "code", "raise ValueError(open('f').read())"},
			{secret}, {"list", secret, ""}, {"list", strings.Repeat("x", 195) + secret, ""},
			{"write", "path", "f", "content", ""},
			{"shell", "command", "refuse"}, {"python", "code", "refuse"}, {"job", "action", "start", "command", "refuse"},
		} {
			r := s.call(c[0].(string), c[1:]...)
			assert.Check(t, !strings.Contains(r.Text, "xhunt"), r.Text) // it is not cut in two
			assert.Check(t, !strings.Contains(r.Text+string(r.Value), secret), r.Text)
		}
		assert.Equal(t, s.ok("read", "path", "f"), "[secret TOKEN]\n")
	})
}

// Who prints a set prints no secret.
func TestSetPrinted(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		const secret = "hunter2-hunter2"
		p.Spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: secret}}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("shell", "command", "true")
		for _, what := range []any{s.Set, reflect.ValueOf(s.Set).Elem()} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
				text := fmt.Sprintf(verb, what)
				assert.Check(t, !strings.Contains(text, secret) && !strings.Contains(text, hex.EncodeToString([]byte(secret))), verb)
			}
		}
	})
}

// Spec.Filter sees all that the tools read.
func TestFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		mail, err := redact.New(redact.Rule{Type: "email"}, redact.Rule{Type: "ip", Strategy: redact.Block})
		assert.NilError(t, err)
		p.Spec.Filter = mail.Writer
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "f", "content", "ann@example.com\n")
		s.ok("write", "path", "bad", "content", "10.1.2.3\n")
		assert.Equal(t, s.ok("shell", "command", "cat f"), "[REDACTED_EMAIL]\n")
		assert.Equal(t, s.ok("read", "path", "f"), "[REDACTED_EMAIL]\n")
		r := s.call("python", "code", "open('f').read()")
		assert.Equal(t, r.Text, "'[REDACTED_EMAIL]\\n'\n")
		assert.Equal(t, string(r.Value), `"[REDACTED_EMAIL]\n"`)
		assert.Assert(t, !strings.Contains(s.fails("python", "code", "raise ValueError('ann@example.com')"), "ann"))
		for _, c := range [][]any{
			{"shell", "command", "cat bad"}, {"read", "path", "bad"},
		} {
			assert.Equal(t, s.fails(c[0].(string), c[1:]...), "Output blocked: detected ip.")
		}
		// What the snippet printed has passed, and the value has not.
		assert.Equal(t, s.fails("python", "code", "open('bad').read()"), "<no output>\n\nOutput blocked: detected ip.")
	})
}

// A filter sees the lines of a value as lines, and its characters as they are.
func TestFilterOfValues(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		name := regexp.MustCompile("Jürgen|🚢")
		rules, err := redact.New(redact.Rule{Type: "credit_card"}, redact.Rule{Type: "ip", Strategy: redact.Block},
			redact.Rule{Type: "name", Find: func(line []byte) [][]int { return name.FindAllIndex(line, -1) }})
		assert.NilError(t, err)
		p.Spec.Filter = rules.Writer
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "bad2", "content", "x\n10.1.2.3\n")
		for _, code := range []string{
			"open('bad2').read()", "open('bad2', 'rb').read()", "{'x\\t10.1.2.3': 1}", `"\xa010.1.2.3"`, "raise KeyError('x\\n10.1.2.3')",
		} {
			r := s.call("python", "code", code)
			assert.Check(t, strings.HasSuffix(r.Text, "Output blocked: detected ip."), r.Text)
			assert.Check(t, r.Failed && r.Value == nil && !strings.Contains(r.Text, "10.1"), r.Text)
		}
		s.ok("write", "path", "cards", "content", "4111111111111111\n5555555555554444\n")
		r := s.call("python", "code", "open('cards').read()")
		assert.Equal(t, r.Text, "'[REDACTED_CREDIT_CARD]\n[REDACTED_CREDIT_CARD]\n'\n")
		assert.Assert(t, r.Value == nil, string(r.Value))
		for code, want := range map[string]string{
			"'Jürgen'": "'[REDACTED_NAME]'\n", "'🚢'": "'[REDACTED_NAME]'\n", "'Jürgen'.encode()": "b'[REDACTED_NAME]'\n",
		} {
			r := s.call("python", "code", code)
			assert.Check(t, cmp.Equal(r.Text, want))
			assert.Check(t, r.Value == nil, string(r.Value))
		}
		// What the filter leaves alone stays as it is.
		r = s.call("python", "code", `['a\nb', 'é\xa0\\', "'"]`)
		assert.Equal(t, r.Text, `['a\nb', 'é\xa0\\', "'"]`+"\n")
		assert.Equal(t, string(r.Value), `["a\nb", "\u00e9\u00a0\\", "'"]`)
	})
}

// A filter that would change its own results sees a value once.
func TestFilterOfValuesIsAppliedOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		token := regexp.MustCompile("[0-9a-f]{8,}")
		rules, err := redact.New(redact.Rule{Type: "token", Strategy: redact.Hash,
			Find: func(line []byte) [][]int { return token.FindAllIndex(line, -1) }})
		assert.NilError(t, err)
		p.Spec.Filter = rules.Writer
		s := open(t, p.Policy, p.Spec, tool.Options{})
		r := s.call("python", "code", `"0123456789abcdef\n"`)
		plain := s.call("python", "code", `"0123456789abcdef"`)
		assert.Equal(t, r.Text, strings.Replace(plain.Text, ">'", `>\n'`, 1))
		assert.Equal(t, strings.Count(r.Text, "token_hash"), 1, r.Text)
		assert.Assert(t, r.Value != nil)
	})
}

// What is put together where escapes are taken out is seen by a filter, too.
func TestFilterBehindEscapes(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		rules, err := redact.New(redact.Rule{Type: "email"}, redact.Rule{Type: "ip", Strategy: redact.Block})
		assert.NilError(t, err)
		p.Spec.Filter = rules.Writer
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.fails("shell", "command", `printf '10.1.\033[m2.3\n'`), "Output blocked: detected ip.")
		assert.Equal(t, s.fails("shell", "command", `printf '10.1.\033[m2.3\n' >&2`), "Output blocked: detected ip.")
		assert.Equal(t, s.ok("shell", "command", `printf 'ann@\033[31mexample.com\n'`), "[REDACTED_EMAIL]\n")
		assert.Equal(t, s.fails("python", "code", `print('10.1.\033[m2.3')`), "Output blocked: detected ip.")
		assert.Equal(t, s.ok("shell", "command", `printf '\033[mred\n'`), "red\n")
		kept := open(t, p.Policy, p.Spec, tool.Options{Render: execpolicy.RenderOptions{KeepEscapes: true}})
		assert.Equal(t, kept.ok("shell", "command", `printf '10.1.\033[m2.3\n'`), "10.1.\x1b[m2.3\n")
	})
}

func TestApprove(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		var asked []string
		p.Spec.Approve = func(ctx context.Context, r execpolicy.Request) error {
			asked = append(asked, fmt.Sprintf("%s %s%s", r.Kind, r.Path, r.Code))
			if strings.Contains(r.Code, "bad") {
				return errors.New("not that")
			}
			return nil
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "f", "content", " good")
		assert.Equal(t, s.fails("write", "path", "f", "content", " bad"), "Error: the command was refused: write: not that.")
		s.ok("edit", "path", "f", "old_str", "good", "new_str", " better")
		s.fails("edit", "path", "f", "old_str", "better", "new_str", " bad")
		s.fails("shell", "command", "bad")
		s.fails("python", "code", "bad")
		assert.DeepEqual(t, asked, []string{"write f good", "write f bad", "write f  better", "write f   bad", "script bad", "snippet bad"})
		assert.Equal(t, s.ok("read", "path", "f"), "  better")
	})
}

// An edit that was approved does not take back what was written meanwhile.
func TestEditThatIsApprovedLate(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		var s set
		meanwhile := "echo more >>f"
		p.Spec.Approve = func(ctx context.Context, r execpolicy.Request) error {
			if r.Kind != tool.RequestWrite {
				return nil
			}
			_, err := s.Session.Run(ctx, execpolicy.Command{Script: meanwhile})
			return err
		}
		s = open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("shell", "command", "echo old >f")
		assert.Equal(t, s.fails("edit", "path", "f", "old_str", "old", "new_str", "new"), "f was changed before this was approved. Read it again.")
		assert.Equal(t, s.ok("read", "path", "f"), "old\nmore\n")
		meanwhile = "rm f"
		assert.Assert(t, cmp.Contains(s.fails("edit", "path", "f", "old_str", "old", "new_str", "new"), "f does not exist."))
	})
}

// A question that nobody answers ends with the session, and not with a restart.
func TestApproveThatIsNotAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		asked := make(chan struct{}, 1)
		p.Spec.Approve = func(ctx context.Context, r execpolicy.Request) error {
			if r.Kind != tool.RequestWrite {
				return nil
			}
			asked <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		done := make(chan error, 1)
		go func() {
			_, err := s.Call(context.Background(), "write", object("path", "f", "content", "x"))
			done <- err
		}()
		<-asked
		s.ok("shell", "restart", true)
		assert.Equal(t, s.ok("shell", "command", "echo on"), "on\n")
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		assert.NilError(t, s.Close())
		enginetest.Within(t, time.Minute, "the call", func() { assert.ErrorIs(t, <-done, execpolicy.ErrClosed) })
	})
}

// One filter is asked for a writer by what runs and by what is read, but not by both at
// the same time.
func TestFilterInTurn(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		asked := 0
		p.Spec.Filter = func(w io.Writer) io.WriteCloser {
			asked++
			return unfiltered{w}
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "f", "content", "a\n")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := s.Call(t.Context(), "read", object("path", "f"))
				assert.Check(t, err)
			})
			all.Go(func() {
				_, err := s.Call(t.Context(), "shell", object("command", "echo b"))
				assert.Check(t, err)
			})
		}
		all.Wait()
		assert.Assert(t, asked >= 40)
	})
}

type unfiltered struct{ io.Writer }

func (unfiltered) Close() error { return nil }

// Edits of one file that are made at the same time are all made.
func TestEditsAtTheSameTime(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("write", "path", "f", "content", "a b c d e f g h\n")
		var all sync.WaitGroup
		for _, letter := range strings.Fields("a b c d e f g h") {
			all.Go(func() {
				_, err := s.Call(t.Context(), "edit", object("path", "f", "old_str", letter, "new_str", strings.ToUpper(letter)))
				assert.Check(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, s.ok("read", "path", "f"), "A B C D E F G H\n")
	})
}

func TestBadInput(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		for _, c := range []struct{ name, input, says string }{
			{"shall", "{}", `There is no tool "shall". The tools are shell, python, read, write, edit, list, job.`},
			{"read", "", `The input of read is not right: "path" is missing. It has "path" (string), "offset" (integer, may be left out), "limit" (integer, may be left out).`},
			{"read", "null", `"path" is missing`},
			{"read", "[]", "The input of read must be a JSON object."},
			{"read", `{"path":"a`, "The input of read is not JSON: unexpected end of JSON input. If it was cut off, do it in smaller steps."},
			{"read", `{"path":"f","offset":"1"}`, `"offset" must be of the type integer`},
			{"read", `{"path":"f","offset":1.5}`, `"offset" must be of the type integer`},
			{"read", `{"file":"f","Path":"f"}`, `"path" is missing; there is no "Path"; there is no "file".`},
			{"shell", `{"restart":"yes"}`, `"restart" must be of the type boolean`},
			{"read", `{"path":"f","offset":1e300}`, `"offset" must be of the type integer`},
			{"read", `{"path":"f","offset":2.0,"limit":1e3}`, "f does not exist"},
			{"shell", `{"command":"a\u0000b"}`, "NUL"},
			{"shell", `{"command":" \n"}`, "Shell tool expects a 'command' string when restart is not requested."},
			{"write", `{"path":"f","content":"` + strings.Repeat("x", tool.MaxInput) + `"}`, "which is too much: it may have 4194304."},
		} {
			r, err := s.Call(t.Context(), c.name, json.RawMessage(c.input))
			assert.NilError(t, err)
			assert.Check(t, r.Failed)
			assert.Check(t, cmp.Contains(r.Text, c.says))
		}
	})
}

// A value that was not to be recognized in the output is not put together in a reply.
func TestSecretBehindEscapes(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		p.Spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2-hunter2"}}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		assert.Equal(t, s.ok("shell", "command", `printf 'hunter2-\033[mhunter2\n'`), "[secret TOKEN]\n")
		if _, err := s.Session.Stat(t.Context(), "/usr/bin/python3"); err != nil {
			return // the fake engine has this machine's
		}
		for _, say := range []string{`{"problem": "%s"}`, `{"json": "%s"}`} {
			text := s.fails("python", "code", `import json, os; json.dumps = lambda *a, **k: '`+say+`' % os.environ["TOKEN"]`)
			assert.Assert(t, !strings.Contains(text, "hunter2"), text)
		}
	})
}

// A model that has lost its session can begin a new one.
func TestSessionThatHasEnded(t *testing.T) {
	places.OnEngines(t, execpolicy.Limits{}, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("python", "code", "1")
		_, _, err := enginetest.Engine{Engine: p.Policy.Engine}.Client("kill", s.Session.Name())
		assert.NilError(t, err)
		<-s.Session.Done()
		const ended = `The session has ended, with all that was in it but a mounted workspace. ` +
			`Call shell with {"restart": true} to begin a new one.`
		for _, c := range [][]any{
			{"shell", "command", "true"}, {"python", "code", "1"}, {"read", "path", "f"}, {"list"},
			{"write", "path", "f", "content", ""}, {"edit", "path", "f", "old_str", "a", "new_str", "b"},
		} {
			assert.Check(t, cmp.Equal(s.fails(c[0].(string), c[1:]...), ended))
		}
		s.ok("shell", "restart", true)
		assert.Equal(t, s.ok("python", "code", "6 * 7"), "42\nThe interpreter has ended: its variables and imports are gone.\n")
	})
}

// What the host brings about is an error.
func TestHostsErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		s := open(t, p.Policy, p.Spec, tool.Options{})
		calls := map[string]json.RawMessage{
			"shell": object("command", "true"), "python": object("code", "1"), "read": object("path", "f"), "list": object(),
			"write": object("path", "f", "content", ""), "edit": object("path", "f", "old_str", "a", "new_str", "b"),
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for name, input := range calls {
			r, err := s.Call(canceled, name, input)
			assert.Check(t, cmp.ErrorIs(err, context.Canceled), name)
			assert.Check(t, r.Failed && r.Text != "", name)
		}
		// One that is under way is told of in part.
		during, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := s.Call(during, "shell", object("command", "echo begun; sleep 60"))
			assert.Check(t, cmp.ErrorIs(err, context.Canceled))
			assert.Check(t, r.Failed)
		}()
		time.AfterFunc(100*time.Millisecond, cancel)
		<-done
		assert.NilError(t, s.Close())
		for name, input := range calls {
			_, err := s.Call(t.Context(), name, input)
			assert.Check(t, cmp.ErrorIs(err, execpolicy.ErrClosed), name)
		}
		_, err := s.Call(t.Context(), "shell", object("restart", true))
		assert.Check(t, cmp.ErrorIs(err, execpolicy.ErrClosed))
	})
}

// A snippet that runs when the set is closed is told of what every call is told of.
func TestCloseDuringSnippet(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		asked := make(chan struct{}, 3)
		p.Spec.Approve = func(context.Context, execpolicy.Request) error {
			asked <- struct{}{}
			return nil
		}
		s := open(t, p.Policy, p.Spec, tool.Options{})
		s.ok("python", "code", "1")
		<-asked
		done := make(chan error, 1)
		go func() {
			_, err := s.Call(context.Background(), "python", object("code", "import time; time.sleep(600)"))
			done <- err
		}()
		<-asked
		assert.NilError(t, s.Close())
		enginetest.Within(t, time.Minute, "the call", func() { assert.ErrorIs(t, <-done, execpolicy.ErrClosed) })
		_, err := s.Call(t.Context(), "python", object("code", "1"))
		assert.ErrorIs(t, err, execpolicy.ErrClosed)
	})
}

// A model can't prolong a session's lifetime.
func TestLifetime(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		p.Spec.Limits.Lifetime = 10 * time.Second // with the container's start
		s, err := tool.Start(t.Context(), p.Policy, p.Spec, tool.Options{})
		assert.NilError(t, err)
		defer s.Close()
		<-s.Session.Done()
		for _, input := range []json.RawMessage{object("command", "true"), object("restart", true)} {
			_, err = s.Call(t.Context(), "shell", input)
			assert.Check(t, cmp.ErrorIs(err, execpolicy.ErrExpired))
		}
	})
}

func TestWorkspace(t *testing.T) {
	everywhere(t, func(t *testing.T, p places.Place) {
		dir := enginetest.OrdinaryDir(t)
		p.Spec.Workspace = dir
		s := open(t, p.Policy, p.Spec, tool.Options{Workspace: workspace.Options{Mode: workspace.Copied}})
		assert.Assert(t, s.Session.Copied())
		s.ok("write", "path", "out.txt", "content", "kept")
		_, err := s.Session.Save(t.Context())
		assert.NilError(t, err)
		s.ok("write", "path", "new.txt", "content", "lost")
		assert.Equal(t, s.ok("shell", "restart", true),
			"Shell session restarted. The workspace was copied in anew: changes in it that were not saved are lost.")
		assert.Equal(t, s.ok("list"), "out.txt  4 bytes\n")
	})
}

func TestStartRefuses(t *testing.T) {
	enginetest.Check(t)
	_, err := tool.Start(t.Context(), execpolicy.DockerPolicy{}, execpolicy.Spec{Env: map[string]string{"a=b": ""}}, tool.Options{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}
