//go:build unix

package procgroup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// patience is for what takes a moment on an idle machine, and half as long as a helper
// stays.
const patience = 30 * time.Second

// The test binary is its own helper: the first word after the program's name says which.
var helpers = map[string]func(args []string) int{
	"exit": func(args []string) int {
		code, _ := strconv.Atoi(args[0])
		return code
	},
	"print": func(args []string) int {
		fmt.Fprint(os.Stdout, args[0])
		fmt.Fprint(os.Stderr, args[1])
		return 0
	},
	"flood": func([]string) int {
		block := bytes.Repeat([]byte("x"), 1<<16)
		for range 64 {
			if _, err := os.Stdout.Write(block); err != nil {
				return 1
			}
		}
		fmt.Fprint(os.Stderr, "whole")
		return 0
	},
	"sleep": func([]string) int { return sleep() },
	"ignore-term": func([]string) int {
		signal.Ignore(syscall.SIGTERM)
		return sleep()
	},
	// A grandchild that inherits stderr and stays when its parent has ended; its own
	// parent may wait for it or not.
	"leave-grandchild": func([]string) int { return spawn(false) },
	"wait-grandchild":  func([]string) int { return spawn(true) },
	"pgid": func([]string) int {
		fmt.Print(syscall.Getpgrp() == os.Getpid())
		return 0
	},
	// Which of its streams' reads and writes don't wait.
	"nonblocking": func([]string) int {
		for fd := range 3 {
			if nonblocking(uintptr(fd)) {
				fmt.Print(fd, " ")
			}
		}
		return 0
	},
	"extra": func([]string) int {
		for _, fd := range []uintptr{3, 4} {
			if _, err := io.Copy(os.Stdout, os.NewFile(fd, "")); err != nil {
				return 1
			}
		}
		return 0
	},
	"eof": func([]string) int {
		n, err := io.Copy(io.Discard, os.Stdin)
		if n != 0 || err != nil {
			return 1
		}
		return 0
	},
}

// sleep says that it is ready and then stays until it is killed, or for far longer than a
// test takes.
func sleep() int {
	fmt.Printf("ready %d\n", os.Getpid())
	<-time.After(time.Minute)
	return 0
}

// spawn starts a grandchild that shares stderr, and passes on what it says when it is
// ready.
func spawn(wait bool) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 1
	}
	child, err := os.StartProcess(self, []string{self, "ignore-term"}, &os.ProcAttr{Files: []*os.File{nil, w, os.Stderr}})
	if err != nil {
		return 1
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return 1
	}
	fmt.Print(line)
	if wait {
		_, _ = child.Wait()
	}
	return 0
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if helper, ok := helpers[os.Args[1]]; ok {
			os.Exit(helper(os.Args[2:]))
		}
	}
	os.Setenv("GODEBUG", "execwait=2")       // a start without a wait is a panic
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or every helper takes a second to end under -race
	code := m.Run()
	awaitFinalizers()
	os.Exit(code)
}

// awaitFinalizers gives a forgotten wait the time to show: execwait looks for it in a
// finalizer.
func awaitFinalizers() {
	for range 2 {
		ran := make(chan struct{})
		runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(ran) })
		runtime.GC()
		<-ran
	}
}

func helper(t testing.TB, args ...string) Cmd {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	return Cmd{Path: self, Args: append([]string{self}, args...)}
}

// startReady starts a helper that says when it is ready, and returns it with the number
// of the process that said so.
func startReady(t testing.TB, c Cmd) (*Process, int) {
	t.Helper()
	r, w, err := os.Pipe()
	assert.NilError(t, err)
	defer r.Close()
	c.Stdout = w
	p, err := Start(c)
	w.Close()
	assert.NilError(t, err)
	line, err := bufio.NewReader(r).ReadString('\n')
	assert.NilError(t, err)
	pid := readyPid(t, line)
	t.Cleanup(func() {
		_ = p.Kill()
		<-p.Done()
	})
	return p, pid
}

// readyPid returns the number of the process that has said that it is ready.
func readyPid(t testing.TB, line string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "ready ")))
	assert.NilError(t, err)
	return pid
}

