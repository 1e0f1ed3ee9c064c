// Package clientfile gives an engine's client a text as a file of its own.
package clientfile

import (
	"io"
	"os"
	"strings"
)

// Path is where a client finds what it is started with as its first descriptor after
// stderr.
const Path = "/dev/fd/3"

// A File is a text for a client. Without one, it is the zero File.
type File struct {
	Pipe *os.File // for the client to be started with as descriptor 3, or nil
	Path string   // under which the client finds it

	started func(done <-chan struct{})
	abandon func()
}

// Started must be called when the client was started; done is closed when it has ended.
func (f *File) Started(done <-chan struct{}) {
	if f.started != nil {
		f.started(done)
	}
}

// Abandon must be called if the client was not started.
func (f *File) Abandon() {
	if f.abandon != nil {
		f.abandon()
	}
}

// fill writes a text to a pipe, and closes it when all is written or the client has
// ended: what a client has started may keep the reading end.
func fill(w io.WriteCloser, text string, done <-chan struct{}) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(w, text)
	}()
	select {
	case <-written:
	case <-done:
	}
	w.Close()
}

// HereDocument returns what gives a command, in a shell, that text under Path.
func HereDocument(text string) string {
	text = strings.TrimSuffix(text, "\n") + "\n"
	end := "EOF"
	for strings.Contains("\n"+text, "\n"+end+"\n") {
		end += "_"
	}
	return " 3<<'" + end + "'\n" + text + end
}
