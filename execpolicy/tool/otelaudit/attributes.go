package otelaudit

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// MaxText is how many bytes of a text are kept, and of the words of a list together.
const MaxText = 4 << 10

const (
	operationKey  = attribute.Key("cofferdam.operation")
	directionKey  = attribute.Key("cofferdam.direction")
	outcomeKey    = attribute.Key("cofferdam.outcome")
	signalKey     = attribute.Key("cofferdam.signal")
	envKey        = attribute.Key("cofferdam.env")
	secretsKey    = attribute.Key("cofferdam.secrets")
	escalationKey = attribute.Key("cofferdam.escalation")
	causeKey      = attribute.Key("cofferdam.cause")
	goneKey       = attribute.Key("cofferdam.gone")
	inKey         = attribute.Key("cofferdam.bytes_in")
	outKey        = attribute.Key("cofferdam.bytes_out")
	oomKey        = attribute.Key("cofferdam.oom_kills")
	cpuKey        = attribute.Key("cofferdam.cpu_seconds")
	peakKey       = attribute.Key("cofferdam.peak_memory")
	transportKey  = attribute.Key("cofferdam.transport")
	targetKey     = attribute.Key("cofferdam.target")
	addrKey       = attribute.Key("cofferdam.addr")
	refusedKey    = attribute.Key("cofferdam.refused")
)

// attributes are those of an event, in the order of the package's tables.
func attributes(e execpolicy.Event) (all []attribute.KeyValue) {
	add := func(is bool, a attribute.KeyValue) {
		if is {
			all = append(all, a)
		}
	}
	add(e.Image != "", semconv.ContainerImageID(text(e.Image)))
	add(e.Transport != execpolicy.TransportAuto, transportKey.String(e.Transport.String()))
	add(len(e.Argv) > 0, semconv.ProcessCommandArgs(words(e.Argv)...))
	add(e.Script != "", semconv.ProcessCommandLine(text(e.Script)))
	add(e.Dir != "", semconv.ProcessWorkingDirectory(text(e.Dir)))
	add(e.Outcome == execpolicy.OutcomeExited, semconv.ProcessExitCode(e.ExitCode))
	add(e.Path != "", semconv.FilePath(text(e.Path)))
	add(e.Target != "", targetKey.String(text(e.Target)))
	add(e.Addr != "", addrKey.String(text(e.Addr)))
	add(e.Kind == execpolicy.EventEgress && e.Addr == "", refusedKey.String(text(e.Error)))
	add(e.Outcome != 0, outcomeKey.String(e.Outcome.String()))
	add(e.Outcome == execpolicy.OutcomeSignaled, signalKey.Int(e.Signal))
	add(len(e.Env) > 0, envKey.StringSlice(words(e.Env)))
	add(len(e.Secrets) > 0, secretsKey.StringSlice(words(e.Secrets)))
	add(e.Escalation != 0, escalationKey.String(e.Escalation.String()))
	add(e.Cause != "", causeKey.String(text(e.Cause)))
	add(e.Outcome != 0 || e.Kind == execpolicy.EventEnd, goneKey.Bool(e.Gone))
	add(e.In != 0, inKey.Int64(e.In))
	add(e.Out != 0, outKey.Int64(e.Out))
	add(e.OOMBefore >= 0 && e.OOMAfter > e.OOMBefore, oomKey.Int(e.OOMAfter-e.OOMBefore))
	if u := e.Usage; u != nil {
		add(u.CPU >= 0, cpuKey.Float64(u.CPU.Seconds()))
		add(u.PeakAfter >= 0, peakKey.Int64(u.PeakAfter))
	}
	return all
}

// text returns a copy of the head of a text, which may be long. Exporters refuse what is
// not UTF-8, and all that is sent with it.
func text(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), MaxText)], "?"))
}

func words(all []string) []string {
	var kept []string
	room := MaxText
	for _, w := range all {
		if room <= 0 {
			break
		}
		head := text(w[:min(len(w), room)])
		kept = append(kept, head)
		room -= len(head) + 1 // empty ones take room too
	}
	return kept
}
