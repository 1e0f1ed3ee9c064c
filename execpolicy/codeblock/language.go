package codeblock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A Language says how to run the code of one language. Code of the zero Language, such as
// HTML, is only stored, and its block must name the file.
type Language struct {
	// Programs are the names, or the paths, of up to 100 programs that can run the code.
	// The first one that the container has runs it.
	Programs []string
	// Stdin are the arguments that make the program read all the code from its stdin and
	// then run it. If empty, the argument is "-".
	Stdin []string
	// Args are the arguments before the name of a file that the program runs, such as
	// "run" for go.
	Args []string
	// Extension, such as ".go", is for a program that can't read code from its stdin. The
	// code is put into a file whose name ends with Extension, in a new directory of the
	// container's /tmp (or TMPDIR) that only the container's user may enter. The
	// directory is removed when the program has ended by itself or after a SIGTERM. After
	// a SIGKILL it stays. If empty, the program reads the code from its stdin.
	Extension string
}

// A shell reads its script a line at a time, so the commands of the script would read the
// rest of it. Busybox counts the script's lines from the one before that of the eval, and
// bash from that.
var shell = []string{"-c", `if [ "${BASH_VERSION-}" ]; then eval "$(cat)"; exit; fi
eval "$(cat)"`}

// unbuffered has Python print what it prints at once: it would be lost with a program
// that is killed.
const unbuffered = "-u"

// builtin are the languages that are known without being asked for.
var builtin = map[string]Language{
	"python":     {Programs: []string{"python3", "python"}, Stdin: []string{unbuffered, "-"}, Args: []string{unbuffered}},
	"bash":       {Programs: []string{"bash"}, Stdin: shell},
	"sh":         {Programs: []string{"sh"}, Stdin: shell},
	"javascript": {Programs: []string{"node"}},
}

// canonical returns the name under which a language stands in the table.
func canonical(name string) string {
	switch name {
	case "py":
		return "python"
	case "shell":
		return "sh"
	case "js", "node":
		return "javascript"
	}
	if version, ok := strings.CutPrefix(name, "python"); ok && strings.Trim(version, "0123456789.") == "" {
		return "python"
	}
	return name
}

// language returns the language of a block, and its name in the table.
func (o Options) language(b Block) (string, Language, error) {
	word := b.Language
	if word == "" {
		if word = o.Default; word == "" {
			return "", Language{}, fmt.Errorf("%w: the block names none", ErrLanguage)
		}
	}
	word = strings.ToLower(word)
	for _, name := range []string{word, canonical(word)} {
		if l, ok := o.Languages[name]; ok {
			return name, l, nil
		}
	}
	name := canonical(word)
	if l, ok := builtin[name]; ok {
		return name, l, nil
	}
	return "", Language{}, fmt.Errorf("%w: %q", ErrLanguage, b.Language)
}

// Knows reports whether the table has the language of a block, so that [Run] can run it.
// Answers often have blocks that are not meant to be run, such as sample output. Remove
// them first.
func (o Options) Knows(b Block) bool {
	_, _, err := o.language(b)
	return err == nil
}

// maxPrograms bounds the programs of a language: an exit code says which was found.
const maxPrograms = 100

func (o Options) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := (execpolicy.Command{Argv: []string{"sh"}, Dir: o.Dir, Env: o.Env, OutputLimit: o.OutputLimit}).Check(); err != nil {
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Languages)) {
		l := o.Languages[name]
		if strings.Contains(strings.Join(slices.Concat(l.Args, l.Stdin), ""), "\x00") {
			refuse("the language %q: an argument can't hold a NUL byte", name)
		}
		bad := func(p string) bool { return p == "" || p[0] == '-' || strings.Contains(p, "\x00") }
		if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " \t\r\n") {
			refuse("the language %q: a name is one word in lower case", name)
		}
		if slices.ContainsFunc(l.Programs, bad) {
			refuse("the language %q: a program's name must not be empty or begin with \"-\"", name)
		}
		if len(l.Programs) > maxPrograms {
			refuse("the language %q has more than %d programs", name, maxPrograms)
		}
		if l.Extension != "" && (l.Extension[0] != '.' || strings.ContainsAny(l.Extension, "/\x00")) {
			refuse("the language %q: %q is not an extension such as \".go\"", name, l.Extension)
		}
	}
	if o.ResultLimit < 0 {
		refuse("ResultLimit must not be negative")
	}
	if o.Default != "" && !o.Knows(Block{}) {
		refuse("the default language %q is not known", o.Default)
	}
	return problems.Join(errs...)
}
