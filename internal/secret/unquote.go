package secret

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A quoting is a way to write a text so that it can be read back. It reads what b, which
// is not empty, begins with, in a state. It returns the bytes of the text that this is,
// appended to the empty buf; how many bytes of b it takes, 0 if b is too short to tell,
// and less if no text can go on so; and the state after it.
type quoting func(buf, b []byte, s state) (text []byte, n int, next state)

// quotings are all that are undone. The last changes every byte, the others only marks
// and backslashes.
var quotings = [...]quoting{
	func(buf, b []byte, s state) ([]byte, int, state) { return append(buf, b[0]), 1, s },
	func(buf, b []byte, s state) ([]byte, int, state) { return unescape(buf, b, false, s) },
	func(buf, b []byte, s state) ([]byte, int, state) { return unescape(buf, b, true, s) },
	splice,
	func(buf, b []byte, s state) ([]byte, int, state) {
		return splice(buf, b, max(s, inSingle))
	},
	everyEscape,
}

// A state is where in a word of a shell a reader is.
type state byte

const (
	atStart   state = iota // nothing of a text was read, and the next mark begins '...'
	inSingle               // '...'
	inDouble               // "..." that has nothing in it but single quotation marks
	inDollar               // $'...'
	inNothing              // between those
)

// A reader looks for the values in a stream that is quoted in one way. A value may begin
// anywhere, so the state is atStart while nothing of one has been read.
type reader struct {
	node  int32 // what was read is that beginning of a text
	state state
	next  int // where to read on
	// from tells where each byte of the text is in the stream, for at least as many of
	// the last bytes as node has.
	from []int
}

// fork makes the reader go on at a position before which as many bytes were no quoting.
func (r *reader) fork(node int32, at, depth int) {
	r.node, r.state, r.next, r.from = node, state(min(depth, int(inSingle))), at, r.from[:0]
	for d := depth; d > 0; d-- {
		r.from = append(r.from, at-d)
	}
}

// start returns where the last bytes of the text begin.
func (r *reader) start(depth int32) int {
	if depth == 0 {
		return r.next
	}
	return r.from[len(r.from)-int(depth)]
}

// controls are the characters from '\a' on, as they are written after a backslash.
const controls = "abtnvfr"

// wake notes that a text begins with a byte.
func (v *Values) wake(c byte) {
	v.wakes[c], v.wakes['\\'] = true, true
	if c == '\'' || c < ' ' || c > '~' {
		v.wakes['\''] = true
	}
	escapes := "01234567xuU" + string([]byte{c})
	if i := int(c) - '\a'; i >= 0 && i < len(controls) {
		escapes += controls[i : i+1]
	} else if c == '\x1b' {
		escapes += "eE"
	}
	for i := range len(escapes) {
		v.escapes[escapes[i]] = true
	}
}

// wakesEscaped reports whether a text may begin with the backslash that b begins with.
func (v *Values) wakesEscaped(b []byte) bool {
	return len(b) == 1 || v.escapes[b[1]] || v.first['\\'] != 0
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// everyEscape reads what has a backslash before each character, as bash prints what [[ ]]
// compares with.
func everyEscape(buf, b []byte, s state) ([]byte, int, state) {
	if b[0] != '\\' {
		return nil, -1, s
	}
	if len(b) == 1 || !utf8.FullRune(b[1:]) {
		return nil, 0, s
	}
	_, n := utf8.DecodeRune(b[1:])
	return append(buf, b[1:1+n]...), 1 + n, s
}

// splice reads a shell's '...', which is left for each quotation mark and, by some, for
// what can't be printed:
//
//	'it'\''s' 'it'"'"'s' 'a'$'\t''b'
//
// A mark before a text may begin the quotation, or end it for the first mark in the text.
// At the start it is taken for the former, so there is a reader for each.
func splice(buf, b []byte, s state) ([]byte, int, state) {
	marks := 0 // how many stand before what is read
	switch c := b[0]; {
	case s == inDollar && c != '\'':
		return unescape(buf, b, false, s)
	case s <= inSingle && c != '\'':
		return append(buf, c), 1, inSingle
	case s == inDouble && c == '\'':
		return append(buf, c), 1, s
	case s == inDouble && c == '"', s == inDollar:
		return buf, 1, inNothing
	case s == inDouble, s == atStart:
		return nil, -1, s
	case s == inNothing && c == '\'':
		return buf, 1, inSingle
	case s == inSingle:
		marks = 1
	}
	switch rest := string(b[marks:min(len(b), marks+2)]); rest {
	case `\'`:
		return append(buf, '\''), marks + 2, inNothing
	case `"'`:
		return append(buf, '\''), marks + 2, inDouble
	case `$'`:
		if marks += 2; len(b) == marks {
			return nil, 0, s
		}
		text, n, next := unescape(buf, b[marks:], false, inDollar)
		if n > 0 {
			n += marks
		}
		return text, n, next
	case "", `\`, `"`, "$":
		return nil, 0, s
	}
	return nil, -1, s
}

// unescape reads what a shell writes between $' and ' or with a backslash before it, and
// Go, JSON, Python and JavaScript between their quotation marks. The number after \x is
// that of a character if runes is set, as in Python's str, or else of a byte.
func unescape(buf, b []byte, runes bool, s state) (text []byte, n int, next state) {
	if b[0] != '\\' {
		return append(buf, b[0]), 1, s
	}
	if len(b) == 1 {
		return nil, 0, s
	}
	c := b[1]
	if i := strings.IndexByte(controls, c); i >= 0 {
		return append(buf, '\a'+byte(i)), 2, s
	}
	skip, digits, base := 2, 2, rune(16)
	switch {
	case c == 'e' || c == 'E':
		return append(buf, '\x1b'), 2, s
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case '0' <= c && c <= '7':
		skip, digits, base, runes = 1, 3, 8, false
	case isAlphanumeric(c) && c != 'x':
		return nil, -1, s
	case c != 'x':
		return append(buf, c), 2, s
	}
	code, n := number(b, skip, digits, base)
	switch {
	case n <= 0:
		return nil, n, s
	case digits < 4 && !runes, 0xdc80 <= code && code <= 0xdcff:
		// The latter is Python's for a byte that is not of UTF-8.
		return append(buf, byte(code)), n, s
	case utf16.IsSurrogate(code):
		low, more := number(b, n+2, 4, 16)
		if more <= 0 {
			return nil, more, s
		}
		code = utf16.DecodeRune(code, low)
		if code == utf8.RuneError || string(b[n:n+2]) != `\u` {
			return nil, -1, s
		}
		n = more
	}
	return utf8.AppendRune(buf, code), n, s
}

// number reads digits, three octal ones or fewer, after skip bytes. It returns where they
// end, or what a quoting returns.
func number(b []byte, skip, digits int, base rune) (code rune, end int) {
	for end = skip; end < skip+digits; end++ {
		if end >= len(b) {
			return 0, 0
		}
		digit := rune(strings.IndexByte("0123456789abcdef", b[end]|0x20))
		if b[end] < '0' || digit < 0 || digit >= base {
			if base == 8 {
				break
			}
			return 0, -1
		}
		code = code*base + digit
	}
	return code, end
}
