package secret

import (
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// Writer returns a writer that passes what is written to it on to dst, with the
// placeholders in place of the values. Of values that overlap nothing is passed, and the
// placeholder is that of the first. However the stream is cut into writes, the result is
// the same. The writer holds back what may be the beginning of a value, and no more. Its
// Close passes what is still held, and closes dst if that is an [io.Closer].
func (v *Values) Writer(dst io.Writer) io.WriteCloser {
	return &writer{values: v, dst: dst}
}

// A writer is what [Values.Writer] returns.
//
// Each quoting has a reader, which goes through the stream once and looks at no more than
// a few bytes ahead. The automaton falls back no further than it went forward. So the
// cost is linear in what is written, whatever that is, and what is held is in proportion
// to the longest value.
//
// All positions are counted from where it last held nothing.
type writer struct {
	values  *Values
	dst     io.Writer
	held    []byte
	base    int // where held begins
	at      int // where reading goes on
	done    int // what is before this has been passed on, or something else in its place
	readers [len(quotings)]reader
	// apart tells whether the readers differ. If not, the first stands for all but the
	// last, which is at its start.
	apart bool
	found []span // in order, and not passed on yet
}

// A span is where a value was found.
type span struct {
	start, end  int
	placeholder string
}

func (w *writer) Write(p []byte) (int, error) {
	b := p
	if len(w.held) > 0 {
		w.held = append(w.held, p...)
		b = w.held
	} else {
		w.base, w.at, w.done = 0, 0, 0
	}
	rest, err := w.pass(b, false)
	if len(w.held) == 0 || len(rest) < len(b) {
		w.held = append(w.held[:0], rest...)
	}
	return len(p), err
}

func (w *writer) Close() error {
	_, err := w.pass(w.held, true)
	w.held = nil
	if dst, ok := w.dst.(io.Closer); ok {
		err = errors.Join(err, dst.Close())
	}
	return err
}

// pass passes what is clear, which is all of b if it is the last of the stream, and
// returns what has to come again.
func (w *writer) pass(b []byte, last bool) (rest []byte, err error) {
	w.read(b, last)
	// No value that is still to be found begins before clear.
	clear := w.base + len(b)
	if !last {
		clear = w.at
		for i := range w.readers {
			r := &w.readers[i]
			if !w.apart {
				clear -= int(w.values.nodes[r.node].depth)
				break
			}
			clear = min(clear, r.start(w.values.nodes[r.node].depth))
		}
	}
	write := func(p []byte) {
		if err == nil && len(p) > 0 {
			_, err = w.dst.Write(p)
		}
	}
	n := 0
	for ; n < len(w.found) && w.found[n].start < clear; n++ {
		f := w.found[n]
		if f.start >= w.done {
			write(b[w.done-w.base : f.start-w.base])
			write([]byte(f.placeholder))
		}
		w.done = max(w.done, f.end)
	}
	w.found = slices.Delete(w.found, 0, n)
	if w.done < clear {
		write(b[w.done-w.base : clear-w.base])
		w.done = clear
	}
	rest = b[clear-w.base:]
	w.base = clear
	return rest, err
}

// read looks for values in b, which begins at w.base.
func (w *writer) read(b []byte, last bool) {
	v := w.values
	for i := w.at - w.base; ; i++ {
		r := &w.readers[0]
		if !w.apart && r.node == 0 {
			for i < len(b) && !(v.wakes[b[i]] && (b[i] != '\\' || v.wakesEscaped(b[i:]))) {
				i++
			}
		}
		w.at = w.base + i
		if i == len(b) {
			return
		}
		if !w.apart && b[i] != '\\' && b[i] != '\'' {
			// This is the same in each way of quoting.
			if r.node = v.step(r.node, b[i]); r.node != 0 {
				if f := v.nodes[r.node].found; f != 0 {
					w.add(w.at+1-int(v.nodes[f].depth), w.at+1, f)
				}
				r.node = v.open(r.node)
			}
			continue
		}
		if !w.apart {
			last := len(w.readers) - 1
			for k := range last {
				w.readers[k].fork(r.node, w.at, int(v.nodes[r.node].depth))
			}
			w.readers[last].fork(0, w.at, 0)
		}
		w.apart = false
		for k := range w.readers {
			r := &w.readers[k]
			if r.node == 0 && !v.wakes[b[i]] {
				r.next = w.at + 1
				continue
			}
			if !w.advance(r, quotings[k], b[i:], last) {
				w.apart = true
				return
			}
			w.apart = w.apart || r.node != 0
		}
	}
}

// advance makes the reader read what begins at w.at, if it has not. It reports false if
// that takes more than b.
func (w *writer) advance(r *reader, q quoting, b []byte, last bool) bool {
	v := w.values
	for r.next == w.at {
		var buf [utf8.UTFMax]byte
		text, n, next := q(buf[:0], b, r.state)
		if n == 0 && !last {
			return false
		}
		if n <= 0 {
			r.node = 0
		}
		for _, ch := range text {
			depth := int(v.nodes[r.node].depth)
			if len(r.from) == cap(r.from) && depth <= len(r.from)/2 {
				r.from = r.from[:copy(r.from, r.from[len(r.from)-depth:])]
			}
			r.from = append(r.from, w.at)
			r.node = v.step(r.node, ch)
			if f := v.nodes[r.node].found; f != 0 {
				w.add(r.start(v.nodes[f].depth), w.at+n, f)
			}
			r.node = v.open(r.node)
		}
		switch {
		case r.state != atStart && int(v.nodes[r.node].depth) <= len(text):
			// Nothing is left of what came before. A text may begin here, and it does
			// so in the state of all that begin.
			r.node, r.state = 0, atStart
		case r.node == 0:
			// Or within what was read.
			r.next++
		default:
			r.next += n
			r.state = next
		}
	}
	return true
}

// add notes that a text was found. Texts that overlap become one. What ends later is
// added later.
func (w *writer) add(start, end int, node int32) {
	n := len(w.found)
	for ; n > 0; n-- {
		f := w.found[n-1]
		if f.start < start || f.start == start && f.end >= end {
			break
		}
		end = max(end, f.end)
	}
	w.found = w.found[:n]
	if n > 0 && start < w.found[n-1].end {
		w.found[n-1].end = max(w.found[n-1].end, end)
		return
	}
	w.found = append(w.found, span{start, end, w.values.nodes[node].placeholder})
}
