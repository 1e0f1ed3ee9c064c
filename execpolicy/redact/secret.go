package redact

import (
	"errors"
	"slices"
	"strings"
)

// Secrets returns a rule of the type "secret" that finds exactly these values, even if
// they have newlines in them or lie across writes. Of two that begin at the same place
// the longer one is found, and of two that overlap the first. The rule holds back only
// what may be the beginning of a value, which is at most the longest value less one byte,
// and looks at 32 KiB at once.
//
// The rule does not find other forms of a value: not its base64, not its
// percent-encoding, and not a part of it. There must be a value, and none may be empty:
// else [New] fails. A value of a few letters is found inside many words.
func Secrets(values ...string) Rule {
	s := &secrets{values: slices.Clone(values)}
	slices.SortStableFunc(s.values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range s.values {
		if v != "" {
			s.first[v[0]] = true
		}
	}
	return Rule{Type: "secret", secrets: func() *secrets { return s }}
}

// secrets are values, the longest first.
type secrets struct {
	values []string
	first  [256]bool // whether one begins with the byte
}

func (s *secrets) validate() error {
	if len(s.values) == 0 || slices.Contains(s.values, "") {
		return errors.New("there must be a secret, and none may be empty")
	}
	return nil
}

// match returns the length of the longest value that b begins with, 0 if there is none,
// and whether b is the beginning of a longer one.
func (s *secrets) match(b []byte) (n int, more bool) {
	for _, v := range s.values {
		if len(v) <= len(b) {
			if string(b[:len(v)]) == v {
				return len(v), more
			}
		} else if strings.HasPrefix(v, string(b)) {
			more = true
		}
	}
	return 0, more
}

// secretPiece is as much as is looked at at once.
const secretPiece = 32 << 10

// A secretStage looks for values in a stream. Package internal/secret would find more
// than [Secrets] documents: values that are quoted, and lines of a value; and it has one
// placeholder for values that overlap.
type secretStage struct {
	rule *Rule
	next stage
	buf  []byte // what is held, and a piece
	out  []byte // what takes a value's place
}

func (s *secretStage) write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), secretPiece)
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		if err := s.scan(false); err != nil {
			return err
		}
	}
	return nil
}

func (s *secretStage) close() error {
	if err := s.scan(true); err != nil {
		return err
	}
	return s.next.close()
}

// scan passes what is clear, which is all if nothing more comes.
func (s *secretStage) scan(last bool) error {
	b, values := s.buf, s.rule.secrets()
	same, i := 0, 0
	for i < len(b) {
		if !values.first[b[i]] {
			i++
			continue
		}
		n, more := values.match(b[i:])
		if more && !last {
			break
		}
		if n == 0 {
			i++
			continue
		}
		if err := s.next.write(b[same:i]); err != nil {
			return err
		}
		if s.rule.Strategy == Block {
			return &BlockedError{s.rule.Type}
		}
		s.out = s.rule.appendReplacement(s.out[:0], b[i:i+n])
		if err := s.next.write(s.out); err != nil {
			return err
		}
		i += n
		same = i
	}
	if err := s.next.write(b[same:i]); err != nil {
		return err
	}
	s.buf = b[:copy(b, b[i:])]
	return nil
}
