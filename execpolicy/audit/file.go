package audit

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A Log is a file that is only appended to. What is written at a time is one record, and goes to the file in one call of the system, as
// slog's handlers write: so several programs can have the same file, and what was written is there whatever becomes of this one, SIGKILL
// included. What a machine that loses its power had not yet brought to its disk is lost; nothing is synced. If a record is longer than a
// page of memory, a kill in the midst of the call can leave a part of it, and so can a disk that is full; the first record that a Log
// can write after that begins on a line of its own. For that the file must be one that its user can read.
//
// It is for the file systems of a machine: over a network two programs can write over each other.
type Log struct {
	mu   sync.Mutex
	w    io.WriteCloser
	torn bool // the last line is not whole
}

// File opens a file to append to, and makes it, for nobody but its user, if it is not there. A symbolic link, and what is no regular file,
// is refused with an error that wraps [execpolicy.ErrInvalid].
func File(path string) (*Log, error) {
	irregular := fmt.Errorf("%w: %s is no regular file", execpolicy.ErrInvalid, path)
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
	last := []byte{'\n'}
	if err == nil && info.Size() > 0 {
		_, err = f.ReadAt(last, info.Size()-1)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Log{w: f, torn: last[0] != '\n'}, nil
}

// Write appends a record. One that is not written whole is an error.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// Close closes the file. What is written later is an error.
func (l *Log) Close() error { return l.w.Close() }
