package dockercli

import (
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// Explain returns argv as one line that a POSIX shell runs as it is. Newlines in a word
// become "$nl", which the line itself then defines first. Values of environment variables
// are shown unless argv went through [Redact].
func Explain(argv []string) string {
	var b strings.Builder
	if slices.ContainsFunc(argv, func(word string) bool { return strings.Contains(word, "\n") }) {
		// A substitution loses newlines at its end, hence the detour.
		b.WriteString(`nl=$(printf '\n_'); nl=${nl%_}; `)
	}
	for i, word := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		// As the first word, A=1 would be an assignment.
		if i == 0 && strings.Contains(word, "=") {
			b.WriteString(singleQuote(word))
			continue
		}
		b.WriteString(quote(word))
	}
	return b.String()
}

func quote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return singleQuote(word)
}

func singleQuote(word string) string {
	return strings.ReplaceAll(shellquote.Quote(word), "\n", `'"$nl"'`)
}

// Redact returns argv with the values of -e, --env, podman's --env-merge and their joined
// forms, such as -qeNAME=VALUE, replaced by "***". A name without a value, and an empty
// value, stay. A word that may be such a flag or the value of another flag is treated as
// both. So are the passwords in URLs. The words after the "--" of run or exec, the image
// and its command, stay.
func Redact(argv []string) []string {
	redacted := slices.Clone(argv)
	before, verb := "", false
	for i, word := range argv {
		flag, value := environment(before)
		isValue := flag != "" && value == ""
		// The program may stand after a "--" of its own, as in "sudo -- docker".
		verb = verb || word == "run" || word == "exec"
		if word == "--" && !isValue && verb {
			break
		}
		if isValue {
			redacted[i] = hide(word)
		} else if flag, value := environment(word); flag != "" {
			redacted[i] = flag + hide(value)
		}
		redacted[i] = hidePasswords(redacted[i])
		before = word
	}
	return redacted
}

// environment takes a word apart that is a flag for the environment, or short flags of
// which the last is one, with its value if that is in the same word. The flag is empty if
// there is none.
func environment(word string) (flag, value string) {
	for _, long := range []string{"--env", "--env-merge"} {
		if rest, ok := strings.CutPrefix(word, long); ok && (rest == "" || rest[0] == '=') {
			n := len(word) - len(strings.TrimPrefix(rest, "="))
			return word[:n], word[n:]
		}
	}
	if len(word) < 2 || word[0] != '-' || word[1] == '-' {
		return "", ""
	}
	for i, letter := range word[1:] {
		switch {
		case letter == 'e':
			n := i + 2
			if strings.HasPrefix(word[n:], "=") {
				n++
			}
			return word[:n], word[n:]
		case letter == '=' || strings.ContainsRune(shortValued, letter):
			return "", ""
		}
	}
	return "", ""
}

// shortValued are the letters of run's and exec's other flags whose value may follow in
// the same word. The l of a label is not one of them: it is a switch of podman exec.
const shortValued = "achmpuvw"

func hide(assignment string) string {
	name, value, _ := strings.Cut(assignment, "=")
	if value == "" {
		return assignment
	}
	return name + "=***"
}
