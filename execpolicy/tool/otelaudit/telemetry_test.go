package otelaudit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool/otelaudit"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestMain(m *testing.M) {
	fakeengine.Main()
	os.Exit(m.Run())
}

// A collector keeps the spans that have ended, and reads the metrics.
type collector struct {
	spans   *tracetest.SpanRecorder
	tracers *trace.TracerProvider
	reader  *metric.ManualReader
	*otelaudit.Telemetry
}

func collect(t *testing.T) collector {
	t.Helper()
	c := collector{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	c.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(c.spans))
	var err error
	c.Telemetry, err = otelaudit.New(c.tracers, metric.NewMeterProvider(metric.WithReader(c.reader)))
	assert.NilError(t, err)
	return c
}

// shape is the names of all spans and their attributes, and of all metrics, and the words
// that are the same with each run.
func (c collector) shape(t *testing.T) string {
	t.Helper()
	names := map[string]string{}
	for _, s := range c.spans.Started() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	var b strings.Builder
	for _, s := range c.spans.Ended() {
		fmt.Fprintf(&b, "%s in %q: %s\n", s.Name(), names[s.Parent().SpanID().String()], s.Status().Code)
		for _, a := range s.Attributes() {
			value := ""
			switch a.Key {
			case "process.command_line", "process.exit.code", "file.path", "error.type", "cofferdam.outcome",
				"cofferdam.secrets", "cofferdam.gone", "cofferdam.bytes_in", "cofferdam.bytes_out":
				value = " " + a.Value.String()
			}
			fmt.Fprintf(&b, "  %s%s\n", a.Key, value)
		}
	}
	var m metricdata.ResourceMetrics
	assert.NilError(t, c.reader.Collect(t.Context(), &m))
	for _, of := range m.ScopeMetrics {
		for _, metric := range of.Metrics {
			fmt.Fprintf(&b, "%s (%s)\n", metric.Name, metric.Unit)
		}
	}
	return b.String()
}

func (c collector) allEnded(t *testing.T) {
	t.Helper()
	assert.Equal(t, len(c.spans.Ended()), len(c.spans.Started()))
}

func TestSession(t *testing.T) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		c := collect(t)
		ctx, root := c.tracers.Tracer("test").Start(t.Context(), "agent")
		spec := p.Spec
		spec.Audit = c.Auditor(ctx)
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2hunter2"}}
		s, err := execpolicy.Start(t.Context(), p.Policy, spec)
		assert.NilError(t, err)
		_, err = s.Run(t.Context(), execpolicy.Command{Script: "echo hello hunter2hunter2"})
		assert.NilError(t, err)
		_, err = s.Run(t.Context(), execpolicy.Command{Script: "(exit 3)"})
		assert.NilError(t, err)
		assert.NilError(t, s.WriteFile(t.Context(), "/tmp/a", []byte("hi\n"), 0o600))
		assert.NilError(t, s.Close())
		root.End()
		c.allEnded(t)
		golden.Assert(t, c.shape(t), "session.txt")
	})
}

// What panics closes its session on its way, and with that ends all spans.
func TestPanic(t *testing.T) {
	places.Everywhere(t, execpolicy.Limits{CommandTimeout: 30 * time.Second}, func(t *testing.T, p places.Place) {
		c := collect(t)
		spec := p.Spec
		spec.Audit = c.Auditor(t.Context())
		func() {
			defer func() { assert.Equal(t, recover(), "oops") }()
			s, err := execpolicy.Start(t.Context(), p.Policy, spec)
			assert.NilError(t, err)
			defer s.Close()
			s.Run(t.Context(), execpolicy.Command{Script: "kill -9 $$"})
			panic("oops")
		}()
		c.allEnded(t)
		assert.Equal(t, len(c.spans.Ended()), 2)
	})
}

