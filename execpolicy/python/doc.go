// Package python keeps a Python interpreter in a session, as a notebook does. Variables
// and imports stay from one snippet to the next, the value of a last expression is
// returned, and an exception comes with its traceback.
//
//	p, err := python.Start(ctx, s, python.Options{})
//	r, err := p.Run(ctx, python.Snippet{Code: "x = 6"})
//	r, err = p.Run(ctx, python.Snippet{Code: "x * 7"})
//	fmt.Println(r.Value) // 42
//
// The interpreter is a background job of the session. Each snippet is a command of the
// session: it has a command's deadline, limits and outcomes, and the output of the
// snippet, and the processes that it starts, are the command's. The library talks to the
// interpreter by a copy of the session's shell, through two FIFOs in a private directory
// of the container. The interpreter writes a short reply to the snippet's stdout, from
// which the library takes it out, and a longer one to a file. Nothing is installed in the
// image. Besides Python it needs sh, mkdir, mkfifo, cat and rm.
//
// The stdin of a snippet is empty: input() raises EOFError. Threads and processes that a
// snippet leaves behind go on. A copy of the interpreter that a snippet has forked ends
// with the snippet. The library uses SIGINT and SIGTERM: a snippet's own handlers for
// them last as long as the snippet.
//
// A session is one level of trust: a snippet can fake its value and its output, and those
// of later snippets, and can end the interpreter. Calls still return in time, and memory
// stays within the limits.
//
// Under an [execpolicy.HostPolicy] on a Linux without /proc no interpreter starts.
package python
