package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A Strategy says what happens to a match of a rule.
type Strategy int

const (
	// Redact replaces the match by "[REDACTED_EMAIL]", with the rule's type in upper
	// case.
	Redact Strategy = iota
	// Mask leaves a part of the match: "user@****.com" of an email, "****-****-****-1234"
	// of a credit_card or a payment_card, with dashes or spaces between the groups if the
	// match has them, "*.*.*.4" of an ip, and "**:**:**:**:**:5e" of a mac_address. A url
	// becomes "[MASKED_URL]". Of every other type Mask leaves "****" and the last four
	// characters or, if the match has no more than four, "****" alone.
	Mask
	// Hash replaces the match by "<email_hash:1f2e3d4c>", with the rule's type and the
	// first four bytes of the SHA-256 in hexadecimal, so that the same value can be
	// recognized. Whoever can guess the value can check the guess.
	Hash
	// Block passes on nothing from the match on: Write fails with a [BlockedError].
	Block
)

var strategies = [...]string{"redact", "mask", "hash", "block"}

// String returns the strategy in words, such as "redact".
func (s Strategy) String() string {
	if s < 0 || int(s) >= len(strategies) {
		return "unknown"
	}
	return strategies[s]
}

// A Rule says what to look for, and what to do with a match.
type Rule struct {
	// Type names what the rule looks for, and is part of the replacement. "email",
	// "credit_card", "payment_card", "ip", "mac_address" and "url" have detectors, which
	// the package's documentation describes. Any other type needs a Find.
	Type string
	// Strategy is what happens to a match. If zero, it is [Redact].
	Strategy Strategy
	// Find returns the matches in a line, as [regexp.Regexp.FindAllIndex] does: each is
	// the index of its first byte and of the byte after its last. Empty matches are
	// ignored. Of two matches that overlap, the later one counts only where the earlier
	// one does not. An index outside of the line makes the Write fail. Find must not keep
	// or change the line, and may be called by several goroutines at the same time. If
	// nil, it is the detector of Type.
	Find func(line []byte) [][]int

	secrets func() *secrets // so that who prints a rule does not print them
}

// detectors are those of the types that have one.
var detectors = map[string]func(line []byte) [][]int{
	"email": findEmails, "credit_card": findCreditCards, "payment_card": findPaymentCards, "ip": findIPs,
	"mac_address": findMACs, "url": findURLs,
}

const detectorNames = "email, credit_card, payment_card, ip, mac_address, url"

// A BlockedError is the error of output in which a rule with the strategy [Block] found
// something. It wraps [execpolicy.ErrBlocked].
type BlockedError struct {
	// Type is the type of the rule.
	Type string
}

// Error says what was detected.
func (e *BlockedError) Error() string { return "detected " + e.Type }

// Unwrap returns [execpolicy.ErrBlocked].
func (e *BlockedError) Unwrap() error { return execpolicy.ErrBlocked }

// An unknownType is a type that has no detector, said in LangChain's words.
type unknownType string

func (t unknownType) Error() string {
	return "Unknown PII type: " + string(t) + ". Must be one of " + detectorNames + ", or have a Find"
}

// A Redactor applies rules. It may be used by several goroutines at the same time.
type Redactor struct {
	rules []Rule
}

// New returns a Redactor that applies the rules in order. The error names all that is
// wrong with them and wraps [execpolicy.ErrInvalid]. Without rules, everything passes.
func New(rules ...Rule) (*Redactor, error) {
	r := &Redactor{}
	var errs []error
	for i, rule := range rules {
		for _, err := range []error{rule.Strategy.validate(), rule.resolve()} {
			if err != nil {
				errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
			}
		}
		r.rules = append(r.rules, rule)
	}
	if err := problems.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (s Strategy) validate() error {
	if s < 0 || int(s) >= len(strategies) {
		return fmt.Errorf("unknown redaction strategy: %d", int(s))
	}
	return nil
}

// resolve checks what a rule looks for, and gives it the detector of its type.
func (r *Rule) resolve() error {
	switch {
	case r.Type == "":
		return errors.New("a rule needs a type")
	case r.secrets != nil && r.Find != nil:
		return errors.New("a rule has either secrets or a Find, not both")
	case r.secrets != nil:
		return r.secrets().validate()
	case r.Find != nil:
		return nil
	}
	if r.Find = detectors[r.Type]; r.Find == nil {
		return unknownType(r.Type)
	}
	return nil
}

// Writer returns a writer that applies the rules to what is written to it, and passes the
// rest on to w. Close passes on what the writer still holds, and does not close w. After
// the first error, of w, of a Find or a [BlockedError], every Write and Close return that
// error, and nothing passes any more. After Close, Write returns [io.ErrClosedPipe]. The
// writer must not be used by two goroutines at the same time.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	head := &filter{stage: end{w}}
	for i := len(r.rules) - 1; i >= 0; i-- {
		rule := &r.rules[i]
		if rule.secrets != nil {
			head.stage = &secretStage{rule: rule, next: head.stage}
		} else {
			head.stage = &lineStage{rule: rule, next: head.stage}
		}
	}
	return head
}

// Bytes returns what a Writer passes on if text is written to it. If that is an error,
// Bytes returns no text.
func (r *Redactor) Bytes(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w := r.Writer(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A stage is one rule at work on a stream.
type stage interface {
	write(p []byte) error
	close() error
}

// A filter is the first stage as a writer whose errors stay.
type filter struct {
	stage  stage
	err    error
	closed bool
}

func (f *filter) Write(p []byte) (int, error) {
	if f.err == nil && f.closed {
		return 0, io.ErrClosedPipe
	}
	if f.err == nil {
		f.err = f.stage.write(p)
	}
	if f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

func (f *filter) Close() error {
	if f.err == nil {
		f.err = f.stage.close()
	}
	f.closed = true
	return f.err
}

// An end is where the stages end.
type end struct {
	w io.Writer
}

func (e end) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := e.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

func (e end) close() error { return nil }
