package execpolicy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

	"github.com/seed-64a260eb/cofferdam/internal/render"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

// The bounds of a rendered result whose options name none.
const (
	// DefaultRenderBytes is the default of [RenderOptions.MaxBytes]: about 4,000 tokens
	// of English.
	DefaultRenderBytes = 16 << 10
	// DefaultRenderLines is the default of [RenderOptions.MaxLines].
	DefaultRenderLines = 400
)

// RenderOptions are the options of [Result.Render]. The zero value is meant for a model.
type RenderOptions struct {
	// MaxBytes is the most bytes that the text may have. If zero, it is
	// [DefaultRenderBytes]; if negative, the text may have any number.
	MaxBytes int
	// MaxLines is the most lines that the text may have. If zero, it is
	// [DefaultRenderLines]; if negative, the text may have any number.
	MaxLines int
	// KeepEscapes keeps escape sequences and control characters. If false, Render removes
	// them, all but newlines and tabs, and shows only the last state of a line that
	// carriage returns overwrite, as progress bars do.
	KeepEscapes bool
}

// Render returns the result as a text for a model, or for a person: what the command
// printed, whatever its outcome, and then how it ended.
//
// The text begins with stdout. If there is any stderr, it follows below a line
// "[stderr]". Of a stream that is longer than the options allow, Render shows the head
// and the tail, and between them a line like "... 123 bytes (4 lines) dropped ...". That
// line counts what Render leaves out and what the session did not keep because of
// [Limits.MaxOutputBytes], but not the escapes that Render removes. If both streams are
// too long, each gets half of the room.
//
// A last paragraph says how the command ended, unless its outcome is OutcomeExited with
// the exit code 0. It also says if the session's shell was lost, if [Spec.Filter] has
// blocked the output, and how much output of background jobs was dropped. If a command
// printed nothing and the last paragraph is empty, the text is "<no output>".
//
// The text is valid UTF-8, and no rune is cut. The options bound all of it. If there is
// only room for the last paragraph, the text is that paragraph. Unlike that of
// [Result.Text], the format may change from one version to the next.
func (r *Result) Render(o RenderOptions) string {
	stdout, stderr := r.excerpt(o, r.Stdout, r.StdoutInfo), r.excerpt(o, r.Stderr, r.StderrInfo)
	limit, lines := renderBound(o.MaxBytes, DefaultRenderBytes), renderBound(o.MaxLines, DefaultRenderLines)
	return render.Text(stdout, stderr, string(o.plain(r.endText())), limit, lines)
}

// renderBound returns what an option allows.
func renderBound(option, standard int) int {
	if option < 0 {
		return math.MaxInt
	}
	return cmp.Or(option, standard)
}

// plain returns what the options leave of a text.
func (o RenderOptions) plain(text []byte) []byte {
	if o.KeepEscapes {
		return bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	return truncate.Plain(text)
}

// excerpt returns what the options leave of a stream. A value of a secret may have had
// escapes in it, such as the colors of a match.
func (r *Result) excerpt(o RenderOptions, kept []byte, info StreamInfo) truncate.Excerpt {
	shown := func(kept []byte) []byte {
		text := o.plain(kept)
		if r.values == nil {
			return text
		}
		return []byte(r.values.Redact(string(text)))
	}
	if info.DroppedBytes <= 0 {
		return truncate.Excerpt{Head: shown(kept)}
	}
	cut := min(max(0, info.Cut), len(kept))
	return truncate.Excerpt{Head: shown(kept[:cut]), Tail: shown(kept[cut:]), Dropped: info.DroppedBytes, Lines: info.Lines}
}

// endText says how the command ended and what was lost, in lines without a newline at the
// end.
func (r *Result) endText() []byte {
	var b bytes.Buffer
	say := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if r.blocked != nil {
		say("Output blocked: %v.", r.blocked)
	}
	lost := r.ended || r.Escalation >= EscalationContainer
	switch r.Outcome {
	case OutcomeExited:
		if r.ExitCode != 0 {
			say("Exit code: %d", r.ExitCode)
		}
	case OutcomeSignaled:
		say("Killed by signal %d%s.", r.Signal, render.Signal(r.Signal))
	case OutcomeTimedOut:
		say("Timed out after %.1f s: the command was ended.", r.Timeout.Seconds())
	case OutcomeCanceled:
		say("Canceled: the command was ended.")
	case OutcomeOOMKilled:
		say("Killed: out of memory.")
	case OutcomeOutputLimit:
		say("Too much output: the command was ended.")
	case OutcomeSessionLost:
		say("The session was lost while the command ran.")
		lost = true
	case OutcomeRefused:
		say("Error: %v.", r.Cause)
	}
	switch {
	case lost:
		say("The session has ended, with all of its state.")
	case r.StateLost:
		say("The shell was replaced: its variables and functions are gone, files stay.")
	}
	if r.BackgroundBytes > 0 {
		say("Background jobs printed %d bytes while no command ran, which were dropped.", r.BackgroundBytes)
	}
	return b.Bytes()
}
