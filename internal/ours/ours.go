// Package ours marks what the library itself runs in a session, where a caller's hooks would make it see something else than there is.
package ours

import "context"

// mark is a key by its address.
var mark bool

// Mark returns a context whose commands are the library's own: they are not asked about, and what they print is not filtered.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, &mark, true) }

// Marked reports whether a context is one of Mark.
func Marked(ctx context.Context) bool { return ctx.Value(&mark) != nil }