// The result of what was under way comes behind the end of its session.
func TestSessionLost(t *testing.T) {
	c := collect(t)
	record, now := c.Auditor(t.Context()), time.Now()
	for _, e := range []execpolicy.Event{
		{Kind: execpolicy.EventSpawn, Seq: 1}, {Kind: execpolicy.EventStart, Seq: 2},
		{Kind: execpolicy.EventCommand, Seq: 3, Script: "a\xff" + strings.Repeat("x", 2*otelaudit.MaxText)},
		{Kind: execpolicy.EventKill, Seq: 4, Escalation: execpolicy.EscalationRemoval},
		{Kind: execpolicy.EventEnd, Seq: 5, Error: "still there"},
		{Kind: execpolicy.EventResult, Seq: 6, Of: 3, Outcome: execpolicy.OutcomeSessionLost},
		{Kind: execpolicy.EventEnd, Seq: 7, Gone: true},
	} {
		e.Name, e.Time = "cofferdam-1", now
		assert.NilError(t, record(e))
	}
	c.allEnded(t)
	session, command := c.spans.Ended()[0], c.spans.Ended()[1]
	assert.Equal(t, session.Status().Code, codes.Error)
	assert.Equal(t, session.Status().Description, "still there")
	assert.Equal(t, session.Events()[0].Name, "kill")
	assert.Equal(t, command.Status().Code, codes.Error)
	script := command.Attributes()[0].Value.AsString()
	assert.Equal(t, len(script), otelaudit.MaxText)
	assert.Assert(t, strings.HasPrefix(script, "a?x"))
}

// A connection is an event of its session, and no gap in the records.
func TestEgress(t *testing.T) {
	c := collect(t)
	record := c.Auditor(t.Context())
	for _, e := range []execpolicy.Event{
		{Kind: execpolicy.EventSpawn, Seq: 1}, {Kind: execpolicy.EventStart, Seq: 2},
		{Kind: execpolicy.EventCommand, Seq: 3},
		{Kind: execpolicy.EventEgress, Seq: 7, Target: "a.example:443", Addr: "192.0.2.1:443", In: 5},
		{Kind: execpolicy.EventEgress, Seq: 9, Target: "b.example:443", Error: "not listed"},
		{Kind: execpolicy.EventResult, Seq: 4, Of: 3, Outcome: execpolicy.OutcomeExited},
		{Kind: execpolicy.EventEnd, Seq: 5, Gone: true},
		{Kind: execpolicy.EventEgress, Seq: 10},
	} {
		e.Name, e.Time = "cofferdam-1", time.Now()
		assert.NilError(t, record(e))
	}
	c.allEnded(t)
	command, session := c.spans.Ended()[0], c.spans.Ended()[1]
	assert.Equal(t, command.Status().Code, codes.Unset)
	assert.Equal(t, len(session.Events()), 2)
	for i, want := range []string{"cofferdam.addr=192.0.2.1:443", "cofferdam.refused=not listed"} {
		var all []string
		for _, a := range session.Events()[i].Attributes {
			all = append(all, string(a.Key)+"="+a.Value.String())
		}
		assert.Assert(t, slices.Contains(all, want), "%q", all)
	}
}

// A gap in the records ends what they may have ended.
func TestRecordsLost(t *testing.T) {
	c := collect(t)
	record := c.Auditor(t.Context())
	for _, e := range []execpolicy.Event{
		{Kind: execpolicy.EventStart, Seq: 1}, {Kind: execpolicy.EventTransfer, Op: "read", Seq: 2},
		{Kind: execpolicy.EventCommand, Seq: 4}, {Kind: execpolicy.EventResult, Of: 4, Seq: 5, Outcome: execpolicy.OutcomeExited},
	} {
		e.Name, e.Time = "cofferdam-1", time.Now()
		assert.NilError(t, record(e))
	}
	names := map[string]bool{}
	for _, s := range c.spans.Ended() {
		names[s.Name()] = true
	}
	assert.DeepEqual(t, slices.Sorted(maps.Keys(names)), []string{"command", "read"})
}

// Sessions whose end was lost are not kept for ever.
func TestManySessions(t *testing.T) {
	c := collect(t)
	record := c.Auditor(t.Context())
	for i := range otelaudit.MaxSessions + 3 {
		record(execpolicy.Event{Kind: execpolicy.EventSpawn, Seq: 1, Name: fmt.Sprint(i), Time: time.Unix(int64(i), 0)})
	}
	assert.Equal(t, len(c.spans.Ended()), 3)
}

