package execpolicy_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// measured runs a command that is measured.
func (s session) measured(c execpolicy.Command) *execpolicy.Result {
	s.t.Helper()
	c.Usage = true
	r := s.run(c)
	assert.Assert(s.t, r.Usage != nil)
	return r
}

// spin is a program that takes 300 ms of processor time by its own count, and prints that
// in hundredths of a second.
const spin = `until read -r stat </proc/self/stat; set -- ${stat##*) }; [ $((${12} + ${13})) -ge 30 ]; do :; done
echo $((${12} + ${13}))`

func TestUsage(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		s := open(t, p.policy(), p.spec())
		assert.Assert(t, s.script("true").Usage == nil)

		begin := time.Now()
		r := s.measured(execpolicy.Command{Argv: []string{"sh", "-c", spin}})
		most := time.Since(begin) * time.Duration(runtime.NumCPU())
		ticks, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
		assert.NilError(t, err)
		least := time.Duration(ticks) * 10 * time.Millisecond
		assert.Assert(t, least <= r.Usage.CPU && r.Usage.CPU <= most, "%v to %v: %v", least, most, r.Usage.CPU)
		assert.Equal(t, r.OOMAfter, 0)

		// Who waits takes none.
		r = s.measured(execpolicy.Command{Script: "sleep 1"})
		assert.Assert(t, 0 < r.Usage.CPU && r.Usage.CPU < 500*time.Millisecond, "%v", r.Usage.CPU)

		const size = 64 << 20
		r = s.measured(execpolicy.Command{Script: "dd if=/dev/zero of=/dev/null bs=64M count=1", Stdin: strings.NewReader("in")})
		peak := r.Usage.PeakAfter
		assert.Assert(t, 0 < r.Usage.PeakBefore && r.Usage.PeakBefore < size, "%+v", r.Usage)
		assert.Assert(t, size <= peak && peak <= 512<<20, "%+v", r.Usage)
		// It is the container's for ever.
		r = s.measured(execpolicy.Command{Script: "true"})
		assert.Assert(t, r.Usage.PeakBefore == peak && r.Usage.PeakAfter == peak, "%+v", r.Usage)

		// Also if the shell ends.
		for _, script := range []string{"exit 3", "exit 0", "kill -9 $$", "kill -9 $PPID $$", "(exit 3)", "if"} {
			r = s.measured(execpolicy.Command{Script: script})
			assert.Assert(t, r.Usage.CPU > 0 && r.Usage.PeakAfter >= peak, "%s: %+v", script, r.Usage)
		}

		// A job of an earlier command counts.
		s.ok("while :; do :; done & job=$!")
		wait(t, func() bool {
			return s.measured(execpolicy.Command{Script: "sleep 0.2"}).Usage.CPU > 50*time.Millisecond
		}, "the job does not count")
		s.ok("kill $job")
	})
}

// What was ended was measured too.
func TestUsageOfWhatIsEnded(t *testing.T) {
	const loop = "while :; do :; done"
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for _, c := range []struct {
			run  func() (*execpolicy.Result, error)
			want execpolicy.Outcome
		}{
			{s.command(execpolicy.Command{Argv: []string{"sh", "-c", loop}, Timeout: short, Usage: true}),
				execpolicy.OutcomeTimedOut},
			{s.command(execpolicy.Command{Script: loop, Timeout: short, Usage: true}), execpolicy.OutcomeTimedOut},
			{s.canceled(errors.New("enough"), execpolicy.Command{Script: "echo begun; " + loop, Usage: true}),
				execpolicy.OutcomeCanceled},
			{s.command(execpolicy.Command{Script: "yes", OutputLimit: 1000, Usage: true}),
				execpolicy.OutcomeOutputLimit},
		} {
			r := s.until(inside, nil, c.run)
			assert.Equal(t, r.Outcome, c.want)
			assert.Assert(t, r.Usage.CPU > 0 && r.Usage.PeakBefore > 0 && r.Usage.PeakAfter > 0, "%v: %+v", c.want, r.Usage)
		}
	})
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.MemoryBytes = 64 << 20
		spec, l := p.audited()
		s := open(t, policy, spec)
		s.ok("cp $(command -v busybox) /tmp")
		r := s.measured(execpolicy.Command{Script: "exec 2>/dev/null; /tmp/busybox dd if=/dev/zero of=/dev/null bs=150M count=1"})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeOOMKilled)
		assert.Assert(t, 60<<20 < r.Usage.PeakAfter && r.Usage.PeakAfter <= 64<<20, "%+v", r.Usage)
		assert.DeepEqual(t, l.all()[5].Usage, r.Usage)
		assert.Assert(t, l.all()[5].Usage != r.Usage)
	})
}

// What can't be known is told as that.
func TestUsageUnknown(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		c := s.start(t.Context(), execpolicy.Command{Script: "echo begun; sleep 4721", Usage: true})
		p.cli(t, "kill", s.Name())
		<-c.done
		assert.Equal(t, c.result.Outcome, execpolicy.OutcomeSessionLost)
		assert.Equal(t, *c.result.Usage, unknown)

		spec := p.spec()
		spec.Approve = func(context.Context, execpolicy.Request) error { return errors.New("no") }
		s = open(t, p.policy(), spec)
		r := s.run(execpolicy.Command{Script: "true", Usage: true})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
		assert.Assert(t, r.Usage == nil)

		// The processes of this machine are not the container's.
		policy := p.policy()
		policy.ExtraRunArgs, policy.AllowUnsafeArgs = []string{"--pid=host"}, []string{"pid"}
		r = open(t, policy, p.spec()).measured(execpolicy.Command{Script: "true"})
		assert.Equal(t, *r.Usage, unknown)
	})
	t.Run("rootless", func(t *testing.T) {
		e := enginetest.Rootless(t)
		policy := execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image, Limits: hostLimits, User: "0:0",
			AllowMissingLimits: true}
		s := open(t, policy, execpolicy.Spec{Labels: e.Labels})
		r := s.measured(execpolicy.Command{Script: "[ -d /sys/fs/cgroup/memory ]"})
		if r.ExitCode == 0 {
			// On version 1 of cgroups what a container sees is another's.
			assert.Equal(t, *r.Usage, unknown)
		}
	})
	t.Run("host", func(t *testing.T) {
		enginetest.Check(t)
		s := open(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{})
		for _, script := range []string{"true", "false", "exit 3"} {
			r := s.measured(execpolicy.Command{Script: script})
			assert.Equal(t, *r.Usage, unknown)
		}
	})
}
