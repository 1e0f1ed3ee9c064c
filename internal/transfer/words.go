package transfer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// reasons are the kernel's reasons, as glibc, musl and the shells word them. dash and
// busybox ash say the same of a missing directory and of a file in place of one: the
// scripts look for the latter first.
var reasons = []struct {
	words string
	err   syscall.Errno
}{
	{"Permission denied", syscall.EACCES},
	{"Operation not permitted", syscall.EPERM},
	{"No such file or directory", syscall.ENOENT},
	{"No such file", syscall.ENOENT},
	{"no such file", syscall.ENOENT},
	{"Directory nonexistent", syscall.ENOENT},
	{"nonexistent directory", syscall.ENOENT},
	{"File exists", syscall.EEXIST},
	{"Directory not empty", syscall.ENOTEMPTY},
	{"Is a directory", syscall.EISDIR},
	{"Not a directory", syscall.ENOTDIR},
	{"Read-only file system", syscall.EROFS},
	{"No space left on device", syscall.ENOSPC},
	{"Disk quota exceeded", syscall.EDQUOT},
	{"Quota exceeded", syscall.EDQUOT},
	{"File too large", syscall.EFBIG},
	{"cannot overwrite existing file", syscall.EEXIST}, // bash with set -C
	{"File name too long", syscall.ENAMETOOLONG},
	{"Filename too long", syscall.ENAMETOOLONG},
	{"Too many levels of symbolic links", syscall.ELOOP},
	{"Symbolic link loop", syscall.ELOOP},
	{"Text file busy", syscall.ETXTBSY},
	{"Device or resource busy", syscall.EBUSY},
	{"Resource busy", syscall.EBUSY},
	{"Input/output error", syscall.EIO},
	{"I/O error", syscall.EIO},
}

// failure returns the error of a script that failed with these words on its stderr. In a
// tree the words tell which file it is.
func (t *Transfer) failure(status int, words string) error {
	shell := t.opts.Scratch + "/sh: "
	for line := range strings.Lines(words) {
		line = withoutShell(strings.TrimSpace(line), shell)
		if name, ok := strings.CutSuffix(line, ": not found"); ok {
			return noProgram(name)
		}
		if name, ok := strings.CutSuffix(line, ": command not found"); ok {
			return noProgram(name)
		}
		for _, r := range reasons {
			if !strings.HasSuffix(line, ": "+r.words) {
				continue
			}
			if t.tree {
				return fmt.Errorf("%w (%q)", r.err, line)
			}
			return r.err
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(words), "\n")
	return fmt.Errorf("%w: status %d: %s", ErrTransfer, status, withoutShell(first, shell))
}

func noProgram(name string) error {
	return fmt.Errorf("%w: the image has no program %q", ErrTransfer, name)
}

// withoutShell returns a line without what the supervisor's shell puts before its own
// words: its name, for which bash has another in a function, "eval" and the number of a
// line.
func withoutShell(line, shell string) string {
	for _, name := range []string{shell, "sh: ", "environment: "} {
		rest, ours := strings.CutPrefix(line, name)
		for ours {
			word, after, more := strings.Cut(rest, ": ")
			number := strings.TrimPrefix(word, "line ")
			if !more || word != "eval" && (number == "" || strings.Trim(number, "0123456789") != "") {
				return rest
			}
			rest = after
		}
	}
	return line
}

// The statuses by which a script tells why it failed. No program that it runs has them.
const (
	isNoDir     = "101"
	isIrregular = "102"
	isDirectory = "103"
	isTampered  = "105"
	isInTheWay  = "106"
	isNotPut    = "107"
)

var (
	errNotPut = errors.New("the file could not be made in one step")
	errNoDir  = errors.New("there is no such directory") // noDir finds out more
)

// reason returns what a status says, or nil.
func reason(status int) error {
	switch strconv.Itoa(status) {
	case isNoDir:
		return errNoDir
	case isIrregular:
		return ErrNotRegular
	case isDirectory:
		return fmt.Errorf("%w: %w", ErrNotRegular, syscall.EISDIR)
	case isTampered:
		return fmt.Errorf("%w: what was sent before is gone", ErrTransfer)
	case isNotPut:
		return errNotPut
	case isInTheWay:
		return fmt.Errorf("%w: it is no directory, and is to be one", tarball.ErrType)
	}
	return nil
}
