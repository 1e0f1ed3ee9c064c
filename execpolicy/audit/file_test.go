//go:build linux

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/audit"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// logVar names the log of a program that has one.
const logVar = "COFFERDAM_TEST_LOG"

func init() {
	programs = map[string]func(){"busy": busy, "orderly": orderly, "writer": writer, "full": full}
}

// must ends a program that can't go on.
func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func openLog() (*audit.Log, func(execpolicy.Event) error) {
	log, err := audit.File(os.Getenv(logVar))
	must(err)
	return log, audit.To(slog.NewJSONHandler(log, nil).WithAttrs([]slog.Attr{slog.String("user", "ada")}))
}

// work does some work in a session.
func work() *execpolicy.Session {
	e, err := enginetest.FromEnviron()
	must(err)
	_, record := openLog()
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image,
		AllowMissingLimits: len(e.MissingLimits) > 0},
		execpolicy.Spec{Labels: e.Labels, Audit: record})
	must(err)
	_, err = s.Run(ctx, execpolicy.Command{Script: "echo one"})
	must(err)
	must(s.WriteFile(ctx, "file", []byte("two"), 0o600))
	return s
}

// busy ends in the midst of a command, when it is killed.
func busy() {
	s := work()
	s.Run(context.Background(), execpolicy.Command{Script: "echo busy; sleep 4761", Stdout: os.Stdout, Timeout: -1})
	os.Exit(1)
}

func orderly() {
	must(work().Close())
	fmt.Println("done")
}

// writer writes many records, and opens the file anew for each of them, as programs do
// that start while others write.
func writer() {
	for i := range 500 {
		log, record := openLog()
		must(record(execpolicy.Event{Kind: execpolicy.EventCommand, Time: time.Now(), Seq: i + 1,
			Script: strings.Repeat("x", i*10)}))
		must(log.Close())
	}
	fmt.Println("done")
}

// full writes to a disk that is full for a while.
func full() {
	signal.Ignore(syscall.SIGXFSZ)
	_, record := openLog()
	var limit syscall.Rlimit
	must(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 10_000
	must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	put := func(n int) error {
		return record(execpolicy.Event{Kind: execpolicy.EventCommand, Time: time.Now(), Seq: n,
			Script: strings.Repeat("x", 900)})
	}
	n := 1
	for ; put(n) == nil; n++ {
	}
	if err := put(n + 1); !errors.Is(err, syscall.EFBIG) {
		must(fmt.Errorf("no error of a disk that is full: %w", err))
	}
	must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	must(put(n + 2))
	must(put(n + 3))
	fmt.Println(n)
}

// start starts a program, and returns the first line that it prints and what kills it.
func start(t *testing.T, env []string, what, log string) (line string, kill func()) {
	t.Helper()
	return enginetest.Child(t, append(slices.Clip(env), programVar+"="+what, logVar+"="+log))
}

// told returns the kinds of the records in a file.
func told(t *testing.T, log string) []string {
	t.Helper()
	var kinds []string
	for _, r := range read(t, log) {
		kinds = append(kinds, r["msg"].(string))
	}
	return kinds
}

func read(t *testing.T, log string) []record {
	t.Helper()
	text, err := os.ReadFile(log)
	assert.NilError(t, err)
	return records(t, string(text))
}

// What a program has done is in its log when it was killed, up to what was under way; and
// the next program goes on with the same file.
func TestSIGKILL(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		log := filepath.Join(t.TempDir(), "audit.jsonl")
		line, kill := start(t, e.Environ(t), "busy", log)
		assert.Equal(t, line, "busy")
		kill()
		before := []string{"spawn", "start", "command", "result", "transfer", "transferred", "command"}
		assert.DeepEqual(t, told(t, log), before)
		all := read(t, log)
		last := all[len(all)-1]
		assert.Equal(t, last["script"], "echo busy; sleep 4761")
		for i, r := range all {
			assert.Equal(t, r["seq"], float64(i+1))
			assert.Equal(t, r["session"], all[0]["session"])
			assert.Equal(t, r["user"], "ada")
			assert.Equal(t, r["uid"], float64(os.Getuid()))
		}
		line, _ = start(t, e.Environ(t), "orderly", log)
		assert.Equal(t, line, "done")
		after := []string{"spawn", "start", "command", "result", "transfer", "transferred", "end"}
		assert.DeepEqual(t, told(t, log), append(before, after...))
		next := read(t, log)[len(before)]
		assert.Equal(t, next["policy"], all[0]["policy"])
		assert.Assert(t, next["session"] != all[0]["session"] && next["pid"] != all[0]["pid"])
	})
}

// Several programs have one file.
func TestSharedFile(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	const n = 4
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			line, _ := start(t, os.Environ(), "writer", log)
			assert.Check(t, line == "done", line)
		})
	}
	all.Wait()
	seen := map[any]float64{}
	lines := read(t, log)
	assert.Equal(t, len(lines), n*500)
	for _, r := range lines {
		// Those of one program are in order.
		seen[r["pid"]]++
		assert.Equal(t, r["seq"], seen[r["pid"]])
	}
}

