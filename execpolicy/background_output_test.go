//go:build linux

package execpolicy_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A job is a background job of a session, which this test makes go on and sees end
// without a command of the session's.
type job struct {
	session
	dir string  // of the host and of the session
	tap *tapped // what the host has read
}

func newJob(t *testing.T, p place, policy execpolicy.Policy) job {
	t.Helper()
	spec := p.spec()
	spec.Workspace = newWorkspace(t, "workspace")
	tap := &tapped{Policy: policy}
	return job{open(t, tap, spec), spec.Workspace, tap}
}

// waits starts the job, which waits.
func (j job) waits(script string) {
	j.t.Helper()
	os.Remove(filepath.Join(j.dir, "go"))
	j.ok("rm -f ended; (until [ -e go ]; do sleep 0.01; done; " + script + "; >ended) & :")
}

func (j job) goes() {
	j.t.Helper()
	assert.NilError(j.t, os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o666))
}

func (j job) ended() bool {
	_, err := os.Stat(filepath.Join(j.dir, "ended"))
	return err == nil
}

func printed(r *execpolicy.Result) int64 { return r.StdoutInfo.Bytes + r.StderrInfo.Bytes }

// What comes between two commands is counted to the byte, however much it is, and nothing
// of it is in the second one's output.
func TestLateOutputIsCountedToTheByte(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.policy())
		for _, size := range [][2]int{{5, 0}, {0, 7}, {100_003, 1}, {1_000_003, 70_001}} {
			j.waits(fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2", size[0], size[1]))
			before, total := j.tap.seen.Load(), int64(size[0]+size[1])
			j.goes()
			wait(t, func() bool { return j.tap.seen.Load() == before+total }, "not all of it comes")
			r := j.script("echo out; echo err >&2")
			assert.Equal(t, r.BackgroundBytes, total)
			assert.Equal(t, string(r.Stdout), "out\n")
			assert.Equal(t, string(r.Stderr), "err\n")
			assert.Equal(t, j.script(":").BackgroundBytes, int64(0))
		}
	})
}

// What comes while a command runs is that command's, and what is left of it when that
// ends is not lost.
func TestLateOutputBelongsToTheCommandThatRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.policy())
		j.waits("echo LATE; echo LATE >&2")
		r := j.script(">go; wait; echo end")
		assert.Equal(t, string(r.Stdout), "LATE\nend\n")
		assert.Equal(t, string(r.Stderr), "LATE\n")
		assert.Equal(t, r.BackgroundBytes, int64(0))
		assert.Equal(t, j.script(":").BackgroundBytes, int64(0))
	})
}

// Every byte is in one command's output or in one count, also while the library itself
// talks to the shell: behind a command that failed, one that was ended, and one that cost
// the shell.
func TestLateOutputIsNeverLost(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.policy())
		for name, c := range map[string]execpolicy.Command{
			"a command that succeeds":  {Script: ":"},
			"a command that fails":     {Script: "false"},
			"a command that is ended":  {Script: "sleep 4801", Timeout: 10 * time.Millisecond},
			"a shell that has ended":   {Script: "exit 3"},
			"a directory that is none": {Script: ":", Dir: "/no/such"},
		} {
			t.Run(name, func(t *testing.T) {
				j.t = t
				const lines = 3000
				j.waits(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo LATE; echo LATE >&2; i=$((i+1)); done 2>&1", lines))
				j.goes()
				var seen int64
				count := func(c execpolicy.Command) {
					r, err := j.Run(t.Context(), c)
					if c.Dir != "" {
						assert.ErrorIs(t, err, execpolicy.ErrNoDir)
						return
					}
					assert.NilError(t, err)
					// On stderr shells say what has become of their children.
					seen += r.BackgroundBytes + r.StdoutInfo.Bytes
				}
				wait(t, func() bool {
					count(c)
					return j.ended()
				}, "the job does not end")
				// What lies between the job and the host may come later than that.
				wait(t, func() bool {
					count(execpolicy.Command{Script: ":"})
					return seen >= int64(2*lines*len("LATE\n"))
				}, "not all of it comes")
				more := seen - int64(2*lines*len("LATE\n"))
				if c.Timeout != 0 {
					// A shell may say of a child that it was terminated when the
					// command's end has been seen.
					more %= int64(len("Terminated\n"))
				}
				assert.Equal(t, more, int64(0))
			})
		}
	})
}

