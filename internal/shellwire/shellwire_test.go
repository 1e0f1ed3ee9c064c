package shellwire

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
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
			b.WriteString(`\command eval ` + rest + " <&2")
		case 'b', 'z':
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

func TestUnitOps(t *testing.T) {
	for _, c := range []struct {
		name string
		unit Unit
		want string
	}{
		{"short", Unit{Script: "true"}, `\command eval 'true' <&2`},
		{"quotes", Unit{Script: "echo 'a'"}, `\command eval 'echo '\''a'\''' <&2`},
		{"lines", Unit{Script: "a\nb\n\n"}, "\\command eval 'a\nb\n\n' <&2"},
		{"long", Unit{Script: strings.Repeat("x", 5000)}, `\command eval '` + strings.Repeat("x", 5000) + `' <&2`},
		{"environment", Unit{Script: "a", Env: []string{"A=1", "B=x y"}}, `A='1' B='x y' \command eval 'a' <&2`},
		{"stdin", Unit{Script: "a", Stdin: "/d/i"}, `{ \command rm -f -- '/d/i'; \command eval 'a'; } <'/d/i'`},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, text(t, c.unit.Ops()), c.want) })
	}
}

// Whatever a script is, it reaches the worker whole, in operations of a bounded length.
func FuzzUnitOps(f *testing.F) {
	f.Add("echo 'hi'\n", "", "/in")
	f.Add(strings.Repeat("é'\n", 3000), "v'\n", "")
	f.Fuzz(func(t *testing.T, script, value, stdin string) {
		if strings.Contains(script+value+stdin, "\x00") {
			return // shell text holds no NUL
		}
		u := Unit{Script: script, Env: []string{"A=" + value}, Stdin: stdin}
		got := text(t, u.Ops())
		assert.Assert(t, strings.Contains(got, "A="+Quote(value)+` \command eval `+Quote(script)))
		assert.Assert(t, strings.Contains(text(t, Unit{Script: script}.Ops()), Quote(script)))
	})
}

// A shell reads a quoted word as what it was.
func FuzzQuote(f *testing.F) {
	f.Add("a'b\n\\ $x `y` \"")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "\x00") || len(s) > 1<<16 {
			return // no argument of a program
		}
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+Quote(s)).Output()
		assert.NilError(t, err)
		assert.Equal(t, string(out), s)
	})
}

// The text for a session on the host signals nothing but its own process group, by the number that means it.
func TestGroupTextSignalsItsOwnGroupOnly(t *testing.T) {
	lines := string(Setup{Prefix: "P", Dir: "/d"}.Text())
	kills := regexp.MustCompile(`(?m)\bp?kill(all)?\b.*`).FindAllString(lines, -1)
	assert.DeepEqual(t, kills, []string{"kill -TERM 0", "kill -CONT 0", "kill -CONT 0", "kill -KILL 0; }"})
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

func TestUploadCountsEveryByte(t *testing.T) {
	for _, size := range []int64{0, 1, transferBlock - 1, transferBlock, transferBlock + 1, 16 << 20} {
		var count, rest int64
		_, err := fmt.Sscanf(string(Upload("i", size)), "di %d %d\n", &count, &rest)
		assert.NilError(t, err)
		assert.Equal(t, count*transferBlock+rest, size)
	}
}
