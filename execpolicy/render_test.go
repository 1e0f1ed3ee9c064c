package execpolicy_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/truncate"
)

func ExampleResult_Render() {
	r := &execpolicy.Result{
		Outcome: execpolicy.OutcomeTimedOut, ExitCode: -1, Timeout: time.Second, StateLost: true,
		Stdout: []byte("\x1b[32mok\x1b[0m  test_a\n 10 %\r 90 %\rdone\n"),
		Stderr: []byte("waiting for test_b"),
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
	// Output:
	// ok  test_a
	// done
	// [stderr]
	// waiting for test_b
	//
	// Timed out after 1.0 s: the command was ended.
	// The shell was replaced: its variables and functions are gone, files stay.
}

func ExampleRenderOptions() {
	r := &execpolicy.Result{Outcome: execpolicy.OutcomeExited, ExitCode: 1, Stdout: []byte(lines(1, 1000))}
	fmt.Println(r.Render(execpolicy.RenderOptions{MaxLines: 7}))
	// Output:
	// line 1
	// line 2
	// ... 8860 bytes (996 lines) dropped ...
	// line 999
	// line 1000
	//
	// Exit code: 1
}

// lines returns numbered lines.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestRender(t *testing.T) {
	exited := func(code int) execpolicy.Result {
		return execpolicy.Result{Outcome: execpolicy.OutcomeExited, ExitCode: code}
	}
	of := func(o execpolicy.Outcome) execpolicy.Result {
		return execpolicy.Result{Outcome: o, ExitCode: -1, Stdout: []byte("out\n"), Stderr: []byte("err\n"),
			Timeout: 1500 * time.Millisecond}
	}
	with := func(r execpolicy.Result, change func(r *execpolicy.Result)) execpolicy.Result {
		change(&r)
		return r
	}
	printed := func(stdout, stderr string) execpolicy.Result {
		return with(exited(0), func(r *execpolicy.Result) { r.Stdout, r.Stderr = []byte(stdout), []byte(stderr) })
	}
	const both = "out\n[stderr]\nerr\n\n"
	for _, c := range []struct {
		name    string
		result  execpolicy.Result
		options execpolicy.RenderOptions
		want    string
	}{
		{"nothing", exited(0), execpolicy.RenderOptions{}, "<no output>"},
		{"nothing that shows", printed("\x1b[0m\a", ""), execpolicy.RenderOptions{}, "<no output>"},
		{"an exit code alone", exited(3), execpolicy.RenderOptions{}, "Exit code: 3"},
		{"output", printed("out\n", ""), execpolicy.RenderOptions{}, "out\n"},
		{"output without a newline", printed("out", "err"), execpolicy.RenderOptions{}, "out\n[stderr]\nerr"},
		{"stderr alone", printed("", "err\n"), execpolicy.RenderOptions{}, "[stderr]\nerr\n"},
		{"an exit code", with(of(execpolicy.OutcomeExited), func(r *execpolicy.Result) { r.ExitCode = 139 }),
			execpolicy.RenderOptions{}, both + "Exit code: 139"},
		{"timed out", of(execpolicy.OutcomeTimedOut), execpolicy.RenderOptions{},
			both + "Timed out after 1.5 s: the command was ended."},
		{"canceled", of(execpolicy.OutcomeCanceled), execpolicy.RenderOptions{}, both + "Canceled: the command was ended."},
		{"out of memory", of(execpolicy.OutcomeOOMKilled), execpolicy.RenderOptions{}, both + "Killed: out of memory."},
		{"too much output", of(execpolicy.OutcomeOutputLimit), execpolicy.RenderOptions{},
			both + "Too much output: the command was ended."},
		{"session lost", with(of(execpolicy.OutcomeSessionLost), func(r *execpolicy.Result) { r.StateLost = true }),
			execpolicy.RenderOptions{},
			both + "The session was lost while the command ran.\nThe session has ended, with all of its state."},
		{"container ended", with(of(execpolicy.OutcomeTimedOut),
			func(r *execpolicy.Result) { r.StateLost, r.Escalation = true, execpolicy.EscalationContainer }),
			execpolicy.RenderOptions{},
			both + "Timed out after 1.5 s: the command was ended.\nThe session has ended, with all of its state."},
		{"signaled", with(of(execpolicy.OutcomeSignaled), func(r *execpolicy.Result) { r.Signal = 11 }),
			execpolicy.RenderOptions{}, both + "Killed by signal 11 (segmentation fault)."},
		{"signaled by one of the others",
			with(of(execpolicy.OutcomeSignaled), func(r *execpolicy.Result) { r.Signal = 64 }),
			execpolicy.RenderOptions{}, both + "Killed by signal 64."},
		{"refused", execpolicy.Result{Outcome: execpolicy.OutcomeRefused, ExitCode: -1,
			Cause: errors.New("no\x1b[31m way")}, execpolicy.RenderOptions{}, "Error: no way."},
		{"state lost", with(printed("out\n", ""), func(r *execpolicy.Result) { r.StateLost = true }),
			execpolicy.RenderOptions{},
			"out\n\nThe shell was replaced: its variables and functions are gone, files stay."},
		{"background output", with(printed("out\n", ""), func(r *execpolicy.Result) { r.BackgroundBytes = 12 }),
			execpolicy.RenderOptions{},
			"out\n\nBackground jobs printed 12 bytes while no command ran, which were dropped."},
		{"blocked", with(exited(1), func(r *execpolicy.Result) { execpolicy.Block(r, errors.New("detected email")) }),
			execpolicy.RenderOptions{},
			"Output blocked: detected email.\nExit code: 1"},
		{"escapes", printed("\x1b]0;title\a\x1b[1;31mred\x1b[0m\x1b(B \x9b7m\u009b7mx\x00\b\x7f\ty\r\nz\r", ""),
			execpolicy.RenderOptions{}, "red \ufffd7m7mx\ty\nz"},
		{"escapes kept", printed("\x1b[1mx\xff\r\n", ""), execpolicy.RenderOptions{KeepEscapes: true}, "\x1b[1mx\ufffd\r\n"},
		{"lines", printed(lines(1, 10), lines(11, 12)), execpolicy.RenderOptions{MaxLines: 9},
			"line 1\nline 2\n... 42 bytes (6 lines) dropped ...\nline 9\nline 10\n[stderr]\nline 11\nline 12\n"},
		{"lines of both", printed(lines(1, 10), lines(11, 20)), execpolicy.RenderOptions{MaxLines: 7},
			"line 1\n... 56 bytes (8 lines) dropped ...\nline 10\n[stderr]\nline 11\n... 64 bytes (8 lines) dropped " +
				"...\nline 20\n"},
		{"bytes", printed(strings.Repeat("é", 100), ""), execpolicy.RenderOptions{MaxBytes: 60},
			strings.Repeat("é", 6) + "\n... 176 bytes dropped ...\n" + strings.Repeat("é", 6)},
		{"what the session did not keep", with(printed(lines(1, 2)+lines(9, 10), ""), func(r *execpolicy.Result) {
			r.StdoutInfo = execpolicy.StreamInfo{Bytes: 71, Lines: 10, DroppedBytes: 42, DroppedLines: 6, Cut: 14}
		}), execpolicy.RenderOptions{}, "line 1\nline 2\n... 42 bytes (6 lines) dropped ...\nline 9\nline 10\n"},
		{"what the session did not keep, and more", with(printed(lines(1, 2)+lines(9, 10), ""), func(r *execpolicy.Result) {
			r.StdoutInfo = execpolicy.StreamInfo{Bytes: 71, Lines: 10, DroppedBytes: 42, DroppedLines: 6, Cut: 14}
		}), execpolicy.RenderOptions{MaxLines: 3}, "line 1\n... 56 bytes (8 lines) dropped ...\nline 10\n"},
		{"no room for output", with(printed(lines(1, 10), ""), func(r *execpolicy.Result) { r.ExitCode = 1 }),
			execpolicy.RenderOptions{MaxBytes: 15}, "Exit code: 1"},
		{"no room", exited(12), execpolicy.RenderOptions{MaxBytes: 4}, "Exit"},
		{"no bounds", printed(lines(1, 5000), ""), execpolicy.RenderOptions{MaxBytes: -1, MaxLines: -1}, lines(1, 5000)},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.result.Render(c.options), c.want) })
	}
	long := printed(lines(1, 100000), "")
	text := long.Render(execpolicy.RenderOptions{})
	assert.Assert(t, len(text) <= execpolicy.DefaultRenderBytes &&
		strings.Count(text, "\n") == execpolicy.DefaultRenderLines)
	assert.Assert(t, strings.HasPrefix(text, "line 1\n") && strings.HasSuffix(text, "\nline 100000\n"))
}

