package fifo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/internal/random"
)

// Ends are this program's ends of the FIFOs.
type Ends struct {
	Stdin *os.File // for writing
	Ops   *os.File // for writing to descriptor 3; nil if that is no FIFO
	// Stdout and Stderr are for reading. Reading from Stdout meets the command.
	Stdout, Stderr io.ReadCloser
	// Client is for the engine's client, whose words then come on Stderr. It has to be
	// closed once the client has it.
	Client *os.File
	// Janitor is for the engine's client to keep open, and for nothing else: while the
	// client lives, the directory has to stay. Docker's client waits for ever for a
	// container whose mount went between its creation and its start. It is nil if there
	// is no janitor.
	Janitor *os.File

	dir   string   // which Part removes; empty if it is another's
	io    string   // where the FIFOs are
	names []string // of stdin, stdout and stderr, and of descriptor 3 if it is one
	met   chan struct{}
	over  chan struct{}

	mu     sync.Mutex
	kept   []*os.File // for both directions, until they have met
	more   []*Ends    // of which the names may still be there
	parted bool
}

// New makes the FIFOs in a directory of that name, which it makes. Its error wraps
// [ErrNotMade].
func New(dir string) (*Ends, error) {
	e := &Ends{
		dir: dir, io: Source(dir), names: names,
		met: make(chan struct{}), over: make(chan struct{}), Janitor: newJanitor(dir),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		e.Settle()
		return nil, fmt.Errorf("%w: %w", ErrNotMade, err)
	}
	// Whoever the container's user is may open a FIFO there by its name, and can't list
	// them, not even as the owner. On the host nobody else gets that far.
	err := makeExactly(os.Mkdir, e.io, 0o311)
	if err == nil {
		err = e.open()
	}
	if err == nil {
		// The client gets one that waits, as any program's stderr does. It reads from it,
		// too, as far as the kernel knows: if this program ends, a warning must not end
		// the client between the creation of a container and its start.
		e.Client, err = os.OpenFile(filepath.Join(e.io, names[2]), os.O_RDWR, 0)
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("%w: %w", ErrNotMade, err)
	}
	return e, nil
}

// More makes FIFOs for the streams of one more command of a container whose command was
// met: for what Command returns. They have no Ops, no Client and no Janitor.
func (e *Ends) More() (*Ends, error) {
	more := &Ends{io: e.io, met: make(chan struct{}), over: make(chan struct{})}
	for range 3 {
		more.names = append(more.names, random.Token())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parted {
		return nil, fmt.Errorf("%w: %w", ErrNotMade, os.ErrClosed)
	}
	e.more = slices.DeleteFunc(e.more, func(other *Ends) bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		return other.kept == nil
	})
	if err := more.open(); err != nil {
		more.Close()
		return nil, fmt.Errorf("%w: %w", ErrNotMade, err)
	}
	e.more = append(e.more, more)
	return more, nil
}

// Command is the function Command for these FIFOs.
func (e *Ends) Command(command []string) []string { return opening(e.names, command) }

// open makes the FIFOs and opens them.
func (e *Ends) open() (err error) {
	ends := make([]*os.File, len(e.names))
	for i, name := range e.names {
		path := filepath.Join(e.io, name)
		if err := makeExactly(mkfifo, path, 0o666); err != nil {
			return errors.Join(err, closeAll(ends[:i]))
		}
		both, err := open(path, syscall.O_RDWR)
		if err != nil {
			return errors.Join(err, closeAll(ends[:i]))
		}
		e.kept = append(e.kept, both)
		how := syscall.O_WRONLY
		if i == 1 || i == 2 {
			how = syscall.O_RDONLY
		}
		if ends[i], err = open(path, how); err != nil {
			return errors.Join(err, closeAll(ends[:i]))
		}
	}
	e.Stdin, e.Stdout, e.Stderr = ends[0], &meeting{file: ends[1], ends: e}, ends[2]
	if len(ends) > 3 {
		e.Ops = ends[3]
	}
	return nil
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// makeExactly makes something with exactly those permissions, whatever the process's
// mask.
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

// open opens a FIFO, and does not block.
func open(path string, how int) (*os.File, error) {
	return os.OpenFile(path, how|syscall.O_NONBLOCK, 0)
}

// Met returns a channel that is closed when the command was met.
func (e *Ends) Met() <-chan struct{} { return e.met }

// Over returns a channel that is closed when a Read of Stdout has come to its end: all
// that could write to it has ended, or Part was called before the command was met.
func (e *Ends) Over() <-chan struct{} { return e.over }

// Part removes the directory, so that nobody opens FIFOs there any more, and gives up the
// ends that kept them open. If the command was not met, the streams come to their ends.
func (e *Ends) Part() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parted {
		return
	}
	e.parted = true
	e.unlink()
	for _, other := range e.more {
		other.Part()
	}
	e.more = nil
	if e.dir != "" {
		os.Remove(e.io)
		os.Remove(e.dir)
	}
	e.settle()
}

// unlink removes the names, and gives up the ends that kept the FIFOs open. An error says
// that a FIFO may still be opened by its name.
func (e *Ends) unlink() (err error) {
	for _, name := range e.names {
		if removeErr := os.Remove(filepath.Join(e.io, name)); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	closeAll(e.kept)
	e.kept = nil
	return err
}

// Settle ends the janitor of those who have met. From then on somebody else has to remove
// the directory if this program ends before it calls Part.
func (e *Ends) Settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
}

func (e *Ends) settle() {
	if e.Janitor != nil {
		e.Janitor.WriteString("done\n")
		e.Janitor.Close()
		e.Janitor = nil
	}
}

// janitorScript removes the directory at the end of its stdin, unless it was told before
// that this is done. Its argument is the directory. That is this user's and nobody else
// can enter it; what others may have put in its place is left alone. The FIFOs of a job
// may be there too, if the client takes longer to end than the first job to start.
const janitorScript = `trap '' HUP INT QUIT TERM
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
read -r line && exit
[ -O "$1" ] && [ ! -L "$1" ] && [ ! -L "$1/io" ] || exit
chmod 700 "$1/io"
rm -f "$1/io"/*
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

// Close gives up all ends.
func (e *Ends) Close() {
	if e.Client != nil {
		e.Client.Close()
	}
	if e.Stdin != nil {
		e.Stdin.Close()
		e.Stdout.Close()
		e.Stderr.Close()
	}
	if e.Ops != nil {
		e.Ops.Close()
	}
	e.Part()
}

// meet is called when the command has opened the FIFOs.
func (e *Ends) meet() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parted {
		return nil
	}
	return e.unlink()
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
		if err := m.ends.meet(); err != nil {
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
