package dockercli_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/shlex"
	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"gotest.tools/v3/assert"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"docker", "run", "--name=a-b", "image:1"}, "docker run --name=a-b image:1"},
		{[]string{"docker", "", "two words", "it's", "$HOME", "*", "~"}, `docker '' 'two words' 'it'\''s' '$HOME' '*' '~'`},
		{[]string{"A=1", "B=2"}, `'A=1' B=2`},
		{[]string{"echo", "a\nb\n"}, `nl=$(printf '\n_'); nl=${nl%_}; echo 'a'"$nl"'b'"$nl"''`},
		{[]string{"/opt/my docker/docker"}, `'/opt/my docker/docker'`},
		{nil, ""},
	} {
		assert.Equal(t, dockercli.Explain(c.argv), c.want)
	}
}

// printed runs a line in a shell, whose first word has to be printf with its format.
func printed(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).Output()
	assert.NilError(t, err, line)
	return string(out)
}

func TestExplainRuns(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		leftout.Skip(t, "no shell here")
	}
	words := []string{"", " ", "plain", "a\nb", "\n", "trailing\n\n", "'", `"`, `\`, "$(false)", "`false`", "!x",
		"{a,b}", "é漢\x01\x1b", "#no", "-n", "a=b", "%s", "\t\r"}
	line := dockercli.Explain(append([]string{"printf", "%s|"}, words...))
	assert.Assert(t, !strings.Contains(line, "\n"))
	assert.Equal(t, printed(t, line), strings.Join(words, "|")+"|")
}

func FuzzExplain(f *testing.F) {
	for _, seed := range []string{"", "a b", "'", "\n", "a\n\n", "$x", "\\", "\xff", "=", "#"} {
		f.Add(seed, "x")
	}
	_, noShell := exec.LookPath("sh")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsRune(a+b, 0) {
			return // no argument vector holds one
		}
		line := dockercli.Explain([]string{"printf", "%s|", a, b})
		assert.Assert(t, !strings.Contains(line, "\n"))
		if !strings.Contains(a+b, "\n") && utf8.ValidString(a) && utf8.ValidString(b) {
			words, err := shlex.Split(line)
			assert.NilError(t, err)
			assert.DeepEqual(t, words, []string{"printf", "%s|", a, b})
		}
		if noShell == nil {
			assert.Equal(t, printed(t, line), a+"|"+b+"|")
		}
	})
}

func TestRedact(t *testing.T) {
	for _, c := range []struct{ argv, want string }{
		{"docker run -e A=1 image", "docker run -e A=*** image"},
		{"docker run -e=A=1 image", "docker run -e=A=*** image"},
		{"docker run -eA=1 image", "docker run -eA=*** image"},
		{"docker run --env A=1 image", "docker run --env A=*** image"},
		{"docker run --env=A=1=2 image", "docker run --env=A=*** image"},
		{"docker run --env=A -e B image", "docker run --env=A -e B image"},
		{"docker run --env=A= image", "docker run --env=A= image"},
		{"podman run --env-merge A=1 image", "podman run --env-merge A=*** image"},
		{"podman run --env-merge=A=${A}1 image", "podman run --env-merge=A=*** image"},
		{"docker run -ie A=1 image", "docker run -ie A=*** image"},
		{"docker run -it -w/x image", "docker run -it -w/x image"},
		{"docker run --env-file=a=b image", "docker run --env-file=a=b image"},
		{"docker run -- image sh -e A=1", "docker run -- image sh -e A=1"},
		{"docker run -e", "docker run -e"},
		{"docker run -qeA=1 image", "docker run -qeA=*** image"},
		{"docker run -qe=A=1 image", "docker run -qe=A=*** image"},
		{"docker run -qPite A=1 image", "docker run -qPite A=*** image"},
		{"docker run -zeA=1 image", "docker run -zeA=*** image"},
		{"docker run -q=e -hse A=1 -v/e:/e=e image", "docker run -q=e -hse A=1 -v/e:/e=e image"},
		{"docker run --label -e --env A=1 image", "docker run --label -e --env A=*** image"},
		{"docker run --label -e --env=A=1 image", "docker run --label -e --env=*** image"},
		{"docker run -l -qe -eA=1 image", "docker run -l -qe -eA=*** image"},
		{"docker run -e -- -e A=1 image", "docker run -e -- -e A=*** image"},
		{"sudo -n -- docker run -e A=1 -- image -e A=1", "sudo -n -- docker run -e A=*** -- image -e A=1"},
		{"podman --url ssh://u:hunter2@h/s run image", "podman --url ssh://u:***@h/s run image"},
		{"podman exec -lte A=1 name", "podman exec -lte A=*** name"},
		{"podman exec -leA=1 name", "podman exec -leA=*** name"},
		{"docker run -e --env A=1 image", "docker run -e --env A=*** image"},
	} {
		argv := strings.Fields(c.argv)
		assert.Equal(t, strings.Join(dockercli.Redact(argv), " "), c.want)
		assert.Equal(t, strings.Join(argv, " "), c.argv)
	}
}
