package execpolicy_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// holderVar names the hold of a test binary that is started as a holder of sessions,
// which is going to be killed.
const holderVar = "COFFERDAM_TEST_HOLDER"

// A holding is what a holder does until it is killed.
type holding struct {
	sessions int
	// within is how long after the end of the program a process of a container may be
	// there. If zero, a test of its own says.
	within time.Duration
	policy execpolicy.DockerPolicy
	// scripts are run in turn. Each prints a word when it has got where it wants to be.
	scripts []string
	word    string
	// jobs says that the scripts are run as jobs.
	jobs bool
	// unguarded says that the guards of the containers are killed first.
	unguarded bool
}

var holdings = map[string]holding{
	"busy": {sessions: 20, within: 2 * time.Second, word: "busy", scripts: []string{
		"echo busy; while :; do :; done",
		"echo busy; yes",
		"trap '' HUP INT QUIT TERM; (setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 4741; done' &); echo " +
			"busy; sleep 4742",
		"(setsid sleep 4743 >/dev/null 2>&1 &); echo busy; sh -c 'kill -STOP $$'",
	}},
	// Nothing of process 1 can be opened or traced, and holding everything else does not
	// help.
	"hostile": {sessions: 4, within: 2 * time.Second, word: "refused", scripts: []string{`
		for way in '7>/proc/1/fd/0' '7<>/proc/1/fd/0' '7</proc/1/fd/0' '7</proc/1/environ' '7<>/proc/1/mem' '7</proc/1/root/etc/passwd'; do
			if (eval "exec $way") 2>/dev/null; then echo "opened $way"; fi
		done
		trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE
		for fd in /proc/$$/fd/* /proc/$PPID/fd/* /proc/[0-9]*/fd/*; do
			(setsid sh -c 'trap "" HUP TERM; exec 7<>"$1"; sleep 4744' sh "$fd" 2>/dev/null &)
		done
		kill -STOP 1 $PPID 2>/dev/null
		renice -n 19 -p 1 2>/dev/null >&2
		echo refused
		while :; do :; done`,
	}},
	"jobs": {sessions: 4, within: 2 * time.Second, word: "busy", jobs: true, scripts: jobScripts},
	"jobs by the client": {sessions: 4, within: 2 * time.Second, word: "busy", jobs: true, scripts: jobScripts,
		policy: execpolicy.DockerPolicy{Transport: execpolicy.TransportAttach}},
	// What a guard would remove is not left if somebody has killed that, too.
	"unguarded": {sessions: 4, within: 2 * time.Second, word: "busy", unguarded: true, scripts: []string{"echo busy; sleep 4741"}},
	// In the host's process namespace the group is all that may be signalled, and the
	// engine ends the rest.
	"shared": {sessions: 4, within: patience, word: "busy",
		policy: execpolicy.DockerPolicy{ExtraRunArgs: []string{"--pid=host"}, AllowUnsafeArgs: []string{"pid"}},
		scripts: []string{
			"echo busy; sleep 4747",
			"trap '' HUP INT QUIT TERM; (setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 4748; done' &); echo " +
				"busy; sleep 4749",
		}},
	// A root that may trace can hold the stdin of process 1 open, so that its end is
	// never seen. Then the guard process removes what is left.
	"lifeline": {sessions: 4, within: patience, word: "held",
		policy:  execpolicy.DockerPolicy{User: "0:0", AddCapabilities: []string{"SYS_PTRACE"}},
		scripts: []string{`setsid sh -c 'exec 7>/proc/1/fd/0 || exit; echo held; while :; do sleep 4745; done' & wait`},
	},
}

// on returns the holding's policy on that engine.
func (h holding) on(p place) execpolicy.DockerPolicy {
	policy := h.policy
	policy.Engine, policy.Image, policy.CPUs = p.engine, p.image, cmp.Or(policy.CPUs, "0.5")
	policy.CommandTimeout, policy.EngineSeccomp = -1, policy.EngineSeccomp || places.NoFilter(p.engine)
	policy.AllowMissingLimits = len(p.engine.MissingLimits) > 0
	return policy
}

var jobScripts = []string{
	"echo busy; cat",
	"trap '' HUP INT QUIT TERM; (setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 4751; done' &); echo busy; sleep 4752",
	"echo busy; kill -STOP $PPID; yes",
}

// hold is the holder's main function.
func hold() {
	if os.Getenv(holderVar) == hostHolder {
		holdHost()
	}
	h := holdings[os.Getenv(holderVar)]
	e, err := enginetest.FromEnviron()
	if err != nil {
		fail(err)
	}
	policy := h.on(place{engine: e.Engine, image: e.Image})
	spec := execpolicy.Spec{Labels: e.Labels}
	starts := make(chan struct{}, 4)
	var ready sync.WaitGroup
	for i := range h.sessions {
		ready.Add(1)
		go func() {
			starts <- struct{}{}
			s, err := execpolicy.Start(context.Background(), policy, spec)
			<-starts
			if err != nil {
				fail(err)
			}
			w := &wordWriter{word: h.word, found: ready.Done}
			c := execpolicy.Command{Script: h.scripts[i%len(h.scripts)], Stdout: w}
			var r *execpolicy.Result
			if h.jobs {
				j, startErr := s.StartJob(context.Background(), c)
				if startErr != nil {
					fail(startErr)
				}
				r, err = j.Wait(context.Background())
			} else {
				r, err = s.Run(context.Background(), c)
			}
			fmt.Printf("a session ended: %v %s\n", err, r.Text())
			os.Exit(1)
		}()
	}
	ready.Wait()
	fmt.Println("ready")
	select {}
}

// hostHolder is what a holder is told that has a session on the host.
const hostHolder = "host"

