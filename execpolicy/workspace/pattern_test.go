package workspace

import (
	"path"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b/a", false},
		{"*", "a/b", false},
		{"*/*", "a/b", true},
		{"**", "a/b/c", true},
		{"**/c", "a/b/c", true},
		{"**/c", "c", true},
		{"a/**", "a/b", true},
		{"a/**", "a", true},
		{"a/**/c", "a/c", true},
		{"a/**/c", "a/b/b/c", true},
		{"a/**/c", "a/b/cc", false},
		{"**/x/**/y", "x/a/x/b/y", true},
		{"**/x/**/y", "x/a/x/b/z", false},
		{"[a-c]?.\\*", "bx.*", true},
		{"*.png", "A.PNG", false},
		{"n\n*", "n\nm", true},
	} {
		p, errs := parse([]string{c.pattern}, false)
		assert.Equal(t, len(errs), 0)
		assert.Equal(t, p.match(c.name), c.want, "%s %s", c.pattern, c.name)
	}
	p, _ := parse([]string{"**/NODE_modules", ".git"}, true)
	for name, want := range map[string]bool{
		"node_modules": true, "a/Node_Modules/b": true, ".GIT/hooks/x": true, "a/.git": false, "gitignore": false,
		"node_modules2": false,
	} {
		assert.Equal(t, p.matchTree(name), want, name)
	}
	// A range in small letters is another.
	for pattern, name := range map[string]string{"[A-z]*": "_secret", "[0-_]*": "KEY"} {
		p, _ := parse([]string{pattern}, true)
		assert.Assert(t, p.matchTree(name), pattern)
	}
	p, _ = parse([]string{"a/*/c", "b*/**", "d"}, false)
	for dir, want := range map[string]bool{
		"a": true, "a/x": true, "a/x/c": false, "c": false, "bx": true, "bx/y/z": true, "d": false, "d/a": false,
	} {
		assert.Equal(t, p.matchBelow(dir), want, dir)
	}
	// It takes no time.
	p, _ = parse([]string{strings.Repeat("**/a/", 200) + "b"}, false)
	assert.Assert(t, !p.match(strings.Repeat("a/", 2000)+"a"))
}

// simple is what the matching is meant to be.
func simple(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return simple(pattern[1:], name) || len(name) > 0 && simple(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, _ := path.Match(pattern[0], name[0])
	return ok && simple(pattern[1:], name[1:])
}

func FuzzPatterns(f *testing.F) {
	f.Add("a/**/b*", "a/x/y/bz")
	f.Add("**/a/**/[b-d]", "a/a/c")
	f.Add("*", "\xff")
	f.Add("**/**", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 40 || len(name) > 40 {
			return
		}
		p, errs := parse([]string{pattern}, false)
		if len(errs) > 0 {
			return
		}
		matches := simple(strings.Split(pattern, "/"), strings.Split(name, "/"))
		assert.Equal(t, p.match(name), matches, "%q %q", pattern, name)
		for i := range name {
			if matches && name[i] == '/' {
				assert.Assert(t, p.matchBelow(name[:i]), "%q %q", pattern, name)
			}
		}
	})
}
