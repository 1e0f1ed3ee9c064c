package shellwire

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// text puts the operations of a unit together as the supervisor does.
func text(t *testing.T, ops []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(ops)) {
		assert.Assert(t, len(line) <= 4096, "an operation of %d bytes", len(line))
		line = strings.TrimSuffix(line, "\n")
		rest := line[1:]
		switch line[0] {
		case 'e':
			b.WriteString(`${BASH_VERSION+"command"} eval ` + rest + " <&2")
		case 'a':
			b.WriteString(`\command exec <&7 ` + rest)
		case 'b', 'c', 'v', 'y', 'z':
		case '+':
			b.WriteString(rest + "\n")
		case '-', 'g':
			b.WriteString(rest)
		default:
			t.Fatalf("unknown operation %q", line)
		}
	}
	return b.String()
}

// keeping is what stands before a script with variables of those names.
func keeping(names string) string {
	return "cf_vars='" + names + `'; \command eval "$cf_keep" || { cf_vars=; \command printf 'cannot fork\n' >&4; ` +
		`cf_status=+2; \command return; }; `
}

func TestUnitOps(t *testing.T) {
	for _, c := range []struct {
		name string
		unit Unit
		want string
	}{
		{"short", Unit{Script: "true"}, `${BASH_VERSION+"command"} eval 'true' <&2`},
		{"quotes", Unit{Script: "echo 'a'"}, `${BASH_VERSION+"command"} eval 'echo '\''a'\''' <&2`},
		{"lines", Unit{Script: "a\nb\n\n"}, "${BASH_VERSION+\"command\"} eval 'a\nb\n\n' <&2"},
		{"long", Unit{Script: strings.Repeat("x", 5000)}, `${BASH_VERSION+"command"} eval '` + strings.Repeat("x", 5000) + `' <&2`},
		{"environment", Unit{Script: "a", Env: []string{"A=1", "B=x y"}}, keeping("A B ") + `A='1' B='x y' ${BASH_VERSION+"command"} eval 'a' <&2`},
		{"stdin", Unit{Script: "a", Stdin: "/d/i"}, `{ \command rm -f -- '/d/i'; ${BASH_VERSION+"command"} eval 'a'; } <'/d/i'`},
		{"lines before a script", Unit{Script: "a", Env: []string{"A=1\n2"}}, keeping("A ") + `A='1'"$cf_nl"'2' ${BASH_VERSION+"command"} eval 'a' <&2`},
		{"program", Unit{Argv: []string{"a", "b 'c"}}, `\command exec <&7 'a' 'b '\''c'`},
		{"program of lines", Unit{Argv: []string{"a", "b\n"}}, "\\command exec <&7 'a' 'b\n'"},
		{"long program", Unit{Argv: []string{"a", strings.Repeat("x", 5000)}}, `\command exec <&7 'a' '` +
			strings.Repeat("x", 5000) + `'`},
		{"program with all", Unit{Argv: []string{"a"}, Stdin: "/d/i", Env: []string{"A=1"}, Dir: "/", Back: "/"},
			`\command exec <'/d/i' || \command exit; \command rm -f -- '/d/i'; A='1' \command exec 'a'`},
		{"fork", Unit{Argv: []string{"/a", "b\n'c"}, Fork: true}, `\command set +euv -- 'b'"$cf_nl"''\''c'; \command . <&7 '/a'`},
		{"fork with all", Unit{Argv: []string{"/a"}, Fork: true, Stdin: "/d/i", Env: []string{"A=1"}},
			`\command exec <'/d/i' || \command exit; \command rm -f -- '/d/i'; \command set +euv -- ; A='1' \command . '/a'`},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, text(t, c.unit.Ops()), c.want) })
	}
}

