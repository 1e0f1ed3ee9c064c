package otelaudit

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// scope is the name of what the spans and metrics come from.
const scope = "github.com/seed-64a260eb/cofferdam/execpolicy/tool/otelaudit"

// MaxSessions is how many sessions an auditor follows at the same time. With one more, it
// ends the span of that which it has followed for the longest time. It is there for
// sessions whose last record was lost.
const MaxSessions = 4096

// A Telemetry makes spans and metrics. It starts no goroutine and needs no end.
type Telemetry struct {
	tracer trace.Tracer
	instruments
}

// New returns a Telemetry that makes spans and metrics with these providers. Its error is
// that of the meter.
func New(t trace.TracerProvider, m metric.MeterProvider) (*Telemetry, error) {
	made, err := newInstruments(m.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)))
	if err != nil {
		return nil, err
	}
	return &Telemetry{t.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)), made}, nil
}

// Auditor returns an auditor of any number of sessions, whose spans are within the span
// that ctx has, if it has one. The end of ctx changes nothing. The auditor's error is
// always nil.
func (t *Telemetry) Auditor(ctx context.Context) execpolicy.Auditor {
	a := &auditor{Telemetry: t, ctx: context.WithoutCancel(ctx), sessions: map[string]*session{}}
	return func(e execpolicy.Event) error {
		a.take(e)
		return nil
	}
}

// An auditor follows sessions by the names of their containers.
type auditor struct {
	*Telemetry
	ctx context.Context

	mu       sync.Mutex
	sessions map[string]*session
}

// A session is followed from its first record until it has ended and nothing is under
// way. Its records come one at a time.
type session struct {
	ctx  context.Context // with its span
	span trace.Span
	from time.Time
	// active says that it has answered and has not ended.
	active, ended bool
	seq           int // of the latest record
	underWay      map[int]*operation
}

type operation struct {
	name string
	span trace.Span
}

func (a *auditor) take(e execpolicy.Event) {
	if e.Kind == execpolicy.EventFailed {
		a.failed(e)
		return
	}
	// Sessions may have their records at the same time, and one more ends another's span.
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.follow(e)
	if s == nil {
		return
	}
	if e.Kind == execpolicy.EventEgress {
		// Its Seq is none of the others'.
		s.span.AddEvent("egress", trace.WithTimestamp(e.Time), trace.WithAttributes(attributes(e)...))
		return
	}
	if e.Seq > s.seq+1 && s.seq > 0 {
		// Records were lost, and with them perhaps the ends of what was under way.
		s.abandon(e)
	}
	s.seq = e.Seq
	switch e.Kind {
	case execpolicy.EventSpawn, execpolicy.EventStart:
		s.span.SetAttributes(attributes(e)...)
		if e.Kind == execpolicy.EventStart && !s.active {
			s.active = true
			a.started(s, e)
		}
	case execpolicy.EventCommand, execpolicy.EventTransfer:
		a.begin(s, e)
	case execpolicy.EventResult, execpolicy.EventTransferred:
		a.finish(s, e)
	case execpolicy.EventKill:
		a.killed(s, e)
	case execpolicy.EventEnd:
		a.end(s, e)
	}
	if s.ended && len(s.underWay) == 0 {
		delete(a.sessions, e.Name)
	}
}

// follow returns the session of a record. It is nil if it is not followed any more, and
// if the record has no name: that is a spawn whose start has one.
func (a *auditor) follow(e execpolicy.Event) *session {
	if e.Name == "" {
		return nil
	}
	s := a.sessions[e.Name]
	if s != nil || e.Kind != execpolicy.EventSpawn && e.Kind != execpolicy.EventStart {
		return s
	}
	if len(a.sessions) >= MaxSessions {
		a.forgetOldest(e)
	}
	s = &session{from: e.Time, underWay: map[int]*operation{}}
	if e.Kind == execpolicy.EventStart {
		s.from = e.Time.Add(-e.Duration)
	}
	s.ctx, s.span = a.tracer.Start(a.ctx, "session", trace.WithTimestamp(s.from), trace.WithAttributes(semconv.ContainerName(text(e.Name))))
	a.sessions[e.Name] = s
	return s
}

func (a *auditor) forgetOldest(e execpolicy.Event) {
	var oldest string
	for name, s := range a.sessions {
		if o := a.sessions[oldest]; o == nil || s.from.Before(o.from) {
			oldest = name
		}
	}
	s := a.sessions[oldest]
	delete(a.sessions, oldest)
	s.abandon(e)
	if !s.ended {
		s.span.End(trace.WithTimestamp(e.Time))
		if s.active {
			a.sessionsNow.Add(s.ctx, -1)
		}
	}
}

// abandon ends the spans of what is under way.
func (s *session) abandon(e execpolicy.Event) {
	for seq, o := range s.underWay {
		o.span.SetStatus(codes.Error, "the record of its end was lost")
		o.span.End(trace.WithTimestamp(e.Time))
		delete(s.underWay, seq)
	}
}