func holdHost() {
	s, err := execpolicy.Start(context.Background(), execpolicy.HostPolicy{}, execpolicy.Spec{})
	if err != nil {
		fail(err)
	}
	s.Run(context.Background(), execpolicy.Command{Script: `trap '' TERM; sleep 4842 & echo begun; sleep 4842`,
		Stdout: os.Stdout})
	os.Exit(1)
}

// A wordWriter calls found when the word has been written, and complains of what comes
// before it.
type wordWriter struct {
	word  string
	found func()
	seen  string
}

func (w *wordWriter) Write(p []byte) (int, error) {
	if w.found != nil {
		w.seen += string(p)
		if before, _, ok := strings.Cut(w.seen, w.word+"\n"); ok {
			if before != "" {
				fmt.Println(before)
				os.Exit(1)
			}
			w.found()
			w.found = nil
		}
	}
	return len(p), nil
}

// Whatever the containers do, none is left after the program that holds them was killed.
func TestSIGKILL(t *testing.T) {
	enginetest.Alone(t)
	onEngines(t, func(t *testing.T, p place) {
		for name, h := range holdings {
			if h.within > 0 {
				t.Run(name, func(t *testing.T) {
					if h.policy.ExtraRunArgs != nil {
						// It is refused there.
						enginetest.NeedLimits(t, p.engine, dockercli.LimitProcesses)
					}
					p.killHolder(t, name, h)
				})
			}
		}
	})
}

// killHolder kills a holder, whose containers have to have ended in time, with all that
// runs in them. How long an engine then takes to remove what has ended is its affair.
func (p place) killHolder(t *testing.T, name string, h holding) {
	label, kill := p.startHolder(t, name)
	defer kill()
	containers := func() []string {
		return strings.Fields(p.cli(t, "ps", "--all", "--filter=label="+label, "--format={{.Names}}"))
	}
	names := containers()
	assert.Equal(t, len(names), h.sessions)
	// Where the FIFOs of its jobs are, too.
	var fifos []string
	for _, name := range names {
		if _, err := os.Lstat(fifosOf(name)); err == nil {
			fifos = append(fifos, fifosOf(name))
		}
	}
	if transport, _, err := h.on(p).FindTransport(t.Context()); err == nil {
		assert.Equal(t, len(fifos) > 0, transport == execpolicy.TransportFIFO)
	}
	type process struct {
		pid   int
		start string
	}
	var first []process // of each container
	for _, number := range strings.Fields(p.cli(t,
		append([]string{"container", "inspect", "--format={{.State.Pid}}", "--"}, names...)...)) {
		pid, err := strconv.Atoi(number)
		assert.NilError(t, err)
		if p.engine.Remote {
			continue // its numbers are another machine's, and it tells the end
		}
		// An engine may run elsewhere where this is not Linux.
		if start := leftover.StartOf(pid); start != "" || runtime.GOOS == "linux" {
			assert.Assert(t, start != "", "there is no process %d", pid)
			first = append(first, process{pid, start})
		}
	}
	if h.unguarded {
		killGuards(t)
	}
	start := time.Now()
	var left []process
	took := enginetest.Awake(func() {
		kill()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			left = nil
			for _, one := range first {
				// With it all that is in its namespace has ended, also if its parent has
				// not yet waited for it.
				if stat := leftover.StatOf(one.pid); len(stat) > 21 && stat[21] == one.start && stat[2] != "Z" {
					left = append(left, one)
				}
			}
			if len(left) == 0 {
				return poll.Success()
			}
			return poll.Continue("%v", left)
		}, poll.WithTimeout(patience+h.within), poll.WithDelay(20*time.Millisecond))
	})
	assert.Check(t, took <= h.within, "the containers have ended %v after the program, allowed are %v", took, h.within)
	ended := time.Since(start)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		left := containers()
		if len(left) == 0 {
			return poll.Success()
		}
		return poll.Continue("left: %q", left)
	}, poll.WithTimeout(ample), poll.WithDelay(50*time.Millisecond))
	wait(t, func() bool {
		fifos = slices.DeleteFunc(fifos, func(dir string) bool {
			_, err := os.Lstat(dir)
			return errors.Is(err, fs.ErrNotExist)
		})
		return len(fifos) == 0
	}, "directories of FIFOs are left")
	t.Logf("%d containers had ended %v after the end of %s, and were gone after %v", h.sessions,
		ended.Round(time.Millisecond),
		filepath.Base(p.engine.Path), time.Since(start).Round(time.Millisecond))
}

// killGuards kills the guards of the containers of this program's holders.
func killGuards(t *testing.T) {
	t.Helper()
	all := leftover.Processes()
	var holders []int
	for _, p := range all {
		if p.Parent == os.Getpid() {
			holders = append(holders, p.PID)
		}
	}
	killed := 0
	for _, p := range all {
		if slices.Contains(holders, p.Parent) && slices.Contains(p.Args, "cofferdam-guard") {
			guard, err := os.FindProcess(p.PID)
			assert.NilError(t, err)
			assert.NilError(t, guard.Kill())
			killed++
		}
	}
	assert.Assert(t, killed > 0 || runtime.GOOS != "linux")
}

// startHolder starts a holder, and returns when it holds all of its sessions. The label
// is that of its containers.
func (p place) startHolder(t *testing.T, name string) (label string, kill func()) {
	t.Helper()
	e := enginetest.Engine{Engine: p.engine, Image: p.image, Labels: p.labels}
	if e.Labels == nil {
		e.Labels = map[string]string{name: strconv.FormatInt(time.Now().UnixNano(), 36)}
	}
	for key, value := range e.Labels {
		label = key + "=" + value
	}
	said, kill := enginetest.Child(t, append(e.Environ(t), holderVar+"="+name))
	assert.Equal(t, said, "ready")
	return label, kill
}
