// Package redact takes out of a command's output what must not be stored or shown, while it streams.
//
// A [Redactor] is made of rules, and its Writer is what [execpolicy.Spec] wants for a Filter:
//
//	r, err := redact.New(redact.Rule{Type: "email"}, redact.Rule{Type: "credit_card", Strategy: redact.Mask})
//	spec := execpolicy.Spec{Filter: r.Writer}
//
// Types, strategies and replacements are those of LangChain's redaction rules. Rules apply in the order given, and each sees the output
// of the one before it. No match is kept, in an error or anywhere else.
//
// # How a stream is read
//
// Detectors see one line at a time, without its newline, so nothing is found that goes over a line's end; only [Secrets] are. A line is
// held back until it has ended: a prompt without a newline comes at the end of the stream. How the stream was cut into writes changes
// nothing, and what no rule finds passes as it is, whatever bytes it has.
//
// A line of [MaxLine] bytes or more is dealt with in pieces that overlap, so that memory stays bounded: at most MaxLine bytes a rule. A
// match of up to [MaxMatch] bytes is found wherever it lies, but a piece begins as a line does: "^" matches there too, and so does a word
// that goes on from the piece before. A match that is longer may be found in part only.
//
// # What it is not
//
// It is for what programs print in good faith. One that means to get a value out writes it backwards, in base64, percent-encoded or a
// letter a line, and nothing here finds that. Nor are the detectors without errors on either side.
package redact
