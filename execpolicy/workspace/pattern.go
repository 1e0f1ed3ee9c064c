package workspace

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// patterns are patterns of names, in their elements.
type patterns struct {
	all    [][]string
	folded [][]string // in small letters, if they are the same as capitals
}

// parse reads patterns, and returns what is wrong with them.
func parse(list []string, fold bool) (patterns, []error) {
	var p patterns
	var errs []error
	for _, pattern := range list {
		elements := strings.Split(pattern, "/")
		for _, e := range elements {
			_, err := path.Match(e, "")
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("the pattern %q: %w", pattern, err))
			case e == "" || e == "." || e == "..":
				errs = append(errs, fmt.Errorf("the pattern %q: it has an element %q, which no name has", pattern, e))
			case e != "**" && strings.Contains(e, "**"):
				errs = append(errs, fmt.Errorf(`the pattern %q: "**" has to stand alone between slashes`, pattern))
			default:
				continue
			}
			break
		}
		p.all = append(p.all, elements)
		if fold {
			p.folded = append(p.folded, strings.Split(strings.ToLower(pattern), "/"))
		}
	}
	return p, errs
}

// match reports whether one of the patterns matches a name.
func (p patterns) match(name string) bool { return p.any(name, matchElements) }

// matchBelow reports whether one of the patterns can match a name below that directory.
func (p patterns) matchBelow(dir string) bool { return p.any(dir, matchPrefix) }

// any reports whether f is true of one of the patterns and the name, in their elements.
func (p patterns) any(name string, f func(pattern, name []string) bool) bool {
	// A range of characters in small letters is another.
	elements, folded := strings.Split(name, "/"), strings.Split(strings.ToLower(name), "/")
	return slices.ContainsFunc(p.all, func(pattern []string) bool { return f(pattern, elements) }) ||
		slices.ContainsFunc(p.folded, func(pattern []string) bool { return f(pattern, folded) })
}

// matchTree reports whether one of the patterns matches a name or a directory that it is
// in.
func (p patterns) matchTree(name string) bool {
	if len(p.all) == 0 {
		return false
	}
	for i, c := range name {
		if c == '/' && p.match(name[:i]) {
			return true
		}
	}
	return p.match(name)
}

// matchPrefix reports whether the pattern can match a name that begins with these
// elements and has more.
func matchPrefix(pattern, dir []string) bool {
	for i, name := range dir {
		if i == len(pattern) {
			return false
		}
		if pattern[i] == "**" {
			return true
		}
		if ok, _ := path.Match(pattern[i], name); !ok {
			return false
		}
	}
	return len(pattern) > len(dir)
}

// matchElements takes a number of steps of the order of the product of the two lengths,
// for the name may be chosen to cost time: if anything fits after a "**", then also
// after the last one that was come to.
func matchElements(pattern, name []string) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == "**" {
			star, from = p, n
			p++
			continue
		}
		if p < len(pattern) {
			if ok, _ := path.Match(pattern[p], name[n]); ok {
				p, n = p+1, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}
