package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

func mustNew(t testing.TB, rules ...Rule) *Redactor {
	t.Helper()
	r, err := New(rules...)
	assert.NilError(t, err)
	return r
}

// pattern is a detector of a caller's own.
func pattern(text string) func(line []byte) [][]int {
	p := regexp.MustCompile(text)
	return func(line []byte) [][]int { return p.FindAllIndex(line, -1) }
}

func TestStrategies(t *testing.T) {
	own := func(s Strategy) Rule {
		return Rule{Type: "api_key", Strategy: s, Find: pattern("sk-.*?ü\\b|é+|sk-[a-z]+")}
	}
	for _, c := range []struct {
		rule       Rule
		text, want string
	}{
		{Rule{Type: "email"}, "Contact: user@example.com", "Contact: [REDACTED_EMAIL]"},
		{Rule{Type: "email"}, "a@b.cc,c@d.ee\n\nf@g.hh", "[REDACTED_EMAIL],[REDACTED_EMAIL]\n\n[REDACTED_EMAIL]"},
		{Rule{Type: "mac_address"}, "00:1A:2B:3C:4D:5E\n", "[REDACTED_MAC_ADDRESS]\n"},
		{Rule{Type: "email", Strategy: Mask}, "Email: user@mail.example.com!", "Email: user@****.com!"},
		{Rule{Type: "email", Strategy: Mask, Find: pattern("[a@]+")}, "a@a@a, aa", "****, ****"},
		{Rule{Type: "email", Strategy: Mask, Find: pattern("[a@]+")}, "a@a", "a@****"},
		{Rule{Type: "credit_card", Strategy: Mask}, "Card: 4532015112830366", "Card: ************0366"},
		{Rule{Type: "credit_card", Strategy: Mask}, "4532-0151-1283-0366 5425 2334 3010 9903",
			"****-****-****-0366 **** **** **** 9903"},
		{Rule{Type: "payment_card", Strategy: Mask}, "3782 822463 10005", "**** **** **** 0005"},
		{Rule{Type: "ip", Strategy: Mask}, "IP: 192.168.1.100", "IP: *.*.*.100"},
		{Rule{Type: "ip", Strategy: Mask, Find: pattern("x+")}, "xx", "****"},
		{Rule{Type: "mac_address", Strategy: Mask}, "00:1a:2b:3c:4d:5e 00-1A-2B-3C-4D-5E",
			"**:**:**:**:**:5e **-**-**-**-**-5E"},
		{Rule{Type: "mac_address", Strategy: Mask, Find: pattern("x")}, "x", "**-**-**-**-**-x"},
		{Rule{Type: "url", Strategy: Mask}, "see https://a.b/c or www.d.e", "see [MASKED_URL] or [MASKED_URL]"},
		{own(Mask), "sk-abcdef éééé ééééé", "****cdef **** ****éééé"},
		{own(Redact), "sk-abcdef", "[REDACTED_API_KEY]"},
		// echo -n user@example.com | sha256sum; echo -n hello | sha256sum
		{Rule{Type: "email", Strategy: Hash}, "user@example.com", "<email_hash:b4c9a289>"},
		{Rule{Type: "word", Strategy: Hash, Find: pattern("hello")}, "hello", "<word_hash:2cf24dba>"},
		{Rule{Type: "email", Find: pattern("own")}, "own a@b.cc", "[REDACTED_EMAIL] a@b.cc"},
		{Secrets("hunter2"), "password=hunter2\n", "password=[REDACTED_SECRET]\n"},
		{Rule{Type: "x", Find: pattern("a*")}, "baab", "b[REDACTED_X]b"},
		{Rule{Type: "x", Find: func([]byte) [][]int { return [][]int{{3, 5}, {0, 2}, {1, 4}} }}, "abcdef",
			"[REDACTED_X][REDACTED_X][REDACTED_X]f"},
	} {
		got, err := mustNew(t, c.rule).Bytes([]byte(c.text))
		assert.NilError(t, err)
		assert.Equal(t, string(got), c.want)
	}
}

