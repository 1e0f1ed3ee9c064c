package secret_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
)

func newValues(values ...secret.Value) *secret.Values {
	var none *secret.Values
	return none.With(values...)
}

func newWriter(dst io.Writer, values ...secret.Value) io.WriteCloser {
	return newValues(values...).Writer(dst)
}

// redacted returns what is passed on of a text that is written in pieces of at most
// longest bytes.
func redacted(text []byte, seed uint64, longest int, values ...secret.Value) string {
	var out bytes.Buffer
	w := newWriter(&out, values...)
	rnd := mathrand.New(mathrand.NewPCG(seed, 1))
	for len(text) > 0 {
		piece := bytes.Clone(text[:min(1+rnd.IntN(longest), len(text))])
		text = text[len(piece):]
		w.Write(piece)
		// A writer must not keep what it was given.
		clear(piece)
	}
	w.Close()
	return out.String()
}

// named returns values for these texts, with the placeholders [secret A], [secret B] and
// so on.
func named(texts ...string) []secret.Value {
	var values []secret.Value
	for i, text := range texts {
		placeholder := "[secret " + string(rune('A'+i)) + "]"
		values = append(values, secret.Value{Text: text, Placeholder: placeholder})
	}
	return values
}

// newValue returns a value that stands nowhere else.
func newValue() string { return "secret-value-" + rand.Text() }

var quotedValues = []string{
	"it's", `a "quoted\" word`, "tab\tand\x01bell", "ümläut's", "'''' '", `\''\''`,
}

const aKey = "-----BEGIN KEY-----\nline one\n  line two \n7 bytes\r\nline three\r\n-----END KEY-----\n"

var cases = []struct {
	name, text, want string
	values           []string
}{
	{"nothing", "hunter hunter1 unter2", "hunter hunter1 unter2", []string{"hunter2"}},
	{"everywhere", "hunter2hunter2 xhunter2x\nhunter2", "[A][A] x[A]x\n[A]", []string{"hunter2"}},
	{"one begins with the other", "password pass passwor", "[B] [A] [A]wor", []string{"pass", "password"}},
	{"one ends with the other", "my-token token", "[A] [B]", []string{"my-token", "token"}},
	{"one within the other", "a-token-b token a-token", "[A] [B] a-[B]", []string{"a-token-b", "token"}},
	{"two that overlap", "abcdefg abcdef cdefg", "[A] [A]ef [B]", []string{"abcd", "cdefg"}},
	{"three that overlap", "abcdefghi", "[A]i", []string{"abcd", "cdef", "efgh"}},
	{"one that overlaps itself", "aaaaaa abababab aaa", "[A] [B] aaa", []string{"aaaa", "abab"}},
	{"the rest of one that failed", "aaab aaaab ababc", "[A] a[A] [B]", []string{"aaab", "ababc"}},
	{"one that failed within one that was found", "abcdefgx", "[B]fgx", []string{"cdefgh", "abcde"}},
	{"a key", "key:\n" + aKey + "x", "key:\n[A]\nx", []string{aKey}},
	{"a key's first line", "-----BEGIN KEY-----\nx", "[A]\nx", []string{aKey}},
	{"a key's lines", "line one\nline two\n7 bytes\nline three\n", "[A]\n[A]\n7 bytes\n[A]\n", []string{aKey}},
	{"a key that breaks off", aKey[:len(aKey)-5], "[A]\n[A]\n  [A] \n7 bytes\r\n[A]\r\n-----END KEY-", []string{aKey}},
	{"what bash exports", `declare -x A="pa\$\$w0rd\"\\1"`, `declare -x A="[A]"`, []string{`pa$$w0rd"\1`}},
	{"Python's repr", `'say "hi"\\n'`, `'[A]'`, []string{`say "hi"\n`}},
	{"Python's repr of both marks", `'it\'s "x"-token'`, `'[A]'`, []string{`it's "x"-token`}},
	{"Go's JSON", `{"a":"a\u003cb\u0026c1"}`, `{"a":"[A]"}`, []string{"a<b&c1"}},
	{"many with one beginning", "export A1=aaaaaaaa\nexport A12=bb\nexport B\n", "[A]\n[A]\nexport B\n",
		[]string{"export A1=aaaaaaaa\nexport A12=bb\nexport A1=aaaaaaaab"}},
	{"a key that is quoted", strconv.Quote(aKey), `"[A]\n"`, []string{aKey}},
	{"white space around it", "hunter2 hunter2\n", "[A] [A]\n", []string{"\n hunter2\n"}},
	{"white space in it", "two words two  words", "[A] two  words", []string{"two words"}},
	{"a shell's quotes", `x='it'\''s' it's`, "x='[A]' [A]", []string{"it's"}},
	{"a program's quotes", `{"x": "a \"b\" \\ c\n"} a "b" \ c`, `{"x": "[A]\n"} [A]`, []string{`a "b" \ c`}},
	{"any bytes", "\xff\xfe\x80\x01\xff\xfe\x80", "[A]\xff\xfe\x80", []string{"\xff\xfe\x80\x01"}},
	{"the same value twice", "hunter2", "[A]", []string{"hunter2", "hunter2"}},
	{"what takes its place", "[secret A] secret", "[[A] A] [A]", []string{"secret"}},
}

