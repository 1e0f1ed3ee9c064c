package shellwire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const testPrefix = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// parse feeds a stream in pieces of the sizes given, over and over, and writes down what
// comes out.
func parse(stdout bool, stream []byte, sizes ...int) string {
	return parseBy(Parser{Stdout: stdout}, stream, nil, sizes...)
}

// parseBy is parse by that parser, of which the prefix is testPrefix. Each mark is shown
// to see, if that is not nil.
func parseBy(p Parser, stream []byte, see func(Mark), sizes ...int) string {
	var log strings.Builder
	var out []byte
	flush := func() {
		if len(out) > 0 {
			fmt.Fprintf(&log, "out %q\n", out)
			out = nil
		}
	}
	p.Prefix = testPrefix
	p.Output = func(b []byte) { out = append(out, b...) }
	p.Mark = func(m Mark) {
		flush()
		fmt.Fprintf(&log, "%+v\n", m)
		if see != nil {
			see(m)
		}
	}
	var buf []byte
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(n, max(1, sizes[i%len(sizes)]))
		}
		buf = append(buf, stream[:n]...)
		stream = stream[n:]
		held := p.Parse(buf)
		if held > maxMark {
			panic("held back more than a mark")
		}
		buf = append(buf[:0], buf[len(buf)-held:]...)
	}
	p.Flush(buf)
	flush()
	return log.String()
}