func TestBlock(t *testing.T) {
	secret := Secrets("hunter2")
	secret.Strategy = Block
	for _, c := range []struct {
		rule Rule
		text string
	}{
		{Rule{Type: "email", Strategy: Block}, "first\nuser@example.com\nlast\n"},
		{secret, "first\nhunter2\nlast\n"},
	} {
		r := mustNew(t, Rule{Type: "ip"}, c.rule, Rule{Type: "url"})
		got, err := r.Bytes([]byte(c.text))
		assert.Assert(t, got == nil)
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
		var blocked *BlockedError
		assert.Assert(t, errors.As(err, &blocked) && blocked.Type == c.rule.Type)
		assert.Equal(t, err.Error(), "detected "+c.rule.Type)

		var out bytes.Buffer
		w := r.Writer(&out)
		_, err = io.WriteString(w, c.text)
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
		_, err = io.WriteString(w, "more\n")
		assert.ErrorIs(t, err, execpolicy.ErrBlocked)
		assert.ErrorIs(t, w.Close(), execpolicy.ErrBlocked)
		assert.ErrorIs(t, w.Close(), execpolicy.ErrBlocked)
		assert.Equal(t, out.String(), "first\n")
	}
	got, err := mustNew(t, secret).Bytes([]byte("hunter"))
	assert.NilError(t, err)
	assert.Equal(t, string(got), "hunter")
}

func TestRulesApplyInOrder(t *testing.T) {
	const text = "https://a.b/?user=x@y.zz"
	for _, c := range []struct {
		rules []Rule
		want  string
	}{
		{[]Rule{{Type: "email"}, {Type: "url"}}, "[REDACTED_URL][REDACTED_EMAIL]"},
		{[]Rule{{Type: "url"}, {Type: "email"}}, "[REDACTED_URL]"},
		{[]Rule{{Type: "email", Strategy: Mask}, {Type: "word", Find: pattern(`x@\*+`)}},
			"https://a.b/?user=[REDACTED_WORD].zz"},
	} {
		got, err := mustNew(t, c.rules...).Bytes([]byte(text))
		assert.NilError(t, err)
		assert.Equal(t, string(got), c.want)
	}
}

func TestRulesAreChecked(t *testing.T) {
	both := Secrets("x")
	both.Find = pattern("x")
	_, err := New(Rule{Type: "phone"}, Rule{Type: "email"}, Rule{Find: pattern("x")}, Rule{Type: "ip", Strategy: 4},
		Rule{Type: "ip", Strategy: -1},
		Secrets(), Secrets("hidden", ""), both)
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, want := range []string{"rule 1: Unknown PII type: phone. Must be one of email, credit_card, " +
		"payment_card, ip, mac_address, url",
		"rule 3: a rule needs a type", "rule 4: unknown redaction strategy: 4", "rule 5: ",
		"rule 6: there must be a secret, and none may be empty", "rule 7: ", "rule 8: "} {
		assert.ErrorContains(t, err, want)
	}
	assert.Assert(t, !strings.Contains(err.Error(), "rule 2") && !strings.Contains(err.Error(), "hidden"))
}

func TestWithoutRulesEverythingPasses(t *testing.T) {
	got, err := mustNew(t).Bytes([]byte("a@b.cc\x00\xff"))
	assert.NilError(t, err)
	assert.Equal(t, string(got), "a@b.cc\x00\xff")
}

func TestADetectorThatIsWrongFailsTheWrite(t *testing.T) {
	for _, spans := range [][][]int{{{0, 7}}, {{-1, 2}}, {{2, 1}}, {{1}}, {{0, 1}, {9, 9}}} {
		r := mustNew(t, Rule{Type: "own", Find: func([]byte) [][]int { return spans }})
		_, err := r.Bytes([]byte("secret\n"))
		assert.ErrorContains(t, err, "own")
		assert.Assert(t, !strings.Contains(err.Error(), "secret"))
	}
}

