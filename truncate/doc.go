// Package truncate keeps a part of an output of any length, in bounded memory.
//
// A [Buffer] keeps the head and the tail of one stream and counts what lies between. A
// [Copier] is a Buffer that passes the head on at once. A [Transcript] keeps the first
// lines of two streams together, and renders them to the byte as LangChain's shell tool
// does. An [Excerpt] shortens the head and the tail of an output further, for a reader
// with less room.
//
//	b := truncate.Buffer{Limit: 64 << 10}
//	io.Copy(&b, output)
//	fmt.Printf("%s\n%d bytes left out\n%s", b.Head(), b.Dropped(), b.Tail())
//
// A Buffer and a Copier are writers, and a Transcript has one for each stream. They never
// fail and never write short, so that capturing the output of a command can't disturb it.
// It does not matter how the output was cut into writes.
package truncate
