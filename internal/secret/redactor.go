package secret

import (
	"io"
	"sync/atomic"
)

// A Redactor has the values that are to be redacted by now. Several goroutines may use
// it. The zero Redactor has none.
type Redactor struct {
	values atomic.Pointer[Values]
}

// Values returns the values; nil if there are none.
func (r *Redactor) Values() *Values { return r.values.Load() }

// Set makes v the values.
func (r *Redactor) Set(v *Values) { r.values.Store(v) }

// Writer is [Values.Writer] for the values that it has at each Write.
func (r *Redactor) Writer(dst io.Writer) io.WriteCloser {
	return &lateWriter{redactor: r, w: dst}
}

// A lateWriter puts what redacts new values before what redacts the old ones,
// which may hold back a part of the stream.
type lateWriter struct {
	redactor *Redactor
	values   *Values // at the last Write
	w        io.Writer
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if values := l.redactor.Values(); values != l.values {
		if !values.Equal(l.values) {
			l.w = values.Writer(l.w)
		}
		l.values = values
	}
	return l.w.Write(p)
}

func (l *lateWriter) Close() error {
	if w, ok := l.w.(io.Closer); ok {
		return w.Close()
	}
	return nil
}
