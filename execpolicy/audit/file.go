package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/filelock"
)

// A Log is a file that is only appended to. Each Write is one record and one system call,
// as slog's handlers make it. Several programs can share the file, and what was written
// is there whatever becomes of the program, a SIGKILL included. Nothing is synced: a
// machine that loses power loses what was not yet on its disk.
//
// A program that is killed within a long record, or a full disk, can leave a part of one.
// The next record, whichever program writes it, begins on a line of its own. For that a
// Log holds the file's lock (flock) while it writes; the kernel frees the lock of a
// program that ends. Where there are no such locks, as on Windows, a Log ends only a part
// that it finds when it opens the file, or that it left itself.
//
// The user must be able to read the file. It must be on a file system of the machine:
// over a network two programs can overwrite each other's records.
type Log struct {
	mu   sync.Mutex
	w    io.WriteCloser
	file *os.File // the same as w, if it can be locked
	torn bool     // the last line is not whole
}

// File opens a file to append to. If there is none, File makes it, with the mode 0600. A
// symbolic link, and anything but a regular file, is refused with an error that wraps
// [execpolicy.ErrInvalid].
func File(path string) (*Log, error) {
	irregular := fmt.Errorf("%w: %s is not a regular file", execpolicy.ErrInvalid, path)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, irregular
	}
	// It may be another by now.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	l := &Log{w: f, file: f}
	if err == nil {
		err = l.look()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// look notes whether the file's last line is whole. Whoever does not hold the file's lock
// may see a record that another program is writing.
func (l *Log) look() error {
	info, err := l.file.Stat()
	if err != nil || info.Size() == 0 {
		l.torn = false
		return err
	}
	last := make([]byte, 1)
	_, err = l.file.ReadAt(last, info.Size()-1)
	l.torn = last[0] != '\n'
	return err
}

// lock holds the file's lock and looks at its end. It returns what ends that.
func (l *Log) lock() (unlock func(), err error) {
	unlock = func() {}
	if l.file == nil {
		return unlock, nil
	}
	err = filelock.Lock(l.file)
	if errors.Is(err, errors.ErrUnsupported) {
		return unlock, nil
	}
	if err != nil {
		return nil, err
	}
	unlock = func() { filelock.Unlock(l.file) }
	if err = l.look(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Write appends a record. One that is not written whole is an error.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	line := p
	if l.torn {
		line = append([]byte{'\n'}, p...)
	}
	n, err := l.w.Write(line)
	if n > 0 {
		l.torn = line[n-1] != '\n'
	}
	n = max(n-(len(line)-len(p)), 0)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Close closes the file. A Write after it fails.
func (l *Log) Close() error { return l.w.Close() }
