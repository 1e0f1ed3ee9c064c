package shell

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/seed-64a260eb/cofferdam/truncate"
)

// OutputOptions say what becomes of what a command prints.
type OutputOptions struct {
	// Filter is what each stream passes through. If nil, nothing is.
	Filter Filter
	// MaxBytes is how many bytes of a stream are kept, and of the text. MaxLines is how
	// many lines of the text are.
	MaxBytes, MaxLines int
	// Stdout and Stderr take the streams as they come. If nil, nothing does.
	Stdout, Stderr io.Writer
	// Full is called when both streams together have more than Limit bytes, if that is
	// positive.
	Limit int64
	Full  func()
}

// An Output takes what one command prints.
type Output struct {
	// Stdout and Stderr are what the streams are to be written to.
	Stdout, Stderr *Sink
	// Text has the first lines of both.
	Text *truncate.Transcript

	keptStdout, keptStderr *Sink // what has passed the filter
}

// NewOutput returns an output that has nothing yet.
func NewOutput(o OutputOptions) Output {
	p := Output{Text: &truncate.Transcript{MaxLines: o.MaxLines, MaxBytes: o.MaxBytes}}
	first, second := Serial(o.Stdout, o.Stderr)
	kept := new([2]Sink)
	p.keptStdout, p.keptStderr = &kept[0], &kept[1]
	p.Stdout = p.keptStdout.open(o.Filter, o.MaxBytes, p.Text.Stdout(), first)
	p.Stderr = p.keptStderr.open(o.Filter, o.MaxBytes, p.Text.Stderr(), second)
	if o.Limit > 0 {
		room := new(atomic.Int64)
		room.Store(o.Limit)
		p.Stdout.Limit(room, o.Full)
		p.Stderr.Limit(room, o.Full)
	}
	return p
}

// Came returns the number of bytes that were written.
func (p *Output) Came() int64 { return p.Stdout.Came + p.Stderr.Came }

// Waits reports whether Finish may wait.
func (p *Output) Waits() bool { return p.Stdout.Waits() || p.Stderr.Waits() }

// Finish ends the output: nothing may be written any more. It waits until the caller's
// writers have taken the rest or the deadline is closed, and returns their errors.
func (p *Output) Finish(deadline <-chan struct{}) []error {
	var errs []error
	sinks := [...]*Sink{p.Stdout, p.Stderr}
	for _, k := range sinks {
		k.Close()
	}
	for _, k := range sinks {
		if err := k.finish(deadline); err != nil {
			errs = append(errs, fmt.Errorf("writing the output: %w", err))
		}
	}
	p.Text.Close()
	return errs
}

// Drop ends the output without waiting for the caller's writers: nothing may be written
// any more.
func (p *Output) Drop() {
	over := make(chan struct{})
	close(over)
	p.Finish(over)
}

// Blocked returns why the filter has let the output not pass, or nil. It may be called
// while the output is written to.
func (p *Output) Blocked() error {
	if err := p.Stdout.Failed(); err != nil {
		return err
	}
	return p.Stderr.Failed()
}

// Kept returns what counts and keeps each stream after the filter, for [Sink.Taken] once
// the output is finished.
func (p *Output) Kept() (stdout, stderr *Sink) { return p.keptStdout, p.keptStderr }
