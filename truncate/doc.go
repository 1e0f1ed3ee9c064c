// Package truncate keeps what is worth keeping of an output without end, in bounded
// memory.
//
// A [Buffer] keeps the first and the last part of one stream and counts what lies
// between. A [Copier] is a Buffer that passes the first part on at once. A [Transcript]
// keeps the first whole lines of two streams together, and renders them to the byte as
// LangChain's shell tool does. An [Excerpt] is the head and the tail of an output for a
// reader who has less room than was kept.
//
// The first three are writers that never fail and never write short, so that capturing
// its output can't disturb a command. How the output was cut into writes changes no
// result.
package truncate
