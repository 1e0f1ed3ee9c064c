package secret

import (
	"io"
	"sync/atomic"
)

// Known are the values that are to be hidden by now. Several goroutines may use them. The
// zero Known has none.
type Known struct {
	values atomic.Pointer[Values]
}

// Values returns the values; nil if there are none.
func (k *Known) Values() *Values { return k.values.Load() }

// Set makes v the values.
func (k *Known) Set(v *Values) { k.values.Store(v) }

// Writer is [Values.Writer] for the values that are known at each Write.
func (k *Known) Writer(dst io.Writer) io.WriteCloser {
	return &lateWriter{known: k, w: dst}
}

// A lateWriter puts what conceals new values before what conceals the old ones,
// which may hold back a part of the stream.
type lateWriter struct {
	known  *Known
	values *Values // that were known at the last Write
	w      io.Writer
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if values := l.known.Values(); values != l.values {
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
