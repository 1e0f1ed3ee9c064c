package redact

import (
	"bytes"
	"fmt"
	"slices"
)

const (
	// MaxLine is the length in bytes from which a line is read in pieces.
	MaxLine = 64 << 10
	// MaxMatch is the length in bytes up to which a match in such a line is found
	// wherever it lies.
	MaxMatch = 4 << 10
)

// A lineStage looks for matches in one line at a time.
type lineStage struct {
	rule *Rule
	next stage
	held []byte // the beginning of a line
	out  []byte // what takes its place
}

func (s *lineStage) write(p []byte) error {
	same := 0 // p[same:i] passes as it is
	for i := 0; i < len(p); {
		n := bytes.IndexByte(p[i:], '\n')
		if len(s.held) == 0 && 0 <= n && n < MaxLine {
			spans, err := s.find(p[i : i+n])
			if err != nil {
				return err
			}
			if len(spans) > 0 {
				if err := s.next.write(p[same:i]); err != nil {
					return err
				}
				if err := s.replace(p[i:i+n], spans); err != nil {
					return err
				}
				same = i + n
			}
			i += n + 1
			continue
		}
		if err := s.next.write(p[same:i]); err != nil {
			return err
		}
		part := p[i:]
		if n >= 0 {
			part = part[:n]
		}
		part = part[:min(len(part), MaxLine-len(s.held))]
		s.held = append(s.held, part...)
		i += len(part)
		same = i
		var err error
		switch {
		case len(s.held) == MaxLine:
			// Also if a newline is next: in another write it would not be known.
			err = s.piece()
		case n >= 0:
			err = s.line()
		}
		if err != nil {
			return err
		}
	}
	return s.next.write(p[same:])
}

func (s *lineStage) close() error {
	if err := s.line(); err != nil {
		return err
	}
	return s.next.close()
}

// line ends the line that is held.
func (s *lineStage) line() error {
	spans, err := s.find(s.held)
	if err == nil {
		err = s.replace(s.held, spans)
	}
	s.held = s.held[:0]
	return err
}

// piece passes the first part of the line that is held, up to where nothing can begin
// that is short enough and ends beyond it.
func (s *lineStage) piece() error {
	spans, err := s.find(s.held)
	if err != nil {
		return err
	}
	cut := len(s.held) - MaxMatch
	n := 0
	for ; n < len(spans) && spans[n][0] < cut; n++ {
		if start, end := spans[n][0], spans[n][1]; end > cut && start >= MaxLine/2 {
			// It may be longer, and gets another look. One that is this long gets none:
			// each piece takes at least half a line.
			cut = start
			break
		} else if end > cut {
			cut = end
		}
	}
	if err := s.replace(s.held[:cut], spans[:n]); err != nil {
		return err
	}
	s.held = s.held[:copy(s.held, s.held[cut:])]
	return nil
}

// find returns what the rule finds, in order, apart and within the line.
func (s *lineStage) find(line []byte) ([][]int, error) {
	if len(line) == 0 {
		return nil, nil
	}
	spans := s.rule.Find(line)
	if len(spans) == 0 {
		return nil, nil
	}
	for _, span := range spans {
		if len(span) < 2 || span[0] < 0 || span[1] < span[0] || span[1] > len(line) {
			return nil, fmt.Errorf("the detector of %s has returned a match that is not in the line", s.rule.Type)
		}
	}
	slices.SortStableFunc(spans, func(a, b []int) int { return a[0] - b[0] })
	kept, at := spans[:0], 0
	for _, span := range spans {
		if start := max(span[0], at); start < span[1] {
			at = span[1]
			kept = append(kept, []int{start, at})
		}
	}
	return kept, nil
}

// replace passes a line with something else in the place of the spans.
func (s *lineStage) replace(line []byte, spans [][]int) error {
	if len(spans) == 0 {
		return s.next.write(line)
	}
	if s.rule.Strategy == Block {
		return &BlockedError{s.rule.Type}
	}
	s.out = s.out[:0]
	at := 0
	for _, span := range spans {
		s.out = append(s.out, line[at:span[0]]...)
		s.out = s.rule.appendReplacement(s.out, line[span[0]:span[1]])
		at = span[1]
	}
	s.out = append(s.out, line[at:]...)
	return s.next.write(s.out)
}
