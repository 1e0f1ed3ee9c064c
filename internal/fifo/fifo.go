// Package fifo connects this program to the command of a container by four FIFOs of the
// host, with nothing in between: for its three streams, and for descriptor 3, which is to
// be read without a wait for what comes. They are in a directory that is mounted
// read-only in the container: a FIFO can be opened for writing there, and nothing can be
// made.
//
// No open ever waits. Each side opens a FIFO for both directions first, then for its own,
// and gives up the first end. So the end of the host's side is an end of the file for the
// command at any moment, and the command's end is one for the host once they have met, or
// after Part. When both sides have met, the names are removed: nobody can open the FIFOs
// by them any more. The directory stays for the FIFOs of more commands. Those have names
// that nobody can guess or list, and only until both sides have met.
package fifo

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
)

// Target is where the FIFOs are in the container.
const Target = "/.cofferdam-io"

var (
	// ErrNotMade says that they could not be made.
	ErrNotMade = errors.New("no FIFOs can be made")
	// ErrNotMet says that the command ended, or has not opened the FIFOs in time.
	ErrNotMet = errors.New("a command in a container did not open the FIFOs that were mounted for it")
	// ErrNotSeen says that the engine did not find the directory.
	ErrNotSeen = errors.New("the engine did not find the directory of the FIFOs")
)

// Source returns what is to be mounted at [Target] for FIFOs in that directory.
func Source(dir string) string { return filepath.Join(dir, "io") }

// names are those of stdin, stdout, stderr and descriptor 3.
var names = []string{"in", "out", "err", "ops"}

// IsPlain reports whether a directory's name can stand in the command line of any engine
// and of any shell as it is.
func IsPlain(dir string) bool {
	return filepath.IsAbs(dir) && !strings.ContainsFunc(dir, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-", r))
	})
}

// Command returns what the container has to run so that the command has the FIFOs for its
// stdin, stdout and stderr, and for descriptor 3, which is open for both directions: it
// has no end. It prints one byte first, by which the host sees that it has opened them.
func Command(command []string) []string { return opening(names, command) }

func opening(names, command []string) []string {
	script := "exec"
	for i, name := range names {
		path, own := Target+"/"+name, []string{"<", ">", "2>", "3<>"}[i]
		script += " 9<>" + path + " " + own + path
	}
	script += ` 9>&-; echo && exec "$@"`
	return append([]string{"sh", "-c", script, "sh"}, command...)
}

// IsShortage reports whether an error that wraps [ErrNotMade] says that room for files or
// descriptors was missing, which may pass.
func IsShortage(err error) bool {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