// Sessions have their records at the same time, and one more of them ends the oldest.
func TestManySessionsAtTheSameTime(t *testing.T) {
	c := collect(t)
	record := c.Auditor(t.Context())
	var all sync.WaitGroup
	for i := range otelaudit.MaxSessions + 100 {
		all.Go(func() {
			kind := execpolicy.EventStart
			for seq := range 10 {
				record(execpolicy.Event{Kind: kind, Seq: seq + 1, Name: fmt.Sprint(i), Time: time.Unix(int64(-i), 0)})
				kind = execpolicy.EventCommand
			}
		})
	}
	all.Wait()
	assert.Equal(t, c.sessions(t), int64(otelaudit.MaxSessions))
}

// sessions returns how many sessions the metrics say that there are.
func (c collector) sessions(t *testing.T) int64 {
	t.Helper()
	var m metricdata.ResourceMetrics
	assert.NilError(t, c.reader.Collect(t.Context(), &m))
	for _, metric := range m.ScopeMetrics[0].Metrics {
		if metric.Name == "cofferdam.sessions" {
			return metric.Data.(metricdata.Sum[int64]).DataPoints[0].Value
		}
	}
	return 0
}

// A step that ends a command is not taken for that of a job, which may have begun later.
func TestKillBesideJob(t *testing.T) {
	c := collect(t)
	record := c.Auditor(t.Context())
	for i, e := range []execpolicy.Event{
		{Kind: execpolicy.EventStart}, {Kind: execpolicy.EventCommand}, {Kind: execpolicy.EventCommand, Op: "job"},
		{Kind: execpolicy.EventKill, Escalation: execpolicy.EscalationTerm}, {Kind: execpolicy.EventResult, Of: 3},
		{Kind: execpolicy.EventResult, Of: 2},
	} {
		e.Seq, e.Name, e.Time = i+1, "cofferdam-1", time.Now()
		assert.NilError(t, record(e))
	}
	assert.Equal(t, c.spans.Ended()[0].Name(), "job")
	assert.Equal(t, len(c.spans.Ended()[0].Events()), 0)
	assert.Equal(t, len(c.spans.Ended()[1].Events()), 1)
}

func TestStartFails(t *testing.T) {
	c := collect(t)
	assert.NilError(t, c.Auditor(t.Context())(execpolicy.Event{Kind: execpolicy.EventFailed, Error: "no engine", Time: time.Now()}))
	assert.Equal(t, c.spans.Ended()[0].Status().Description, "no engine")
}

// A start may fail after the record of its spawn, with nothing that could end.
func TestStartFailsAfterItsRecord(t *testing.T) {
	c := collect(t)
	spec := execpolicy.Spec{Audit: c.Auditor(t.Context())}
	_, err := execpolicy.Start(t.Context(), recorded{}, spec)
	assert.ErrorIs(t, err, errQuota)
	c.allEnded(t)
	session := c.spans.Ended()[0]
	assert.Equal(t, len(c.spans.Ended()), 1)
	assert.Equal(t, session.Status().Code, codes.Error)
	assert.Equal(t, session.Status().Description, "no room")
}

var errQuota = errors.New("no room")

// A recorded policy records its spawns, and starts nothing.
type recorded struct{}

func (recorded) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	if err := spec.RecordSpawn(ctx, "pod-1", []string{"run"}); err != nil {
		return nil, err
	}
	return nil, errQuota
}

// sandbox is the policy of the example. TestExample runs it under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

// A program passes its providers, and the context whose span the sessions are in.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewSpanRecorder()
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	telemetry, err := otelaudit.New(tracers, metric.NewMeterProvider())
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := execpolicy.Spec{Audit: telemetry.Auditor(ctx)}
	_, err = execpolicy.Run(ctx, sandbox, spec, execpolicy.Command{Script: "exit 3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range spans.Ended() {
		fmt.Println(s.Name(), s.Status().Code)
	}
}

func TestExample(t *testing.T) {
	places.Examples(t, &sandbox, nil, []places.Example{{Name: "Example", Run: Example, Want: "command Error\nsession Unset\n"}})
}
