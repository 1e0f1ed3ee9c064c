// Package secret finds the values of secrets in what programs print, and puts something
// else in their place. A value is found wherever it lies in a stream, even where a shell,
// a language or JSON has quoted it.
package secret

import (
	"errors"
	"slices"
	"strings"
)

const (
	// MinLen is how many bytes a value must have, not counting white space around it.
	// Shorter values would match unrelated output.
	MinLen = 4
	// MaxLen is how many bytes a value may have.
	MaxLen = 64 << 10
	// minLine is how many bytes a line of a value must have to be found by itself.
	minLine = 8
)

// Check returns what is wrong with a value, in words that go on after a name for it.
func Check(value string) error {
	switch {
	case len(strings.TrimSpace(value)) < MinLen:
		return errors.New("is shorter than 4 bytes, and could not be told from what else is printed")
	case len(value) > MaxLen:
		return errors.New("is longer than 64 KiB")
	case strings.Contains(value, "\x00"):
		return errors.New("holds a NUL byte")
	}
	return nil
}

// A Value is a text that must not be seen.
type Value struct {
	Text        string
	Placeholder string // takes the text's place
}

// Values are texts to look for, as an automaton of Aho and Corasick: a tree of all the
// texts, in which each node also knows where to go on when the next byte is not below it.
// Values don't change, and several goroutines may use them.
type Values struct {
	nodes []node     // nodes[0] is the root
	first [256]int32 // the nodes below the root, by their byte; 0 if there is none
	wakes [256]bool  // whether a text may begin with the byte, as it is or quoted
	// escapes tells whether a text may begin with a backslash and then the byte.
	escapes [256]bool
	changed bool // while there are new values that are not linked
}

// A node stands for the beginning of a text. The other nodes it names are indexes, 0 for
// none.
type node struct {
	placeholder string // takes the place of the text that ends here, if one does
	child       int32  // the first of the nodes with one byte more
	sibling     int32  // the next node of the same parent
	fail        int32  // the longest proper suffix of this beginning that is one too
	found       int32  // the longest suffix of this beginning that is a whole text
	depth       int32  // how long the beginning is
	c           byte   // its last byte
}

// With returns the values of v, if v is not nil, and more. It leaves out those of more
// that are shorter than [MinLen].
func (v *Values) With(more ...Value) *Values {
	all := &Values{nodes: make([]node, 1)}
	if v != nil {
		*all = *v
		all.nodes = slices.Clone(v.nodes)
	}
	for _, value := range more {
		all.add(value.Text, value.Placeholder, MinLen)
		// Most programs that print a key print it a line at a time.
		for line := range strings.Lines(value.Text) {
			all.add(line, value.Placeholder, minLine)
		}
	}
	if v != nil && !all.changed {
		return v // which results keep
	}
	all.changed = false
	all.link()
	return all
}

// add adds a text, unless it is too short.
func (v *Values) add(text, placeholder string, least int) {
	if text = strings.TrimSpace(text); len(text) < least {
		return
	}
	v.insert(text, placeholder)
	// Go's JSON, for one, replaces each byte that is not of UTF-8. What is left of the
	// text has to be enough to tell it by.
	if valid := strings.ToValidUTF8(text, ""); valid != text && len(valid) >= least {
		v.insert(string([]rune(text)), placeholder)
	}
}

func (v *Values) insert(text, placeholder string) {
	at := int32(0)
	for i := range len(text) {
		next := v.child(at, text[i])
		if next == 0 {
			parent := &v.nodes[at]
			n := node{sibling: parent.child, depth: parent.depth + 1, c: text[i]}
			next, v.changed = int32(len(v.nodes)), true
			if at == 0 {
				n.sibling, v.first[n.c] = 0, next
			} else {
				parent.child = next
			}
			v.nodes = append(v.nodes, n)
		}
		at = next
	}
	if v.nodes[at].placeholder == "" {
		v.nodes[at].placeholder, v.changed = placeholder, true
	}
}

// link sets where each node goes on, the nodes of shorter beginnings first.
func (v *Values) link() {
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
		if n.placeholder == "" {
			n.found = v.nodes[n.fail].found
		}
		for child := n.child; child != 0; child = v.nodes[child].sibling {
			v.nodes[child].fail = v.step(n.fail, v.nodes[child].c)
			queue = append(queue, child)
		}
	}
}

// child returns the node below another for a byte.
func (v *Values) child(at int32, c byte) int32 {
	if at == 0 {
		return v.first[c]
	}
	next := v.nodes[at].child
	for next != 0 && v.nodes[next].c != c {
		next = v.nodes[next].sibling
	}
	return next
}

// step returns the node of the longest beginning that the beginning at and the byte after
// it end with.
func (v *Values) step(at int32, c byte) int32 {
	for {
		next := v.child(at, c)
		if next != 0 || at == 0 {
			return next
		}
		at = v.nodes[at].fail
	}
}

// open returns the longest suffix of a beginning that may still become a text.
func (v *Values) open(at int32) int32 {
	for at != 0 && v.nodes[at].child == 0 {
		at = v.nodes[at].fail
	}
	return at
}

// Redact returns the text with the placeholders in place of the values, if v is not nil.
func (v *Values) Redact(text string) string {
	if v == nil {
		return text
	}
	var b strings.Builder
	w := writer{values: v, dst: &b}
	w.pass([]byte(text), true)
	return b.String()
}
