package redact

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// found are texts and what the detector of a type finds in them.
var found = []struct {
	kind, text string
	want       []string
}{
	{"email", "Contact me at john.doe@example.com for more info.", []string{"john.doe@example.com"}},
	{"email", "Email alice@test.com or bob@company.org", []string{"alice@test.com", "bob@company.org"}},
	{"email", "Invalid emails: @test.com, user@, user@domain, a@b.c, a@.com, a@b.c1", nil},
	{"email", "联系alice@example.com。", []string{"alice@example.com"}},
	{"email", "a+b%c_d-e.f@sub-domain.example.co.uk.", []string{"a+b%c_d-e.f@sub-domain.example.co.uk"}},
	{"email", "a@b.com-x a@b.com_x a@b.com.x a@b.co1", []string{"a@b.com", "a@b.com"}},
	{"email", "a@b.com@c.org", []string{"a@b.com"}},
	{"email", "a@b@c.org", []string{"b@c.org"}},
	{"email", "<x@y.zz>,\"q@r.st\"", []string{"x@y.zz", "q@r.st"}},

	{"credit_card", "Card: 4532015112830366", []string{"4532015112830366"}},
	{"credit_card", "Card: 5425 2334 3010 9903.", []string{"5425 2334 3010 9903"}},
	{"credit_card", "Card: 4532-0151-1283-0366", []string{"4532-0151-1283-0366"}},
	{"credit_card", "45320151 12830366, 4532-0151 1283\t0366", []string{"45320151 12830366", "4532-0151 1283\t0366"}},
	{"credit_card", "4532\u00a00151\u00a01283\v0366 4532\r0151\x1c12830366",
		[]string{"4532\u00a00151\u00a01283\v0366", "4532\r0151\x1c12830366"}},
	{"credit_card", "Card: 1234567890123456 4532015112830367", nil},
	{"credit_card", "amex 3782 822463 10005 diners 3056-930902-5904 visa 4222222222222", nil},
	{"credit_card", "ms 1700000000005 1700000000013 ns 1700000000000000001", nil},
	{"credit_card", "1234 4532 0151 1283 0366", nil},
	{"credit_card", "2024-01-02 4532015112830366", []string{"4532015112830366"}},
	{"credit_card", "x4532015112830366 4532015112830366x _4532015112830366 45320151128303660000", nil},
	{"credit_card", "号4532015112830366号", []string{"4532015112830366"}},
	{"credit_card", "4532  0151 1283 0366, 4532- 0151-1283-0366, 4532 0151 1283", nil},
	{"credit_card", "4532015112830366 5425233430109903-", []string{"4532015112830366", "5425233430109903"}},

	{"payment_card", "Card: 4532015112830366", []string{"4532015112830366"}},
	{"payment_card", "Card: 5425 2334 3010 9903.", []string{"5425 2334 3010 9903"}},
	{"payment_card", "Card: 4532-0151-1283-0366", []string{"4532-0151-1283-0366"}},
	{"payment_card", "45320151 12830366, 4532-0151 1283\t0366", []string{"45320151 12830366", "4532-0151 1283\t0366"}},
	{"payment_card", "Card: 1234567890123456 4532015112830367", nil},
	{"payment_card", "amex 3782 822463 10005 diners 3056-930902-5904 visa 4222222222222",
		[]string{"3782 822463 10005", "3056-930902-5904", "4222222222222"}},
	{"payment_card", "1234 4532 0151 1283 0366", []string{"4532 0151 1283 0366"}},
	{"payment_card", "2024-01-02 4532015112830366", []string{"4532015112830366"}},
	{"payment_card", "x4532015112830366 4532015112830366x _4532015112830366 45320151128303660000", nil},
	{"payment_card", "号4532015112830366号", []string{"4532015112830366"}},
	{"payment_card", "4532  0151 1283 0366, 4532- 0151-1283-0366", nil},
	{"payment_card", "6304000000000000000 000000000000", []string{"6304000000000000000"}},
	{"payment_card", "0151 128303666 4532-0151 1283\t0366", []string{"0151 128303666 4532-0151 1283\t0366"}},
	{"payment_card", "4532015112830366 ", []string{"4532015112830366"}},

	{"ip", "Server IP: 192.168.1.1", []string{"192.168.1.1"}},
	{"ip", "Connect to 10.0.0.1 or 8.8.8.8", []string{"10.0.0.1", "8.8.8.8"}},
	{"ip", "999.999.999.999 256.1.1.1 1.2.3 1234.1.1.1 1.1.1.1234 01.2.3.4 1..2.3", nil},
	{"ip", "1.2.3.4.5.6.7.8", []string{"1.2.3.4", "5.6.7.8"}},
	{"ip", "341.1.1.1.9.9.1.1", []string{"9.9.1.1"}},
	{"ip", "http://10.0.0.1:80/ v1.2.3.4 _1.2.3.4 0.0.0.0,", []string{"10.0.0.1", "0.0.0.0"}},
	{"ip", "地址10.0.0.1。", []string{"10.0.0.1"}},
	{"ip", "fe80::1 ::ffff:1.2.3.4", []string{"1.2.3.4"}},

	{"mac_address", "MAC: 00:1A:2B:3C:4D:5E", []string{"00:1A:2B:3C:4D:5E"}},
	{"mac_address", "MAC: 00-1A-2B-3C-4D-5E aa:bb:cc:dd:ee:ff", []string{"00-1A-2B-3C-4D-5E", "aa:bb:cc:dd:ee:ff"}},
	{"mac_address", "00:1A:2B:3C 00:1A:2B:3C:4D:5 000:1A:2B:3C:4D:5E 00:1A:2B:3C:4D:5Ex 00:1A:2B:3C:4D:5g", nil},
	{"mac_address", "aa:bb:cc:dd:ee:ff:00", []string{"aa:bb:cc:dd:ee:ff"}},
	{"mac_address", "x aa:bb:cc:dd:ee:ff", []string{"aa:bb:cc:dd:ee:ff"}},

	{"url", "Visit http://example.com for details.", []string{"http://example.com"}},
	{"url", "Visit https://secure.example.com/path?q=1#x", []string{"https://secure.example.com/path?q=1#x"}},
	{"url", "Check www.example.com.", []string{"www.example.com"}},
	{"url", "Go to example.com/page now", []string{"example.com/page"}},
	{"url", "Visit http://test.com and HTTPS://example.org", []string{"http://test.com", "HTTPS://example.org"}},
	{"url", "The word example.com in prose, 3.14, a/b, ./x, //x, http:// http:///x, ftp://x", nil},
	{"url", `<a href="http://a.b/c">`, []string{"http://a.b/c"}},
	{"url", "xhttp://a [http://b]", []string{"http://a", "http://b"}},
	{"url", "www.a www. www.-a awww.b.c www.a/x", []string{"www.a", "www.a/x"}},
	{"url", "-a.b.c/d a_b.c.d/e a-.b.c/d " + strings.Repeat("x", 64) + ".y.z/p",
		[]string{"a.b.c/d", "c.d/e", "b.c/d", "y.z/p"}},
	{"url", "见http://例え.jp/パス 見", []string{"http://例え.jp/パス"}},
	{"url", "http://a.b/\u3000c", []string{"http://a.b/"}},
	{"url", "git clone https://user:token@github.com/a/b.git", []string{"https://user:token@github.com/a/b.git"}},
}

