package tool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// MaxFile is how many bytes a file may have for the tools read and edit: 4 MiB.
const MaxFile = 4 << 20

// RequestWrite is the kind of a request about a file that the tools write and edit are to
// change. Path is its name, and Code all of its new content.
const RequestWrite execpolicy.RequestKind = "write"

const (
	where = "The path, absolute or relative to the directory in which the session began: " +
		"a cd of the shell does not matter."

	readAbout = "Read a text file. Of a long file the reply has a part, and says how to read on."

	writeAbout = "Write a file: make it, with the directories that are missing, or replace all of it. " +
		"To change a part of a file use edit."

	editAbout = "Change a file: replace a text, which must be in the file exactly once, by another one. " +
		"Read the file first, and give enough of the lines around the change to make the text unique."

	listAbout = "List a directory, with the sizes of its files."
)

var (
	readForm = form{
		{name: "path", kind: text, about: where, required: true},
		{name: "offset", kind: integer, about: "The number of the first line to read, from 1. By default 1."},
		{name: "limit", kind: integer, about: "How many lines to read at most. By default as many as a reply holds."},
	}
	writeForm = form{
		{name: "path", kind: text, about: where, required: true},
		{name: "content", kind: text, about: "All of the file's new content.", required: true},
	}
	editForm = form{
		{name: "path", kind: text, about: where, required: true},
		{name: "old_str", kind: text, about: "The text to replace, exactly as it is in the file, with all white space.", required: true},
		{name: "new_str", kind: text, about: "The text to put in its place.", required: true},
	}
	listForm = form{
		{name: "path", kind: text, about: where + " By default that directory."},
	}
)

func (s *Set) read(ctx context.Context, in input) (Reply, error) {
	name := in.text("path")
	offset, count := in.number("offset", 1), in.number("limit", -1)
	if offset < 1 || in.has("limit") && count < 1 {
		return failed(`"offset" and "limit" must be 1 or more.`), nil
	}
	content, reply, err := s.content(ctx, name)
	if reply.Failed {
		return reply, err
	}
	if content, err = s.filtered(content); err != nil {
		return blocked(err), nil
	}
	if content == "" {
		return Reply{Text: s.shown(name) + " is empty."}, nil
	}
	total := strings.Count(strings.TrimSuffix(content, "\n"), "\n") + 1
	if offset > total {
		return failed("%s has only %d lines.", s.shown(name), total), nil
	}
	p := s.part(content, offset, count)
	switch {
	case p.cut > 0:
		return Reply{Text: fmt.Sprintf("%s\n\n[The beginning of line %d, which has %d bytes more. Use the shell or Python to see them.]",
			p.text, offset, p.cut)}, nil
	case p.last < total:
		return Reply{Text: fmt.Sprintf("%s\n[Lines %d to %d of %d. Read on with offset %d.]",
			withNewline(p.text), offset, p.last, total, p.last+1)}, nil
	case offset > 1:
		return Reply{Text: fmt.Sprintf("%s\n[Lines %d to %d of %d.]", withNewline(p.text), offset, p.last, total)}, nil
	}
	return Reply{Text: p.text}, nil
}

// noticeRoom is more than the last line of a part of a file takes.
const noticeRoom = 120

// A part is some lines of a text.
type part struct {
	text string
	last int // the number of its last line
	cut  int // how many bytes of its only line are left out
}

// part returns the lines of a text from the one with that number, as many as there is
// room for, and at most count of them unless that is negative.
func (s *Set) part(content string, offset, count int) part {
	limit, lines := s.bounds()
	limit, lines = max(1, limit-noticeRoom), max(1, lines-2)
	if count >= 0 {
		lines = min(lines, count)
	}
	start, number := 0, 0
	p := part{last: offset - 1}
	for line := range strings.Lines(content) {
		number++
		if number < offset {
			start += len(line)
			continue
		}
		if lines--; lines < 0 || len(p.text)+len(line) > limit {
			break
		}
		p.text = content[start : start+len(p.text)+len(line)]
		p.last = number
	}
	if p.text == "" {
		line, _, _ := strings.Cut(content[start:], "\n")
		p.text = whole(line[:min(len(line), limit)])
		p.last, p.cut = offset, len(line)-len(p.text)
	}
	return p
}

// whole returns a text without a rune at its end that was cut.
func whole(text string) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

