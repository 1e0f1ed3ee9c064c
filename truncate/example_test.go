package truncate_test

import (
	"fmt"
	"io"
	"os"

	"github.com/seed-64a260eb/cofferdam/truncate"
)

func ExampleBuffer() {
	b := truncate.Buffer{Limit: 1 << 10, MaxLines: 4}
	for i := range 1000 {
		fmt.Fprintln(&b, "line", i)
	}
	fmt.Print(&b)
	fmt.Println(b.Total(), "bytes,", b.Lines(), "lines")
	// Output:
	// line 0
	// line 1
	// ... 8858 bytes (996 lines) dropped ...
	// line 998
	// line 999
	// 8890 bytes, 1000 lines
}

func ExampleCopier() {
	c := truncate.Copier{Buffer: truncate.Buffer{Limit: 1 << 10, MaxLines: 2}, W: os.Stdout}
	fmt.Fprintln(&c, "seen at once")
	fmt.Println("(meanwhile)")
	for i := range 10 {
		fmt.Fprintln(&c, "line", i)
	}
	if err := c.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// seen at once
	// (meanwhile)
	// ... 63 bytes (9 lines) dropped ...
	// line 9
}

func ExampleTranscript() {
	t := truncate.Transcript{MaxLines: 3}
	stdout, stderr := t.Stdout(), t.Stderr()
	io.WriteString(stdout, "one\ntwo\n")
	io.WriteString(stderr, "not found\n")
	io.WriteString(stdout, "three\nfour\n")
	fmt.Println(t.Text(127, true))
	// Output:
	// one
	// two
	// [stderr] not found
	//
	// ... Output truncated at 3 lines (observed 5).
	//
	// Exit code: 127
}

func ExampleExcerpt() {
	b := truncate.Buffer{Limit: 1 << 10}
	for i := range 1000 {
		fmt.Fprintf(&b, "\x1b[32mline %d\x1b[0m\n", i)
	}
	e := truncate.Excerpt{Head: truncate.Plain(b.Head()), Tail: truncate.Plain(b.Tail()), Dropped: b.Dropped(),
		Lines: b.Lines()}
	fmt.Print(e.Text(200, 5))
	// Output:
	// line 0
	// line 1
	// ... 17327 bytes (996 lines) dropped ...
	// line 998
	// line 999
}
