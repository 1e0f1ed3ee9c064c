package truncate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a\tb\nc", "a\tb\nc"},
		{"\x1b[1;31mred\x1b[0m", "red"},
		{"\x1b[?25l\x1b[2K\x1b[1Ga\x1b[38;5;196mb", "ab"},
		{"\x1b]0;title\aa\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"},
		{"\x1b]0;never ends\nnext", "\nnext"},
		{"\x1bPq#0\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c", "abc"},
		{"\x1b(Ba\x1b7b\x1bMc\x1b", "abc"},
		{"\x1b[31\nm", "\nm"},
		{"\x1b[31é", "é"},
		{"\x1b\x1b[1mx", "x"},
		{"a\x00b\bc\x7fd\u009be\x0b\x0c", "abcde"},
		{"\xff\xfea\xc3", "\ufffda\ufffd"},
		{"a\r\nb\r\r\nc\r", "a\nb\nc"},
		{" 10 %\r 50 %\r100 %\nnext\rlast", "100 %\nlast"},
	} {
		assert.Equal(t, string(Plain([]byte(c.in))), c.want, "%q", c.in)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x1b[31mé\x1b]0;t\a\r\n\xff\xc3\x1bP\x1b\x1b\\\x1b("))
	f.Fuzz(func(t *testing.T, p []byte) {
		plain := Plain(bytes.Clone(p))
		assert.Assert(t, utf8.Valid(plain) && bytes.IndexFunc(plain, acted) < 0, "%q", plain)
		assert.Equal(t, bytes.Count(plain, newline), bytes.Count(p, newline))
		assert.DeepEqual(t, Plain(plain), plain)
	})
}

// However little room there is, what is shown is within it and in place, and the count is
// of the rest.
func FuzzExcerpt(f *testing.F) {
	f.Add("é\nb\nc\nd\n", "", int64(0), int64(0), 40, 3)
	f.Add("a\nb", "é\nd\n", int64(5), int64(9), 50, 4)
	f.Add(strings.Repeat("é", 100), strings.Repeat("x\n", 100), int64(1<<40), int64(1<<30), 90, 1000)
	f.Fuzz(func(t *testing.T, head, tail string, dropped, lines int64, limit, maxLines int) {
		if !utf8.ValidString(head) || !utf8.ValidString(tail) || dropped < 0 || dropped > 1<<60 || lines < 0 ||
			strings.Contains(head+tail, "... ") {
			return
		}
		text := Excerpt{Head: []byte(head), Tail: []byte(tail), Dropped: dropped, Lines: lines}.Text(limit, maxLines)
		assert.Assert(t, utf8.ValidString(text))
		if text == "" || text == head+tail {
			return
		}
		assert.Assert(t, len(text) <= limit && countLines([]byte(text)) <= int64(maxLines), "%q", text)
		first, rest, ok := strings.Cut(text, "... ")
		assert.Assert(t, ok, "%q", text)
		notice, last, ok := strings.Cut(rest, "\n")
		assert.Assert(t, ok, "%q", text)
		var left, none int64
		_, err := fmt.Sscanf(notice, "%d byte", &left)
		assert.NilError(t, err, "%q", notice)
		if _, of, ok := strings.Cut(notice, "("); ok {
			_, err = fmt.Sscan(strings.Fields(of)[0], &none)
			assert.NilError(t, err, "%q", notice)
		}
		all := int64(len(head)+len(tail)) + dropped
		whole := head
		if dropped == 0 {
			whole, tail = head+tail, head+tail
			lines = countLines([]byte(whole))
		}
		assert.Assert(t, strings.HasSuffix(tail, last), "%q", text)
		if !strings.HasPrefix(whole, first) || int64(len(first)+len(last))+left != all {
			first = strings.TrimSuffix(first, "\n")
		}
		assert.Assert(t, strings.HasPrefix(whole, first), "%q", text)
		assert.Equal(t, int64(len(first)+len(last))+left, all)
		assert.Equal(t, none, max(0, lines-countLines([]byte(first))-countLines([]byte(last))))
	})
}