func brief(text string) string {
	for c := 'A'; c <= 'Z'; c++ {
		text = strings.ReplaceAll(text, "[secret "+string(c)+"]", "["+string(c)+"]")
	}
	return text
}

func TestWriter(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			values := named(c.values...)
			assert.Equal(t, brief(newValues(values...).Redact(c.text)), c.want)
			for _, longest := range []int{1 << 20, 1, 2, 3, 7} {
				got := redacted([]byte(c.text), uint64(longest), longest, values...)
				assert.Equal(t, brief(got), c.want)
			}
		})
	}
	for _, value := range append(quotedValues, aKey) {
		for _, text := range []string{
			value, strconv.Quote(value), fmt.Sprintf("%q", "x "+value+" y"),
			"'" + strings.ReplaceAll(value, "'", `'\''`) + "'",
		} {
			got := redacted([]byte(text), 1, 5, named(value)...)
			longest := len("\"x []  y\"\n") + len("[secret A]")
			assert.Assert(t, strings.Contains(got, "[secret A]") && len(got) <= longest,
				"%q of %q", got, text)
		}
	}
}

// Nothing is held but what may be the beginning of a value.
func TestWriterHolds(t *testing.T) {
	var out bytes.Buffer
	w := newWriter(&out, named("abcd", "bcxyz", aKey)...)
	for _, step := range [][2]string{
		{"prompt> ", "prompt> "},
		{"abc", "prompt> "},
		{"x", "prompt> a"},
		{"\n", "prompt> abcx\n"},
		{"abcd", "prompt> abcx\n[secret A]"},
		{"z", "prompt> abcx\n[secret A]z"},
		{"-----BEGIN KEY-----", "prompt> abcx\n[secret A]z"},
		{"!", "prompt> abcx\n[secret A]z[secret C]!"},
		{"ab", "prompt> abcx\n[secret A]z[secret C]!"},
	} {
		io.WriteString(w, step[0])
		assert.Equal(t, out.String(), step[1])
	}
	assert.NilError(t, w.Close())
	assert.Equal(t, out.String(), "prompt> abcx\n[secret A]z[secret C]!ab")
}

// A value is found wherever the reader's buffer ends.
func TestWriterAcrossReads(t *testing.T) {
	const read = 128 << 10
	value := newValue()
	for at := read - len(value) - 1; at <= read+1; at++ {
		text := strings.Repeat("c", at) + value + strings.Repeat("c", read)
		var out bytes.Buffer
		w := newWriter(&out, named(value)...)
		for rest := []byte(text); len(rest) > 0; rest = rest[min(read, len(rest)):] {
			w.Write(rest[:min(read, len(rest))])
		}
		w.Close()
		assert.Equal(t, out.String(), strings.Replace(text, value, "[secret A]", 1))
	}
}

type refusing struct{ calls int }

func (f *refusing) Write([]byte) (int, error) { f.calls++; return 0, io.ErrNoProgress }
func (f *refusing) Close() error              { return io.ErrClosedPipe }

func TestWriterPassesErrors(t *testing.T) {
	f := &refusing{}
	w := newWriter(f, named("hunter2")...)
	_, err := io.WriteString(w, "xhunter2xhunter2x")
	assert.ErrorIs(t, err, io.ErrNoProgress)
	assert.Equal(t, f.calls, 1)
	assert.ErrorIs(t, w.Close(), io.ErrClosedPipe)
}

