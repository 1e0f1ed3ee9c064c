// Package python keeps a Python interpreter in a session, as a notebook does: variables
// and imports stay from one snippet to the next, the value of a last expression is
// returned, and an exception comes with its traceback.
//
// The interpreter is a background job of the session, and a snippet is a command of it:
// it has a command's deadlines, limits and outcomes, and what it prints, and what it
// starts, is the command's. The library talks to the interpreter through two fifos and a
// file in a private directory of the container. Nothing is installed in the image; beside
// Python, it needs sh, mkdir, mkfifo, cat and rm.
//
// stdin is empty: input() raises EOFError. Threads and processes that a snippet leaves
// behind go on; a copy of the interpreter that it has forked ends with the snippet.
// SIGINT and SIGTERM are the library's: a snippet's handlers last as long as the snippet.
//
// A session is one level of trust: a snippet can fake its value, its output and those of
// later ones, and end the interpreter. The host returns in time all the same, and takes
// no more than the limits.
//
// Under an [execpolicy.HostPolicy] on a system without /proc no interpreter starts.
package python
