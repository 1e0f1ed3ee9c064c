// Package clierr makes an error of a failed run of a client program: what was asked for,
// what the failure means, and the client's own words.
package clierr

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Table says what messages mean. A row is about a message that has all of its words,
// which are in lower case.
type Table []struct {
	Class error
	Words []string
}

// Classify returns the class of the first row all of whose words occur in a message, or
// nil if there is none. So what is definite stands in a table before what can also be a
// part of another message.
func (t Table) Classify(message []byte) error {
	text := string(bytes.ToLower(message))
	for _, row := range t {
		if SaysAll(text, row.Words) {
			return row.Class
		}
	}
	return nil
}

// SaysAll reports whether all words occur in a text.
func SaysAll(text string, words []string) bool {
	return !slices.ContainsFunc(words,
		func(w string) bool { return !strings.Contains(text, w) })
}

// A Failure is a failed run of a client.
type Failure struct {
	// Verb is what was asked for.
	Verb string
	// Client names the program.
	Client string
	// ExitCode is the client's, or -1 if it was ended.
	ExitCode int
	// Words are what the client said.
	Words string
	// Advice is what can be done about it; empty if that is not known.
	Advice string
	// Class says what the failure means, and Cause why the client was ended. Each may be
	// nil.
	Class, Cause error
}

// Error says what failed, quotes the client, and says what can be done about it.
func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Verb + ": ")
	switch {
	case f.Class != nil:
		b.WriteString(f.Class.Error())
	case f.Cause == nil:
		fmt.Fprintf(&b, "%s exited with %d", f.Client, f.ExitCode)
	default:
		b.WriteString(f.Client + " was ended")
	}
	if f.Cause != nil {
		fmt.Fprintf(&b, ": %v", f.Cause)
	}
	if f.Words != "" {
		fmt.Fprintf(&b, ": %s", f.Words)
	}
	if f.Advice != "" {
		fmt.Fprintf(&b, " (%s)", f.Advice)
	}
	return b.String()
}

// Unwrap returns the class and the cause, as far as they are known.
func (f *Failure) Unwrap() []error {
	var errs []error
	for _, err := range []error{f.Class, f.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
