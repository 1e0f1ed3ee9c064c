package execpolicy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// WriteFiles makes files inside with those contents, below dir, and the directories that
// they are in, dir and its parents included. A file gets the permissions 0644 and a new
// directory 0755, whatever the session's umask; a directory that is there keeps its own.
// Files and links that are there are replaced. A relative dir is taken from where the
// session began, wherever its shell is now. The image needs tar, touch and mkdir.
//
// The names are paths relative to dir, with slashes. They are checked as those of an
// archive are: one that is absolute, has ".." or is not UTF-8 is [ErrUnsafeName], and one
// that is also the directory of another is [ErrDuplicateName]. All that is wrong with
// them is in one error that wraps [ErrInvalid] too, and then nothing was sent. The files
// are prepared beside and put in place at once, as [Session.CopyIn] does it, whose other
// errors WriteFiles has.
func (s *Session) WriteFiles(ctx context.Context, dir string, files map[string][]byte) error {
	return s.transfer(ctx, "write files", dir, func(t *transfer) error {
		now := time.Now()
		headers := make([]tarball.Header, 0, len(files))
		for name, content := range files {
			headers = append(headers, tarball.Header{Name: name, Perm: 0o644, Size: int64(len(content)), ModTime: now})
		}
		slices.SortFunc(headers, func(a, b tarball.Header) int { return strings.Compare(a.Name, b.Name) })
		check := tarball.Checker{Limits: t.treeLimits()}
		contents := make([][]byte, len(headers))
		var errs []error
		for i := range headers {
			contents[i] = files[headers[i].Name]
			err := check.Check(&headers[i])
			if errors.Is(err, tarball.ErrLimit) {
				return tooLarge(err)
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
		if err := problems.Join(errs...); err != nil {
			return err
		}
		if err := t.mkdirAll(dir, 0o755); err != nil {
			return err
		}
		return t.copyIn(dir, func(p *packer) error {
			for i, h := range headers {
				if err := p.add(h, bytes.NewReader(contents[i])); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// MkdirAll makes a directory inside, and those of its parents that are missing. A new
// directory gets those permissions, whatever the session's umask; its owner may always
// write to and enter the parents. A directory that is there keeps its own permissions,
// and is no error. A relative name is taken from where the session began, wherever its
// shell is now. The image needs mkdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] if the name is that of something
// else, and ENOTDIR if that of a parent is; the package's documentation has the others.
// What was made before is removed again.
func (s *Session) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	if err := onlyPermissions(perm); err != nil {
		return &fs.PathError{Op: "mkdir", Path: s.current().conceal(name), Err: err}
	}
	return s.transfer(ctx, "mkdir", name, func(t *transfer) error { return t.mkdirAll(name, perm) })
}

// ReadDir returns what is in a directory inside, sorted by name. Links are not followed:
// an entry of one is the link's own. A relative name is taken from where the session
// began, wherever its shell is now. The image needs find and stat.
//
// What these programs say is not believed: there are no more entries than
// [Limits.MaxTreeEntries], and each name is one element of a path, which comes once and
// need not be UTF-8. An error is a [*fs.PathError]. It wraps [ErrTooLarge] if there are
// more, and ENOTDIR if it is no directory; the package's documentation has the others.
func (s *Session) ReadDir(ctx context.Context, name string) ([]TreeEntry, error) {
	var entries []TreeEntry
	err := s.transfer(ctx, "readdir", name, func(t *transfer) error {
		dir := t.word(name + "/.")
		out := &listing{limit: t.c.limits.MaxTreeEntries, stop: t.cancel}
		told, err := t.fetch("[ -d "+dir+" ] || "+why(dir)+"; cd "+dir+" || return 1; "+
			`list() { find . -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n' {} +; }; list || return 1; cf_j=$(list | wc -c)`, &sink{text: out})
		if err != nil {
			return err
		}
		// In a process group of the host's, background jobs print meanwhile.
		if told = strings.TrimSpace(told); told != strconv.FormatInt(out.total, 10) {
			return fmt.Errorf("%w: %d bytes came, and %q were told", ErrTransfer, out.total, told)
		}
		entries, err = parseListing(string(out.data))
		return err
	})
	return entries, err
}

// Stat describes a file, a directory or a special file inside. A link is followed, as
// [Session.ReadFile] follows it; [Session.ReadDir] describes the link itself. The entry's
// Name is the last element of the one that was asked for. A relative name is taken from
// where the session began, wherever its shell is now. The image needs stat.
//
// An error is a [*fs.PathError]; the package's documentation says what it wraps.
func (s *Session) Stat(ctx context.Context, name string) (TreeEntry, error) {
	var e TreeEntry
	err := s.transfer(ctx, "stat", name, func(t *transfer) error {
		// The supervisor has a function of that name.
		told, err := t.run("cf_j=$(command stat -L -c '%f %s %Y' " + t.word(name) + ") || return 1")
		if err == nil {
			e, err = parseStat(told)
			e.Name = path.Base(name)
		}
		return err
	})
	if err != nil {
		return TreeEntry{}, err
	}
	return e, nil
}

// Remove removes a file, a link or an empty directory inside. A link is not followed. A
// relative name is taken from where the session began, wherever its shell is now. The
// image needs rm and rmdir.
//
// An error is a [*fs.PathError]. It wraps [fs.ErrExist] and ENOTEMPTY if a directory is
// not empty; the package's documentation has the others.
func (s *Session) Remove(ctx context.Context, name string) error {
	return s.transfer(ctx, "remove", name, func(t *transfer) error {
		name := strings.TrimRight(name, "/")
		switch path.Base(name) {
		case ".", "..":
			return fmt.Errorf("%w: it is no name of a file", ErrInvalid)
		}
		word := t.word(name)
		_, err := t.run("if [ -d " + word + " ] && [ ! -L " + word + " ]; then rmdir " + word + " || return 1; " +
			"elif [ -e " + word + " ] || [ -L " + word + " ]; then rm -f " + word + " || return 1; else " + why(word) + "; fi")
		return err
	})
}

// onlyPermissions returns the error for a mode that says more than permissions.
func onlyPermissions(perm fs.FileMode) error {
	if perm&^fs.ModePerm != 0 {
		return fmt.Errorf("%w: %v has more than permissions", ErrInvalid, perm)
	}
	return nil
}

// descend returns the part of a script that goes down a path as far as there are
// directories that can be entered: cf_a is the first that is not, and cf_j the number of
// its elements. If all of them are, cf_a is the whole path.
func (t *transfer) descend(name string) (script string, elements []string) {
	base := `"$cf_w"`
	switch {
	case path.IsAbs(name):
		base = ""
	case t.c.proc.Dir != "":
		base = shellwire.Word(t.c.proc.Dir)
	}
	rest := strings.Trim(name, "/")
	script = "cf_a=" + base + " cf_b=" + shellwire.Word(rest+"/") + ` cf_j=0; while [ -d "$cf_a/." ] && [ -n "$cf_b" ]; do ` +
		`cf_a=$cf_a/${cf_b%%/*}; cf_b=${cf_b#*/}; cf_j=$((cf_j + 1)); done; `
	return script, strings.Split(rest, "/")
}

// noDir returns the error for a directory that can't be entered: which of its parents, if
// not itself, is the cause.
func (t *transfer) noDir(dir string) error {
	script, elements := t.descend(dir)
	told, err := t.run(script + `[ -d "$cf_a/." ] || ` + why(`"$cf_a/."`))
	if err == nil {
		return fmt.Errorf("%w: the directory was not there, and now it is", ErrTransfer)
	}
	n, convErr := strconv.Atoi(told)
	if convErr != nil || n < 0 || n > len(elements) {
		return err
	}
	at := strings.Join(elements[:n], "/")
	if path.IsAbs(dir) {
		at = "/" + at
	} else if n == 0 {
		at = "."
	}
	at = t.c.conceal(at)
	if errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("%w: the directory %q is missing; MkdirAll makes it", err, at)
	}
	return fmt.Errorf("%w: %q", err, at)
}

// mkdirAll makes a directory and its parents. It leaves in undo what removes them.
func (t *transfer) mkdirAll(name string, perm fs.FileMode) error {
	script, elements := t.descend(name)
	// Of a link that leads nowhere, GNU's mkdir -p says other things than busybox's.
	told, err := t.run(script + `if [ -e "$cf_a" ]; then cf_j=; elif [ -L "$cf_a" ]; then mkdir "$cf_a" || return 1; fi`)
	if err != nil {
		return err
	}
	// Behind ".." there may be what was not made here.
	if n, err := strconv.Atoi(told); err == nil && 0 < n && n <= len(elements) && !slices.Contains(elements, "..") {
		t.undo = "cf_a=" + t.word(strings.TrimRight(name, "/")) + "; cf_j=" + strconv.Itoa(len(elements)-n+1) +
			`; while [ $cf_j -gt 0 ]; do rmdir "$cf_a"; cf_a=${cf_a%/*}; cf_j=$((cf_j - 1)); done`
	}
	_, err = t.run(fmt.Sprintf("umask %o; mkdir -p %s || return 1", fs.ModePerm&^perm, t.word(name)))
	return err
}

// maxListing bounds the memory that a directory's listing takes.
const maxListing = 32 << 20

// A listing is what was told of a directory, and stops the telling when that is too much.
type listing struct {
	limit   int64 // of entries; negative means none
	entries int64
	data    []byte
	total   int64
	stop    context.CancelCauseFunc
}

func (l *listing) Write(p []byte) (int, error) {
	l.total += int64(len(p))
	// No name has a slash, and each entry has one.
	l.entries += int64(bytes.Count(p, []byte{'/'}))
	switch {
	case l.limit >= 0 && l.entries > l.limit:
		l.stop(fmt.Errorf("%w of %d entries", ErrTooLarge, l.limit))
	case l.total > maxListing:
		l.stop(fmt.Errorf("%w: the names have more than %d bytes", ErrTooLarge, maxListing))
	default:
		l.data = append(l.data, p...)
	}
	return len(p), nil
}

var errListing = fmt.Errorf("%w: what the image's stat says makes no sense", ErrTransfer)

// parseListing reads lines of what parseStat reads, each with " ./" and a name behind it,
// and sorts them. A name may hold newlines, and what looks like a line, but no slash.
func parseListing(text string) ([]TreeEntry, error) {
	entries := make([]TreeEntry, 0, strings.Count(text, "/"))
	seen := make(map[string]bool, cap(entries))
	for text != "" {
		facts, rest, ok := strings.Cut(text, " ./")
		end := len(rest)
		if next := strings.IndexByte(rest, '/'); next >= 0 {
			end = strings.LastIndexByte(rest[:next], '\n') + 1
		}
		if !ok || end == 0 || rest[end-1] != '\n' {
			return nil, errListing
		}
		e, err := parseStat(facts)
		if err != nil {
			return nil, err
		}
		e.Name, text = rest[:end-1], rest[end:]
		if e.Name == "" || e.Name == "." || e.Name == ".." || len(e.Name) > 255 || strings.ContainsAny(e.Name, "/\x00") || seen[e.Name] {
			return nil, fmt.Errorf("%w: %.200q", errListing, e.Name)
		}
		seen[e.Name] = true
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b TreeEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// parseStat reads the mode, in hexadecimal digits and as Linux has it, the size and the
// time of the last change in seconds.
func parseStat(text string) (TreeEntry, error) {
	fields := strings.Split(text, " ")
	if len(fields) != 3 {
		return TreeEntry{}, fmt.Errorf("%w: %.200q", errListing, text)
	}
	mode, err1 := strconv.ParseUint(fields[0], 16, 16)
	size, err2 := strconv.ParseUint(fields[1], 10, 63)
	seconds, err3 := strconv.ParseInt(fields[2], 10, 64)
	kind, known := kinds[mode&0xf000]
	if err1 != nil || err2 != nil || err3 != nil || !known {
		return TreeEntry{}, fmt.Errorf("%w: %.200q", errListing, text)
	}
	e := TreeEntry{Mode: kind | fs.FileMode(mode)&fs.ModePerm, ModTime: time.Unix(seconds, 0)}
	if kind == 0 {
		e.Size = int64(size)
	}
	return e, nil
}

// kinds are the types of files, as Linux has them in a mode.
var kinds = map[uint64]fs.FileMode{
	0x1000: fs.ModeNamedPipe,
	0x2000: fs.ModeDevice | fs.ModeCharDevice,
	0x4000: fs.ModeDir,
	0x6000: fs.ModeDevice,
	0x8000: 0,
	0xa000: fs.ModeSymlink,
	0xc000: fs.ModeSocket,
}
