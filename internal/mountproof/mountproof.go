// Package mountproof proves that a container shows a directory of this machine, and not
// one of that name on another.
package mountproof

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// A Dir is a directory of this machine that an engine was told to mount. An engine
// whose socket was forwarded, or mounted into a container, looks as if it were here, and
// mounts what has that name where it is.
type Dir struct {
	source string // on this machine; empty if there is none
	target string // inside
}

// At returns a directory of this machine that a container is to show as target.
func At(dir, target string) Dir {
	source, err := filepath.EvalSymlinks(dir)
	if err == nil {
		source, err = filepath.Abs(source)
	}
	if err != nil {
		source = dir // it is gone, and nothing will show it
	}
	return Dir{source, target}
}

const (
	// bootFile is one kernel's, from one start to the next.
	bootFile = "/proc/sys/kernel/random/boot_id"
	// tellMounts prints it and the table of mounts, with builtins of the shell only. The
	// echo of dash would read the kernel's escapes.
	tellMounts = `(read -r boot <` + bootFile + `; printf '%s\n' "$boot"; while read -r line; do printf '%s\n' "$line"; done </proc/self/mountinfo)`
	maxMounts  = 64 << 10
)

var errOther = errors.New("the engine has mounted another directory of that name: it is on another machine, or does not see this one's files")

// Prove returns an error that wraps [policyerr.ErrNoMount] unless the container shows the
// directory that it is to show: the kernel says so or, if the container does not have
// this machine's kernel, a file does that is made in the directory for a moment. ask runs
// a script inside, where nothing of the caller's has run yet. It returns at most limit
// bytes of what that prints, and whether it succeeds.
func (d Dir) Prove(ask func(script string, limit int) (said string, ok bool, err error)) error {
	if d.source == "" {
		return nil
	}
	said, _, err := ask(tellMounts, maxMounts)
	if err != nil {
		return err
	}
	boot, table, _ := strings.Cut(said, "\n")
	here, _ := os.ReadFile(bootFile)
	if boot != "" && boot == strings.TrimSpace(string(here)) {
		origin := mountguard.Origin(d.source)
		if origin != "" && origin == mountguard.OriginInside(table, d.target) {
			return nil
		}
	}
	f, err := os.CreateTemp(d.source, ".cofferdam-")
	if err != nil {
		return fmt.Errorf("%w: it is not known that what the engine has mounted is this machine's: %w", policyerr.ErrNoMount, err)
	}
	defer os.Remove(f.Name())
	f.Close()
	_, seen, err := ask("[ -e "+shellquote.Quote(path.Join(d.target, filepath.Base(f.Name())))+" ]", 0)
	if err == nil && !seen {
		err = fmt.Errorf("%w: %w", policyerr.ErrNoMount, errOther)
	}
	return err
}

// Unseen reports whether an engine's words say that it does not see the directory.
func (d Dir) Unseen(stderr []byte) bool {
	said := string(stderr)
	return d.source != "" && strings.Contains(said, d.source) &&
		(strings.Contains(said, "source path does not exist") || strings.Contains(said, "no such file or directory"))
}

// ErrUnseen says that an engine does not see the directory.
var ErrUnseen = fmt.Errorf("%w: the engine does not see this machine's directory", policyerr.ErrNoMount)
