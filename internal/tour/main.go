// Tour shows on a real engine what the library promises: it tries each thing, and prints
// what was tried, what was expected and what came. It exits with a status other than zero
// if they differ anywhere.
//
// The environment's ENGINE names the engine, such as "podman"; else it is the first of
// docker and podman that works. Where none does, root gets podman installed, unless
// NO_INSTALL is set. On an engine that sets no limits what needs them is left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// stepTimeout is far beyond what any step takes, so that one that hangs is seen as a
// failure.
const stepTimeout = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second Ctrl-C ends the program at once; its containers go with it all the same.
	context.AfterFunc(ctx, stop)
	if len(os.Args) == 4 && os.Args[1] == victimArg {
		os.Exit(victim(ctx, os.Args[2], os.Args[3]))
	}
	err := tour(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tour takes all steps in order.
func tour(ctx context.Context) error {
	h, err := findHost(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer h.close()
	began := time.Now()
	var n tally
	for _, s := range steps {
		n.add(s.take(ctx, h, os.Stdout))
		if ctx.Err() != nil || h.session == nil {
			break
		}
	}
	fmt.Printf("\n%s %s, image %s\n%v, %.1f s\n", h.engine.Kind, h.engine.ServerVersion, h.image, n,
		time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case n.failed > 0 || h.session == nil:
		return errors.New("what came is not what was expected")
	}
	return nil
}

// A step is one thing to try. In what is wanted, "*" stands for any text.
type step struct {
	tried string
	do    func(context.Context, *host) (came string, err error)
	want  string
}

// take takes the step and prints it on one line. It returns the line's mark.
func (s step) take(ctx context.Context, h *host, w io.Writer) string {
	stepCtx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("the step took more than %v", stepTimeout))
	defer cancel()
	mark := failed
	came, err := s.do(stepCtx, h)
	var reason leftOut
	switch {
	case ctx.Err() != nil:
		mark, came = omitted, "interrupted"
	case errors.As(err, &reason):
		mark, came = omitted, "left out: "+string(reason)
	case err != nil:
		came = strings.TrimSpace(fmt.Sprintf("%s error: %q", came, err))
	default:
		if matches(s.want, came) {
			mark = passed
		}
		came = shorten(came)
	}
	fmt.Fprintf(w, "%-4s  %-42s  want: %-48s  came: %s\n", mark, s.tried, s.want, came)
	return mark
}

// The marks of a line.
const (
	passed  = "ok"
	failed  = "FAIL"
	omitted = "--"
)

// A leftOut is the reason why a step can't be taken here.
type leftOut string

func (l leftOut) Error() string { return string(l) }

// A tally counts marks.
type tally struct{ passed, failed, omitted int }

func (n *tally) add(mark string) {
	switch mark {
	case passed:
		n.passed++
	case failed:
		n.failed++
	default:
		n.omitted++
	}
}

func (n tally) String() string {
	text := fmt.Sprintf("%d passed, %d failed", n.passed, n.failed)
	if n.omitted > 0 {
		text += fmt.Sprintf(", %d left out", n.omitted)
	}
	return text
}

// describe says how a command ended, in the words that steps want.
func describe(c execpolicy.Command, r *execpolicy.Result) string {
	text := r.Outcome.String()
	switch r.Outcome {
	case execpolicy.OutcomeExited:
		text = fmt.Sprintf("exit %d", r.ExitCode)
	case execpolicy.OutcomeTimedOut:
		text = lateness(r.Duration - c.Timeout)
	case execpolicy.OutcomeCanceled:
		text = fmt.Sprintf("canceled (%v)", r.Cause)
	}
	if len(r.Stdout) > 0 {
		text += fmt.Sprintf(", stdout %q", r.Stdout)
	}
	if len(r.Stderr) > 0 {
		text += fmt.Sprintf(", stderr %q", r.Stderr)
	}
	if r.StateLost {
		text += ", shell replaced"
	}
	return text
}

// terminationTimeout is that of the zero policy, within which a command returns that is
// ended. An idle machine takes a few milliseconds, or 250 more for what does not obey a
// TERM.
const terminationTimeout = 10 * time.Second

// lateness says when a command returned that was ended at its deadline.
func lateness(d time.Duration) string {
	if d > terminationTimeout {
		return fmt.Sprintf("ended late (+%d ms)", d.Milliseconds())
	}
	return fmt.Sprintf("ended at its deadline (+%d ms)", d.Milliseconds())
}