func withNewline(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

// content returns the content of a text file, or the reply that says why it can't.
func (s *Set) content(ctx context.Context, name string) (string, Reply, error) {
	data, err := s.Session.ReadFile(ctx, name, MaxFile)
	if err != nil {
		reply, err := s.noFile(ctx, name, err)
		return "", reply, err
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", failed("%s is not a text in UTF-8. It has %d bytes. Use the shell or Python to look into it.", s.shown(name), len(data)), nil
	}
	return string(data), Reply{}, nil
}

func (s *Set) write(ctx context.Context, in input) (Reply, error) {
	name, content := in.text("path"), in.text("content")
	if s.isLink(ctx, name) {
		return s.noFile(ctx, name, errLink)
	}
	if reply, err := s.approve(ctx, RequestWrite, name, content); reply.Failed {
		return reply, err
	}
	if err := s.changing.Take(ctx); err != nil {
		return s.unanswered(ctx, err)
	}
	defer s.changing.Give()
	err := s.replace(ctx, name, content)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.Session.MkdirAll(ctx, path.Dir(name), 0o755); err == nil {
			err = s.Session.WriteFile(ctx, name, []byte(content), 0o644)
		}
	}
	if err != nil {
		return s.noFile(ctx, name, err)
	}
	return Reply{Text: fmt.Sprintf("Wrote %d bytes to %s.", len(content), s.shown(name))}, nil
}

// errLink is the error of replace for the name of a link.
var errLink = errors.New("it is a link")

// replace writes a file that was not a link, with the permissions that it has, if it
// exists. A link would be replaced by a file, and what it leads to would stay as it was.
func (s *Set) replace(ctx context.Context, name, content string) error {
	// The question may have been open for long.
	if s.ask != nil && s.isLink(ctx, name) {
		return errLink
	}
	perm := fs.FileMode(0o644)
	if e, err := s.Session.Stat(ctx, name); err == nil && e.Mode.IsRegular() {
		perm = e.Mode.Perm()
	}
	return s.Session.WriteFile(ctx, name, []byte(content), perm)
}

// isLink reports whether a name is known to be a link's. Only a list of its directory
// says so.
func (s *Set) isLink(ctx context.Context, name string) bool {
	dir, base := path.Split(name)
	entries, err := s.Session.ReadDir(ctx, cmp.Or(dir, "."))
	return err == nil && slices.ContainsFunc(entries, func(e execpolicy.TreeEntry) bool {
		return e.Name == base && e.Mode.Type() == fs.ModeSymlink
	})
}

func (s *Set) edit(ctx context.Context, in input) (Reply, error) {
	name, before, after := in.text("path"), in.text("old_str"), in.text("new_str")
	switch {
	case before == "":
		return failed(`"old_str" is empty. Give the text to replace, or use write to make a file.`), nil
	case before == after:
		return failed(`"old_str" and "new_str" are the same, so there is nothing to change.`), nil
	}
	if err := s.changing.Take(ctx); err != nil {
		return s.unanswered(ctx, err)
	}
	defer s.changing.Give()
	content, reply, err := s.content(ctx, name)
	if reply.Failed {
		return reply, err
	}
	at := strings.Index(content, before)
	if at < 0 {
		return failed("\"old_str\" is not in %s.%s", s.shown(name), hint(content, before)), nil
	}
	if n := strings.Count(content, before); n > 1 || strings.Contains(content[at+1:], before) {
		return failed("\"old_str\" is in %s more than once, at lines %s. Give more of the lines around the one that is meant.",
			s.shown(name), places(content, before)), nil
	}
	if s.isLink(ctx, name) {
		return s.noFile(ctx, name, errLink)
	}
	// The new text alone does not tell what it makes of the file.
	changed := content[:at] + after + content[at+len(before):]
	if reply, err := s.approve(ctx, RequestWrite, name, changed); reply.Failed {
		return reply, err
	}
	if s.ask != nil {
		// The question may have been open for long, and jobs go on meanwhile.
		now, reply, err := s.content(ctx, name)
		if reply.Failed {
			return reply, err
		}
		if now != content {
			return failed("%s was changed before this was approved. Read it again.", s.shown(name)), nil
		}
	}
	if err := s.replace(ctx, name, changed); err != nil {
		return s.noFile(ctx, name, err)
	}
	return Reply{Text: fmt.Sprintf("Changed %s at line %d.", s.shown(name), lineOf(content, at))}, nil
}

// lineOf returns the number of the line that an index of a text is in.
func lineOf(content string, index int) int { return strings.Count(content[:index], "\n") + 1 }

// maxPlaces is how many places of a text are listed.
const maxPlaces = 10

// places lists the lines in which a text is.
func places(content, text string) string {
	var list []string
	line, from := 1, 0
	for {
		i := strings.Index(content[from:], text)
		if i < 0 {
			return strings.Join(list, ", ")
		}
		if len(list) == maxPlaces {
			return strings.Join(list, ", ") + " and others"
		}
		line += strings.Count(content[from:from+i], "\n")
		list = append(list, fmt.Sprint(line))
		if content[from+i] == '\n' {
			line++
		}
		from += i + 1
	}
}