func (a *auditor) failed(e execpolicy.Event) {
	a.startFailures.Add(a.ctx, 1)
	if e.Name != "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s := a.sessions[e.Name]; s != nil && !s.ended {
			// Nothing was started after the record of its spawn.
			s.abandon(e)
			a.end(s, execpolicy.Event{Time: e.Time, Duration: e.Time.Sub(s.from), Cause: e.Error, Gone: true})
			delete(a.sessions, e.Name)
		}
		return
	}
	_, span := a.tracer.Start(a.ctx, "session", trace.WithTimestamp(e.Time), trace.WithAttributes(semconv.ErrorTypeOther))
	span.SetStatus(codes.Error, text(e.Error))
	span.End(trace.WithTimestamp(e.Time))
}

func (a *auditor) started(s *session, e execpolicy.Event) {
	a.sessionsNow.Add(s.ctx, 1)
	a.startDuration.Record(s.ctx, e.Duration.Seconds())
}

func (a *auditor) begin(s *session, e execpolicy.Event) {
	name := cmp.Or(e.Op, "command")
	_, span := a.tracer.Start(s.ctx, name, trace.WithTimestamp(e.Time), trace.WithAttributes(attributes(e)...))
	s.underWay[e.Seq] = &operation{name, span}
}

func (a *auditor) finish(s *session, e execpolicy.Event) {
	o := s.underWay[e.Of]
	if o == nil {
		return
	}
	delete(s.underWay, e.Of)
	o.span.SetAttributes(attributes(e)...)
	of := []attribute.KeyValue{operationKey.String(o.name)}
	if kind, why := wrong(e); kind != "" {
		of = append(of, semconv.ErrorTypeKey.String(kind))
		o.span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		o.span.SetStatus(codes.Error, text(why))
	}
	o.span.End(trace.WithTimestamp(e.Time))
	a.duration.Record(s.ctx, e.Duration.Seconds(), metric.WithAttributes(of...))
	a.io.Add(s.ctx, e.In, metric.WithAttributes(operationKey.String(o.name), directionKey.String("in")))
	a.io.Add(s.ctx, e.Out, metric.WithAttributes(operationKey.String(o.name), directionKey.String("out")))
}

func (a *auditor) killed(s *session, e execpolicy.Event) {
	a.kills.Add(s.ctx, 1, metric.WithAttributes(escalationKey.String(e.Escalation.String())))
	span, latest := s.span, 0
	for seq, o := range s.underWay {
		// The steps that end a job have no records.
		if e.Escalation != execpolicy.EscalationRemoval && o.name != "job" && seq > latest {
			span, latest = o.span, seq
		}
	}
	span.AddEvent("kill", trace.WithTimestamp(e.Time), trace.WithAttributes(attributes(e)...))
}

func (a *auditor) end(s *session, e execpolicy.Event) {
	if s.ended {
		return
	}
	s.ended = true
	s.span.SetAttributes(attributes(e)...)
	switch {
	case !e.Gone:
		s.span.SetAttributes(semconv.ErrorTypeKey.String("session_left"))
		s.span.SetStatus(codes.Error, text(e.Error))
	case !s.active:
		s.span.SetAttributes(semconv.ErrorTypeOther)
		s.span.SetStatus(codes.Error, text(e.Cause))
	}
	s.span.End(trace.WithTimestamp(e.Time))
	if s.active {
		a.sessionsNow.Add(s.ctx, -1)
		a.sessionDuration.Record(s.ctx, e.Duration.Seconds(), metric.WithAttributes(goneKey.Bool(e.Gone)))
	}
}

// wrong returns the kind of what went wrong with an operation, and what is to be said of
// it. The kind is empty if nothing did.
func wrong(e execpolicy.Event) (kind, why string) {
	switch {
	case e.Outcome == execpolicy.OutcomeExited && e.ExitCode == 0 && e.Error == "":
		return "", ""
	case e.Outcome != 0:
		return e.Outcome.String(), e.Error
	case e.Error != "":
		return semconv.ErrorTypeOther.Value.AsString(), e.Error
	}
	return "", ""
}

// Instruments are what the metrics are counted with.
type instruments struct {
	sessionsNow                              metric.Int64UpDownCounter
	startDuration, sessionDuration, duration metric.Float64Histogram
	startFailures, io, kills                 metric.Int64Counter
}

func newInstruments(m metric.Meter) (i instruments, err error) {
	counter := func(name, unit, about string) metric.Int64Counter {
		c, e := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		err = errors.Join(err, e)
		return c
	}
	histogram := func(name, about string) metric.Float64Histogram {
		h, e := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about))
		err = errors.Join(err, e)
		return h
	}
	now, e := m.Int64UpDownCounter("cofferdam.sessions", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions that are there now."))
	err = errors.Join(err, e)
	i = instruments{
		sessionsNow:     now,
		startDuration:   histogram("cofferdam.session.start.duration", "From the spawn of a session to its first answer."),
		sessionDuration: histogram("cofferdam.session.duration", "How long sessions lived that have ended."),
		duration:        histogram("cofferdam.operation.duration", "How long commands, scripts and transfers took."),
		startFailures:   counter("cofferdam.session.start.failures", "{start}", "Tries to start that failed. A start that pulls its image has one."),
		io:              counter("cofferdam.operation.io", "By", "Bytes of commands, scripts and transfers."),
		kills:           counter("cofferdam.kills", "{kill}", "Steps of escalations."),
	}
	return i, err
}