func TestDetectors(t *testing.T) {
	for _, c := range found {
		var got []string
		for _, span := range detectors[c.kind]([]byte(c.text)) {
			got = append(got, c.text[span[0]:span[1]])
		}
		assert.DeepEqual(t, got, c.want)
	}
	for kind := range detectors {
		assert.Check(t, strings.Contains(detectorNames, kind))
		assert.Check(t, slices.ContainsFunc(found, func(c struct {
			kind, text string
			want       []string
		}) bool {
			return c.kind == kind
		}))
	}
}

// langchain are LangChain's detectors, for lines of ASCII.
var langchain = map[string]func(line []byte) [][]int{
	"email": pattern(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b`),
	"credit_card": accepted(`\b\d{4}`+strings.Repeat(`[\s\v\x1c-\x1f-]?\d{4}`, 3)+`\b`, func(match []byte) bool {
		var digits []byte
		for _, c := range match {
			if isDigit(c) {
				digits = append(digits, c-'0')
			}
		}
		return luhn(digits)
	}),
	"ip": accepted(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`, func(match []byte) bool {
		for part := range bytes.SplitSeq(match, []byte(".")) {
			if len(part) > 1 && part[0] == '0' || len(part) == 3 && string(part) > "255" {
				return false
			}
		}
		return true
	}),
	"mac_address": pattern(`\b([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b`),
	"url": func(line []byte) [][]int {
		urls := withScheme(line)
		for _, m := range withoutScheme(line) {
			if !slices.ContainsFunc(urls,
				func(u []int) bool { return u[0] <= m[0] && m[0] < u[1] || u[0] < m[1] && m[1] <= u[1] }) {
				urls = append(urls, m)
			}
		}
		return urls
	},
}

