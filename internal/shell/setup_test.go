package shell

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A peer answers in place of process 1, without running anything.
type peer struct {
	stdin          io.ReadCloser
	stdout, stderr io.WriteCloser
	// look is called for each look, in place of an answer.
	look func(*peer)
	// heard takes what confirms the end of a worker, unless it is nil.
	heard chan string
	// unit is called in place of an answer to a unit, unless it is nil.
	unit         func(*peer)
	ticks, reaps atomic.Int64

	prefix, tag string
	lead        string
	begin       bool // the next unit begins with a mark
	worker      int
}

var (
	prefixes = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	leads    = regexp.MustCompile(`^cf_lead=([A-Z2-7]{4})\n$`)
	names    = regexp.MustCompile(`^n([A-Z2-7]{13})\n$`)
)

// serve answers until stdin ends.
func (p *peer) serve() {
	defer p.stdout.Close()
	defer p.stderr.Close()
	p.worker = 1
	operations := bufio.NewReader(p.stdin)
	for {
		op, err := operations.ReadString('\n')
		if err != nil {
			return
		}
		if lead := leads.FindStringSubmatch(op); lead != nil && p.lead == "" {
			p.lead = lead[1]
		}
		if p.lead != "" {
			op = strings.TrimPrefix(op, p.lead)
		}
		name := names.FindStringSubmatch(op)
		switch {
		case p.tag == "" && name == nil:
			if p.prefix == "" {
				p.prefix = prefixes.FindString(op)
			}
		case name != nil:
			p.tag = name[1]
		case op == shellwire.BeginMark:
			p.begin = true
		case op == shellwire.StartWorker:
			p.worker++
		case op == shellwire.Look:
			p.look(p)
		case op[0] == 'l' && p.heard != nil:
			p.heard <- op
		case op == shellwire.Tick:
			p.ticks.Add(1)
		case op == shellwire.Reap:
			p.reaps.Add(1)
		case (op[0] == 'e' || op[0] == 'g') && p.unit != nil:
			p.unit(p)
		case op[0] == 'e' || op[0] == 'g':
			p.answer("7")
		}
	}
}

// answer marks the end of a unit.
func (p *peer) answer(dir string) {
	if p.begin {
		fmt.Fprintf(p.stdout, "%sb%s\n", p.prefix, p.tag)
		fmt.Fprintf(p.stderr, "%sb%s\n", p.prefix, p.tag)
		p.begin = false
	}
	fmt.Fprintf(p.stdout, "%se%s 0 %s%s\n", p.prefix, p.tag, dir, p.prefix)
	fmt.Fprintf(p.stderr, "%se%s\n", p.prefix, p.tag)
}

// newPeer returns a peer, and the options of a Conn to it, which has ended when done is
// closed.
func newPeer(done chan struct{}) (Options, *peer) {
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	errOut, stderr := io.Pipe()
	return Options{
		Name: "peer", Stdin: in, Stdout: out, Stderr: errOut, Done: done,
		Setup:    shellwire.Setup{Namespace: true},
		Abrupt:   func(error) bool { return false },
		Redact:   func(text string) string { return text },
		Stepped:  func(Step, error) {},
		Ended:    func(error) {},
		Finished: func() {},
	}, &peer{stdin: stdin, stdout: stdout, stderr: stderr}
}

// connect returns a Conn to a peer that answers looks so.
func connect(t *testing.T, look func(*peer)) *Conn {
	c, _ := connectWithin(time.Minute, look)
	t.Cleanup(func() { end(t, c) })
	return c
}

// connectWithin is connect with a timeout, for a test that ends the Conn itself. steps
// are those of escalations.
func connectWithin(timeout time.Duration, look func(*peer)) (c *Conn, steps *[]Step) {
	done := make(chan struct{})
	o, p := newPeer(done)
	steps = new([]Step)
	o.ExitCode, o.TerminationTimeout = func() int { return 5 }, timeout
	o.Stepped = func(s Step, _ error) { *steps = append(*steps, s) }
	p.look = look
	return startPeer(o, p, done), steps
}

// startPeer returns a Conn to a peer that has the supervisor, and closes done at the
// peer's end.
func startPeer(o Options, p *peer, done chan struct{}) *Conn {
	c := New(o)
	go func() {
		defer close(done)
		p.serve()
	}()
	c.Start()
	c.Supervise()
	return c
}

func end(t *testing.T, c *Conn) {
	assert.Check(t, c.End(time.Minute))
	<-c.CleanedUp()
}

// A worker that ends right behind its setup, or takes the process with it, is not one
// that is ready.
func TestWorkerThatEndsBehindItsSetup(t *testing.T) {
	enginetest.Beside(t)
	for _, test := range []struct {
		name string
		look func(*peer)
		err  error
		oom  int
	}{
		{"it lives", func(p *peer) { p.answer("3 1 - -") }, nil, 3},
		{"it died", func(p *peer) {
			fmt.Fprintf(p.stdout, "%sx%d 137\n", p.prefix, p.worker)
			fmt.Fprintf(p.stderr, "%sx%d\n", p.prefix, p.worker)
		}, ErrNotRun, -1},
		{"the process ended", func(p *peer) { p.stdin.Close(); p.stdout.Close(); p.stderr.Close() }, ErrEarly, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := connect(t, test.look)
			_, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
			assert.NilError(t, err)
			c.replace()
			r, err := c.setUp(t.Context(), time.Time{}, time.Time{}, Place{})
			assert.ErrorIs(t, err, test.err)
			assert.Equal(t, r.OOMs, test.oom)
		})
	}
}

// The words of a job's keeper have no part of a value, wherever they are cut.
func TestWordsOfAKeeperAreRedacted(t *testing.T) {
	enginetest.Beside(t)
	const value = "hunter2-hunter3-hunter4"
	var redactor secret.Redactor
	redactor.Set(redactor.Values().With(secret.Value{Text: value, Placeholder: "***"}))
	c := connect(t, nil)
	stdin, in := io.Pipe()
	stdin.Close()
	said := "sh: " + strings.Repeat(value+" ", WordsKept)
	j, err := c.StartJob(t.Context(), JobOptions{
		Stdin: in, Stdout: io.NopCloser(strings.NewReader("")), Stderr: io.NopCloser(strings.NewReader(said)),
		Filter: redactor.Writer, Out: &Sink{}, ErrOut: &Sink{},
	})
	j.Drained()
	assert.ErrorIs(t, err, ErrUnheard)
	assert.ErrorContains(t, err, ": sh: ")
	assert.Assert(t, !strings.Contains(err.Error(), "hunter"), "%v", err)
}
