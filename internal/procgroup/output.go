package procgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// outputGrace is the time a program has between TERM and KILL when the context of
	// [Output] ends.
	outputGrace = 500 * time.Millisecond
	// drainDelay bounds how long [Output] reads on after its program has ended, while
	// something the program left behind holds the pipes open, and then how long it waits
	// for a writer to return.
	drainDelay = 500 * time.Millisecond
	drainLooks = 10 // in that time
)

// ErrWriterStuck is wrapped by the error of [Output] when one of its writers did not
// return. That writer must not be used any more.
var ErrWriterStuck = errors.New("the writer that was given the output does not return")

// Output runs c to its end, copies what it prints to stdout and stderr, and returns how
// it ended. A writer that is nil discards; one that fails is not written to again, and
// the program is read to its end all the same. The two are written to at the same time,
// so they must differ, or be safe for that. The files c names for stdout and stderr are
// not used.
//
// When ctx ends, the group is terminated, killed 500 ms later, and the error wraps the
// context's cause. Output returns within a second of the program's end, even if something
// it left behind keeps a pipe open. A state is returned whenever the program was started
// and reaped.
func Output(ctx context.Context, c Cmd, stdout, stderr io.Writer) (*os.ProcessState, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out, err := newPump(stdout)
	if err != nil {
		return nil, err
	}
	errs, err := newPump(stderr)
	if err != nil {
		out.abandon()
		return nil, err
	}
	c.Stdout, c.Stderr = out.write, errs.write
	p, err := Start(c)
	if err != nil {
		out.abandon()
		errs.abandon()
		return nil, err
	}
	out.start()
	errs.start()

	select {
	case <-p.Done():
	case <-ctx.Done():
		err = context.Cause(ctx)
		if stopErr := p.Stop(context.WithoutCancel(ctx), outputGrace); stopErr != nil {
			err = fmt.Errorf("%w (%w)", err, stopErr)
		}
	}
	if drainErr := drain(out, errs); drainErr != nil {
		err = errors.Join(err, drainErr)
	}
	return p.State(), err
}

// A pump copies one pipe to one writer.
type pump struct {
	to          io.Writer
	read, write *os.File
	done        chan struct{}
}

func newPump(to io.Writer) (*pump, error) {
	if to == nil {
		to = io.Discard
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &pump{to: to, read: r, write: w, done: make(chan struct{})}, nil
}

// abandon closes both ends of a pump that was not started.
func (p *pump) abandon() {
	p.read.Close()
	p.write.Close()
}

// start closes this process's writing end, or the pipe would never end, and copies.
func (p *pump) start() {
	p.write.Close()
	go func() {
		defer close(p.done)
		if _, err := io.Copy(p.to, p.read); err != nil {
			// The program must not block, or die of a closed pipe, because a writer
			// failed.
			_, _ = io.Copy(io.Discard, p.read)
		}
	}()
}

// drain waits for the pipes' ends, then ends the copying itself by closing the ends it
// reads from. It waits for all pumps together: one whose writer is stuck may use up all
// looks.
func drain(pumps ...*pump) (err error) {
	looks, more := drainLooks, drainLooks
	for _, p := range pumps {
		p.ends(&looks)
	}
	for _, p := range pumps {
		p.read.Close()
	}
	for _, p := range pumps {
		if !p.ends(&more) {
			err = ErrWriterStuck
		}
	}
	return err
}

// ends reports whether the copying ends within so many looks, which it uses up. While
// this process stands still no more than two of them pass, so that the copying has its
// turn: what is in the pipe is the program's.
func (p *pump) ends(looks *int) bool {
	tick := time.NewTicker(drainDelay / drainLooks)
	defer tick.Stop()
	for ; *looks > 0; *looks-- {
		select {
		case <-p.done:
			return true
		case <-tick.C:
		}
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
