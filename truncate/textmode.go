package truncate

import (
	"bytes"
	"unicode/utf8"
)

// A stream reads one stream as Python's text mode does, into a transcript.
type stream struct {
	line
	t    *Transcript
	rune [utf8.UTFMax]byte // the first bytes of a rune that is not complete yet
	n    int               // how many
	// cr says that a carriage return has come. It ends the line together with a newline
	// that may follow.
	cr bool
}

// block is what Write looks at in one go: small enough to stay in the processor's cache
// while it is looked at again.
const block = 16 << 10

var replacement = []byte(string(utf8.RuneError))

func (s *stream) Write(p []byte) (int, error) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		n := min(len(rest), block)
		s.decode(rest[:n])
		rest = rest[n:]
	}
	return len(p), nil
}

func (s *stream) Close() error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.n > 0 {
		s.n = 0
		s.pass(replacement)
	}
	if s.cr {
		s.cr = false
		s.t.finish(&s.line, s.mark(), "\n")
	}
	if s.size > 0 {
		s.t.finish(&s.line, s.mark(), "")
	}
	s.line = line{}
	return nil
}

func (s *stream) mark() string {
	if s == &s.t.err {
		return "[stderr] "
	}
	return ""
}

// decode passes p on as valid UTF-8. Each maximal part of p that could have begun a rune,
// and otherwise each byte that is in none, becomes one U+FFFD.
func (s *stream) decode(p []byte) {
	p = s.completeRune(p)
	n := len(p) - unfinished(p)
	s.n += copy(s.rune[s.n:], p[n:])
	if p = p[:n]; utf8.Valid(p) {
		s.pass(p)
		return
	}
	var piece [1 << 10]byte
	for len(p) > 0 {
		valid := piece[:0]
		for len(p) > 0 && len(valid) <= len(piece)-utf8.UTFMax {
			r, n := utf8.DecodeRune(p)
			if r == utf8.RuneError && n == 1 {
				n = invalidPrefix(p)
			}
			valid = utf8.AppendRune(valid, r)
			p = p[n:]
		}
		s.pass(valid)
	}
}

// completeRune takes from p what belongs to a rune that an earlier write began.
func (s *stream) completeRune(p []byte) []byte {
	for s.n > 0 && len(p) > 0 {
		s.rune[s.n] = p[0]
		candidate := s.rune[:s.n+1]
		switch {
		case !utf8.FullRune(candidate):
			s.n++
			p = p[1:]
		case utf8.Valid(candidate):
			s.n = 0
			p = p[1:]
			s.pass(candidate)
		default:
			s.n = 0
			s.pass(replacement)
		}
	}
	return p
}

// unfinished returns the length of the rune begun and not completed at the end of p.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// invalidPrefix returns how many bytes of p, which begins with an invalid one, one U+FFFD
// stands for.
func invalidPrefix(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}

// pass hands valid UTF-8 on to the transcript, with every line end a newline.
func (s *stream) pass(p []byte) {
	for len(p) > 0 {
		if s.cr {
			s.cr = false
			s.t.finish(&s.line, s.mark(), "\n")
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := bytes.IndexByte(p, '\r')
		if i < 0 {
			s.t.addLines(&s.line, s.mark(), p)
			return
		}
		s.t.addLines(&s.line, s.mark(), p[:i])
		s.cr = true
		p = p[i+1:]
	}
}