// reference is what is passed on if no value is quoted, in the simplest way: whatever is
// part of a value is not.
func reference(text string, values []secret.Value) string {
	var forms []secret.Value
	add := func(placeholder, text string, least int) {
		if text = strings.TrimSpace(text); len(text) >= least {
			forms = append(forms, secret.Value{Text: text, Placeholder: placeholder})
		}
	}
	for _, v := range values {
		add(v.Placeholder, v.Text, 4)
		for _, line := range strings.Split(v.Text, "\n") {
			add(v.Placeholder, line, 8)
		}
	}
	var out strings.Builder
	end := 0
	for i := range len(text) {
		var longest secret.Value
		for _, f := range forms {
			if strings.HasPrefix(text[i:], f.Text) && len(f.Text) > len(longest.Text) {
				longest = f
			}
		}
		if longest.Text != "" && i >= end {
			out.WriteString(longest.Placeholder)
		}
		end = max(end, i+len(longest.Text))
		if i >= end {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func FuzzWriter(f *testing.F) {
	for i, c := range cases {
		values := append(c.values, "spare value")
		f.Add([]byte(c.text), values[0], values[1], uint64(i))
	}
	f.Add([]byte("\x01\x02\x03\x01\x04\x03\x04\x02\x05\x05"), "abcabcab\ncabcabca", "bcab", uint64(3))
	f.Add([]byte("\x03\x03\x04\x04"), aKey, "line one\nline two", uint64(4))
	f.Fuzz(func(t *testing.T, text []byte, a, b string, seed uint64) {
		if len(text) > 500 || len(a)+len(b) > 500 {
			return
		}
		values := named(a, b)
		// The fuzzer would not hit on the values, their halves and their quotings.
		var whole []byte
		for _, c := range text {
			parts := []string{
				a, b, a[:len(a)/2], a[len(a)/2:], strconv.Quote(a),
				strings.ReplaceAll(b, "'", `'\''`),
			}
			if c := int(c) - 1; c >= 0 && c < len(parts) {
				whole = append(whole, parts[c]...)
			} else {
				whole = append(whole, byte(c+1))
			}
		}
		want := reference(string(whole), values)
		if strings.ContainsAny(string(whole), "\\'\uFFFD") {
			// Something may be quoted: FuzzUnquotes.
			want = redacted(whole, seed, len(whole)+1, values...)
		}
		for _, longest := range []int{1, 3, 17, len(whole) + 1} {
			got := redacted(whole, seed, longest, values...)
			assert.Equal(t, got, want, "%q, in pieces of up to %d, with %q and %q", whole, longest, a, b)
		}
	})
}

// plain has nothing to be found, and what comes near it.
var plain = []byte(strings.Repeat("2024-01-02 12:30:45.123 INFO main.go:42 request 12345 took 17 ms, hunter "+
	"and secret-value-ABC\n", 1500))

func TestWriterAllocatesNothingWhereNothingIsFound(t *testing.T) {
	w := newWriter(io.Discard, named("hunter2", newValue(), aKey)...)
	w.Write(plain)
	enginetest.NoAllocs(t, func() { w.Write(plain) })
	enginetest.NoAllocs(t, func() { w.Write(plain[:1000]) })
}

// aFile returns a file with variables for a shell.
func aFile(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "export NAME%d=%s\n", i, rand.Text()[:8])
	}
	return b.String()
}

func BenchmarkWriter(b *testing.B) {
	for _, c := range []struct {
		name   string
		values []string
	}{
		{"one", []string{newValue()}},
		{"three", []string{newValue(), "hunter2", aKey}},
		{"a key of 50 lines", []string{strings.Repeat(rand.Text()+"\n"+rand.Text()+"\n", 25)}},
		{"2000 lines that begin alike", []string{aFile(2000)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWriter(io.Discard, named(c.values...)...)
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				w.Write(plain)
			}
		})
	}
}

// hostile is output that makes work for whoever undoes quoting and knows the value.
var hostile = map[string]string{
	"backslashes":            `\`,
	"marks":                  `'`,
	"both":                   `'\''`,
	"double and single":      `'"'`,
	"dollars":                `'$'\x`,
	"numbers":                `\u00\x2\1`,
	"surrogates":             `\ud83d`,
	"values cut off":         "secret-value-it's\\t",
	"values cut off, quoted": `secret-value-it'\''`,
	"values":                 `secret-value-it'\''s a\ttab`,
}

// repeated is a long value most of which may begin anywhere in it.
func repeated(part string) string { return strings.Repeat(part, 64<<10/len(part)) + "z" }

// Whatever is written costs at most so many times what plain output does.
func BenchmarkWriterHostile(b *testing.B) {
	run := func(name, value, text string) {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(text, 1+len(plain)/len(text))[:len(plain)])
			w := newWriter(io.Discard, named(value, aKey)...)
			b.SetBytes(int64(len(text)))
			w.Write(plain)
			start := time.Now()
			for range 10 {
				w.Write(plain)
			}
			base := time.Since(start) / 10
			for b.Loop() {
				w.Write(text)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(base), "plain")
		})
	}
	for name, text := range hostile {
		run(name, "secret-value-it's\ttab", text)
	}
	for _, part := range []string{"a", "'", `\`, `\'`, "a'"} {
		run("a long value of "+part, repeated(part), part)
		run("a long value of "+part+" quoted", repeated(part), "'"+strings.ReplaceAll(part, "'", `'\''`)+"'")
	}
}

// A text that may be the beginning of a long value at each place ends in time, also where
// it comes in small pieces, and a long value is found in each quoting.
func TestWriterHostile(t *testing.T) {
	// What the reader of '...' takes to be before the mark is longer than a byte counts.
	long := strings.Repeat("x", 256) + "it's"
	text := "'" + strings.ReplaceAll(long, "'", `'\''`) + "'"
	assert.Equal(t, redacted([]byte(text), 1, 7, named(long)...), "'[secret A]'")
	for _, part := range []string{"a", "'", `\`, `\'`, "a'", "\t'"} {
		value := "x" + repeated(part)[2:]
		text := "=x" + strings.Repeat(part, 1<<18/len(part)) + "="
		for _, longest := range []int{2, 100_000} {
			assert.Equal(t, redacted([]byte(text), 1, longest, named(value)...) == text, true)
		}
		value = value[:6000]
		for name, quote := range quoters {
			text := quote(strings.TrimSpace(value))
			got := redacted([]byte(text), 1, 10, named(value)...)
			assert.Assert(t, strings.Contains(got, "[secret A]") && len(got) < 20,
				"%s of %q: %d bytes", name, part, len(got))
		}
	}
}