func nonblocking(fd uintptr) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
	return errno != 0 || flags&syscall.O_NONBLOCK != 0
}

// gone reports whether the process pid has ended, as a zombie or altogether.
func gone(pid int) poll.Check {
	return func(poll.LogT) poll.Result {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return poll.Success()
		}
		return poll.Continue("process %d is alive", pid)
	}
}

func TestExitCode(t *testing.T) {
	for _, code := range []int{0, 1, 125, 255} {
		p, err := Start(helper(t, "exit", strconv.Itoa(code)))
		assert.NilError(t, err)
		<-p.Done()
		assert.Equal(t, p.State().ExitCode(), code)
	}
}

func TestStartFails(t *testing.T) {
	_, err := Start(Cmd{Path: filepath.Join(t.TempDir(), "nothing")})
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Output(context.Background(), Cmd{Path: filepath.Join(t.TempDir(), "nothing")}, nil, nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestStateBeforeTheEnd(t *testing.T) {
	p, _ := startReady(t, helper(t, "sleep"))
	assert.Assert(t, p.State() == nil)
	assert.NilError(t, p.Kill())
	<-p.Done()
	assert.Equal(t, p.State().ExitCode(), -1)
}

func TestOwnGroup(t *testing.T) {
	for _, session := range []bool{false, true} {
		c := helper(t, "pgid")
		c.NewSession = session
		var out bytes.Buffer
		_, err := Output(context.Background(), c, &out, nil)
		assert.NilError(t, err)
		assert.Equal(t, out.String(), "true")
	}
}

func TestNoStdinIsEmpty(t *testing.T) {
	state, err := Output(context.Background(), helper(t, "eof"), nil, nil)
	assert.NilError(t, err)
	assert.Equal(t, state.ExitCode(), 0)
}

// What is extra begins with descriptor 3.
func TestExtraBeginsWith3(t *testing.T) {
	c := helper(t, "extra")
	for _, text := range []string{"some", " text"} {
		r, w, err := os.Pipe()
		assert.NilError(t, err)
		defer r.Close()
		_, err = w.WriteString(text)
		assert.NilError(t, errors.Join(err, w.Close()))
		c.Extra = append(c.Extra, r)
	}
	var out bytes.Buffer
	state, err := Output(t.Context(), c, &out, nil)
	assert.NilError(t, err)
	assert.Equal(t, state.ExitCode(), 0)
	assert.Equal(t, out.String(), "some text")
}

// Programs are not made for streams that don't wait, nor are others that have the
// caller's own files open.
func TestStreamsWait(t *testing.T) {
	for name, pipe := range map[string]func() (r, w *os.File){
		// Go's own pipes don't wait.
		"Go's": func() (r, w *os.File) {
			r, w, err := os.Pipe()
			assert.NilError(t, err)
			return r, w
		},
		"the caller's": func() (r, w *os.File) {
			var fds [2]int
			assert.NilError(t, syscall.Pipe(fds[:]))
			return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ends [3][2]*os.File
			for i := range ends {
				ends[i][0], ends[i][1] = pipe()
				defer ends[i][0].Close()
				defer ends[i][1].Close()
			}
			c := helper(t, "nonblocking")
			c.Stdin, c.Stdout, c.Stderr = ends[0][0], ends[1][1], ends[2][1]
			p, err := Start(c)
			assert.NilError(t, err)
			<-p.Done()
			ends[1][1].Close()
			said, err := io.ReadAll(ends[1][0])
			assert.NilError(t, err)
			assert.Equal(t, string(said), "")
			if name == "the caller's" {
				for _, f := range []*os.File{ends[0][0], ends[0][1], ends[2][0], ends[2][1]} {
					raw, err := f.SyscallConn()
					assert.NilError(t, err)
					assert.NilError(t, raw.Control(func(fd uintptr) { assert.Check(t, !nonblocking(fd), f.Name()) }))
				}
			}
		})
	}
}

func TestTerminate(t *testing.T) {
	p, _ := startReady(t, helper(t, "sleep"))
	assert.NilError(t, p.Terminate())
	<-p.Done()
	assert.Equal(t, p.State().ExitCode(), -1)
}

func TestStopKillsWhatIgnoresTerm(t *testing.T) {
	p, _ := startReady(t, helper(t, "ignore-term"))
	began := time.Now()
	assert.NilError(t, p.Stop(context.Background(), 50*time.Millisecond))
	assert.Assert(t, time.Since(began) >= 50*time.Millisecond)
	assert.Equal(t, p.State().Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL)
}

func TestStopContextShortensGrace(t *testing.T) {
	p, _ := startReady(t, helper(t, "ignore-term"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	began := time.Now()
	assert.NilError(t, p.Stop(ctx, time.Minute))
	assert.Assert(t, time.Since(began) < patience)
}

func TestKillTakesTheGroup(t *testing.T) {
	p, grandchild := startReady(t, helper(t, "wait-grandchild"))
	assert.Assert(t, grandchild != p.Pid())
	assert.NilError(t, p.Kill())
	<-p.Done()
	poll.WaitOn(t, gone(grandchild), poll.WithTimeout(patience))
}

func TestStopTakesTheGroup(t *testing.T) {
	p, grandchild := startReady(t, helper(t, "wait-grandchild"))
	assert.NilError(t, p.Stop(context.Background(), time.Minute))
	poll.WaitOn(t, gone(grandchild), poll.WithTimeout(patience))
}

func TestKillRest(t *testing.T) {
	for _, killRest := range []bool{false, true} {
		c := helper(t, "leave-grandchild")
		c.KillRest = killRest
		p, grandchild := startReady(t, c)
		<-p.Done()
		if killRest {
			poll.WaitOn(t, gone(grandchild), poll.WithTimeout(patience))
			continue
		}
		// The leader is reaped: its group is not signalled any more, the grandchild by
		// its own number is.
		assert.ErrorIs(t, p.Kill(), os.ErrProcessDone)
		assert.NilError(t, syscall.Kill(grandchild, syscall.SIGKILL))
	}
}

func TestSignalsAfterTheEnd(t *testing.T) {
	p, err := Start(helper(t, "exit", "0"))
	assert.NilError(t, err)
	<-p.Done()
	assert.ErrorIs(t, p.Kill(), os.ErrProcessDone)
	assert.ErrorIs(t, p.Terminate(), os.ErrProcessDone)
	assert.NilError(t, p.Stop(context.Background(), time.Minute))
}

func TestNeverSignalsOthers(t *testing.T) {
	for _, pid := range []int{-1, 0, 1, os.Getpid(), syscall.Getpgrp()} {
		assert.ErrorContains(t, signalGroup(pid, 0), "refused")
	}
}

func TestConcurrentUse(t *testing.T) {
	for range 20 {
		p, err := Start(helper(t, "exit", "0"))
		assert.NilError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_ = p.Terminate()
				_ = p.Kill()
				_ = p.State()
				assert.Check(t, p.Stop(context.Background(), time.Second))
				<-p.Done()
			})
		}
		wg.Wait()
	}
}

