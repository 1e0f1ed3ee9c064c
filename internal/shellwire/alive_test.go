//go:build linux

package shellwire

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// silence is the status with which process 1 ends when it has not heard its host.
const silence = 93

// alone runs a test with each shell as process 1, and as the worker too; with -short with
// one of them.
func alone(t *testing.T, f func(t *testing.T, shell string)) { among(t, installed(t), f) }

// timed is alone with the shells that can be a process 1 with a keep-alive.
func timed(t *testing.T, f func(t *testing.T, shell string)) { among(t, timers(t), f) }

func among(t *testing.T, shells []string, f func(t *testing.T, shell string)) {
	for _, shell := range enginetest.Chosen(t, shells) {
		t.Run(filepath.Base(shell), func(t *testing.T) { f(t, shell) })
	}
}

// timers returns the shells that can wait for a time.
func timers(t *testing.T) []string {
	return slices.DeleteFunc(installed(t), func(shell string) bool { return filepath.Base(shell) == "dash" })
}

// beats sends a beat again and again until the function that it returns is called.
func (w *talk) beats() (stop func()) {
	over := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-w.ended:
				return
			case <-time.After(100 * time.Millisecond):
				io.WriteString(w.in, Beat)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		beating.Wait()
	})
}

// endsSilent waits until process 1 has ended because it has not heard its host.
func (w *talk) endsSilent() {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		w.t.Fatal("process 1 waits on")
	}
	if w.status == 128+14 && strings.HasSuffix(w.t.Name(), "/alarm") {
		return // bash handles SIGALRM, by ending
	}
	assert.Equal(w.t, w.status, silence)
}

// tampers are what code inside may do to process 1's clock, for as long as it lives.
var tampers = map[string]string{
	"nothing":       "",
	"stop all":      "while :; do kill -STOP -1; done",
	"kill all":      "while :; do kill -KILL -1; done",
	"wake":          "while :; do kill -CHLD 1; done",
	"alarm":         "while :; do kill -ALRM 1; done",
	"continue":      "while :; do kill -CONT -1; done",
	"stop others":   "while :; do for p in /proc/[0-9]*; do case ${p#/proc/} in 1|$$) ;; *) kill -STOP ${p#/proc/} ;; esac; done; done",
	"wake and stop": "while :; do kill -CHLD 1; for p in /proc/[0-9]*; do case ${p#/proc/} in 1|$$) ;; *) kill -STOP ${p#/proc/} ;; esac; done; done",
	"make orphans":  "while :; do (sleep 0.01 &) ; done",
}

// begin starts what tampers beside the worker, as a process that has the number that $$
// tells.
func (w *talk) begin(tamper string) {
	if tamper == "" {
		return
	}
	begun := filepath.Join(w.dir, "begun")
	w.send(string(Next("T")))
	w.operate(Unit{Script: "sh -c " + shellquote.Quote(": >"+begun+"; exec 2>/dev/null; "+tamper) + " &"}.Ops())
	wait(w.t, "it has begun", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
}

// A process 1 that does not hear its host ends, whatever runs inside, and whatever it
// waits for.
func TestSilenceEndsIt(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		for name, tamper := range tampers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// Several of these take the processors together.
				w := startAlive(t, 5*time.Second, "", os.Geteuid(), shell, shell, true)
				stop := w.beats()
				_, _, out := w.run("echo begun")
				assert.Equal(t, out[0], "begun\n")
				w.begin(tamper)
				begin := time.Now()
				stop()
				w.endsSilent()
				t.Logf("it has ended after %v", time.Since(begin))
			})
		}
		for name, op := range map[string]string{
			"upload":             string(Upload("i", 100)) + "some",
			"put":                strings.TrimSuffix(string(Put("/nowhere/file", "END", []byte("some"), 0o600)), "END\n"),
			"a part of a put":    "p9 0 END '/nowhere/file'\nsome",
			"a part of a line":   "e'echo",
			"stopped for a unit": "b\n+" + strings.Repeat("x", 600) + "\n",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startAlive(t, 2*time.Second, "", os.Geteuid(), shell, shell, true)
				stop := w.beats()
				w.run(":")
				stop()
				w.send(op)
				w.endsSilent()
			})
		}
	})
}

