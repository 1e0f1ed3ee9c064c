package execpolicy_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// newValue returns a value that stands nowhere on this machine.
func newValue() string { return "canary-" + rand.Text() }

// shows reports whether a text has a part of a value.
func shows(text, value string) bool {
	const part = 6
	for i := 0; i+part <= len(value); i++ {
		if strings.Contains(text, value[i:i+part]) && !strings.Contains("canary-", value[i:i+part]) {
			return true
		}
	}
	return false
}

var quotedValues = []string{"it's", `a "quoted\" word`, "tab\tand\x01bell", "ümläut's", "'''' '", `\''\''`}

func TestSecretsThatAreRefused(t *testing.T) {
	lookup := func(context.Context, string) (string, error) { t.Error("nothing is looked up"); return "", nil }
	long := strings.Repeat("x", execpolicy.MaxSecret+1)
	for _, c := range []struct {
		name    string
		secrets execpolicy.Secrets
		want    []string
	}{
		{"the names", execpolicy.Secrets{{Name: "a-b", Value: "hunter2"}, {Name: "", Value: "hunter2"}, {Name: "UID", Value: "hunter2"}},
			[]string{`"a-b" is no name`, `"" is no name`, "UID can't be set"}},
		{"twice", execpolicy.Secrets{{Name: "A", Value: "hunter2"}, {Name: "A", Lookup: lookup}, {Name: "ENV", Value: "hunter2"}},
			[]string{"the secret A is set twice", "the secret ENV is set twice"}},
		{"from nowhere, and from two places", execpolicy.Secrets{{Name: "A"}, {Name: "B", Value: "hunter2", Lookup: lookup}},
			[]string{"the secret A has to have a Value or a Lookup, and not both", "the secret B has to have a Value or a Lookup, and not both"}},
		{"the values", execpolicy.Secrets{{Name: "A", Value: "xyz"}, {Name: "B", Value: " xyz\n\n\n"}, {Name: "C", Value: long}, {Name: "D", Value: "hunter2\x00"}},
			[]string{"the secret A is shorter than 4", "the secret B is shorter than 4", "the secret C is longer than 64 KiB", "the secret D holds a NUL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"ENV": "x"}
			nowhere := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/nonexistent"}}
			_, specErr := execpolicy.Start(t.Context(), nowhere, execpolicy.Spec{Env: env, Secrets: c.secrets})
			_, commandErr := execpolicy.Run(t.Context(), nowhere, execpolicy.Spec{}, execpolicy.Command{Script: ":", Env: env, Secrets: c.secrets})
			for _, err := range []error{specErr, commandErr} {
				assert.ErrorIs(t, err, execpolicy.ErrInvalid)
				for _, want := range c.want {
					assert.ErrorContains(t, err, want)
				}
				for _, s := range c.secrets {
					assert.Assert(t, s.Value == "" || !strings.Contains(err.Error(), s.Value), err)
				}
			}
		})
	}
}

// What is wrong with something else does not tell either.
func TestSecretsInWhatIsRefused(t *testing.T) {
	nowhere := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/nonexistent"}}
	for _, value := range append([]string{"hunter2", "-----BEGIN KEY-----\nhunter2hunter2\n"}, quotedValues...) {
		secrets := execpolicy.Secrets{{Name: "TOKEN", Value: value}}
		_, err := execpolicy.Run(t.Context(), nowhere, execpolicy.Spec{}, execpolicy.Command{Argv: []string{"-" + value}, Secrets: secrets})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, `"-[secret TOKEN]`)
		_, err = execpolicy.Start(t.Context(), nowhere, execpolicy.Spec{Secrets: secrets, Startup: []string{"echo " + value + "\x00"}, Command: []string{value + "\n"}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, `script "echo [secret TOKEN]`)
		assert.ErrorContains(t, err, `the shell "[secret TOKEN]`)
	}
}

// A session's own are not shown by what it refuses either.
func TestSecretsInWhatASessionRefuses(t *testing.T) {
	enginetest.Check(t)
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{}, execpolicy.Spec{Secrets: execpolicy.Secrets{{Name: "TOKEN", Value: "hunter2"}}})
	assert.NilError(t, err)
	defer func() { assert.Check(t, s.Close()) }()
	_, err = s.Run(t.Context(), execpolicy.Command{Argv: []string{"-hunter2"}})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, `"-[secret TOKEN]"`)
	assert.Assert(t, !strings.Contains(err.Error(), "hunter2"), err)
}

