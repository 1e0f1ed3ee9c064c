package fakeengine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Every stands for all verbs in [Faults].
const Every = "*"

// Faults are what an engine does wrong. The zero value is an engine that does nothing
// wrong. Verbs are named as they are called, such as "run", "rm" or "container inspect";
// "--version" is one, too.
type Faults struct {
	// Hang are verbs that don't answer, until they are killed or the fault is gone. A run
	// that is under way stands still: nothing passes in either direction, and it does not
	// see its container end.
	Hang []string
	// HangAfter is how many calls, of any verb, are answered before Hang counts. If zero,
	// Hang counts at once.
	HangAfter int
	// IgnoreTerm makes clients go on when they are sent SIGTERM or SIGINT.
	IgnoreTerm bool
	// ZeroOnTerm makes the client of a run exit with 0 when it is sent SIGTERM or SIGINT,
	// and leave its container behind.
	ZeroOnTerm bool

	// Fail is how a verb's calls fail. A verb's own entry counts before that of [Every].
	Fail map[string]Failure
	// Delay is how long a verb's calls take before anything else happens. The client can
	// be killed meanwhile, and nothing happens then. A verb's own entry counts before
	// that of [Every].
	Delay map[string]time.Duration

	// ImageMissing says that the engine has no image that was not pulled.
	ImageMissing bool
	// CreateDelay is how long a run's container takes to be created, whether its client
	// lives or not.
	CreateDelay time.Duration
	// DropLimits says that the engine has no limits of memory, processors and processes,
	// and drops those that it is asked for.
	DropLimits bool
	// NoExec mounts what is mounted in a container's memory so that no program can be run
	// from it, whatever is asked for.
	NoExec bool
	// Warning is what the client of a run says on its stderr before the container is
	// created.
	Warning string
	// Flood is "stdout" or "stderr" if that stream of a run is to be full of what no
	// command printed, as long as the fault lasts.
	Flood string
	// LoseConnection ends the client of a run with 125 while its container runs on, its
	// stdin still open.
	LoseConnection bool
}

// A Failure is how a call fails.
type Failure struct {
	// Exit is the client's exit code.
	Exit int
	// Stderr is what it says. NAME stands for the container or image that it is called
	// for.
	Stderr string
	// Times is how many calls of the verb fail from when the fault was set. If zero, all.
	Times int
	// Done says that what was asked for is done all the same, before the client fails.
	Done bool
}

// RemovalInProgress is what docker answers to rm while something else, such as the
// container's own --rm, is at it.
var RemovalInProgress = Failure{Exit: 1,
	Stderr: "Error response from daemon: removal of container NAME is already in progress\n"}

func (f Faults) check() error {
	verbs := slices.Concat(f.Hang, slices.Collect(maps.Keys(f.Fail)), slices.Collect(maps.Keys(f.Delay)))
	for _, verb := range verbs {
		if _, ok := verbTable[verb]; !ok && verb != Every && verb != "--version" {
			return fmt.Errorf("fakeengine: there is no verb %q", verb)
		}
	}
	if f.Flood != "" && f.Flood != "stdout" && f.Flood != "stderr" {
		return fmt.Errorf("fakeengine: there is no stream %q to flood", f.Flood)
	}
	return nil
}

// A control is what a test tells the engine's processes.
type control struct {
	Faults
	Base    int  // the number of the last call before
	Closing bool // the test has ended
}

const controlFile = "control"

func (s state) control() control {
	var c control
	if err := s.read(controlFile, &c); err != nil {
		c.Closing = true
	}
	return c
}

// hangs says whether a call of the verb hangs, of which n is the number.
func (c control) hangs(verb string, n int) bool {
	return n > c.Base+c.HangAfter && (slices.Contains(c.Hang, verb) || slices.Contains(c.Hang, Every))
}

// delay returns how long a call of the verb takes before anything else happens.
func (c control) delay(verb string) time.Duration {
	if d, ok := c.Delay[verb]; ok {
		return d
	}
	return c.Delay[Every]
}

// failure returns how a call fails, or nil; n is its number.
func (s state) failure(c control, verb string, n int) *Failure {
	for _, key := range []string{verb, Every} {
		f, ok := c.Fail[key]
		if !ok {
			continue
		}
		times := 0
		for i := c.Base + 1; i <= n; i++ {
			var words []string
			data, _ := os.ReadFile(s.call(i))
			_ = json.Unmarshal(data, &words)
			if v, _ := splitVerb(words); v == verb || key == Every {
				times++
			}
		}
		if f.Times > 0 && times > f.Times {
			return nil
		}
		return &f
	}
	return nil
}

// about fills in what the words are about.
func (f Failure) about(name string) string {
	words := strings.ReplaceAll(f.Stderr, "NAME", name)
	if words != "" && !strings.HasSuffix(words, "\n") {
		words += "\n"
	}
	return words
}
