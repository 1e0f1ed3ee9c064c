package fifo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// Ends are this program's ends of the FIFOs.
type Ends struct {
	Stdin *os.File // for writing
	Ops   *os.File // for writing to descriptor 3
	// Stdout and Stderr are for reading. Reading from Stdout meets the command.
	Stdout, Stderr io.ReadCloser
	// Client is for the engine's client, whose words then come on Stderr. It has to be
	// closed once the client has it.
	Client *os.File
	// Janitor is for the engine's client to keep open, and for nothing else: while the
	// client lives, the directory has to stay. Docker's client waits for ever for a container
	// whose mount went between its creation and its start. It is nil if there is no
	// janitor.
	Janitor *os.File

	dir  string
	met  chan struct{}
	over chan struct{}

	mu   sync.Mutex
	kept []*os.File // for both directions, until Part
}

// New makes the FIFOs in a directory of that name, which it makes. Its error wraps
// [ErrNotMade].
func New(dir string) (*Ends, error) {
	e := &Ends{dir: dir, met: make(chan struct{}), over: make(chan struct{}), Janitor: newJanitor(dir)}
	if err := os.Mkdir(dir, 0o700); err != nil {
		e.dismiss()
		return nil, fmt.Errorf("%w: %w", ErrNotMade, err)
	}
	ends, err := e.open()
	if err != nil {
		for _, f := range ends {
			f.Close()
		}
		e.Part()
		return nil, fmt.Errorf("%w: %w", ErrNotMade, err)
	}
	e.Stdin, e.Stdout, e.Stderr, e.Ops, e.Client = ends[0], &meeting{file: ends[1], ends: e}, ends[2], ends[3], ends[4]
	return e, nil
}

// open makes the FIFOs and opens them: in the order of their names, and for the client.
func (e *Ends) open() (ends [5]*os.File, err error) {
	// Whoever the container's user is may open a FIFO there by its name, and can't list
	// them. On the host nobody else gets that far.
	if err := makeExactly(os.Mkdir, Source(e.dir), 0o711); err != nil {
		return ends, err
	}
	for i, name := range names {
		path := filepath.Join(Source(e.dir), name)
		if err := makeExactly(mkfifo, path, 0o666); err != nil {
			return ends, err
		}
		both, err := open(path, syscall.O_RDWR)
		if err != nil {
			return ends, err
		}
		e.kept = append(e.kept, both)
		how := syscall.O_WRONLY
		if i == 1 || i == 2 {
			how = syscall.O_RDONLY
		}
		if ends[i], err = open(path, how); err != nil {
			return ends, err
		}
	}
	// The client gets one that waits, as any program's stderr does.
	ends[4], err = os.OpenFile(filepath.Join(Source(e.dir), names[2]), os.O_WRONLY, 0)
	return ends, err
}

// makeExactly makes something with exactly those permissions, whatever the process's mask.
func makeExactly(f func(string, os.FileMode) error, path string, perm os.FileMode) error {
	if err := f(path, perm); err != nil {
		return err
	}
	return os.Chmod(path, perm)
}

func mkfifo(path string, perm os.FileMode) error {
	if err := syscall.Mkfifo(path, uint32(perm)); err != nil {
		return &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return nil
}

// open opens a FIFO, and waits for nobody.
func open(path string, how int) (*os.File, error) {
	return os.OpenFile(path, how|syscall.O_NONBLOCK, 0)
}

// Met returns a channel that is closed when the command was met.
func (e *Ends) Met() <-chan struct{} { return e.met }

// Over returns a channel that is closed when a Read of Stdout has come to its end: all
// that could write to it has ended, or Part was called before the command was met.
func (e *Ends) Over() <-chan struct{} { return e.over }

// Part removes the directory, so that nobody opens the FIFOs any more, and gives up the
// ends that kept them open. If the command was not met, the streams come to their ends. An
// error says that a FIFO may still be opened by its name.
func (e *Ends) Part() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dir == "" {
		return nil
	}
	for _, name := range names {
		if removeErr := os.Remove(filepath.Join(Source(e.dir), name)); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	os.Remove(Source(e.dir))
	os.Remove(e.dir)
	e.dismiss()
	for _, f := range e.kept {
		f.Close()
	}
	e.dir, e.kept = "", nil
	return err
}

// janitorScript removes the directory at the end of its stdin, unless it was told before
// that this is done. Its argument is the directory. That is this user's and nobody else
// can enter it; what others may have put in its place is left alone.
const janitorScript = `trap '' HUP INT QUIT TERM
read -r line && exit
[ -O "$1" ] && [ ! -L "$1" ] || exit
rm -f "$1/io/in" "$1/io/out" "$1/io/err" "$1/io/ops"
rmdir "$1/io" "$1"`

// newJanitor starts a process that removes the directory if this program ends before it
// has done so itself, however it ends, and the client has ended too. It returns nil if
// there is no shell.
func newJanitor(dir string) *os.File {
	sh, err := exec.LookPath("sh")
	if err != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer r.Close()
	_, err = procgroup.Start(procgroup.Cmd{
		Path:       sh,
		Args:       []string{"sh", "-c", janitorScript, "cofferdam-fifos", dir},
		Dir:        "/",
		Stdin:      r,
		NewSession: true,
	})
	if err != nil {
		w.Close()
		return nil
	}
	return w
}

// dismiss ends the janitor.
func (e *Ends) dismiss() {
	if e.Janitor != nil {
		e.Janitor.WriteString("done\n")
		e.Janitor.Close()
	}
}

// Close gives up all ends.
func (e *Ends) Close() {
	e.Client.Close()
	e.Stdin.Close()
	e.Ops.Close()
	e.Stdout.Close()
	e.Stderr.Close()
	e.Part()
}

// A meeting is a command's stdout, whose first byte says that the command has opened the
// FIFOs.
type meeting struct {
	file  *os.File
	ends  *Ends
	first bool // the byte has come
	ended bool
}

func (m *meeting) Read(p []byte) (int, error) {
	if !m.first {
		var hello [1]byte
		if n, err := m.file.Read(hello[:]); n == 0 {
			return 0, m.end(err)
		}
		m.first = true
		if err := m.ends.Part(); err != nil {
			// Whatever runs inside could hold the command's stdin open.
			return 0, m.end(err)
		}
		close(m.ends.met)
	}
	n, err := m.file.Read(p)
	return n, m.end(err)
}

func (m *meeting) Close() error { return m.file.Close() }

func (m *meeting) end(err error) error {
	if err != nil && !m.ended && !errors.Is(err, os.ErrClosed) {
		m.ended = true
		close(m.ends.over)
	}
	return err
}
