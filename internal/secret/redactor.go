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
	return &lateWriter{redactor: r, dst: dst}
}

// A lateWriter is what [Redactor.Writer] returns.
type lateWriter struct {
	redactor *Redactor
	dst      io.Writer
	w        *writer // for the values at the last Write; nil if there were none
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if values := l.redactor.Values(); values != nil && (l.w == nil || l.w.values != values) {
		next := &writer{values: values, dst: l.dst}
		if l.w != nil {
			// What is held may be the beginning of a value that is still one.
			next.held, next.done = l.w.held, max(0, l.w.done-l.w.base)
		}
		l.w = next
	}
	if l.w == nil {
		return l.dst.Write(p)
	}
	return l.w.Write(p)
}

func (l *lateWriter) Close() error {
	if l.w != nil {
		return l.w.Close()
	}
	if dst, ok := l.dst.(io.Closer); ok {
		return dst.Close()
	}
	return nil
}
