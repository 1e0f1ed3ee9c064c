package audit

import (
	"context"
	"log/slog"
	"os"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// MaxText is how many bytes of a text, or of the words of a list together, are kept.
const MaxText = 4 << 10

// To returns an auditor that gives a handler a record of each event. It does not ask the
// handler whether it is enabled. If the handler returns an error, so does the auditor.
//
// To record who runs what, add attributes by the handler's WithAttrs.
func To(h slog.Handler) execpolicy.Auditor {
	host, _ := os.Hostname()
	h = h.WithAttrs([]slog.Attr{slog.String("host", host), slog.Int("uid", os.Getuid()), slog.Int("pid", os.Getpid())})
	return func(e execpolicy.Event) error {
		r := slog.NewRecord(e.Time, slog.LevelInfo, string(e.Kind), 0)
		r.AddAttrs(attributes(e)...)
		return h.Handle(context.Background(), r)
	}
}

// attributes are those of an event, in the order of the package's table.
func attributes(e execpolicy.Event) []slog.Attr {
	var a attrs
	a.text("session", e.Name)
	a.count("seq", int64(e.Seq))
	a.count("of", int64(e.Of))
	if e.Kind == execpolicy.EventSpawn {
		a.add(slog.String("policy", digest(e.Argv)), slog.Any("argv", e.Argv))
	} else {
		a.words("argv", e.Argv)
	}
	a.text("image", e.Image)
	if e.Transport != execpolicy.TransportAuto {
		a.add(slog.String("transport", e.Transport.String()))
	}
	a.text("op", e.Op)
	a.text("script", e.Script)
	a.text("dir", e.Dir)
	a.text("path", e.Path)
	a.text("target", e.Target)
	a.text("addr", e.Addr)
	a.words("env", e.Env)
	a.words("secrets", e.Secrets)
	switch e.Kind {
	case execpolicy.EventStart, execpolicy.EventResult, execpolicy.EventTransferred, execpolicy.EventEgress, execpolicy.EventEnd:
		a.add(slog.Float64("seconds", e.Duration.Seconds()))
	}
	a.count("bytes_in", e.In)
	a.count("bytes_out", e.Out)
	if e.Outcome != 0 {
		a.add(slog.String("outcome", e.Outcome.String()))
	}
	switch e.Outcome {
	case execpolicy.OutcomeExited:
		a.add(slog.Int("exit", e.ExitCode))
	case execpolicy.OutcomeSignaled:
		a.add(slog.Int("signal", e.Signal))
	}
	if e.Escalation != 0 {
		a.add(slog.String("escalation", e.Escalation.String()))
	}
	if e.Outcome != 0 {
		a.known("oom_before", int64(e.OOMBefore))
		a.known("oom_after", int64(e.OOMAfter))
	}
	if e.Usage != nil {
		if e.Usage.CPU >= 0 {
			a.add(slog.Float64("cpu_seconds", e.Usage.CPU.Seconds()))
		}
		a.known("peak_before", e.Usage.PeakBefore)
		a.known("peak_after", e.Usage.PeakAfter)
	}
	if e.Outcome != 0 || e.Kind == execpolicy.EventEnd {
		a.add(slog.Bool("gone", e.Gone))
	}
	a.text("cause", e.Cause)
	a.text("error", e.Error)
	return a
}

type attrs []slog.Attr

func (a *attrs) add(more ...slog.Attr) { *a = append(*a, more...) }

func (a *attrs) count(key string, n int64) {
	if n != 0 {
		a.add(slog.Int64(key, n))
	}
}

func (a *attrs) known(key string, n int64) {
	if n >= 0 {
		a.add(slog.Int64(key, n))
	}
}

func (a *attrs) text(key, text string) {
	if text == "" {
		return
	}
	head := cut(text, MaxText)
	a.add(slog.String(key, head))
	if len(head) < len(text) {
		a.add(slog.Int(key+"_bytes", len(text)))
	}
}

func (a *attrs) words(key string, words []string) {
	if len(words) == 0 {
		return
	}
	var kept []string
	total, room := 0, MaxText
	for i, w := range words {
		total += len(w)
		// Empty ones take room too.
		if head := cut(w, max(room, 0)); len(kept) == i && room > 0 {
			kept = append(kept, head)
			room -= len(head) + 1
			if len(head) < len(w) {
				room = 0
			}
		}
	}
	a.add(slog.Any(key, kept))
	if last := len(kept) - 1; last < len(words)-1 || len(kept[last]) < len(words[last]) {
		a.add(slog.Int(key+"_bytes", total))
	}
}

// cut returns the head of a text, without a part of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > max(limit-utf8.UTFMax, 0) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
