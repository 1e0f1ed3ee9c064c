package execpolicy_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// atOnce is a policy whose commands end as soon as they are sent, without any shell.
type atOnce struct{}

func (atOnce) Spawn(context.Context, execpolicy.Spec) (*execpolicy.Process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer outW.Close()
		defer errW.Close()
		answer(inR, outW, errW)
	}()
	return &execpolicy.Process{Name: "peer", Stdin: inW, Stdout: outR, Stderr: errR, Done: done,
		Kill: func(context.Context) error { return nil }}, nil
}

// answer answers each unit with marks, and allocates nothing while it does.
func answer(in io.ReadCloser, out, errOut io.Writer) {
	defer in.Close()
	var prefix, lead, tag []byte
	line, reply := make([]byte, 0, 1<<16), make([]byte, 0, 1<<10)
	buf := make([]byte, 1<<16)
	named, setUp := false, false
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		for rest := buf[:n]; ; {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				line = append(line, rest...)
				break
			}
			line = append(line, rest[:i]...)
			rest = rest[i+1:]
			op := line
			if setUp {
				op = line[len(lead):]
			}
			switch {
			case !setUp && bytes.HasPrefix(line, []byte("cf_prefix=")):
				prefix = append(prefix, line[len("cf_prefix="):]...)
			case !setUp && bytes.HasPrefix(line, []byte("cf_lead=")):
				lead = append(lead, line[len("cf_lead="):]...)
			case bytes.Equal(line, []byte("finish")):
				setUp = true
			case setUp && op[0] == 'n':
				tag, named = append(tag[:0], op[1:]...), true
			case setUp && op[0] == 'm':
				reply = append(append(append(append(reply[:0], prefix...), 'b'), tag...), '\n')
				out.Write(reply)
				errOut.Write(reply)
			case setUp && named && (op[0] == 'e' || op[0] == 'g'):
				named = false
				reply = append(append(append(append(reply[:0], prefix...), 'e'), tag...), '\n')
				errOut.Write(reply)
				reply = append(append(append(reply[:len(reply)-1], " 0 /"...), prefix...), '\n')
				out.Write(reply)
			}
			line = line[:0]
		}
	}
}

func startAtOnce(t testing.TB) *execpolicy.Session {
	t.Helper()
	s, err := execpolicy.Start(t.Context(), atOnce{}, execpolicy.Spec{})
	assert.NilError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// How often a command allocates at most: by a context that never ends, and by one that
// can.
const maxAllocs, maxAllocsEnd = 10, 13

func TestRunAllocates(t *testing.T) {
	s := startAtOnce(t)
	for most, ctx := range map[float64]context.Context{maxAllocs: context.Background(), maxAllocsEnd: t.Context()} {
		// What other tests have left may allocate too: what a command does is in every
		// count.
		least := math.Inf(1)
		for try := 0; try < 50 && least > most; try++ {
			least = min(least, testing.AllocsPerRun(100, func() {
				_, err := s.Run(ctx, execpolicy.Command{Script: ":"})
				assert.Check(t, err)
			}))
		}
		assert.Check(t, least <= most, "%v allocations a command, want at most %v", least, most)
	}
}

// What a command costs in this program, beside its way to a shell.
func BenchmarkRun(b *testing.B) {
	s := startAtOnce(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(ctx, execpolicy.Command{Script: ":"}); err != nil {
			b.Fatal(err)
		}
	}
}