func TestOutput(t *testing.T) {
	var out, errs bytes.Buffer
	state, err := Output(context.Background(), helper(t, "print", "to stdout", "to stderr"), &out, &errs)
	assert.NilError(t, err)
	assert.Equal(t, state.ExitCode(), 0)
	assert.Equal(t, out.String(), "to stdout")
	assert.Equal(t, errs.String(), "to stderr")
}

type failingWriter struct{ writes int }

func (w *failingWriter) Write([]byte) (int, error) {
	w.writes++
	return 0, errors.New("full")
}

func TestOutputReadsOnWhenAWriterFails(t *testing.T) {
	var w failingWriter
	var errs bytes.Buffer
	state, err := Output(context.Background(), helper(t, "flood"), &w, &errs)
	assert.NilError(t, err)
	assert.Equal(t, state.ExitCode(), 0)
	assert.Equal(t, errs.String(), "whole")
	assert.Equal(t, w.writes, 1)
}

func TestOutputWhileAGrandchildHoldsThePipes(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	state, err := Output(context.Background(), helper(t, "leave-grandchild"), &out, nil)
	assert.NilError(t, err)
	assert.Equal(t, state.ExitCode(), 0)
	assert.Assert(t, time.Since(began) < patience)
	assert.NilError(t, syscall.Kill(readyPid(t, out.String()), syscall.SIGKILL))
}

