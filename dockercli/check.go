package dockercli

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
)

// maxWord is the longest word that Linux passes to a program, MAX_ARG_STRLEN less the
// byte that ends it.
const maxWord = 128<<10 - 1

// A checker collects everything that is wrong with a verb's arguments.
type checker struct{ errs *multierror.Error }

func (c *checker) refuse(format string, args ...any) {
	c.errs = multierror.Append(c.errs, fmt.Errorf("%w: %s", ErrArgument, fmt.Sprintf(format, args...)))
}

// err returns what was refused, or nil.
func (c *checker) err() error { return c.errs.ErrorOrNil() }

// words refuses what can't reach the engine as it is: an argument vector has no NUL, and
// what travels as JSON has to be UTF-8.
func (c *checker) words(argv []string) {
	for _, word := range argv {
		switch {
		case strings.ContainsRune(word, 0):
			c.refuse("%.200q holds a NUL byte", word)
		case !utf8.ValidString(word):
			c.refuse("%.200q is not valid UTF-8, and the engine would change it", word)
		case len(word) > maxWord:
			c.refuse("a word of %d bytes is longer than %d, begins %.40q", len(word), maxWord, word)
		}
	}
}

func isLetter(r byte) bool   { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
func isDigit(r byte) bool    { return '0' <= r && r <= '9' }
func isAlphanum(r byte) bool { return isLetter(r) || isDigit(r) }

// consists reports whether s is one byte that satisfies first, followed by any number of
// bytes that satisfy rest.
func consists(s string, first, rest func(byte) bool) bool {
	if s == "" || !first(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !rest(s[i]) {
			return false
		}
	}
	return true
}

// container checks a container's name, or its ID.
func (c *checker) container(name string) { c.name("container", name) }

// volume checks a volume's name. A path in its place would be one of the host's.
func (c *checker) volume(name string) { c.name("volume", name) }

// name checks the name of something that an engine has. Docker's names have two bytes at
// least.
func (c *checker) name(what, name string) {
	rest := func(r byte) bool { return isAlphanum(r) || strings.IndexByte("_.-", r) >= 0 }
	if len(name) < 2 || !consists(name, isAlphanum, rest) {
		c.refuse("%s name %q: it has to match [a-zA-Z0-9][a-zA-Z0-9_.-]+", what, name)
	}
}

// image checks what both engines agree a reference consists of; that it is a good one is
// the engine's to say. Podman would take a transport such as oci-archive:../file for one
// too, and read the host's files.
func (c *checker) image(ref string) {
	first := func(r byte) bool { return isAlphanum(r) || r == '[' }
	rest := func(r byte) bool { return isAlphanum(r) || strings.IndexByte("._/:@+-[]", r) >= 0 }
	name, digest, _ := strings.Cut(ref, "@")
	dir, last := path.Split(name)
	host, dirs, _ := strings.Cut(dir, "/")
	if strings.HasPrefix(host, "[") { // the address of an IPv6 registry
		_, host, _ = strings.Cut(host, "]")
	}
	host, port, hasPort := strings.Cut(host, ":")
	before, _, _ := strings.Cut(last, ":")
	if !consists(ref, first, rest) ||
		hasPort && (!consists(port, isDigit, isDigit) || isTransport(host)) || strings.Contains(dirs, ":") ||
		strings.Count(last, ":") > 1 || dir == "" && before != last && isTransport(before) && !imageNames[before] ||
		strings.Contains(digest, "/") {
		c.refuse("image reference %q: it has to be like registry/name:tag", ref)
	}
}

// isTransport reports whether a word that stands before a colon is one of podman's
// transports. Docker's needs two slashes after the colon, which no reference has.
func isTransport(word string) bool {
	return slices.Contains([]string{
		"containers-storage", "dir", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif", "tarball",
	}, word)
}

// imageNames are transports that are names of images too. What follows their colon then
// has no slash, and is the name of nothing below the directory in which clients run that
// could be an image.
var imageNames = map[string]bool{"oci": true, "tarball": true}

// envName checks the name of an environment variable. Podman takes FOO* for all of the
// client's variables that begin so.
func (c *checker) envName(name string) {
	first := func(r byte) bool { return isLetter(r) || r == '_' }
	rest := func(r byte) bool { return first(r) || isDigit(r) }
	if name, value, ok := strings.Cut(name, "="); ok && value != "" {
		// The value may be a secret.
		c.refuse("environment variable %q: its value belongs into the client's environment", name)
		return
	}
	if !consists(name, first, rest) {
		c.refuse("environment variable %q: its name has to match [A-Za-z_][A-Za-z0-9_]*", name)
	}
}

// labelKey checks a label's key, which ends at the first "=".
func (c *checker) labelKey(key string) {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r == '=' || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		c.refuse("label %q: its key must not be empty, or have \"=\" or white space", key)
	}
}

// target checks a path inside the container.
func (c *checker) target(what, path string) {
	if !strings.HasPrefix(path, "/") || strings.Trim(path, "/") == "" {
		c.refuse("%s %q: it has to be an absolute path below / in the container", what, path)
	}
}

// noComma checks an entry of a list, which podman would split at commas.
func (c *checker) noComma(flag string, values []string) {
	for _, value := range values {
		if strings.Contains(value, ",") {
			c.refuse("%s %q: give each its own entry, without a comma", flag, value)
		}
	}
}
