package transfer

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
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// WriteFiles makes files with those contents below dir, and the directories that they are
// in.
func (t *Transfer) WriteFiles(dir string, files map[string][]byte) error {
	now := time.Now()
	headers := make([]tarball.Header, 0, len(files))
	for name, content := range files {
		headers = append(headers, tarball.Header{Name: name, Perm: 0o644, Size: int64(len(content)), ModTime: now})
	}
	slices.SortFunc(headers, func(a, b tarball.Header) int { return strings.Compare(a.Name, b.Name) })
	check := tarball.Checker{Limits: t.opts.Limits}
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
	if err := t.MkdirAll(dir, 0o755); err != nil {
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
}

// ReadDir returns what is in a directory, sorted by name.
func (t *Transfer) ReadDir(name string) ([]Entry, error) {
	dir := t.word(name + "/.")
	out := &listing{limit: t.opts.Limits.Entries, stop: t.opts.Cancel}
	answer, err := t.fetch("[ -d "+dir+" ] || "+why(dir)+"; cd "+dir+" || return 1; "+
		"list() { find . -mindepth 1 -maxdepth 1 -exec stat -c '%f %s %Y %n' {} +; }; "+
		"list || return 1; cf_result=$(list | wc -c)", &shell.Sink{Text: out})
	if err != nil {
		return nil, err
	}
	// In a process group of the host's, background jobs print meanwhile.
	if answer = strings.TrimSpace(answer); answer != strconv.FormatInt(out.total, 10) {
		return nil, fmt.Errorf("%w: %d bytes came, and it said %q", ErrTransfer, out.total, answer)
	}
	return parseListing(string(out.data))
}

// Stat describes a file, a directory or a special file. A link is followed.
func (t *Transfer) Stat(name string) (Entry, error) {
	// The supervisor has a function of that name.
	answer, err := t.run("cf_result=$(command stat -L -c '%f %s %Y' " + t.word(name) +
		") || return 1")
	if err != nil {
		return Entry{}, err
	}
	e, err := parseStat(answer)
	e.Name = path.Base(name)
	return e, err
}

// Remove removes a file, a link or an empty directory.
func (t *Transfer) Remove(name string) error {
	name = strings.TrimRight(name, "/")
	switch path.Base(name) {
	case ".", "..":
		return fmt.Errorf("%w: it is not the name of a file", problems.Err)
	}
	word := t.word(name)
	_, err := t.run("if [ -d " + word + " ] && [ ! -L " + word + " ]; then rmdir " + word + " || return 1; " +
		"elif [ -e " + word + " ] || [ -L " + word + " ]; then rm -f " + word + " || return 1; else " + why(word) + "; fi")
	return err
}

// descend returns the part of a script that goes down a path as far as there are
// directories that can be entered: cf_path is the first that is not, and cf_result the
// number of its elements. If all of them are, cf_path is the whole path.
func (t *Transfer) descend(name string) (script string, elements []string) {
	base := `"$cf_workdir"`
	switch {
	case path.IsAbs(name):
		base = ""
	case t.opts.Dir != "":
		base = shellwire.Word(t.opts.Dir)
	}
	rest := strings.Trim(name, "/")
	script = "cf_path=" + base + " cf_rest=" + shellwire.Word(rest+"/") + " cf_result=0" +
		`; while [ -d "$cf_path/." ] && [ -n "$cf_rest" ]; do ` +
		"cf_path=$cf_path/${cf_rest%%/*}; cf_rest=${cf_rest#*/}; " +
		"cf_result=$((cf_result + 1)); done; "
	return script, strings.Split(rest, "/")
}

// noDir returns the error for a directory that can't be entered: which of its parents, if
// not itself, is the cause.
func (t *Transfer) noDir(dir string) error {
	script, elements := t.descend(dir)
	answer, err := t.run(script + `[ -d "$cf_path/." ] || ` + why(`"$cf_path/."`))
	if err == nil {
		return fmt.Errorf("%w: the directory was not there, and now it is", ErrTransfer)
	}
	n, convErr := strconv.Atoi(answer)
	if convErr != nil || n < 0 || n > len(elements) {
		return err
	}
	at := strings.Join(elements[:n], "/")
	if path.IsAbs(dir) {
		at = "/" + at
	} else if n == 0 {
		at = "."
	}
	if whole := t.opts.Redact(dir); whole != dir {
		// A part of it could be a part of a secret.
		at = whole
	}
	if errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("%w: the directory %q is missing; MkdirAll makes it", err, at)
	}
	return fmt.Errorf("%w: %q", err, at)
}

// MkdirAll makes a directory and its parents. It leaves in undo what removes them.
func (t *Transfer) MkdirAll(name string, perm fs.FileMode) error {
	script, elements := t.descend(name)
	// Of a link that leads nowhere, GNU's mkdir -p says other things than busybox's.
	answer, err := t.run(script + `if [ -e "$cf_path" ]; then cf_result=; ` +
		`elif [ -L "$cf_path" ]; then mkdir "$cf_path" || return 1; fi`)
	if err != nil {
		return err
	}
	// Behind ".." there may be what was not made here.
	if n, err := strconv.Atoi(answer); err == nil && 0 < n && n <= len(elements) && !slices.Contains(elements, "..") {
		t.Undo = "cf_path=" + t.word(strings.TrimRight(name, "/")) +
			"; cf_result=" + strconv.Itoa(len(elements)-n+1) +
			`; while [ $cf_result -gt 0 ]; do rmdir "$cf_path"; cf_path=${cf_path%/*}; ` +
			"cf_result=$((cf_result - 1)); done"
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

var errListing = fmt.Errorf("%w: the image's stat printed an unexpected line", ErrTransfer)

// parseListing reads lines of what parseStat reads, each with " ./" and a name after it,
// and sorts them. A name may hold newlines, and what looks like a line, but no slash.
func parseListing(text string) ([]Entry, error) {
	entries := make([]Entry, 0, strings.Count(text, "/"))
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
		if e.Name == "" || e.Name == "." || e.Name == ".." || len(e.Name) > 255 ||
			strings.ContainsAny(e.Name, "/\x00") || seen[e.Name] {
			return nil, fmt.Errorf("%w: %s", errListing, tarball.Quoted(e.Name))
		}
		seen[e.Name] = true
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// parseStat reads the mode, in hexadecimal digits and as Linux has it, the size and the
// time of the last change in seconds.
func parseStat(text string) (Entry, error) {
	fields := strings.Split(text, " ")
	if len(fields) != 3 {
		return Entry{}, fmt.Errorf("%w: %s", errListing, tarball.Quoted(text))
	}
	mode, err1 := strconv.ParseUint(fields[0], 16, 16)
	size, err2 := strconv.ParseUint(fields[1], 10, 63)
	seconds, err3 := strconv.ParseInt(fields[2], 10, 64)
	kind, known := kinds[mode&0xf000]
	if err1 != nil || err2 != nil || err3 != nil || !known {
		return Entry{}, fmt.Errorf("%w: %s", errListing, tarball.Quoted(text))
	}
	e := Entry{Mode: kind | fs.FileMode(mode)&fs.ModePerm, ModTime: time.Unix(seconds, 0)}
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
