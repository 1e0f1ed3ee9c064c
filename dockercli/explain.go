package dockercli

import (
	"slices"
	"strings"
)

// Explain returns argv as one line that a POSIX shell runs as it is. Newlines in a word become "$nl", which the line itself then
// defines first. Values of environment variables are shown unless argv went through [Redact].
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
	word = strings.ReplaceAll(word, "'", `'\''`)
	return "'" + strings.ReplaceAll(word, "\n", `'"$nl"'`) + "'"
}

// Redact returns argv with the values of -e, --env, podman's --env-merge and their joined forms replaced by "***". A name without a value,
// and an empty value, stay. Words after "--" are the image and its command, and stay as they are.
func Redact(argv []string) []string {
	redacted := slices.Clone(argv)
	valueNext := false
	for i, word := range redacted {
		switch {
		case valueNext:
			redacted[i] = hide(word)
			valueNext = false
		case word == "--":
			return redacted
		case word == "-e" || word == "--env" || word == "--env-merge":
			valueNext = true
		case strings.HasPrefix(word, "--env="):
			redacted[i] = "--env=" + hide(word[len("--env="):])
		case strings.HasPrefix(word, "--env-merge="):
			redacted[i] = "--env-merge=" + hide(word[len("--env-merge="):])
		case strings.HasPrefix(word, "-e="):
			redacted[i] = "-e=" + hide(word[len("-e="):])
		case strings.HasPrefix(word, "-e"):
			redacted[i] = "-e" + hide(word[len("-e"):])
		case strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && !strings.Contains(word, "="):
			// Switches in one word, of which the last may be -e, as in -ie.
			valueNext = strings.HasSuffix(word, "e")
		}
	}
	return redacted
}

func hide(assignment string) string {
	name, value, _ := strings.Cut(assignment, "=")
	if value == "" {
		return assignment
	}
	return name + "=***"
}