// hint says why a text may not be in another one that was thought to have it.
func hint(content, text string) string {
	if strings.Contains(content, "\r\n") && strings.Contains(strings.ReplaceAll(content, "\r\n", "\n"), text) {
		return ` The lines of the file end with "\r\n", and those of "old_str" with "\n".`
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first = strings.TrimSpace(first); first == "" {
		return ""
	}
	number := 0
	for line := range strings.Lines(content) {
		number++
		if strings.Contains(line, first) {
			return fmt.Sprintf(" Its first line is at line %d, but the rest or the white space differs: read the file there.", number)
		}
	}
	return " Not even its first line is: read the file."
}

func (s *Set) list(ctx context.Context, in input) (Reply, error) {
	name := cmp.Or(in.text("path"), ".")
	entries, err := s.Session.ReadDir(ctx, name)
	if errors.Is(err, execpolicy.ErrTooLarge) {
		return failed("%s has too many files to list. Use the shell to find what you look for.", s.shown(name)), nil
	}
	if err != nil {
		return s.noFile(ctx, name, err)
	}
	if len(entries) == 0 {
		return Reply{Text: s.shown(name) + " is empty."}, nil
	}
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(line(e) + "\n")
	}
	text, err := s.filtered(b.String())
	if err != nil {
		return blocked(err), nil
	}
	return Reply{Text: text}, nil
}

// line describes an entry of a directory.
func line(e execpolicy.TreeEntry) string {
	switch name := quoteIfNeeded(e.Name); e.Mode.Type() {
	case 0:
		return fmt.Sprintf("%s  %d bytes", name, e.Size)
	case fs.ModeDir:
		return name + "/"
	case fs.ModeSymlink:
		return name + "  (link)"
	default:
		return name + "  (special)"
	}
}

// quoteIfNeeded returns a name as it is or, if it is not one line of plain text, quoted.
func quoteIfNeeded(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// noFile returns the reply for a file operation that failed.
func (s *Set) noFile(ctx context.Context, name string, err error) (Reply, error) {
	if errors.Is(err, errLink) {
		return failed("%s is a link. Change the file that it leads to.", s.shown(name)), nil
	}
	if hosts(ctx, err) || errors.Is(err, execpolicy.ErrEnded) {
		return s.unanswered(ctx, err)
	}
	relative := !path.IsAbs(name)
	name = s.shown(name)
	switch {
	case errors.Is(err, execpolicy.ErrTooLarge):
		return failed("%s is too large: more than %d bytes. Use the shell or Python to read or change a part of it.", name, MaxFile), nil
	case errors.Is(err, fs.ErrNotExist) && relative:
		return failed("%s does not exist. A relative path begins where the session began, wherever the shell is now.", name), nil
	case errors.Is(err, fs.ErrNotExist):
		return failed("%s does not exist.", name), nil
	case errors.Is(err, execpolicy.ErrNotRegular):
		return failed("%s is not a regular file. If it is a directory, use list.", name), nil
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return failed("%s: %s", name, excerpt(err.Error())), nil
}

// shown returns a name as a reply may have it. A set that has only tools of its caller's
// may have no session.
func (s *Set) shown(name string) string {
	if s.Session != nil {
		name = s.Session.Redact(name)
	}
	return short(name)
}

// approve asks Spec.Approve about what is not a command of the session's. If that
// refuses, the reply says so.
func (s *Set) approve(ctx context.Context, kind execpolicy.RequestKind, name, code string) (Reply, error) {
	if s.ask == nil {
		return Reply{}, nil
	}
	living, cancel := s.whileItLives(ctx)
	defer cancel(nil)
	answer := make(chan error, 1)
	go func() {
		answer <- s.ask(living, execpolicy.Request{Kind: kind, Path: name, Code: code})
	}()
	select {
	case err := <-answer:
		if err == nil {
			return Reply{}, nil
		}
		return failed("Error: %v: %s: %s.", execpolicy.ErrRefused, kind, excerpt(s.Session.Redact(err.Error()))), nil
	case <-living.Done():
		return s.unanswered(ctx, context.Cause(living))
	}
}

// whileItLives returns a context that also ends when the session has ended for good, with
// the error that it has then.
func (s *Set) whileItLives(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for ctx.Err() == nil {
			select {
			case <-s.Session.Done():
				// It may be one that is restarted.
				if _, err := s.Session.Stat(ctx, "."); isAny(err, execpolicy.ErrEnded, execpolicy.ErrClosed) {
					cancel(err)
				}
			case <-ctx.Done():
			}
		}
	}()
	return ctx, cancel
}
