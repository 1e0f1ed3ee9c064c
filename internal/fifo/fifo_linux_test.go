package fifo

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// patience bounds a wait for a condition.
const patience = time.Minute

// command returns the command of a container, for this machine: what is mounted is where
// it is.
func command(dir string, words ...string) *exec.Cmd {
	argv := Command(words)
	argv[2] = strings.ReplaceAll(argv[2], Target, Source(dir))
	return exec.Command(argv[0], argv[1:]...)
}

func closed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s is not closed", what)
	}
}

func isOpen(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
		t.Fatalf("%s is closed", what)
	default:
	}
}

func isGone(t *testing.T, dir string) {
	t.Helper()
	_, err := os.Lstat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// newEnds makes FIFOs that are given up with the test.
func newEnds(t *testing.T) (*Ends, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fifos")
	e, err := New(dir)
	assert.NilError(t, err)
	t.Cleanup(e.Close)
	return e, dir
}

func TestStreams(t *testing.T) {
	e, dir := newEnds(t)
	_, err := e.Stdin.WriteString("before\n")
	assert.NilError(t, err)
	_, err = e.Client.WriteString("the client's words\n")
	assert.NilError(t, err)
	e.Client.Close()
	c := command(dir, "sh", "-c", "cat; echo error >&2")
	assert.NilError(t, c.Start())
	defer c.Wait()

	out := make(chan string)
	go func() {
		text, _ := io.ReadAll(e.Stdout)
		out <- string(text)
	}()
	closed(t, e.Met(), "Met")
	for _, name := range names {
		isGone(t, filepath.Join(Source(dir), name))
	}
	isOpen(t, e.Over(), "Over")
	_, err = e.Stdin.WriteString("after\n")
	assert.NilError(t, err)
	assert.NilError(t, e.Stdin.Close())
	assert.Equal(t, <-out, "before\nafter\n")
	closed(t, e.Over(), "Over")
	text, err := io.ReadAll(e.Stderr)
	assert.NilError(t, err)
	assert.Equal(t, string(text), "the client's words\nerror\n")
}

// A command whose host has gone, at whatever moment, ends: none of its opens waits.
func TestHostThatHasGone(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "dash", "busybox sh"} {
		words := strings.Fields(shell)
		if _, err := exec.LookPath(words[0]); err != nil {
			t.Logf("there is no %s", shell)
			continue
		}
		dir := filepath.Join(t.TempDir(), "fifos")
		e, err := New(dir)
		assert.NilError(t, err)
		t.Cleanup(e.Part)
		// The names are still there, as after a SIGKILL.
		for _, f := range append(slices.Clone(e.kept), e.Stdin, e.Ops, e.Client) {
			f.Close()
		}
		e.Stdout.Close()
		e.Stderr.Close()
		c := command(dir, "cat")
		c.Args = slices.Concat(words, c.Args[1:])
		c.Path, err = exec.LookPath(words[0])
		assert.NilError(t, err)
		assert.NilError(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err = <-ended:
		case <-time.After(patience):
			c.Process.Kill()
			t.Fatalf("%s waits", shell)
		}
		t.Log(shell, err) // cat ends, or the shell does as it can't print
	}
}

// A client that says something when its host has gone is not ended for it: it may be
// between the creation of a container and its start.
func TestClientOutlivesHost(t *testing.T) {
	e, _ := newEnds(t)
	for _, f := range append(slices.Clone(e.kept), e.Stdin, e.Ops) {
		f.Close()
	}
	e.Stdout.Close()
	e.Stderr.Close()
	_, err := e.Client.WriteString("a warning\n")
	assert.NilError(t, err)
}

// The directory of a program that was killed is removed, and nothing in its place.
func TestJanitor(t *testing.T) {
	e, dir := newEnds(t)
	// That of a job, which the next program to look would not know.
	assert.NilError(t, syscall.Mkfifo(filepath.Join(dir, "io", "job"), 0o600))
	// The end of its pipe is the end of this program.
	assert.NilError(t, e.Janitor.Close())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			return poll.Success()
		}
		return poll.Continue("%s is there", dir)
	}, poll.WithTimeout(patience))

	other := t.TempDir()
	kept := filepath.Join(other, "io", "in")
	assert.NilError(t, os.MkdirAll(filepath.Dir(kept), 0o700))
	assert.NilError(t, os.WriteFile(kept, nil, 0o600))
	assert.NilError(t, os.Symlink(other, dir))
	janitor := exec.Command("sh", "-c", janitorScript, "cofferdam-fifos", dir)
	assert.Assert(t, janitor.Run() != nil)
	_, err := os.Stat(kept)
	assert.NilError(t, err)

	assert.NilError(t, os.Remove(dir))
	assert.NilError(t, os.Mkdir(dir, 0o700))
	assert.NilError(t, os.Symlink(filepath.Dir(kept), filepath.Join(dir, "io")))
	janitor = exec.Command("sh", "-c", janitorScript, "cofferdam-fifos", dir)
	assert.Assert(t, janitor.Run() != nil)
	_, err = os.Stat(kept)
	assert.NilError(t, err)
}

