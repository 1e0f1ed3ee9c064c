// Package bound bounds how long something takes, by a time, of which the zero time is
// never, or by contexts.
package bound

import (
	"context"
	"math"
	"time"
)

// After returns when a time that is counted from now has passed; the zero time if it is
// negative, for never.
func After(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// Left returns how much time a context has left; next to for ever if it has no end.
func Left(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return math.MaxInt64
}

// Moment returns what a function of a caller's gets that is under way when nobody waits
// for it any longer, if an end may take limit.
func Moment(limit time.Duration) time.Duration { return min(250*time.Millisecond, limit/8) }

// Flush returns until when a caller's writers may take the rest of what came within a
// deadline, of which the zero time is never. They get a moment if they were cut off, and
// even after the deadline: it may have ended what came. Else they get limit.
func Flush(cutOff bool, deadline time.Time, limit time.Duration) time.Time {
	moment := Moment(limit)
	switch {
	case cutOff:
		return time.Now().Add(moment)
	case deadline.IsZero() || time.Until(deadline) > limit:
		return time.Now().Add(limit)
	}
	if now := time.Now(); deadline.Before(now) {
		deadline = now
	}
	return deadline.Add(moment)
}

// Earlier returns the earlier of two times, of which the zero time is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// By returns a context that also ends, with the same cause, when life does.
func By(ctx, life context.Context) (context.Context, context.CancelCauseFunc) {
	if ctx.Done() == nil {
		return context.WithCancelCause(during{life, ctx})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// during is a life that has the values of a context. What is made of it costs half of
// what AfterFunc does.
type during struct {
	context.Context
	values context.Context
}

func (d during) Value(key any) any {
	if value := d.Context.Value(key); value != nil {
		return value
	}
	return d.values.Value(key)
}

// Until returns a context that also ends at that time, with that cause.
func Until(ctx context.Context, end time.Time, cause error) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, cause)
}

// Call returns what f does, or the cause of the context if that ends first. Then
// f, which is the caller's own, goes on without anybody who waits.
func Call(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