// A policy has no hand in secrets.
func TestSecretsWithoutASession(t *testing.T) {
	engine := &dockercli.Engine{Path: "true", Remote: true} // no engine is asked
	compat := execpolicy.Compat()
	compat.Engine = engine
	for _, p := range []execpolicy.Policy{execpolicy.DockerPolicy{Engine: engine}, compat, execpolicy.HostPolicy{}} {
		for _, supervisor := range [][]string{nil, {"sh"}} {
			_, err := p.Spawn(t.Context(), execpolicy.Spec{Command: []string{"true"}, Supervisor: supervisor, Secrets: execpolicy.Secrets{{Name: "A", Value: "hunter2"}}})
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "only a session has Secrets")
		}
	}
}

// Who prints a secret, or what holds it, prints its name.
func TestSecretPrinted(t *testing.T) {
	secret := execpolicy.Secret{Name: "TOKEN", Value: "hunter2", Lookup: func(context.Context, string) (string, error) { return "", nil }}
	spec := execpolicy.Spec{Secrets: execpolicy.Secrets{secret}}
	command := execpolicy.Command{Secrets: spec.Secrets}
	assert.Equal(t, secret.String(), "secret TOKEN")
	var printed []string
	for _, what := range []any{secret, &secret, spec, &spec, command, &command, spec.Secrets, map[string]execpolicy.Secret{"x": secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
			printed = append(printed, fmt.Sprintf(verb, what))
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "y", what)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "y", what)
		printed = append(printed, log.String())
	}
	data, err := json.Marshal(spec.Secrets)
	assert.NilError(t, err)
	assert.Equal(t, string(data), `["secret TOKEN"]`)
	for _, text := range printed {
		assert.Assert(t, !strings.Contains(text, "hunter2") && !strings.Contains(text, "68756e74657232"), text)
	}
}