// A command that ends before it has opened the FIFOs leaves both streams without an end.
func TestPart(t *testing.T) {
	e, dir := newEnds(t)
	_, err := e.Client.WriteString("the client's words\n")
	assert.NilError(t, err)
	e.Client.Close()
	out := make(chan string)
	go func() {
		text, _ := io.ReadAll(e.Stdout)
		out <- string(text)
	}()
	select {
	case text := <-out:
		t.Fatalf("the stdout of nobody has ended: %q", text)
	case <-time.After(20 * time.Millisecond):
	}
	e.Part()
	e.Part()
	assert.Equal(t, <-out, "")
	text, err := io.ReadAll(e.Stderr)
	assert.NilError(t, err)
	assert.Equal(t, string(text), "the client's words\n")
	closed(t, e.Over(), "Over")
	isOpen(t, e.Met(), "Met")
	isGone(t, dir)
	_, err = e.Stdin.WriteString("x")
	assert.ErrorIs(t, err, syscall.EPIPE)
}

// A second command meets its own FIFOs in the same directory, whose names can't be
// listed.
func TestMore(t *testing.T) {
	e, dir := newEnds(t)
	info, err := os.Stat(Source(dir))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o311))
	more, err := e.More()
	assert.NilError(t, err)
	defer more.Close()
	argv := more.Command([]string{"cat"})
	argv[2] = strings.ReplaceAll(argv[2], Target, Source(dir))
	c := exec.Command(argv[0], argv[1:]...)
	assert.NilError(t, c.Start())
	defer c.Wait()
	_, err = more.Stdin.WriteString("text")
	assert.NilError(t, err)
	assert.NilError(t, more.Stdin.Close())
	text, err := io.ReadAll(more.Stdout)
	assert.NilError(t, err)
	assert.Equal(t, string(text), "text")
	for _, name := range more.names {
		isGone(t, filepath.Join(Source(dir), name))
	}
	unmet, err := e.More()
	assert.NilError(t, err)
	defer unmet.Close()
	e.Part()
	isGone(t, dir)
	_, err = e.More()
	assert.ErrorIs(t, err, ErrNotMade)
}

// What is in the way is left alone.
func TestNewInTheWay(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "io")
	assert.NilError(t, os.WriteFile(kept, nil, 0o600))
	_, err := New(dir)
	assert.ErrorIs(t, err, os.ErrExist)
	_, err = os.Stat(kept)
	assert.NilError(t, err)
	_, err = New(filepath.Join(dir, "none", "fifos"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Whatever the mask, any user of the container can open the FIFOs, and nobody else.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	_, dir := newEnds(t)
	for name, want := range map[string]os.FileMode{
		"": 0o700 | os.ModeDir, "io": 0o311 | os.ModeDir,
		"io/in": 0o666 | os.ModeNamedPipe, "io/out": 0o666 | os.ModeNamedPipe, "io/err": 0o666 | os.ModeNamedPipe,
		"io/ops": 0o666 | os.ModeNamedPipe,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		assert.NilError(t, err)
		assert.Equal(t, info.Mode(), want, name)
	}
}

// A reader may end before the writer: then the writer gets an error, and waits for
// nobody.
func TestStdoutThatIsClosed(t *testing.T) {
	e, dir := newEnds(t)
	e.Client.Close()
	c := command(dir, "sh", "-c", "trap '' PIPE; while echo; do :; done")
	assert.NilError(t, c.Start())
	ended := make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	_, err := e.Stdout.Read(make([]byte, 1))
	assert.NilError(t, err)
	assert.NilError(t, e.Stdout.Close())
	_, err = e.Stdout.Read(make([]byte, 1))
	assert.Assert(t, errors.Is(err, os.ErrClosed), "%v", err)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		select {
		case <-ended:
			return poll.Success()
		default:
			return poll.Continue("the writer goes on")
		}
	}, poll.WithTimeout(patience))
}

func TestIsPlain(t *testing.T) {
	for dir, want := range map[string]bool{
		"/tmp": true, "/run/user/1000": true, "/var/tmp/a-b_c.d": true,
		"": false, "tmp": false, "/a b": false, "/a,b": false, "/a:b": false, "/a'b": false, "/a\nb": false, "/é": false, "/$x": false,
	} {
		assert.Equal(t, IsPlain(dir), want, dir)
	}
}