// A writer that fails or writes short ends what is written to it.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, io.ErrNoProgress
	}
	return len(p), nil
}

func TestErrorsOfTheWriterStay(t *testing.T) {
	for n := range 4 {
		// Four writes: what is before the match, what takes its place, what is behind,
		// and what was held.
		w := mustNew(t, Rule{Type: "email"}).Writer(&failing{n})
		io.WriteString(w, "x\na@b.cc\ny\nheld")
		_, err := io.WriteString(w, " more")
		if err == nil {
			err = w.Close()
		}
		assert.ErrorIs(t, err, io.ErrNoProgress)
		_, err = w.Write([]byte("later"))
		assert.ErrorIs(t, err, io.ErrNoProgress)
	}
	w := mustNew(t).Writer(io.Discard)
	assert.NilError(t, w.Close())
	_, err := w.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.NilError(t, w.Close())
}

// What passed is there when its line has ended, and what is no beginning of a secret at
// once.
func TestWhatIsHeld(t *testing.T) {
	var out bytes.Buffer
	w := mustNew(t, Rule{Type: "email"}).Writer(&out)
	for _, step := range [][2]string{{"a\nb", "a\n"}, {"c\n", "a\nbc\n"}, {"prompt> ", "a\nbc\n"}} {
		io.WriteString(w, step[0])
		assert.Equal(t, out.String(), step[1])
	}
	assert.NilError(t, w.Close())
	assert.Equal(t, out.String(), "a\nbc\nprompt> ")

	out.Reset()
	w = mustNew(t, Secrets("abcd", "bcx\ny")).Writer(&out)
	for _, step := range [][2]string{{"prompt> ", "prompt> "}, {"abc", "prompt> "}, {"x\n", "prompt> a"},
		{"z", "prompt> abcx\nz"}, {"ab", "prompt> abcx\nz"}} {
		io.WriteString(w, step[0])
		assert.Equal(t, out.String(), step[1])
	}
	assert.NilError(t, w.Close())
	assert.Equal(t, out.String(), "prompt> abcx\nzab")
}

func TestSecrets(t *testing.T) {
	key := "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----\n"
	for _, c := range []struct {
		values     []string
		text, want string
	}{
		{[]string{"pass", "password"}, "password pass passw", "# # #w"},
		{[]string{"password", "pass"}, "passwor", "#wor"},
		{[]string{key}, "key:\n" + key + "x", "key:\n#x"},
		{[]string{"\x00\xff\n"}, "a\x00\xff\x00\xff\nb", "a\x00\xff#b"},
		{[]string{"aab"}, "aaaab", "aa#"},
		{[]string{"abc", "cde"}, "abcde", "#de"},
		{[]string{"x", "x"}, "xx", "##"},
	} {
		got, err := mustNew(t, Secrets(c.values...)).Bytes([]byte(c.text))
		assert.NilError(t, err)
		assert.Equal(t, strings.ReplaceAll(string(got), "[REDACTED_SECRET]", "#"), c.want)
	}
	// A rule that is printed does not tell.
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		assert.Assert(t, !strings.Contains(fmt.Sprintf(format, Secrets("hunter2")), "hunter2"), format)
		assert.Assert(t, !strings.Contains(fmt.Sprintf(format, mustNew(t, Secrets("hunter2"))), "hunter2"), format)
	}
	rule := Secrets("hunter2")
	rule.Strategy = Mask
	got, err := mustNew(t, rule).Bytes([]byte("hunter2"))
	assert.NilError(t, err)
	assert.Equal(t, string(got), "****ter2")
}