// A firstWrite passes on what is written first.
type firstWrite chan string

func (w firstWrite) Write(b []byte) (int, error) {
	select {
	case w <- string(b):
	default:
	}
	return len(b), nil
}

func TestOutputContextEnds(t *testing.T) {
	for _, name := range []string{"sleep", "ignore-term", "wait-grandchild"} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(context.Background())
			w, ready := make(firstWrite, 1), make(chan string, 1)
			go func() {
				ready <- <-w
				cancel(cause)
			}()
			began := time.Now()
			state, err := Output(ctx, helper(t, name), w, nil)
			assert.ErrorIs(t, err, cause)
			assert.Equal(t, state.ExitCode(), -1)
			assert.Assert(t, time.Since(began) < patience)
			poll.WaitOn(t, gone(readyPid(t, <-ready)), poll.WithTimeout(patience))
		})
	}
}

func TestOutputContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	state, err := Output(ctx, helper(t, "exit", "0"), nil, nil)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Assert(t, state == nil)
}

type stuckWriter chan struct{}

func (w stuckWriter) Write(b []byte) (int, error) {
	<-w
	return len(b), nil
}

func TestOutputWriterStuck(t *testing.T) {
	w := make(stuckWriter)
	defer close(w)
	state, err := Output(context.Background(), helper(t, "print", "out", ""), w, nil)
	assert.ErrorIs(t, err, ErrWriterStuck)
	assert.Equal(t, state.ExitCode(), 0)
}

// Two writers that are stuck are waited for no longer than one.
func TestOutputBothWritersStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := newPump(nil)
		assert.NilError(t, err)
		defer out.abandon()
		errs, err := newPump(nil)
		assert.NilError(t, err)
		defer errs.abandon()
		began := time.Now()
		assert.ErrorIs(t, drain(out, errs), ErrWriterStuck)
		assert.Equal(t, time.Since(began), time.Second)

		// One that has returned by then is not taken for the other.
		close(errs.done)
		assert.ErrorIs(t, drain(out, errs), ErrWriterStuck)
		assert.NilError(t, drain(errs))
	})
}

// What was printed while this process stood still is read, although the time for it is
// over by then.
func TestOutputOfATimeInWhichThisProcessStoodStill(t *testing.T) {
	w := make(firstWrite, 1)
	var out bytes.Buffer
	p, err := newPump(io.MultiWriter(w, &out))
	assert.NilError(t, err)
	c := Cmd{Path: "/bin/sh",
		Args: []string{"sh", "-c", `trap "" PIPE; echo ready; kill -STOP $1; sleep 0.7; echo late; kill -CONT $1`, "sh",
			strconv.Itoa(os.Getpid())}}
	c.Stdout = p.write
	sh, err := Start(c)
	assert.NilError(t, err)
	p.start()
	<-w
	assert.NilError(t, drain(p))
	<-sh.Done()
	assert.Equal(t, out.String(), "ready\nlate\n")
}

func TestNothingIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		leftout.Skip(t, "/proc/self/fd is Linux's")
	}
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		assert.NilError(t, err)
		return len(entries)
	}
	run := func() {
		_, err := Output(context.Background(), helper(t, "print", "a", "b"), nil, nil)
		assert.NilError(t, err)
		p, err := Start(helper(t, "exit", "0"))
		assert.NilError(t, err)
		<-p.Done()
	}
	run() // the runtime opens descriptors of its own at first use
	files, goroutines := descriptors(), runtime.NumGoroutine()
	for range 5 {
		run()
	}
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if now := runtime.NumGoroutine(); now > goroutines+1 { // one more: this function has its own

			return poll.Continue("%d goroutines, %d before", now, goroutines)
		}
		if now := descriptors(); now > files {
			return poll.Continue("%d descriptors, %d before", now, files)
		}
		return poll.Success()
	})
}

func BenchmarkOutput(b *testing.B) {
	b.ReportAllocs()
	c := helper(b, "exit", "0")
	for b.Loop() {
		if _, err := Output(context.Background(), c, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