// Whatever a unit is, it reaches the worker as it is, in operations of a bounded length.
func FuzzUnitOps(f *testing.F) {
	f.Add("echo 'hi'\n", "", "/in", "", "")
	f.Add(strings.Repeat("é'\n", 3000), "v'\n", "", "/a 'b'", "/back")
	f.Add("true", "", "", "/\n", "")
	f.Add("true", "", "", "-", "/back")
	f.Add(strings.Repeat("x", 2*maxLine)+"\n'", "", "", "", "")
	f.Fuzz(func(t *testing.T, script, value, stdin, dir, back string) {
		if strings.Contains(script+value+stdin+dir+back, "\x00") || strings.Contains(back, "\n") ||
			len(dir+back) > maxLine/9 {
			return // shell text holds no NUL; where the worker goes to, and back to, is one operation
		}
		u := Unit{Script: script, Env: []string{"A=" + value, "B="}, Stdin: stdin, Dir: dir, Back: back}
		body := "A=" + Word(value) + ` B='' ${BASH_VERSION+"command"} eval ` + shellquote.Quote(script)
		want := keeping("A B ") + body + " <&2"
		if stdin != "" {
			want = keeping("A B ") + `{ \command rm -f -- ` + Word(stdin) + "; " + body + "; } <" + shellquote.Quote(stdin)
		}
		around := ""
		if dir != "" {
			around = `yCDPATH= \command cd -- ` + dirWord(dir) + " >/dev/null 2>&1 || { cf_status=+nodir; \\command return; }\n" +
				`zcase $cf_status in nodir) ;; *) CDPATH= \command cd -- ` + shellquote.Quote(back) + " >/dev/null 2>&1 || cf_said=;; esac\n"
		}
		ops := string(u.Ops())
		assert.Assert(t, strings.HasPrefix(ops, around+"v\nb\n"), "%.1000q", ops)
		assert.Assert(t, text(t, []byte(ops)) == want, "%.1000q", ops)
		// A script's first line is the unit's.
		assert.Assert(t, !strings.Contains(want[:strings.Index(want, ` eval `+shellquote.Quote(script))], "\n"))
		u.Argv = []string{script, value}
		ops = string(u.Ops())
		assert.Assert(t, strings.HasPrefix(ops, around+"c\n"), "%.1000q", ops)
		assert.Assert(t, strings.HasSuffix(text(t, []byte(ops)), " "+shellquote.Quote(script)+" "+shellquote.Quote(value)))
		assert.Equal(t, text(t, Unit{Script: script}.Ops()), `${BASH_VERSION+"command"} eval `+shellquote.Quote(script)+" <&2")
	})
}

// A shell reads a word of a helper as what it was, from one line.
func FuzzWord(f *testing.F) {
	f.Add("a'b\n\n\\ $x `y` \"")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "\x00") || len(s) > 1<<14 {
			return // no argument of a program
		}
		word := Word(s)
		assert.Assert(t, !strings.Contains(word, "\n"))
		line := string(Help("printf %s " + word))
		assert.Equal(t, strings.Index(line, "\n"), len(line)-1)
		out, err := exec.Command("/bin/sh", "-c", "cf_nl='\n'; "+strings.TrimSpace(line[1:])).Output()
		assert.NilError(t, err)
		assert.Equal(t, string(out), s)
	})
}

// A shell that reads as the supervisor does finds each part of a Put, and the next
// operation behind it, whatever the data is.
func FuzzPut(f *testing.F) {
	f.Add("/d/a file", "kKILL\nw\n", uint16(0o640))
	f.Add("/d/a\n'b'", "\x00\xff END123\n", uint16(0o751))
	f.Fuzz(func(t *testing.T, name, data string, mode uint16) {
		const end = "END123"
		if strings.Contains(name, "\x00") || data == "" || len(name) > 1<<12 || len(data) > 1<<16 {
			return
		}
		perm := fs.FileMode(mode) & fs.ModePerm
		ops := string(Put(Word(name), end, []byte(data), perm)) + Thaw
		line, rest, _ := strings.Cut(ops, "\n")
		var size int
		var mask fs.FileMode
		_, err := fmt.Sscanf(line, "p%d %o "+end+" ", &size, &mask)
		assert.NilError(t, err, "%q", line)
		assert.Equal(t, size, len(data))
		assert.Equal(t, 0o666&^mask, perm&0o666) // what a new file gets
		assert.Equal(t, rest, data+"\n"+end+"\n"+Thaw)
		_, word, _ := strings.Cut(line, end+" ")
		assert.Equal(t, word, Word(name))
	})
}