// The time that a process 1 gives to what goes in is over when that is there.
func TestSilenceAfterAnUpload(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		w := startAlive(t, 2*time.Second, "", os.Geteuid(), shell, shell, true)
		stop := w.beats()
		w.run(":")
		// It would have as many seconds for that as patience has.
		data := strings.Repeat("x", int(4*patience/time.Second)*transferBlock)
		w.send(string(Upload("i", int64(len(data)))) + data + Thaw)
		status, _, _ := w.run(":")
		assert.Equal(t, status, 0)
		stop()
		w.endsSilent()
	})
}

// As long as the host is heard, the session goes on, whatever tampers with the clock, and
// beats are answered where nothing ends what answers.
func TestBeatsKeepItAlive(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		for name, tamper := range tampers {
			if name == "alarm" && filepath.Base(shell) == "bash" {
				continue // it handles SIGALRM, by ending
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const keepAlive = 5 * time.Second
				w := startAlive(t, keepAlive, "", os.Geteuid(), shell, shell, true)
				defer w.beats()()
				_, _, out := w.run("x=5; echo $x")
				assert.Equal(t, out[0], "5\n")
				w.begin(tamper)
				begin, answers := time.Now(), 0
				enough, late := time.After(2*keepAlive), time.After(2*keepAlive+patience)
				least := 5
				if strings.HasPrefix(name, "kill") || strings.Contains(name, "stop") {
					least = 0 // what answers is killed or stopped too
				}
				for time.Since(begin) < 2*keepAlive || answers < least {
					select {
					case ev, ok := <-w.events[1]:
						if !ok {
							<-w.ended
							t.Fatalf("it has ended with %d", w.status)
						}
						if strings.HasPrefix(ev, fmt.Sprintf("%d ", Beating)) {
							answers++
						}
					case <-w.events[0]:
					case <-enough:
					case <-late:
						t.Fatalf("%d beats are answered", answers)
					}
				}
				if tamper == "" {
					_, _, out = w.run("echo $x")
					assert.Equal(t, out[0], "5\n")
				}
			})
		}
	})
}

// What sends process 1 a signal without end does not hide the end of stdin from it.
func TestEndIsSeenUnderSignals(t *testing.T) {
	// Four processes want all of the processor.
	enginetest.Alone(t)
	for _, shell := range timers(t) {
		t.Run(filepath.Base(shell), func(t *testing.T) { endIsSeen(t, shell) })
	}
}

func endIsSeen(t *testing.T, shell string) {
	w := startAlive(t, 1000*time.Second, "", os.Geteuid(), shell, shell, true)
	stop := w.beats()
	w.run(":")
	for range 4 {
		w.begin("while :; do kill -CHLD 1; done")
		assert.NilError(t, os.Remove(filepath.Join(w.dir, "begun")))
	}
	stop()
	w.in.Close()
	select {
	case <-w.ended:
		assert.Equal(t, w.status, 0)
	case <-time.After(patience):
		t.Fatal("process 1 outlives the end of its stdin")
	}
}

// Children that end by themselves, however many, may be stopped, but not until the next
// operation: here none comes.
func TestOrphansAreLetGo(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		w := startAlive(t, 1000*time.Second, "", os.Geteuid(), shell, shell, true)
		through := filepath.Join(w.dir, "through")
		w.begin("i=0; while [ $i -lt 1500 ]; do (sleep 0.01 &); i=$((i+1)); done; : >" + through)
		wait(t, "all have ended", func() bool {
			_, err := os.Stat(through)
			return err == nil
		})
	})
}