// concealed returns what is passed on of a text that is written in pieces of at most so many bytes.
func concealed(text []byte, seed uint64, longest int, secrets ...execpolicy.Secret) string {
	var out bytes.Buffer
	w := execpolicy.Conceal(&out, secrets...)
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

func named(values ...string) []execpolicy.Secret {
	var secrets execpolicy.Secrets
	for i, v := range values {
		secrets = append(secrets, execpolicy.Secret{Name: string(rune('A' + i)), Value: v})
	}
	return secrets
}

const aKey = "-----BEGIN KEY-----\nline one\n  line two \n7 bytes\r\nline three\r\n-----END KEY-----\n"

var concealCases = []struct {
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

func TestConceal(t *testing.T) {
	for _, c := range concealCases {
		t.Run(c.name, func(t *testing.T) {
			for _, longest := range []int{1 << 20, 1, 2, 3, 7} {
				assert.Equal(t, brief(concealed([]byte(c.text), uint64(longest), longest, named(c.values...)...)), c.want)
			}
		})
	}
	for _, value := range append(quotedValues, aKey) {
		for _, text := range []string{value, strconv.Quote(value), fmt.Sprintf("%q", "x "+value+" y"), "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"} {
			got := concealed([]byte(text), 1, 5, named(value)...)
			assert.Assert(t, strings.Contains(got, "[secret A]") && len(got) <= len("\"x []  y\"\n")+len("[secret A]"), "%q of %q", got, text)
		}
	}
}

// Nothing is held but what may be the beginning of a value.
func TestConcealHolds(t *testing.T) {
	var out bytes.Buffer
	w := execpolicy.Conceal(&out, named("abcd", "bcxyz", aKey)...)
	for _, step := range [][2]string{
		{"prompt> ", "prompt> "}, {"abc", "prompt> "}, {"x", "prompt> a"}, {"\n", "prompt> abcx\n"}, {"abcd", "prompt> abcx\n[secret A]"},
		{"z", "prompt> abcx\n[secret A]z"}, {"-----BEGIN KEY-----", "prompt> abcx\n[secret A]z"}, {"!", "prompt> abcx\n[secret A]z[secret C]!"}, {"ab", "prompt> abcx\n[secret A]z[secret C]!"},
	} {
		io.WriteString(w, step[0])
		assert.Equal(t, out.String(), step[1])
	}
	assert.NilError(t, w.Close())
	assert.Equal(t, out.String(), "prompt> abcx\n[secret A]z[secret C]!ab")
}

// A value is found wherever the reader's buffer ends.
func TestConcealAcrossReads(t *testing.T) {
	const read = 128 << 10
	value := newValue()
	for at := read - len(value) - 1; at <= read+1; at++ {
		text := strings.Repeat("c", at) + value + strings.Repeat("c", read)
		var out bytes.Buffer
		w := execpolicy.Conceal(&out, named(value)...)
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

func TestConcealPassesErrors(t *testing.T) {
	f := &refusing{}
	w := execpolicy.Conceal(f, named("hunter2")...)
	_, err := io.WriteString(w, "xhunter2xhunter2x")
	assert.ErrorIs(t, err, io.ErrNoProgress)
	assert.Equal(t, f.calls, 1)
	assert.ErrorIs(t, w.Close(), io.ErrClosedPipe)
}

// reference is what is passed on if no value is quoted, told in the simplest way: whatever is
// part of a value is not.
func reference(text string, secrets []execpolicy.Secret) string {
	type form struct{ text, name string }
	var forms []form
	add := func(name, text string, least int) {
		if text = strings.TrimSpace(text); len(text) >= least {
			forms = append(forms, form{text, name})
		}
	}
	for _, s := range secrets {
		add(s.Name, s.Value, 4)
		for _, line := range strings.Split(s.Value, "\n") {
			add(s.Name, line, 8)
		}
	}
	var out strings.Builder
	end := 0
	for i := range len(text) {
		var longest form
		for _, f := range forms {
			if strings.HasPrefix(text[i:], f.text) && len(f.text) > len(longest.text) {
				longest = f
			}
		}
		if longest.text != "" && i >= end {
			out.WriteString("[secret " + longest.name + "]")
		}
		end = max(end, i+len(longest.text))
		if i >= end {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func FuzzRedactSecrets(f *testing.F) {
	for i, c := range concealCases {
		values := append(c.values, "spare value")
		f.Add([]byte(c.text), values[0], values[1], uint64(i))
	}
	f.Add([]byte("\x01\x02\x03\x01\x04\x03\x04\x02\x05\x05"), "abcabcab\ncabcabca", "bcab", uint64(3))
	f.Add([]byte("\x03\x03\x04\x04"), aKey, "line one\nline two", uint64(4))
	f.Fuzz(func(t *testing.T, text []byte, a, b string, seed uint64) {
		if len(text) > 500 || len(a)+len(b) > 500 {
			return
		}
		secrets := named(a, b)
		// What the fuzzer would not hit on: the values, their halves and what a program makes of them.
		var whole []byte
		for _, c := range text {
			parts := []string{a, b, a[:len(a)/2], a[len(a)/2:], strconv.Quote(a), strings.ReplaceAll(b, "'", `'\''`)}
			if c := int(c) - 1; c >= 0 && c < len(parts) {
				whole = append(whole, parts[c]...)
			} else {
				whole = append(whole, byte(c+1))
			}
		}
		want := reference(string(whole), secrets)
		if strings.ContainsAny(string(whole), "\\'\uFFFD") {
			// Something may be quoted: FuzzConcealUnquotes.
			want = concealed(whole, seed, len(whole)+1, secrets...)
		}
		for _, longest := range []int{1, 3, 17, len(whole) + 1} {
			got := concealed(whole, seed, longest, secrets...)
			assert.Equal(t, got, want, "%q, in pieces of up to %d, with %q and %q", whole, longest, a, b)
		}
	})
}

// plain has nothing to be found, and what comes near it.
var plain = []byte(strings.Repeat("2024-01-02 12:30:45.123 INFO main.go:42 request 12345 took 17 ms, hunter and canary-ABC\n", 1500))

func TestConcealAllocatesNothingWhereNothingIsFound(t *testing.T) {
	w := execpolicy.Conceal(io.Discard, named("hunter2", newValue(), aKey)...)
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

func BenchmarkConceal(b *testing.B) {
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
			w := execpolicy.Conceal(io.Discard, named(c.values...)...)
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
	"values cut off":         "canary-it's\\t",
	"values cut off, quoted": `canary-it'\''`,
	"values":                 `canary-it'\''s a\ttab`,
}

// repeated is a value most of which may begin anywhere in it.
func repeated(part string) string { return strings.Repeat(part, execpolicy.MaxSecret/len(part)) + "z" }

// Whatever is written costs at most so many times what plain output does.
func BenchmarkConcealHostile(b *testing.B) {
	run := func(name, value, text string) {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(text, 1+len(plain)/len(text))[:len(plain)])
			w := execpolicy.Conceal(io.Discard, named(value, aKey)...)
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
		run(name, "canary-it's\ttab", text)
	}
	for _, part := range []string{"a", "'", `\`, `\'`, "a'"} {
		run("a long value of "+part, repeated(part), part)
		run("a long value of "+part+" quoted", repeated(part), "'"+strings.ReplaceAll(part, "'", `'\''`)+"'")
	}
}

// A text that may be the beginning of a long value at each place ends in time, also where it
// comes in small pieces, and a long value is found in each quoting.
func TestConcealHostile(t *testing.T) {
	// What the reader of '...' takes to be before the mark is longer than a byte counts.
	long := strings.Repeat("x", 256) + "it's"
	assert.Equal(t, concealed([]byte("'"+strings.ReplaceAll(long, "'", `'\''`)+"'"), 1, 7, named(long)...), "'[secret A]'")
	for _, part := range []string{"a", "'", `\`, `\'`, "a'", "\t'"} {
		value := "x" + repeated(part)[2:]
		text := "=x" + strings.Repeat(part, 1<<18/len(part)) + "="
		for _, longest := range []int{2, 100_000} {
			assert.Equal(t, concealed([]byte(text), 1, longest, named(value)...) == text, true)
		}
		value = value[:6000]
		for name, quote := range quoters {
			text := quote(strings.TrimSpace(value))
			got := concealed([]byte(text), 1, 10, named(value)...)
			assert.Assert(t, strings.Contains(got, "[secret A]") && len(got) < 20, "%s of %q: %d bytes", name, part, len(got))
		}
	}
}

// No record shows a secret, not even of what was asked for before it was given.
func TestSecretsAreInNoRecord(t *testing.T) {
	enginetest.Check(t)
	var mu sync.Mutex
	var records []execpolicy.Event
	spec := execpolicy.Spec{
		Secrets: execpolicy.Secrets{{Name: "TOKEN", Value: "hunter2"}},
		Startup: []string{"test hunter2 = $TOKEN"},
		Audit: execpolicy.NewAuditor(func(e execpolicy.Event) error {
			mu.Lock()
			defer mu.Unlock()
			records = append(records, e)
			return nil
		}),
	}
	s, err := execpolicy.Start(t.Context(), execpolicy.HostPolicy{}, spec)
	assert.NilError(t, err)
	_, err = s.Run(t.Context(), execpolicy.Command{
		Argv: []string{"echo", "hunter2", "*******"}, Dir: "/hunter2", Secrets: execpolicy.Secrets{{Name: "KEY", Value: "*******", File: true}},
	})
	assert.ErrorIs(t, err, execpolicy.ErrNoDir)
	_, err = s.ReadFile(t.Context(), "hunter2", 0)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.NilError(t, s.Close())
	mu.Lock()
	defer mu.Unlock()
	all, err := json.Marshal(records)
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(all), "hunter2") && !strings.Contains(string(all), "*******"), "%s", all)
	var given [][]string
	for _, e := range records {
		if e.Secrets != nil {
			given = append(given, e.Secrets)
		}
		if e.Kind == execpolicy.EventCommand && e.Op == "" {
			assert.DeepEqual(t, e.Argv, []string{"echo", "[secret TOKEN]", "[secret KEY]"})
		}
	}
	assert.DeepEqual(t, given, [][]string{{"TOKEN"}, {"KEY"}})
}
