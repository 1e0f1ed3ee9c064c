package python

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// lost is what Render says of an interpreter that has ended.
const lost = "The interpreter has ended: its variables and imports are gone.\n"

// Render returns the result as a text for a model, or for a person, as
// [execpolicy.Result.Render] does. The value stands below what the snippet printed to
// stdout, as Python's prompt shows it, and the traceback of an exception below what it
// printed to stderr. If the interpreter has ended, a last line says so. The options bound
// all of the text. If it is too long, the last line stays.
func (r *Result) Render(o execpolicy.RenderOptions) string {
	res := *r.Result
	res.Stdout = below(res.Stdout, &res.StdoutInfo, r.Value)
	if r.Exception != nil {
		res.Stderr = below(res.Stderr, &res.StderrInfo, r.Exception.Traceback)
		res.ExitCode = 0 // the traceback says more
	}
	if !r.StateLost {
		return res.Render(o)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, execpolicy.DefaultRenderBytes)
	o.MaxLines = cmp.Or(o.MaxLines, execpolicy.DefaultRenderLines)
	// There may be a newline in between.
	const room = len("\n" + lost)
	if 0 < o.MaxBytes && o.MaxBytes <= room || o.MaxLines == 1 {
		return (&execpolicy.Result{Outcome: execpolicy.OutcomeExited, Stdout: []byte(lost)}).Render(o)
	}
	if o.MaxBytes > 0 {
		o.MaxBytes -= room
	}
	if o.MaxLines > 0 {
		o.MaxLines--
	}
	text := res.Render(o)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + lost
}

// below returns a stream with a text on lines of its own after it, and counts those.
func below(stream []byte, info *execpolicy.StreamInfo, text string) []byte {
	if text == "" {
		return stream
	}
	text = strings.TrimSuffix(text, "\n") + "\n"
	info.Lines += int64(strings.Count(text, "\n"))
	info.Bytes += int64(len(text))
	if len(stream) > 0 && !bytes.HasSuffix(stream, []byte("\n")) {
		text = "\n" + text
	}
	return slices.Concat(stream, []byte(text))
}