// Dash, which can't wait for a time, makes way for bash, or says what is missing.
func TestKeepAliveBesideDash(t *testing.T) {
	shells := installed(t)
	dash, bash := filepath.Join(filepath.Dir(shells[0]), "dash"), filepath.Join(filepath.Dir(shells[0]), "bash")
	if !slices.Contains(shells, dash) || !slices.Contains(shells, bash) {
		leftout.Skip(t, "dash and bash are needed")
	}
	w := startAlive(t, 2*time.Second, "", os.Geteuid(), dash, dash, true)
	stop := w.beats()
	_, _, out := w.run(`echo "${BASH_VERSION-none}"`)
	assert.Equal(t, out[0], "none\n", "the worker is dash")
	stop()
	w.endsSilent()

	first, _, _ := strings.Cut(string(Setup{Prefix: testPrefix, Dir: "/none", Namespace: true, KeepAlive: time.Second}.Text()), "\n")
	cmd := exec.Command(dash, Boot()[1:]...)
	cmd.Env, cmd.Stdin = []string{"PATH=/none"}, strings.NewReader(first+"\n")
	said, err := cmd.CombinedOutput()
	assert.Equal(t, cmd.ProcessState.ExitCode(), 97, "%v", err)
	assert.Equal(t, string(said), "a keep-alive needs bash, or an sh whose read has the option -t\n")
}

// What goes on beside a reader, although everything was stopped, and has process 1 wake
// without end, keeps it neither from the clock nor from a reader that is stopped.
func TestReaderBesideSignals(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
				// The reader has to be found before the time is over.
				w := startAlive(t, 10*time.Second, "", os.Geteuid(), shell, shell, true)
				stop := w.beats()
				w.run(":")
				stop()
				w.send(string(Upload("i", 100)) + "some")
				// What answers a beat is a child of process 1, too.
				reader, err := os.FindProcess(w.reading(nil))
				assert.NilError(t, err)
				for ended, late := false, time.After(patience); !ended; {
					w.process.Signal(syscall.SIGCHLD)
					if stopped {
						reader.Signal(syscall.SIGSTOP)
					}
					select {
					case <-w.ended:
						ended = true
					case <-late:
						w.t.Fatal("process 1 waits on")
					case <-time.After(100 * time.Microsecond):
					}
				}
				assert.Assert(t, w.status == silence || stopped && w.status == 97, "it has ended with %d", w.status)
			})
		}
	})
}

// Files go in beside the clock, whole.
func TestUploadWithKeepAlive(t *testing.T) {
	timed(t, func(t *testing.T, shell string) {
		w := startAlive(t, patience, "", os.Geteuid(), shell, shell, true)
		w.run("sleep 1000 &")
		for n := range 30 {
			data := strings.Repeat("0123456789abcdef", n<<9)
			w.send(string(Upload("i", int64(len(data)))) + data + Thaw)
			var out [2]string
			// A busy machine may take so long to write the unit that its worker is given up.
			for died := true; died; {
				_, died, out = w.run("cat " + shellquote.Quote(w.dir+"/i"))
			}
			assert.Assert(t, out[0] == data, "%d of %d bytes", len(out[0]), len(data))
			file := filepath.Join(w.dir, "file")
			// A signal between two operations leaves nothing of the first.
			w.run("kill -CHLD 1; sleep 0.01; kill -CHLD 1")
			status, _, _ := w.help(append(Put(Word(file+".new"), "END123", []byte("some"), 0o644),
				Help("put "+Word(file)+" "+Word(file+".new")+" 644")...))
			assert.Equal(t, status, 0)
		}
	})
}

// Only what process 1 says on stderr, and nothing else, is the answer to a beat.
func TestBeating(t *testing.T) {
	for stream, marks := range map[string]int{"i\n": 1, "i \n": 0, "i2\n": 0, "i": 0} {
		for _, stdout := range []bool{true, false} {
			got := 0
			p := Parser{Prefix: testPrefix, Stdout: stdout, Output: func([]byte) {}, Mark: func(m Mark) {
				assert.Equal(t, m.Kind, Beating)
				got++
			}}
			p.Parse([]byte("a" + testPrefix + stream + "b"))
			want := marks
			if stdout {
				want = 0
			}
			assert.Equal(t, got, want, "%q", stream)
		}
	}
}