func TestFullDisk(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	line, _ := start(t, os.Environ(), "full", log)
	n, err := strconv.Atoi(line)
	assert.NilError(t, err, line)
	text, err := os.ReadFile(log)
	assert.NilError(t, err)
	// All that were taken are whole, and of the one that was not there is a part on a
	// line of its own.
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	assert.Equal(t, len(lines), n+2)
	records(t, strings.Join(lines[:n-1], ""))
	assert.Assert(t, !strings.HasSuffix(lines[n-1], "}\n"))
	rest := records(t, strings.Join(lines[n:], "")+"\n")
	assert.Equal(t, rest[0]["seq"], float64(n+2))
	assert.Equal(t, rest[1]["seq"], float64(n+3))
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	log, err := audit.File(path("log"))
	assert.NilError(t, err)
	info, err := os.Stat(path("log"))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	_, err = log.Write([]byte("one\n"))
	assert.NilError(t, err)
	assert.NilError(t, log.Close())
	_, err = log.Write([]byte("two\n"))
	assert.ErrorIs(t, err, os.ErrClosed)
	// What is there stays.
	log, err = audit.File(path("log"))
	assert.NilError(t, err)
	_, err = log.Write([]byte("three\n"))
	assert.NilError(t, err)
	assert.NilError(t, log.Close())
	text, err := os.ReadFile(path("log"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "one\nthree\n")
	// What another program could not write whole is ended.
	assert.NilError(t, os.WriteFile(path("log"), []byte("one\nth"), 0o600))
	log, err = audit.File(path("log"))
	assert.NilError(t, err)
	for range 2 {
		n, err := log.Write([]byte("four\n"))
		assert.NilError(t, err)
		assert.Equal(t, n, len("four\n"))
	}
	assert.NilError(t, log.Close())
	text, err = os.ReadFile(path("log"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "one\nth\nfour\nfour\n")

	// So is what another program leaves while this one has the file open.
	log, err = audit.File(path("shared"))
	assert.NilError(t, err)
	other, err := os.OpenFile(path("shared"), os.O_APPEND|os.O_WRONLY, 0)
	assert.NilError(t, err)
	for _, part := range []string{"on", "", "e\n", "tw"} {
		_, err = other.WriteString(part)
		assert.NilError(t, err)
		_, err = log.Write([]byte("four\n"))
		assert.NilError(t, err)
	}
	assert.NilError(t, other.Close())
	assert.NilError(t, log.Close())
	text, err = os.ReadFile(path("shared"))
	assert.NilError(t, err)
	assert.Equal(t, string(text), "on\nfour\nfour\ne\nfour\ntw\nfour\n")

	assert.NilError(t, os.Symlink("log", path("link")))
	assert.NilError(t, os.Symlink("none", path("dangling")))
	assert.NilError(t, os.Mkdir(path("dir"), 0o700))
	assert.NilError(t, syscall.Mkfifo(path("fifo"), 0o600))
	for _, name := range []string{path("link"), path("dangling"), path("dir"), path("fifo"), os.DevNull} {
		_, err := audit.File(name)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid, name)
	}
	_, err = os.Lstat(path("none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = audit.File(filepath.Join(path("none"), "log"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// A link that takes the place of a file between the look and the open is refused too.
func TestFileOpenFlags(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	assert.NilError(t, os.Symlink("log", link))
	_, err := os.OpenFile(link, os.O_WRONLY|os.O_CREATE|audit.OpenFlags, 0o600)
	assert.ErrorIs(t, err, syscall.ELOOP)
}

// A part of a record is ended before the next one.
func TestTornRecord(t *testing.T) {
	var text strings.Builder
	room, full := 0, errors.New("full")
	log := audit.NewLog(writerFunc(func(p []byte) (int, error) {
		n := min(len(p), room)
		room -= n
		text.Write(p[:n])
		if n < len(p) {
			return n, full
		}
		return n, nil
	}))
	for _, c := range []struct {
		room, n int
		err     error
		text    string
	}{
		{0, 0, full, ""},
		{2, 2, full, "on"},
		{0, 0, full, "on"},
		{1, 0, full, "on\n"},
		{4, 4, nil, "on\none\n"},
		{3, 3, full, "on\none\none"},
		{3, 2, full, "on\none\none\non"},
		{9, 4, nil, "on\none\none\non\none\n"},
	} {
		room = c.room
		n, err := log.Write([]byte("one\n"))
		assert.Equal(t, n, c.n)
		assert.Equal(t, err, c.err)
		assert.Equal(t, text.String(), c.text)
	}
	// Who writes less and says nothing is not believed.
	n, err := audit.NewLog(writerFunc(func(p []byte) (int, error) { return 1, nil })).Write([]byte("one\n"))
	assert.Equal(t, n, 1)
	assert.Equal(t, err, io.ErrShortWrite)
}
