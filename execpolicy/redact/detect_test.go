package redact

import (
	"bytes"
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
	{"credit_card", "Card: 1234567890123456 4532015112830367", nil},
	{"credit_card", "amex 3782 822463 10005 diners 3056-930902-5904 visa 4222222222222", []string{"3782 822463 10005", "3056-930902-5904", "4222222222222"}},
	{"credit_card", "1234 4532 0151 1283 0366", []string{"4532 0151 1283 0366"}},
	{"credit_card", "2024-01-02 4532015112830366", []string{"4532015112830366"}},
	{"credit_card", "x4532015112830366 4532015112830366x _4532015112830366 45320151128303660000", nil},
	{"credit_card", "号4532015112830366号", []string{"4532015112830366"}},
	{"credit_card", "4532  0151 1283 0366, 4532- 0151-1283-0366", nil},
	{"credit_card", "6304000000000000000 000000000000", []string{"6304000000000000000"}},
	{"credit_card", "0151 128303666 4532-0151 1283\t0366", []string{"0151 128303666 4532-0151 1283\t0366"}},
	{"credit_card", "4532015112830366 ", []string{"4532015112830366"}},

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
	{"url", "-a.b.c/d a_b.c.d/e a-.b.c/d " + strings.Repeat("x", 64) + ".y.z/p", []string{"a.b.c/d", "c.d/e", "b.c/d", "y.z/p"}},
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

// langchain are LangChain's patterns, with its conditions, for lines of ASCII. Where exact is false, the detector may find more.
var langchain = []struct {
	kind    string
	pattern *regexp.Regexp
	accept  func(line, match []byte) bool
	exact   bool
}{
	{"email", regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b`), nil, true},
	{"credit_card", regexp.MustCompile(`\b\d{4}[\t -]?\d{4}[\t -]?\d{4}[\t -]?\d{4}\b`), func(_, match []byte) bool {
		var digits []byte
		for _, c := range match {
			if isDigit(c) {
				digits = append(digits, c-'0')
			}
		}
		return luhn(digits)
	}, false},
	{"ip", regexp.MustCompile(`\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b`), func(_, match []byte) bool {
		for part := range bytes.SplitSeq(match, []byte(".")) {
			if len(part) > 1 && part[0] == '0' || len(part) == 3 && string(part) > "255" {
				return false
			}
		}
		return true
	}, true},
	{"mac_address", regexp.MustCompile(`\b([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b`), nil, true},
	{"url", regexp.MustCompile("https?://[^\\s\\v\x1c-\x1f<>\"{}|\\\\^`\\[\\]]+"), func(_, match []byte) bool {
		_, rest, _ := bytes.Cut(match, []byte("://"))
		return bytes.IndexByte([]byte("/?#"), rest[0]) < 0
	}, false},
	{"url", regexp.MustCompile("\\b(?:www\\.)?[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(?:/[^\\s\\v\x1c-\x1f]*)?"),
		func(line, match []byte) bool {
			// What overlaps one with a scheme is left to that.
			return !bytes.Contains(line, []byte("://")) && (bytes.IndexByte(match, '/') >= 0 || bytes.HasPrefix(match, []byte("www.")))
		}, false},
}

// checkDetectors checks what is found against LangChain's patterns.
func checkDetectors(t *testing.T, line []byte) {
	t.Helper()
	for _, d := range langchain {
		spans := detectors[d.kind](line)
		at := 0
		for _, span := range spans {
			assert.Assert(t, at <= span[0] && span[0] < span[1] && span[1] <= len(line), "%s: %v in %q", d.kind, spans, line)
			at = span[1]
		}
		if bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }) {
			continue
		}
		var want [][]int
		for _, m := range d.pattern.FindAllIndex(line, -1) {
			if d.accept == nil || d.accept(line, line[m[0]:m[1]]) {
				want = append(want, m)
			}
		}
		if d.exact {
			assert.DeepEqual(t, spans, want)
			continue
		}
		for _, m := range want {
			// Each of its bytes is in one.
			for i := m[0]; i < m[1]; i++ {
				if d.kind == "credit_card" && i > m[0] && !isDigit(line[i]) {
					continue
				}
				in := slices.ContainsFunc(spans, func(s []int) bool { return s[0] <= i && i < s[1] })
				assert.Assert(t, in, "%s: %q is not found in %q: %v", d.kind, line[m[0]:m[1]], line, spans)
			}
		}
	}
}

func TestDetectorsFindWhatLangChainFinds(t *testing.T) {
	for _, c := range found {
		checkDetectors(t, []byte(c.text))
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
