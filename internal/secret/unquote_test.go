package secret_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/secret"
)

// each writes the characters of a value, and its bytes that are not of UTF-8, with f.
func each(f func(unit string) string) func(value string) string {
	return func(value string) string {
		var b strings.Builder
		for len(value) > 0 {
			_, n := utf8.DecodeRuneInString(value)
			b.WriteString(f(value[:n]))
			value = value[n:]
		}
		return b.String()
	}
}

// before writes a backslash before each of those characters.
func before(chars string) func(value string) string {
	return each(func(u string) string {
		if strings.Contains(chars, u) {
			return `\` + u
		}
		return u
	})
}

// escape writes in numbers, or with a letter, what is not to be seen, and if ascii is set
// also what is not of ASCII: as runes, or as bytes.
func escape(runes, ascii bool, specials string) func(value string) string {
	return each(func(u string) string {
		r, _ := utf8.DecodeRuneInString(u)
		letter := strings.IndexByte("\a\b\t\n\v\f\r", u[0])
		switch {
		case strings.Contains(specials, u):
			return `\` + u
		case letter >= 0:
			return `\` + "abtnvfr"[letter:letter+1]
		case u[0] >= ' ' && u[0] < 0x7f, !ascii && len(u) > 1:
			return u
		case runes && len(u) == 1 && u[0] >= 0x80:
			return fmt.Sprintf(`\udc%x`, u[0])
		case runes && r > 0xffff:
			return fmt.Sprintf(`\U%08x`, r)
		case runes && r > 0xff:
			return fmt.Sprintf(`\u%04x`, r)
		case runes:
			return fmt.Sprintf(`\x%02x`, r)
		}
		return regexp.MustCompile("..").ReplaceAllString(fmt.Sprintf("%x", u), `\x$0`)
	})
}

// octal writes as bash does what escape does.
func octal(ascii bool, specials string) func(value string) string {
	in := regexp.MustCompile(`\\x..`)
	return each(func(u string) string {
		return in.ReplaceAllStringFunc(escape(false, ascii, specials)(u), func(s string) string {
			n, _ := strconv.ParseUint(s[2:], 16, 8)
			return fmt.Sprintf(`\%03o`, n)
		})
	})
}

const forShells = " !\"#$%&'()*+,:;<=>?@[\\]^`{|}~"

// quoters write a value as programs do, with a mark before and after it.
var quoters = map[string]func(value string) string{
	"as it is":      func(v string) string { return "=" + v + "\n" },
	"bash '":        func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" },
	"dash '":        func(v string) string { return "'" + dashMarks(v) + "'" },
	"bash \"":       func(v string) string { return `"` + before("\\$`\"")(v) + `"` },
	"bash %q":       func(v string) string { return "=" + before(forShells)(v) + "\n" },
	"bash [[ ]]":    func(v string) string { return " " + each(func(u string) string { return `\` + u })(v) + " " },
	"bash $'":       func(v string) string { return "$'" + octal(false, `\'`)(v) + "'" },
	"bash $' ASCII": func(v string) string { return "$'" + octal(true, `\'`)(v) + "'" },
	"GNU": func(v string) string {
		return "'" + each(func(u string) string {
			switch quoted := octal(true, "")(u); {
			case u == "'":
				return `'\''`
			case quoted != u:
				return "'$'" + quoted + "''"
			}
			return u
		})(v) + "'"
	},
	"Python str":          func(v string) string { return `"` + escape(true, false, `\`)(v) + `"` },
	"Python str, ASCII":   func(v string) string { return "'" + escape(true, true, `\'`)(v) + "'" },
	"Python bytes":        func(v string) string { return "b'" + escape(false, true, `\'`)(v) + "'" },
	"Python bytes, in \"": func(v string) string { return `b"` + escape(false, true, `\`)(v) + `"` },
	"JSON, ASCII": func(v string) string {
		return `"` + each(func(u string) string {
			r, n := utf8.DecodeRuneInString(u)
			switch {
			case r == utf8.RuneError && n == 1:
				return fmt.Sprintf(`\udc%x`, u[0])
			case r > '~':
				text := ""
				for _, unit := range utf16.AppendRune(nil, r) {
					text += fmt.Sprintf(`\u%04x`, unit)
				}
				return text
			}
			quoted, _ := json.Marshal(u)
			return string(quoted[1 : len(quoted)-1])
		})(v) + `"`
	},
	"Go":        strconv.Quote,
	"Go, ASCII": strconv.QuoteToASCII,
	"Go JSON":   func(v string) string { quoted, _ := json.Marshal(v); return string(quoted) },
}

func dashMarks(v string) string {
	return regexp.MustCompile("(?s)'+").ReplaceAllStringFunc(v, func(marks string) string {
		return `'"` + marks + `"'`
	})
}

// specials are what is quoted in one way or another.
var specials = []string{
	"", " ", "\t", "\n", "\r\n", "'", "''", `"`, `\`, `\\`, "$", "`", "~", "=", "!", "é", "ü", "Ã\u0083", "日本",
	"\U0001f600", "\u0085", "\xff", "\xc3", "\x1b", "\x01", "\x7f", "<&>", "*?[]", "{a,b}", "#;|()", "\\n", `\'`, `'"`,
	"$'", "it's \"a\" \\ b",
}

// testQuoted checks that nothing is passed on of a value that is quoted.
func testQuoted(t *testing.T, value string) {
	t.Helper()
	for name, quote := range quoters {
		if name == "Go JSON" && len(strings.ToValidUTF8(value, "")) < 4 {
			// That replaces what is not of UTF-8.
			continue
		}
		text := "x" + quote(value) + "x"
		got := redacted([]byte(text), uint64(len(text)), 1+len(text)%7, named(value)...)
		rest := strings.ReplaceAll(got, "[secret A]", "")
		assert.Check(t, got != rest && len(rest) <= len(`xb''"'"x`), "%s of %q: %q became %q", name, value, text, got)
	}
}

func TestUnquotes(t *testing.T) {
	for _, special := range specials {
		for _, value := range []string{
			"q7Rk" + special + "2mWz", special + "q7Rk", "q7Rk" + special, special + "a" + special + "b" + special +
				"c" + special + "d",
		} {
			if strings.TrimSpace(value) == value {
				testQuoted(t, value)
			}
		}
	}
	for _, value := range quotedValues {
		testQuoted(t, value)
	}
}

// What comes near a value and is none is passed on.
func TestLeavesWhatIsNoValue(t *testing.T) {
	secrets := named("hunter2", "it's me", "its me", "tab\tbed", "dont stop", "C:\new\\dir", "café-au-lait",
		"'tis so", "\x1b[31m")
	for _, text := range []string{
		`hun\ter2`, `\hunter`, "hun'ter2'", `"hun""ter2"`, `hunter\x3`, "it''s me", `it"s me`, `it\\'s me`, "don't stop",
		`dont\stop`, `tab\\tbed`, `tab\x9bed`, `C:\new\dir`, `caf\xe-au-lait`, `caf\xc3-au-lait`, `caf\u00e-au-lait`,
		`caf\351-au-lait`, `\ud83d\ud83d`, `''tis`, `'\'tis me`, `\x1b\[31 m`, `\e[31`, "'$'", `'"'"`, `\`, `'\`, `\u12`,
		`\h\u\n\t\er2`, `\h\u\n\te\r\2`,
	} {
		assert.Equal(t, redacted([]byte(text), 1, 3, secrets...), text)
	}
}

// A tokenOf returns what the beginning of a text stands for, how long it is, 0 if it
// stands for nothing, and the state after it, where a text is quoted in one way.
type tokenOf func(text, state string) (what string, n int, next string)

// decode returns how much of a text stands for the longest of the values, if one does.
func decode(text string, values []string, token tokenOf) int {
	longest := 0
	for _, v := range values {
		n, state := 0, ""
		for n < len(text) && v != "" {
			what, size, next := token(text[n:], state)
			if size == 0 || !strings.HasPrefix(v, what) && !strings.HasPrefix(what, v) {
				break
			}
			v = v[min(len(what), len(v)):]
			n, state = n+size, next
		}
		if v == "" {
			longest = max(longest, n)
		}
	}
	return longest
}

var escapes = regexp.MustCompile(`^\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|u[[:xdigit:]]{4}|` +
	`U[[:xdigit:]]{8}|x[[:xdigit:]]{2}|[0-7]{1,3}|(?s:[^0-9A-Za-z]|[abtnvfreE]))`)

// unescapedAs returns the token of what is quoted with backslashes, where what follows \x
// is that of a byte or a rune.
func unescapedAs(xIs int) tokenOf {
	return func(text, state string) (string, int, string) { return unescaped(text, state, xIs) }
}

func unescaped(text, state string, xIs int) (string, int, string) {
	if text[0] != '\\' {
		return text[:1], 1, state
	}
	if len(text) > 1 && text[1] >= 0x80 {
		return text[1:2], 2, state
	}
	found := escapes.FindString(text)
	if found == "" {
		return "", 0, state
	}
	n, c := len(found), found[1]
	hex, _ := strconv.ParseUint(strings.TrimLeft(found[1:min(n, 10)], "xuU"), 16, 32)
	oct, _ := strconv.ParseUint(found[1:], 8, 32)
	letter := strings.IndexByte("abtnvfr", c)
	switch {
	case n == 12:
		high, _ := strconv.ParseUint(found[2:6], 16, 32)
		low, _ := strconv.ParseUint(found[8:], 16, 32)
		return string(utf16.DecodeRune(rune(high), rune(low))), n, state
	case c == 'x':
		return []string{string([]byte{byte(hex)}), string(rune(hex))}[xIs], n, state
	case c == 'u' && hex >= 0xdc80 && hex <= 0xdcff:
		return string([]byte{byte(hex)}), n, state
	case c == 'u' && utf16.IsSurrogate(rune(hex)):
		return "", 0, state
	case c == 'u' || c == 'U':
		return string(rune(hex)), n, state
	case c >= '0' && c <= '7':
		return string([]byte{byte(oct)}), n, state
	case letter >= 0:
		return string(rune('\a' + letter)), n, state
	case c == 'e' || c == 'E':
		return "\x1b", n, state
	}
	return found[1:], n, state
}

// everyEscaped is the token of what has a backslash before each character.
func everyEscaped(text, state string) (string, int, string) {
	if text[0] != '\\' || len(text) == 1 {
		return "", 0, state
	}
	_, n := utf8.DecodeRuneInString(text[1:])
	return text[1 : 1+n], 1 + n, state
}

// word is the token of a shell's word, from within its '...'.
func word(text, state string) (string, int, string) {
	switch c := text[0]; {
	case state == "" && c == '\'':
		return "", 1, "between"
	case state == "":
		return text[:1], 1, ""
	case state == "between" && c == '\'':
		return "", 1, ""
	case state == "between" && c == '"':
		return "", 1, `"`
	case state == "between" && strings.HasPrefix(text, "$'"):
		return "", 2, "$"
	case state == "between" && strings.HasPrefix(text, `\'`):
		return "'", 2, "between"
	case state == `"` && c == '"', state == "$" && c == '\'':
		return "", 1, "between"
	case state == `"` && c == '\'':
		return "'", 1, state
	case state == "$":
		return unescaped(text, state, 0)
	}
	return "", 0, ""
}

// Whatever is printed, nothing takes the place of what is no value in any quoting, and
// nothing is left of a value that is not quoted; and how the text is cut changes nothing.
func FuzzUnquotes(f *testing.F) {
	for i, special := range specials {
		for name, quote := range quoters {
			f.Add([]byte("x"+quote("q7Rk"+special+"2")), "q7Rk"+special+"2", special+"next", uint64(i+len(name)))
		}
	}
	f.Add([]byte(`''\'''\'''\'''\'' '\'''`), "'''' '", `\''\''`, uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, a, b string, seed uint64) {
		if len(text) > 300 || len(a)+len(b) > 100 || strings.Contains(a+b, "\n") {
			return
		}
		var values []string
		must, may := make([]bool, len(text)), make([]bool, len(text))
		mark := func(where []bool, at, n int) {
			for i := at; i < at+n; i++ {
				where[i] = true
			}
		}
		for _, v := range []string{a, b} {
			if v = strings.TrimSpace(v); len(v) >= 4 {
				values = append(values, v)
				for i := range text {
					if strings.HasPrefix(string(text[i:]), v) {
						mark(must, i, len(v))
					}
				}
				if !utf8.ValidString(v) {
					values = append(values, string([]rune(v)))
				}
			}
		}
		for i := range text {
			for _, token := range []tokenOf{unescapedAs(0), unescapedAs(1), everyEscaped, word} {
				mark(may, i, decode(string(text[i:]), values, token))
			}
		}
		for i, hidden := range secret.Hidden(text, named(a, b)...) {
			if hidden && !may[i] && !must[i] || !hidden && must[i] {
				t.Fatalf("byte %d of %q is hidden: %v, with %q", i, text, hidden, values)
			}
		}
		whole := redacted(text, seed, len(text)+1, named(a, b)...)
		for _, longest := range []int{1, 3, 17} {
			assert.Equal(t, redacted(text, seed, longest, named(a, b)...), whole)
		}
	})
}

// A value is found in each quoting, whatever it is.
func FuzzQuoted(f *testing.F) {
	for _, special := range specials {
		f.Add(special + "value" + special + "x")
	}
	for _, v := range quotedValues {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.TrimSpace(value) == value && len(value) >= 4 && len(value) < 200 && !strings.Contains(value, "\x00") {
			testQuoted(t, value)
		}
	})
}