// chunked writes a text in pieces, with a seed of how long they are.
func chunked(r *Redactor, text []byte, seed uint64, longest int) ([]byte, error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var out bytes.Buffer
	w := r.Writer(&out)
	for len(text) > 0 {
		n := min(1+rnd.IntN(longest), len(text))
		piece := bytes.Clone(text[:n])
		if _, err := w.Write(piece); err != nil {
			return nil, err
		}
		// A writer must not keep what it was given.
		for i := range piece {
			piece[i] = '#'
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A match is found wherever it lies in a line without an end, however the line is
// written.
func TestLongLines(t *testing.T) {
	r := mustNew(t, Rule{Type: "email"}, Rule{Type: "own", Find: pattern("<x*>")}, Secrets("top\nsecret"))
	long := "<" + strings.Repeat("x", MaxMatch-2) + ">"
	for _, match := range []string{"user@example.com", long, "top\nsecret"} {
		for _, at := range []int{0, 1, MaxLine - MaxMatch - 1, MaxLine - MaxMatch, MaxLine - MaxMatch + 1,
			MaxLine - len(match) - 1, MaxLine - len(match),
			MaxLine - 3, MaxLine - 1, MaxLine, MaxLine + 1, 2*MaxLine - 2*MaxMatch, 2*MaxLine - MaxMatch - 2, 3*MaxLine + 5} {
			for _, tail := range []string{"", "\n", strings.Repeat(" z", MaxLine)} {
				text := []byte(strings.Repeat(" y", at)[:at] + match + tail)
				whole, err := r.Bytes(text)
				assert.NilError(t, err)
				assert.Assert(t, !bytes.Contains(whole, []byte(match)), "%.20q at %d", match, at)
				assert.Equal(t, bytes.Count(whole, []byte("[REDACTED_")), 1, "%.20q at %d with %d behind it", match, at, len(tail))
				got, err := chunked(r, text, uint64(at), 10_000)
				assert.NilError(t, err)
				assert.Assert(t, bytes.Equal(got, whole), "%.20q at %d with %d behind it", match, at, len(tail))
			}
		}
	}
	// A line is long or not, however it is written.
	begin := mustNew(t, Rule{Type: "begin", Find: pattern("^x")})
	for length, want := range map[int]int{MaxLine - 1: 1, MaxLine: 2, MaxLine + 1: 2} {
		text := []byte(strings.Repeat("x", length) + "\n")
		for longest := 1000; longest <= 1_000_000; longest *= 10 {
			got, err := chunked(begin, text, uint64(length), longest)
			assert.NilError(t, err)
			assert.Equal(t, bytes.Count(got, []byte("[REDACTED_BEGIN]")), want, "a line of %d in writes of %d", length, longest)
		}
	}
	// Longer than that, it may be found in part, and memory stays bounded.
	var out bytes.Buffer
	w := r.Writer(&out).(*filter)
	for range 100 {
		io.WriteString(w, strings.Repeat("a@b.cc<xxxxx", 1000))
	}
	stage := w.stage.(*lineStage)
	assert.Assert(t, cap(stage.held) <= 2*MaxLine && len(stage.held) < MaxLine)
	assert.NilError(t, w.Close())
	assert.Equal(t, bytes.Count(out.Bytes(), []byte("[REDACTED_EMAIL]")), 100_000)
	assert.Assert(t, !bytes.Contains(out.Bytes(), []byte("a@b.cc")))
}

// One long match after another makes no more work than the text is long.
func TestLongMatchesEnd(t *testing.T) {
	calls := 0
	all := func(line []byte) [][]int {
		calls++
		return [][]int{{min(1, len(line)-1), len(line)}}
	}
	r := mustNew(t, Rule{Type: "all", Find: all})
	_, err := r.Bytes(make([]byte, 10*MaxLine))
	assert.NilError(t, err)
	assert.Assert(t, calls <= 30, "%d calls", calls)
}

// expected is what rules make of a text whose lines are short, the plain way.
func expected(rules []Rule, text []byte) []byte {
	for i := range rules {
		rule := rules[i]
		if rule.secrets != nil || rule.resolve() != nil {
			continue
		}
		var out []byte
		for line := range bytes.Lines(text) {
			end := bytes.TrimSuffix(line, []byte("\n"))
			at := 0
			for _, span := range rule.Find(end) {
				out = rule.appendReplacement(append(out, end[at:span[0]]...), end[span[0]:span[1]])
				at = span[1]
			}
			out = append(append(out, end[at:]...), line[len(end):]...)
		}
		text = out
	}
	return text
}

// How a stream is cut changes nothing, and what comes out is what the rules say.
func FuzzWriter(f *testing.F) {
	for i, c := range found {
		f.Add([]byte(c.text+"\n"+c.text), uint64(i), uint8(i), i%5 == 0)
	}
	f.Add([]byte("hunter2 hunter22 hun\nter hunt"), uint64(1), uint8(2), true)
	secret := []string{"hunter2", "hunter22", "hun\nter", "unt"}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, strategy uint8, long bool) {
		if long && len(text) > 0 {
			// Into lines that are cut in pieces.
			text = bytes.Repeat(text, min(1+3*MaxLine/len(text), 10_000))
		}
		rules := []Rule{{Type: "email"}, {Type: "url"}, {Type: "credit_card"}, {Type: "payment_card"}, {Type: "ip"},
			{Type: "mac_address"}}
		rnd := rand.New(rand.NewPCG(seed, 2))
		rnd.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		for i := range rules {
			rules[i].Strategy = Strategy(strategy+uint8(i)) % Block
		}
		plain := mustNew(t, rules...)
		rules = append(rules, Secrets(secret...))
		if strategy > 127 {
			rules[rnd.IntN(len(rules))].Strategy = Block
		}
		r := mustNew(t, rules...)
		longest := 1 + rnd.IntN(40)
		if long {
			longest *= 1000
		}
		whole, err := r.Bytes(text)
		got, chunkErr := chunked(r, text, seed, longest)
		assert.Equal(t, chunkErr == nil, err == nil)
		assert.Assert(t, bytes.Equal(got, whole), "%q and %q", got, whole)
		if err == nil {
			for _, v := range secret {
				assert.Assert(t, !bytes.Contains(whole, []byte(v)), "%q in %q", v, whole)
			}
		}
		if !long && len(text) < MaxLine/4 {
			got, err := plain.Bytes(text)
			assert.NilError(t, err)
			assert.Equal(t, string(got), string(expected(plain.rules, text)))
		}
	})
}

// prose has nothing to be found, and what comes near it.
var prose = []byte(strings.Repeat("2024-01-02 12:30:45.123 INFO main.go:42 request 12345 took 17 ms, 3.14 % "+
	"of all/most, see user@host and a.b\n", 300))

func TestNothingIsAllocatedWhereNothingMatches(t *testing.T) {
	w := mustNew(t, Rule{Type: "email"}, Rule{Type: "credit_card"}, Rule{Type: "payment_card"}, Rule{Type: "ip"},
		Rule{Type: "mac_address"}, Rule{Type: "url"}, Secrets("hunter2")).Writer(io.Discard)
	w.Write(prose)
	enginetest.NoAllocs(t, func() { w.Write(prose) })
	// Also where lines are cut.
	enginetest.NoAllocs(t, func() { w.Write(prose[:1000]) })
}

func BenchmarkWriter(b *testing.B) {
	run := func(name string, rules ...Rule) {
		b.Run(name, func(b *testing.B) {
			w := mustNew(b, rules...).Writer(io.Discard)
			b.SetBytes(int64(len(prose)))
			b.ReportAllocs()
			for b.Loop() {
				w.Write(prose)
			}
		})
	}
	var all []Rule
	for _, kind := range []string{"email", "credit_card", "payment_card", "ip", "mac_address", "url"} {
		all = append(all, Rule{Type: kind})
		run(kind, Rule{Type: kind})
	}
	run("secret", Secrets("hunter2", "correct horse"))
	run("all", append(all, Secrets("hunter2"))...)
}
