// Package runargs reads and judges the flags that a caller adds to those of an engine's
// run.
package runargs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// Check reports everything for which a policy's ExtraRunArgs and AllowUnsafeArgs can't be
// used with that kind of engine. No error holds a flag's value, which may be secret.
func Check(kind dockercli.Kind, args, allowed []string) problems.List {
	var found problems.List
	known := Flags(kind)
	for _, name := range allowed {
		if f, ok := known["--"+name]; !ok || f.Name != name || f.verdict != weakening {
			found.Add("AllowUnsafeArgs: %q is not a flag of %v run that can be allowed; write its long name without "+
				"dashes, such as \"ipc\"", name, kind)
		}
	}
	for i, arg := range args {
		if strings.Contains(arg, "\x00") {
			found.Add("ExtraRunArgs[%d] holds a NUL byte", i)
		}
		if !utf8.ValidString(arg) {
			found.Add("ExtraRunArgs[%d] is not valid UTF-8, and the engine would change it", i)
		}
	}
	for _, a := range Read(kind, args) {
		if err := a.check(allowed); err != nil {
			found.Add("ExtraRunArgs[%d]: %w", a.Index, err)
		}
	}
	return found
}

// Unsafe returns what can be used only because AllowUnsafeArgs lets it in: each flag
// once, by its long name, with what is wrong with it, and without its value.
func Unsafe(kind dockercli.Kind, args []string) []string {
	var unsafe []string
	for _, a := range Read(kind, args) {
		if a.Err != nil || a.verdict != weakening || a.isSafe() {
			continue
		}
		if text := "--" + a.Name + " " + a.Why; !slices.Contains(unsafe, text) {
			unsafe = append(unsafe, text)
		}
	}
	return unsafe
}

// SeccompOption is what a --security-opt begins with that names a filter of system calls.
const SeccompOption = "seccomp="

// HasSeccomp reports whether args name a filter. They come last on the command line, so
// that it counts.
func HasSeccomp(kind dockercli.Kind, args []string) bool {
	return slices.ContainsFunc(Read(kind, args), func(a Arg) bool {
		// Docker also takes a colon.
		return a.Name == "security-opt" && strings.HasPrefix(strings.Replace(a.Value, ":", "=", 1), SeccompOption)
	})
}

// Has reports whether args have a flag of that long name.
func Has(kind dockercli.Kind, args []string, name string) bool {
	return slices.ContainsFunc(Read(kind, args), func(a Arg) bool { return a.Err == nil && a.Name == name })
}

// An Arg is a flag as the engine reads it, or what it can't read.
type Arg struct {
	Flag
	Index    int    // of the word that it begins in
	Spelling string // as it was written, without the value
	Value    string
	Apart    bool  // the value is a word of its own
	Err      error // the flag can't be read; then all but Index is not set
}

func (a Arg) check(allowed []string) error {
	if a.Err != nil {
		return a.Err
	}
	spelling := a.Spelling
	if long := "--" + a.Name; spelling != long {
		spelling += " (" + long + ")"
	}
	if _, err := strconv.ParseBool(a.Value); err != nil && !a.TakesValue {
		return fmt.Errorf("%s can only be true or false", spelling)
	}
	if a.Apart && a.Value == "--" {
		return fmt.Errorf(`%s has the value "--", which ends the flags for whoever reads the line; write it after "="`,
			spelling)
	}
	switch {
	case a.isSafe():
		return nil
	case a.verdict == owned:
		return fmt.Errorf("%s can't be given: %s", spelling, a.Why)
	case a.verdict == weakening && !slices.Contains(allowed, a.Name):
		return fmt.Errorf("%s %s; add %q to AllowUnsafeArgs if you mean it", spelling, a.Why, a.Name)
	}
	return nil
}

// isSafe reports whether the value makes the flag harmless.
func (a Arg) isSafe() bool { return a.safe != nil && a.safe(a.Value) }

// Read reads words as the engines' clients do (github.com/spf13/pflag, not interspersed),
// but goes on after what can't be read, so that everything is reported at once.
func Read(kind dockercli.Kind, words []string) []Arg {
	r := reader{kind: kind, known: Flags(kind), words: words}
	for r.next < len(words) {
		word := words[r.next]
		r.index = r.next
		r.next++
		switch {
		case len(word) < 2 || word[0] != '-':
			r.fail("the word is neither a flag nor a flag's value, so it would be taken for the image; a flag that " +
				"is true or false takes its value after \"=\"")
		case word == "--":
			r.fail(`"--" would end the flags`)
		case word[1] == '-':
			name, value, attached := strings.Cut(word, "=")
			r.add(name, value, attached)
		default:
			r.addLetters(word[1:])
		}
	}
	return r.args
}

// A reader reads the words of a command line one after the other.
type reader struct {
	kind  dockercli.Kind
	known map[string]Flag
	words []string
	index int // of the word that is read
	next  int // the index of the next word
	args  []Arg
}

func (r *reader) fail(format string, a ...any) {
	r.args = append(r.args, Arg{Index: r.index, Err: fmt.Errorf(format, a...)})
}

// add adds the flag of that spelling. Its value is attached to it, or is the next word.
func (r *reader) add(spelling, value string, attached bool) {
	f, ok := r.known[spelling]
	a := Arg{Flag: f, Index: r.index, Spelling: spelling, Value: value}
	switch more := r.next < len(r.words); {
	case !ok:
		r.fail("%v run has no flag %.60q that is known here; a flag of %v itself belongs in Engine.Global", r.kind,
			spelling, r.kind)
		// What comes next is more likely its value than the image.
		if !attached && more && !strings.HasPrefix(r.words[r.next], "-") {
			r.next++
		}
		return
	case attached:
	case !f.TakesValue:
		a.Value = "true"
	case more:
		a.Value, a.Apart = r.words[r.next], true
		r.next++
	default:
		// The engine would take the library's next flag for the value.
		r.fail("%s needs a value", spelling)
		return
	}
	r.args = append(r.args, a)
}

// addLetters adds flags of one letter. The last may have its value attached.
func (r *reader) addLetters(letters string) {
	for letters != "" {
		letter, rest := "-"+letters[:1], letters[1:]
		f, ok := r.known[letter]
		// A lone "=" at the end is no sign but a letter, or the value.
		value, attached := strings.CutPrefix(rest, "=")
		attached = attached && value != ""
		if !attached && f.TakesValue && rest != "" {
			value, attached = rest, true
		}
		r.add(letter, value, attached)
		if attached || !ok {
			return
		}
		letters = rest
	}
}
