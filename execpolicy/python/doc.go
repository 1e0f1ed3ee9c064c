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
// session. It has a command's deadline, limits and outcomes. What it prints, and the
// processes that it starts, are the command's. For each snippet a fork of the session's
// shell hands the code to the interpreter, through two FIFOs in a private directory of
// the container. The interpreter writes a short reply to the snippet's stdout, from which
// the library takes it out, and a longer one to a file. Nothing is installed in the
// image. Besides Python it needs sh, mkdir, mkfifo, cat and rm.
//
// The stdin of a snippet is empty: input() raises EOFError. Threads and programs that a
// snippet leaves behind go on. A copy of the interpreter that a snippet has forked, by
// os.fork, ends when it comes to the end of the snippet's code.
//
// At its deadline a snippet gets a KeyboardInterrupt. If it does not end in time, its
// interpreter is killed, the next snippet gets a new one, and [Result.StateLost] says so.
// The library uses SIGINT and SIGTERM for that: a snippet's own handlers for them last as
// long as the snippet.
//
// A session is one level of trust: a snippet can fake its value and its output, and those
// of later snippets, and can end the interpreter. Calls still return in time, and memory
// stays within the limits.
//
// Under an [execpolicy.HostPolicy] on a Linux without /proc no interpreter starts.
package python
