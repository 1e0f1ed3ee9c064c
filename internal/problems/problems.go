// Package problems makes one error of all that is wrong with what a caller has given.
//
// The module has one rule for several errors. What is wrong with input goes into a
// [List], and all of it is reported at once. Failures that happened together at run time,
// such as those of a command and of the end of its session, are joined by [errors.Join].
// Package dockercli, which others use without this one, lists refused arguments by
// multierror.
package problems

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Err is wrapped by every error of [Join]. It is the ErrInvalid of package execpolicy.
var Err = errors.New("invalid")

// A List holds what is wrong with input, in the order in which it was found.
type List []error

// Add adds one that has no error of its own.
func (l *List) Add(format string, args ...any) { *l = append(*l, fmt.Errorf(format, args...)) }

// joined is an error of Join.
type joined struct{ problems []error }

// Join returns an error that wraps [Err] and each of the problems, and says each once, or
// nil if there are none. What is nil is no problem, and what holds several, such as an
// error of Join, of [errors.Join] or of multierror, is as many.
func Join(errs ...error) error {
	var found []error
	for _, err := range errs {
		found = add(found, err)
	}
	if len(found) == 0 {
		return nil
	}
	return &joined{found}
}

// Of returns the problems of an error of Join; none of another.
func Of(err error) []error {
	if j, ok := err.(*joined); ok {
		return j.problems
	}
	return nil
}

func (j *joined) Error() string { return Err.Error() + ": " + strings.Join(texts(j.problems), "; ") }

// Unwrap returns Err and the problems.
func (j *joined) Unwrap() []error { return append([]error{Err}, j.problems...) }

// add adds an error to problems that were found.
func add(found []error, err error) []error {
	if err == nil {
		return found
	}
	if inner, ok := parts(err); ok {
		for _, part := range inner {
			found = add(found, part)
		}
		return found
	}
	if text, ok := strings.CutPrefix(err.Error(), Err.Error()+": "); ok && errors.Is(err, Err) {
		err = &bare{err, text}
	}
	if slices.Contains(texts(found), err.Error()) {
		return found
	}
	return append(found, err)
}

// bare is an error that leaves it to those that it is joined with to say that it is one
// of Err.
type bare struct {
	error
	text string
}

func (b *bare) Error() string { return b.text }
func (b *bare) Unwrap() error { return b.error }

// parts returns the problems that an error holds, if it says no more than they do.
func parts(err error) (inner []error, ok bool) {
	switch e := err.(type) {
	case *joined:
		return e.problems, true
	case interface{ WrappedErrors() []error }:
		return e.WrappedErrors(), true
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
		if err.Error() == strings.Join(texts(inner), "\n") {
			return inner, true
		}
		if len(inner) == 2 && inner[0] == Err && err.Error() == strings.Join(texts(inner), ": ") {
			return inner[1:], true
		}
	}
	return nil, false
}

func texts(errs []error) []string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return texts
}

// Redact returns an error whose text is what redact makes of err's: err itself, if that
// is the same. Of another, only [errors.Is] knows what it was.
func Redact(err error, redact func(string) string) error {
	if err == nil {
		return nil
	}
	if text := redact(err.Error()); text != err.Error() {
		return &redacted{text, err}
	}
	return err
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is reports whether the error is the target. There is no Unwrap, which would show the
// text.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }
