// Package ours marks what the library itself runs in a session, where a caller's hooks
// would make it see something else than there is.
package ours

import (
	"context"
	"errors"
	"time"
)

// ErrElsewhere is the error of a command that was not run because the session is in
// another container than the one that the command is for.
var ErrElsewhere = errors.New("the session is in another container")

// skip, unseen and what are keys by their addresses.
var skip, unseen, what bool

// SkipHooks returns a context whose commands are the library's own: they are not asked
// about, and what they print is not filtered.
func SkipHooks(ctx context.Context) context.Context { return context.WithValue(ctx, &skip, true) }

// HooksSkipped reports whether a context is one of SkipHooks.
func HooksSkipped(ctx context.Context) bool { return ctx.Value(&skip) != nil }

// Unseen returns a context whose next command has a result that no caller sees. What that
// would tell of what was before, the next result tells. So it is with SkipHooks.
func Unseen(ctx context.Context) context.Context { return context.WithValue(ctx, &unseen, true) }

// TakeUnseen reports whether the next command is one of Unseen, and returns a context
// that no longer says so.
func TakeUnseen(ctx context.Context) (context.Context, bool) {
	if is, _ := ctx.Value(&unseen).(bool); !is {
		return ctx, false
	}
	return context.WithValue(ctx, &unseen, false), true
}

// A Code is what a caller has asked for where a package has made a command of it. The
// fields are those of an execpolicy.Request; zero means the same.
type Code struct {
	Kind, Language, Text, Path string
	Argv                       []string
	Input                      []byte
	Timeout                    time.Duration
	// In, if not empty, is the name of the container that the command is for. In another
	// one the command is not run, and the error is ErrElsewhere.
	In string
	// Approved says that it was asked about with an earlier command.
	Approved bool
	// Fork says that the first word of the command's Argv is no program but the name of a
	// script, with a slash in it. A copy of the session's shell reads it, with the other
	// words as its arguments.
	Fork bool
	// Reply, if not nil, is handed what stands in end marks of the session protocol, on
	// stdout, that have the prefix Tag. They are no output.
	Tag   string
	Reply func(text string)
}

// WithCode returns a context whose next command is made of code.
func WithCode(ctx context.Context, code Code) context.Context {
	return context.WithValue(ctx, &what, &code)
}

// TakeCode returns what the next command is made of, or nil, and a context that no longer
// says so. A caller's hook gets that one: what it runs itself is something else.
func TakeCode(ctx context.Context) (context.Context, *Code) {
	code, _ := ctx.Value(&what).(*Code)
	if code == nil {
		return ctx, nil
	}
	return context.WithValue(ctx, &what, (*Code)(nil)), code
}