var (
	// LangChain's does not take HTTP:// for a scheme.
	withScheme = accepted("(?i:https?)://[^\\s\\v\x1c-\x1f<>\"{}|\\\\^`\\[\\]]+", func(match []byte) bool {
		_, rest, _ := bytes.Cut(match, []byte("://"))
		return bytes.IndexByte([]byte("/?#"), rest[0]) < 0
	})
	withoutScheme = accepted("\\b(?:www\\.)?[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(?:/[^\\s\\v\x1c-\x1f]*)?",
		func(match []byte) bool {
			return bytes.IndexByte(match, '/') >= 0 || bytes.HasPrefix(match, []byte("www."))
		})
)

// accepted finds what matches an expression and is accepted.
func accepted(expr string, accept func(match []byte) bool) func(line []byte) [][]int {
	re := regexp.MustCompile(expr)
	return func(line []byte) [][]int {
		return slices.DeleteFunc(re.FindAllIndex(line, -1), func(m []int) bool { return !accept(line[m[0]:m[1]]) })
	}
}

// checkDetectors checks what is found against LangChain's detectors.
func checkDetectors(t *testing.T, line []byte) {
	t.Helper()
	for kind, find := range detectors {
		// What overlaps is taken as a stream takes it.
		ours := lineStage{rule: &Rule{Find: find}}
		spans, err := ours.find(line)
		assert.NilError(t, err)
		if find = langchain[kind]; find == nil || bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }) {
			continue
		}
		theirs := lineStage{rule: &Rule{Find: find}}
		want, err := theirs.find(line)
		assert.NilError(t, err)
		assert.Assert(t, slices.EqualFunc(spans, want, slices.Equal), "%s: %v and not %v in %q", kind, spans, want, line)
	}
}

func TestDetectorsFindWhatLangChainFinds(t *testing.T) {
	for _, c := range found {
		checkDetectors(t, []byte(c.text))
	}
}

// So do they in what comes near to what they look for.
func TestDetectorsAreLangChains(t *testing.T) {
	parts := []string{
		"a", "w", "www", "www.", ".", "..", "-", "_", "/", "//", ":", "@", " ", "\t", "\v", "\x1c", "\"", "<", "?", "#", "%",
		"http://", "https://", "HTTP://", "a.b", "a.b/c", "xy.zz", "1", "12", "255", "256", "1.2.3.4", "01", "a0",
		"aa:bb", "0a-1b",
		"4532", "0151", "1283", "0366", "45320151", "12830366", strings.Repeat("x", 63), strings.Repeat("y", 64),
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		var line []byte
		for range rnd.IntN(16) {
			line = append(line, parts[rnd.IntN(len(parts))]...)
		}
		checkDetectors(t, line)
	}
}

func FuzzDetectors(f *testing.F) {
	for _, c := range found {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			checkDetectors(t, line)
		}
	})
}
