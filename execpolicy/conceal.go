package execpolicy

import (
	"errors"
	"io"
	"slices"
	"strings"
)

// values are what must not be seen, as an automaton of Aho and Corasick: a tree of all
// the texts, in which each node also knows where to go on when the next byte is not below
// it. They don't change.
type values struct {
	nodes []node     // nodes[0] is the root
	first [256]int32 // the nodes below the root, by their byte; 0 if there is none
	wakes [256]bool  // whether a text may begin with the byte, as it is or quoted
	// escapes tells whether one may begin with a backslash and then the byte.
	escapes [256]bool
}

// A node stands for the beginning of a text. The others it names are indexes, 0 for none.
type node struct {
	shown   string // takes the place of the text that ends here, if one does
	child   int32  // the first of those with one byte more
	sibling int32  // the next of the same parent
	fail    int32  // the longest proper suffix of this beginning that is one too
	found   int32  // the longest suffix of this beginning that is a whole text
	depth   int32  // how long the beginning is
	c       byte   // its last byte
}

// with returns the values and those of secrets.
func (v *values) with(secrets []Secret) *values {
	all := &values{nodes: make([]node, 1)}
	if v != nil {
		*all = *v
		all.nodes = slices.Clone(v.nodes)
	}
	for _, s := range secrets {
		all.add(s, s.Value, minSecret)
		// Most who print a key print it a line at a time.
		for line := range strings.Lines(s.Value) {
			all.add(s, line, minSecretLine)
		}
	}
	all.link()
	return all
}

// add adds a text of a secret, unless it is too short.
func (v *values) add(s Secret, text string, least int) {
	if text = strings.TrimSpace(text); len(text) < least {
		return
	}
	v.insert(text, "["+s.String()+"]")
	// Go's JSON, for one, replaces each byte that is not of UTF-8. What is left of the
	// text has to be enough to tell it by.
	if valid := strings.ToValidUTF8(text, ""); valid != text && len(valid) >= least {
		v.insert(string([]rune(text)), "["+s.String()+"]")
	}
}

func (v *values) insert(text, shown string) {
	at := int32(0)
	for i := range len(text) {
		next := v.child(at, text[i])
		if next == 0 {
			parent := &v.nodes[at]
			n := node{sibling: parent.child, depth: parent.depth + 1, c: text[i]}
			next = int32(len(v.nodes))
			if at == 0 {
				n.sibling, v.first[n.c] = 0, next
			} else {
				parent.child = next
			}
			v.nodes = append(v.nodes, n)
		}
		at = next
	}
	if v.nodes[at].shown == "" {
		v.nodes[at].shown = shown
	}
}

// link sets where each node goes on, those of shorter beginnings first.
func (v *values) link() {
	queue := make([]int32, 0, len(v.nodes))
	for c, n := range v.first {
		if n != 0 {
			queue = append(queue, n)
			v.wake(byte(c))
		}
	}
	for i := 0; i < len(queue); i++ {
		n := &v.nodes[queue[i]]
		n.found = queue[i]
		if n.shown == "" {
			n.found = v.nodes[n.fail].found
		}
		for child := n.child; child != 0; child = v.nodes[child].sibling {
			v.nodes[child].fail = v.step(n.fail, v.nodes[child].c)
			queue = append(queue, child)
		}
	}
}

// child returns the node below another for a byte.
func (v *values) child(at int32, c byte) int32 {
	if at == 0 {
		return v.first[c]
	}
	next := v.nodes[at].child
	for next != 0 && v.nodes[next].c != c {
		next = v.nodes[next].sibling
	}
	return next
}

// step returns the node of the longest beginning that ends with a byte that follows
// another.
func (v *values) step(at int32, c byte) int32 {
	for {
		next := v.child(at, c)
		if next != 0 || at == 0 {
			return next
		}
		at = v.nodes[at].fail
	}
}

// conceal returns the text with something else in place of the values.
func (v *values) conceal(text string) string {
	if v == nil {
		return text
	}
	var b strings.Builder
	c := concealer{values: v, w: &b}
	c.pass([]byte(text), true)
	return b.String()
}

// A concealer passes on what is written to it with something else in place of the values:
// all that is part of one, also where they overlap. However the stream is cut, the result
// is the same. It holds back what may be the beginning of a value, and no more.
//
// Each quoting has a reader, which goes through the stream once and looks at no more than
// a few bytes ahead. The automaton falls back no further than it went forward. So the
// cost is linear in what is written, whatever that is, and what is held is in proportion
// to the longest value.
//
// All positions are counted from where it last held nothing.
type concealer struct {
	values  *values
	w       io.Writer
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
	start, end int
	shown      string
}

