package codeblock

import (
	"fmt"
	"path"
	"strings"
)

// comments are the forms in which the first line of a block may name its file.
var comments = []struct{ start, end string }{{"#", ""}, {"//", ""}, {"--", ""}, {"/*", "*/"}, {"<!--", "-->"}}

// Filename returns the name under which the code is to be stored. That is what stands
// behind "filename:" in a comment that is the whole first line. ok is false if there is
// no such comment. Filename does not check the name, which may even be empty. [Run] does.
func (b Block) Filename() (name string, ok bool) {
	line, _, _ := strings.Cut(b.Code, "\n")
	line = strings.TrimSpace(line)
	for _, c := range comments {
		text, found := strings.CutPrefix(line, c.start)
		if !found || !strings.HasSuffix(text, c.end) {
			continue
		}
		text = strings.TrimSpace(strings.TrimSuffix(text, c.end))
		const word = "filename:"
		if len(text) >= len(word) && strings.EqualFold(text[:len(word)], word) {
			return strings.TrimSpace(text[len(word):]), true
		}
	}
	return "", false
}

// maxFilename is how long a name may be: no system call takes a longer one.
const maxFilename = 4095

// checkFilename returns the name in its shortest form, or what is wrong with it.
func checkFilename(name string) (string, error) {
	refuse := func(why string) (string, error) { return "", fmt.Errorf("%w: %q %s", ErrFilename, name, why) }
	switch {
	case len(name) > maxFilename:
		return "", fmt.Errorf("%w: it has %d bytes, and may have %d", ErrFilename, len(name), maxFilename)
	case name == "":
		return refuse("is empty")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("holds a control character")
	case path.IsAbs(name):
		return refuse("is absolute, and so not in the workspace")
	case strings.HasSuffix(name, "/"):
		return refuse("is a directory's")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return refuse("is not in the workspace")
		}
	}
	clean := path.Clean(name)
	switch {
	case clean == ".":
		return refuse("is a directory's")
	case clean[0] == '-':
		return refuse("could be taken for an option")
	}
	return clean, nil
}