func TestParser(t *testing.T) {
	const p = testPrefix
	for _, c := range []struct {
		name   string
		stdout bool
		in     string
		want   []string
	}{
		{"output alone", true, "hello\n", []string{`out "hello\n"`}},
		{"nothing", true, "", nil},
		{"a worker that was gone before", true, p + "x2 unrun\n",
			[]string{"{Kind:3 Tag: Generation:2 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:true Dir: Reached:false OOMKills:0}"}},
		{"begin", true, p + "bT1\n",
			[]string{"{Kind:1 Tag:T1 Generation:0 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"end behind a line without a newline", true, "no newline" + p + "eT1 3 /a b" + p + "\nlate", []string{
			`out "no newline"`, "{Kind:2 Tag:T1 Generation:0 Status:3 Signal:0 NoDir:false NoFile:false NotRun:false Dir:/a b Reached:false OOMKills:0}", `out "late"`,
		}},
		{"a directory with a newline", true, p + "eT1 0 /a\nb" + p + "\n",
			[]string{"{Kind:2 Tag:T1 Generation:0 Status:0 Signal:0 NoDir:false NoFile:false NotRun:false Dir:/a\nb Reached:false OOMKills:0}"}},
		{"no directory", true, p + "eT1 nodir " + p + "\n",
			[]string{"{Kind:2 Tag:T1 Generation:0 Status:-1 Signal:0 NoDir:true NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"a program that was killed", true, p + "eT1 s139 /" + p + "\n" + p + "eT2 s129 /" + p + "\n" + p +
			"eT3 s192 /" + p + "\n", []string{
			"{Kind:2 Tag:T1 Generation:0 Status:139 Signal:11 NoDir:false NoFile:false NotRun:false Dir:/ Reached:false OOMKills:0}",
			"{Kind:2 Tag:T2 Generation:0 Status:129 Signal:1 NoDir:false NoFile:false NotRun:false Dir:/ Reached:false OOMKills:0}",
			"{Kind:2 Tag:T3 Generation:0 Status:192 Signal:64 NoDir:false NoFile:false NotRun:false Dir:/ Reached:false OOMKills:0}",
		}},
		{"a signal that is none", true, p + "eT s128 /" + p + "\n" + p + "eT s193 /" + p + "\n" + p + "eT s /" + p +
			"\n" + p + "eT ss139 /" + p + "\n" + p + "eT snodir /" + p + "\n",
			[]string{
				fmt.Sprintf("out %q", p+"eT s128 /"+p+"\n"+p+"eT s193 /"+p+"\n"+p+"eT s /"+p+"\n"+p+"eT ss139 /"+p+"\n"+p+
					"eT snodir /"+p+"\n"),
			}},
		{"a shell that was killed has no signal", true, p + "x1 s139\n",
			[]string{"{Kind:3 Tag: Generation:1 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"end on stderr", false, "x" + p + "eT1\n",
			[]string{`out "x"`, "{Kind:2 Tag:T1 Generation:0 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"death", true, p + "x2 137\n",
			[]string{"{Kind:3 Tag: Generation:2 Status:137 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"death by an unknown hand", true, p + "x2 killed\n",
			[]string{"{Kind:3 Tag: Generation:2 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"death on stderr", false, p + "x2\n",
			[]string{"{Kind:3 Tag: Generation:2 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"a status that is none", true, p + "eT1 256 /" + p + "\n" + p + "eT1 -1 /" + p + "\n" + p + "eT1 +1 /" +
			p + "\n" + p + "eT1 0x1 /" + p + "\n", []string{
			fmt.Sprintf("out %q", p+"eT1 256 /"+p+"\n"+p+"eT1 -1 /"+p+"\n"+p+"eT1 +1 /"+p+"\n"+p+"eT1 0x1 /"+p+"\n"),
		}},
		{"a generation that is none", true, p + "x0 1\n" + p + "x-1 1\n",
			[]string{fmt.Sprintf("out %q", p+"x0 1\n"+p+"x-1 1\n")}},
		{"a prefix and nothing", true, p + "?", []string{fmt.Sprintf("out %q", p+"?")}},
		{"a prefix in a prefix", true, "ABC" + p + p + "bT\n",
			[]string{fmt.Sprintf("out %q", "ABC"+p),
				"{Kind:1 Tag:T Generation:0 Status:-1 Signal:0 NoDir:false NoFile:false NotRun:false Dir: Reached:false OOMKills:0}"}},
		{"a mark that never ends", true, p + "eT1 0 " + strings.Repeat("/", 2*maxMark),
			[]string{fmt.Sprintf("out %q", p+"eT1 0 "+strings.Repeat("/", 2*maxMark))}},
		{"a mark that is cut off", true, "a" + p + "eT1 0 /", []string{fmt.Sprintf("out %q", "a"+p+"eT1 0 /")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Join(append(c.want, ""), "\n")
			for _, sizes := range [][]int{nil, {1}, {2}, {3, 7}, {25}, {26}, {27}, {4096}} {
				assert.Equal(t, parse(c.stdout, []byte(c.in), sizes...), want, "pieces of %v", sizes)
			}
		})
	}
}

// However a stream is cut, the same comes out; and all that is no mark comes out.
func FuzzParser(f *testing.F) {
	const p = testPrefix
	f.Add(true, []byte("hello"+p+"eT 0 /"+p+"\nrest"), 3, 5)
	f.Add(true, []byte(p+"bT\n"+p+"x1 9\n"+p+p+"e"), 1, 1)
	f.Add(true, []byte(p+"eT s139 /"+p+"\n"+p+"eT s99 /"+p+"\n"), 4, 9)
	f.Add(false, []byte(p+"eT\nABCDEF"+p[:20]), 2, 30)
	f.Add(false, []byte("a"+p+"i\n"+p+"ix\n"+p+"i"), 2, 30)
	f.Fuzz(func(t *testing.T, stdout bool, stream []byte, a, b int) {
		// A short way to write the prefix, which no fuzzer guesses.
		stream = bytes.ReplaceAll(stream, []byte("~"), []byte(p))
		assert.Equal(t, parse(stdout, stream, a, b), parse(stdout, stream))
		if !bytes.Contains(stream, []byte(p)) && len(stream) > 0 {
			assert.Equal(t, parse(stdout, stream, a), fmt.Sprintf("out %q\n", stream))
		}
	})
}

// So it is with a job's streams. Answers are on stdout only. But for files that could not
// be made, the marks are those of a unit.
func FuzzParserOfJobs(f *testing.F) {
	const p = testPrefix
	f.Add(true, []byte("a"+p+"jN 1 7\n"+p+"jN 0 -\n"+p+"jN 2 0\nb"), 3, 30)
	f.Add(true, []byte(p+"bT 12\n"+p+"bT\nout"+p+"eT s137 "+p+"\n"), 1, 40)
	f.Add(true, []byte(p+"eT nofile "+p+"\n"+p+"eT nodir "+p+"\n"+p+"j"), 9, 60)
	f.Add(false, []byte(p+"bT\nerr"+p+"jN 1 7\n"+p+"eT\n"), 20, 33)
	f.Add(false, []byte("a"+p+"i\nb"), 1, 30)
	f.Fuzz(func(t *testing.T, stdout bool, stream []byte, a, b int) {
		stream = bytes.ReplaceAll(stream, []byte("~"), []byte(p))
		job := Parser{Stdout: stdout, Job: true}
		plain := true // no mark is a job's alone
		whole := parseBy(job, stream, func(m Mark) {
			plain = plain && !m.NoFile
			assert.Assert(t, stdout || m.Kind != Answer && !m.NoFile, "%+v", m)
			assert.Assert(t, m.Status >= -1 && m.Status <= 255 && m.OOMKills >= -1, "%+v", m)
		})
		assert.Equal(t, parseBy(job, stream, nil, a, b), whole)
		if plain {
			assert.Equal(t, parse(stdout, stream), whole)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	for name, data := range map[string][]byte{
		"zeros": make([]byte, 128<<10),
		"lines": bytes.Repeat([]byte("A line of output, as commands print them.\n"), 3000),
		// What hostile programs print: marks that begin and never end.
		"openings":      bytes.Repeat([]byte(testPrefix+"e"), 5000),
		"long openings": bytes.Repeat([]byte(testPrefix+"e"+strings.Repeat("/", maxMark-100)), 8),
	} {
		b.Run(name, func(b *testing.B) {
			p := Parser{Prefix: testPrefix, Stdout: true, Output: func([]byte) {}, Mark: func(Mark) {}}
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				held := p.Parse(data)
				p.Flush(data[len(data)-held:])
			}
		})
	}
}

// Only stdout has answers, and only a job has files.
func TestParserOfJobs(t *testing.T) {
	const in = "aP42jN1 1 7\nP42jN2 0 -\nP42jN3 2 0\nP42eT nofile P42\nb"
	for _, c := range []struct {
		stdout, job bool
		out         string
		marks       []Mark
	}{
		{true, true, "aP42jN3 2 0\nb", []Mark{
			{Kind: Answer, Tag: "N1", Status: -1, Reached: true, OOMKills: 7},
			{Kind: Answer, Tag: "N2", Status: -1, OOMKills: -1},
			{Kind: End, Tag: "T", Status: -1, NoFile: true},
		}},
		{true, false, "aP42jN3 2 0\nP42eT nofile P42\nb", []Mark{
			{Kind: Answer, Tag: "N1", Status: -1, Reached: true, OOMKills: 7},
			{Kind: Answer, Tag: "N2", Status: -1, OOMKills: -1},
		}},
	} {
		for size := range len(in) {
			var out []byte
			var marks []Mark
			p := Parser{Prefix: "P42", Stdout: c.stdout, Job: c.job,
				Output: func(b []byte) { out = append(out, b...) }, Mark: func(m Mark) { marks = append(marks, m) }}
			var held []byte
			for rest := []byte(in); len(rest) > 0; {
				n := min(size+1, len(rest))
				data := append(held, rest[:n]...)
				rest = rest[n:]
				held = append([]byte(nil), data[len(data)-p.Parse(data):]...)
			}
			p.Flush(held)
			assert.Equal(t, string(out), c.out)
			assert.DeepEqual(t, marks, c.marks)
		}
	}
}