// Whatever a command prints and however it ends, the text is one that can be shown, and
// within the bounds.
func FuzzRender(f *testing.F) {
	f.Add([]byte("out\n"), []byte("err"), int64(0), 0, uint8(1), 0, 0, false)
	f.Add([]byte("\x1b[31mé\x1b]0;t\a\r\n\xff\xc3"), []byte(lines(1, 50)), int64(7), 3, uint8(3), 60, 5, false)
	f.Add([]byte(strings.Repeat("é\x1b[0m", 200)), []byte("\r\r\x9b\n"), int64(-1), -1, uint8(2), 200, -1, true)
	f.Add([]byte("\x1bP\n\x1b\\"), []byte{}, int64(1), 1, uint8(8), 1, 1, false)
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, dropped int64, cut int, outcome uint8, maxBytes,
		maxLines int, keep bool) {
		o := execpolicy.Outcome(outcome % 9)
		r := &execpolicy.Result{
			Outcome: o, ExitCode: int(outcome), Signal: int(outcome), StateLost: cut%2 == 0, BackgroundBytes: dropped,
			Stdout: stdout, Stderr: stderr,
			StdoutInfo: execpolicy.StreamInfo{DroppedBytes: dropped, Lines: dropped, Cut: cut},
			StderrInfo: execpolicy.StreamInfo{DroppedBytes: dropped / 2, Lines: dropped, Cut: cut},
			Cause:      errors.New(string(stderr)),
		}
		text := r.Render(execpolicy.RenderOptions{MaxBytes: maxBytes, MaxLines: maxLines, KeepEscapes: keep})
		assert.Assert(t, utf8.ValidString(text), "%q", text)
		limit, most := maxBytes, maxLines
		if limit == 0 {
			limit = execpolicy.DefaultRenderBytes
		}
		if most == 0 {
			most = execpolicy.DefaultRenderLines
		}
		assert.Assert(t, limit < 0 || len(text) <= limit, "%d of %d bytes: %q", len(text), limit, text)
		n := strings.Count(text, "\n")
		if text != "" && !strings.HasSuffix(text, "\n") {
			n++
		}
		assert.Assert(t, most < 0 || n <= most, "%d of %d lines: %q", n, most, text)
		if !keep {
			assert.Assert(t, strings.IndexFunc(text,
				func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) < 0, "%q", text)
		}
		// What is shown of plain text is its head and its tail, and the count is exact.
		if dropped > 0 || o != execpolicy.OutcomeExited || len(stderr) > 0 || !bytes.Equal(truncate.Plain(stdout), stdout) {
			return
		}
		for _, line := range strings.SplitAfter(text, "\n") {
			var left int
			if _, err := fmt.Sscanf(line, "... %d byte", &left); err != nil || strings.Contains(string(stdout), line) {
				continue
			}
			head, tail, _ := strings.Cut(text, line)
			tail, _, _ = strings.Cut(tail, "\n\nExit code: ")
			assert.Assert(t, len(head)+len(tail)+left >= len(stdout) && len(head)+len(tail)+left <= len(stdout)+2,
				"%q of %q", text, stdout)
		}
	})
}