func (c *concealer) Write(p []byte) (int, error) {
	b := p
	if len(c.held) > 0 {
		c.held = append(c.held, p...)
		b = c.held
	} else {
		c.base, c.at, c.done = 0, 0, 0
	}
	rest, err := c.pass(b, false)
	if len(c.held) == 0 || len(rest) < len(b) {
		c.held = append(c.held[:0], rest...)
	}
	return len(p), err
}

// Close passes what is held, and closes what is behind.
func (c *concealer) Close() error {
	_, err := c.pass(c.held, true)
	c.held = nil
	if w, ok := c.w.(io.Closer); ok {
		err = errors.Join(err, w.Close())
	}
	return err
}

// pass passes what is clear, which is all if nothing more comes, and returns what has to
// come again.
func (c *concealer) pass(b []byte, last bool) (rest []byte, err error) {
	c.read(b, last)
	// No value that is still to be found begins before clear.
	clear := c.base + len(b)
	if !last {
		clear = c.at
		for i := range c.readers {
			r := &c.readers[i]
			if !c.apart {
				clear -= int(c.values.nodes[r.node].depth)
				break
			}
			clear = min(clear, r.start(c.values.nodes[r.node].depth))
		}
	}
	write := func(p []byte) {
		if err == nil && len(p) > 0 {
			_, err = c.w.Write(p)
		}
	}
	n := 0
	for ; n < len(c.found) && c.found[n].start < clear; n++ {
		f := c.found[n]
		if f.start >= c.done {
			write(b[c.done-c.base : f.start-c.base])
			write([]byte(f.shown))
		}
		c.done = max(c.done, f.end)
	}
	c.found = slices.Delete(c.found, 0, n)
	if c.done < clear {
		write(b[c.done-c.base : clear-c.base])
		c.done = clear
	}
	rest = b[clear-c.base:]
	c.base = clear
	return rest, err
}

// read looks for values in b, which begins at c.base.
func (c *concealer) read(b []byte, last bool) {
	v := c.values
	for i := c.at - c.base; ; i++ {
		r := &c.readers[0]
		if !c.apart && r.node == 0 {
			for i < len(b) && !(v.wakes[b[i]] && (b[i] != '\\' || v.wakesEscaped(b[i:]))) {
				i++
			}
		}
		c.at = c.base + i
		if i == len(b) {
			return
		}
		if !c.apart && b[i] != '\\' && b[i] != '\'' {
			// This is the same in each way of quoting.
			if r.node = v.step(r.node, b[i]); r.node != 0 {
				if f := v.nodes[r.node].found; f != 0 {
					c.add(c.at+1-int(v.nodes[f].depth), c.at+1, f)
				}
				r.node = v.open(r.node)
			}
			continue
		}
		if !c.apart {
			last := len(c.readers) - 1
			for k := range last {
				c.readers[k].fork(r.node, c.at, int(v.nodes[r.node].depth))
			}
			c.readers[last].fork(0, c.at, 0)
		}
		c.apart = false
		for k := range c.readers {
			r := &c.readers[k]
			if r.node == 0 && !v.wakes[b[i]] {
				r.next = c.at + 1
				continue
			}
			if !c.advance(r, quotings[k], b[i:], last) {
				c.apart = true
				return
			}
			c.apart = c.apart || r.node != 0
		}
	}
}

// wakesEscaped reports whether a text may begin with the backslash that b begins with.
func (v *values) wakesEscaped(b []byte) bool {
	return len(b) == 1 || v.escapes[b[1]] || v.first['\\'] != 0
}

// open returns the longest suffix of a beginning that may still become a text.
func (v *values) open(at int32) int32 {
	for at != 0 && v.nodes[at].child == 0 {
		at = v.nodes[at].fail
	}
	return at
}

// add notes that a text was found. Those that overlap become one. What ends later comes
// later.
func (c *concealer) add(start, end int, node int32) {
	n := len(c.found)
	for n > 0 && (c.found[n-1].start > start || c.found[n-1].start == start && c.found[n-1].end < end) {
		n--
		end = max(end, c.found[n].end)
	}
	c.found = c.found[:n]
	if n > 0 && start < c.found[n-1].end {
		c.found[n-1].end = max(c.found[n-1].end, end)
		return
	}
	c.found = append(c.found, span{start, end, c.values.nodes[node].shown})
}