// The text for a session on the host signals nothing but its own process group, by the
// number that means it.
func TestGroupTextSignalsItsOwnGroupOnly(t *testing.T) {
	lines := string(Setup{Prefix: "P", Dir: "/d"}.Text())
	kills := regexp.MustCompile(`(?m)\bp?kill(all)?\b.*`).FindAllString(lines, -1)
	assert.DeepEqual(t, kills, []string{"kill -TERM 0", "kill -CONT 0", "kill -CONT 0", "kill -TERM 0; }", "kill -KILL 0; }"})
	assert.Assert(t, !strings.Contains(lines, "/exe"))
}

// The text for a namespace does nothing unless it is process 1.
func TestNamespaceTextRefusesToRunElsewhere(t *testing.T) {
	lines := string(Setup{Prefix: "P", Dir: t.TempDir(), Namespace: true}.Text())
	assert.Assert(t, strings.HasPrefix(lines, "[ $$ = 1 ] || exit 96; "))
	cmd := exec.Command("/bin/sh", Boot()[1:]...)
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	assert.ErrorContains(t, err, "exit status 96")
	assert.Equal(t, string(out), "")
	// The second text has the same guard, for a caller that leaves out the first.
	assert.Assert(t, strings.Contains(namespace, "[ $$ = 1 ] || exit 96\n"))
}

// Every shell says what it means that no program can be run from its directory.
func TestShellThatCanNotBeCopied(t *testing.T) {
	shell := filepath.Join(t.TempDir(), "sh")
	assert.NilError(t, os.WriteFile(shell, nil, 0o644))
	for _, name := range []string{"sh", "bash", "dash", "busybox sh"} {
		words := strings.Fields(name)
		if path, err := exec.LookPath(words[0]); err == nil {
			words[0] = path
			cmd := exec.Command(words[0], append(words[1:], "-c", "cf_dir=/d; "+noExec+"exec "+shellquote.Quote(shell)+"; exit 1")...)
			out, _ := cmd.CombinedOutput()
			assert.Check(t, strings.Contains(string(out), "no program can be run from /d"), "%s: %s", name, out)
			assert.Check(t, cmd.ProcessState.ExitCode() == 94, "%s: %v", name, cmd.ProcessState)
		}
	}
}

func TestUploadCountsEveryByte(t *testing.T) {
	for _, size := range []int64{0, 1, transferBlock - 1, transferBlock, transferBlock + 1, 16 << 20} {
		var count, rest int64
		_, err := fmt.Sscanf(string(Upload("i", size)), "di %d %d\n", &count, &rest)
		assert.NilError(t, err)
		assert.Equal(t, count*transferBlock+rest, size)
	}
}

// Only where it is asked for can the supervisor's program be read.
func TestReadableSupervisor(t *testing.T) {
	for readable, words := range map[bool][]string{false: {"umask 666", "chmod 111"}, true: {"umask 222", "chmod 555"}} {
		text := string(Setup{Prefix: "P", Dir: "/d", Namespace: true, Readable: readable}.Text())
		first, _, _ := strings.Cut(text, "\n")
		for _, word := range words {
			assert.Equal(t, strings.Count(first, word), 1, "%v: %s", readable, word)
		}
		assert.Equal(t, strings.Count(first, "umask"), 2)
		assert.Equal(t, strings.Count(first, "chmod"), 1)
	}
}