// A command that was given up before it began leaves the next one none of what came
// before.
func TestLateOutputBehindACommandThatNeverRan(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.attached())
		j.waits("head -c 1000 /dev/zero; until [ -e on ]; do sleep 0.01; done; head -c 30000 /dev/zero")
		before := j.tap.seen.Load()
		j.goes()
		wait(t, func() bool { return j.tap.seen.Load() == before+1000 }, "the job does not begin")
		client := p.client(t, j.Name())
		defer client.Release()
		stop(t, client)
		assert.NilError(t, os.WriteFile(filepath.Join(j.dir, "on"), nil, 0o666))
		wait(t, j.ended, "the job does not end")
		r := j.run(execpolicy.Command{Script: longScript("echo never"), Timeout: short})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Equal(t, printed(r), int64(0))
		late := r.BackgroundBytes
		resume(t, client)
		r = j.script("echo next")
		assert.Equal(t, string(r.Stdout), "next\n")
		assert.Equal(t, late+r.BackgroundBytes, int64(31000))
	})
}

// Nobody pays for a flood between commands but the pipe it stands in: the host reads
// little of it and keeps none.
func TestFloodBetweenCommandsCostsTheHostNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.policy())
		j.waits("yes & yes >&2 & sleep 4802")
		j.goes()
		wait(t, func() bool { return j.script(":").BackgroundBytes > 0 }, "there is no flood")
		for tries := 1; ; tries++ {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			time.Sleep(time.Second) // what a flood does in a time can't be seen without letting it pass
			runtime.ReadMemStats(&after)
			r := j.script("echo end")
			took := time.Since(began)
			// On each stream 192 KiB a tenth of a second, and what stands in the pipes
			// and in the engine.
			bound := 2 * (int64(took/(100*time.Millisecond)+1)*(192<<10) + 4<<20)
			assert.Assert(t, r.BackgroundBytes > 0 && r.BackgroundBytes < bound, "%d bytes in %v", r.BackgroundBytes, took)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes in %v, %d allocated", r.BackgroundBytes, took.Round(time.Millisecond), allocated)
			// The count is the whole program's: what tests before this one have left may
			// still end, but does so only once.
			if allocated < 256<<10 {
				break
			}
			assert.Assert(t, tries < 5, "%d bytes were allocated", allocated)
		}
		assert.NilError(t, j.Close())
	})
}

// So it is with a flood of marks, which are no output.
func TestFloodOfMarksBetweenCommandsIsHeldBack(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		j := newJob(t, p, p.policy())
		j.ok(readMarks + `mark=${prefix}bX; yes $mark & yes $mark >&2 &`)
		wait(t, func() bool {
			before := j.tap.seen.Load()
			j.script(":")
			return j.tap.seen.Load() >= before+32<<10
		}, "there is no flood")
		before, began := j.tap.seen.Load(), time.Now()
		time.Sleep(time.Second) // what a flood does in a time can't be seen without letting it pass
		seen, took := j.tap.seen.Load()-before, time.Since(began)
		bound := 2 * int64(took/(100*time.Millisecond)+1) * (192 << 10)
		assert.Assert(t, seen < bound, "%d bytes in %v", seen, took)
		assert.NilError(t, j.Close())
	})
}

// What prints nothing but marks passes its limit, too.
func TestMarksPassTheOutputLimit(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		s := open(t, policy, p.spec())
		defer s.Close()
		mark := s.ok(readMarks + "printf %s ${prefix}bX")
		for _, to := range []string{"", " >&2"} {
			c := execpolicy.Command{Script: "yes " + mark + to, OutputLimit: 64 << 10, Timeout: time.Minute}
			r := s.run(c)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
			assert.Assert(t, printed(r) < 1000, "%d bytes", printed(r)) // a part of the last mark
			r, err := s.result(s.job(c))
			assert.NilError(t, err)
			assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
			assert.Assert(t, printed(r) < 1000, "%d bytes", printed(r))
		}
	})
}

// tapped is a policy that counts what the host has read.
type tapped struct {
	execpolicy.Policy
	seen atomic.Int64
}

func (p *tapped) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		proc.Stdout, proc.Stderr = tap{proc.Stdout, p}, tap{proc.Stderr, p}
	}
	return proc, err
}

type tap struct {
	io.ReadCloser
	p *tapped
}

func (t tap) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	t.p.seen.Add(int64(n))
	return n, err
}
