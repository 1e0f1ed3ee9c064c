package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
)

func TestRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		value, sessions := newValue(), newValue()
		var got execpolicy.Request
		env := map[string]string{"A": "1", "B": "2"}
		argv := []string{"sh", "-c", "pwd; echo $A$B; cat; echo ${#KEY}"}
		policy, spec := p.policy(), p.approving(func(_ context.Context, r execpolicy.Request) error {
			for _, format := range []string{"%v", "%+v", "%#v"} {
				assert.Check(t, !shows(fmt.Sprintf(format, r), value) && !shows(fmt.Sprintf(format, r), sessions))
			}
			got = r
			// What is changed is a copy.
			if len(r.Argv) > 0 {
				r.Argv[0] = "false"
			}
			for name := range r.Env {
				r.Env[name] = "changed"
			}
			// So is what runs.
			argv[0], env["A"] = "false", "changed"
			return nil
		})
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: sessions}}
		spec.Env = map[string]string{"SESSION": "x"}
		s := open(t, policy, spec)
		secrets := []execpolicy.Secret{{Name: "KEY",
			Lookup: func(context.Context, string) (string, error) { return value, nil }}}
		r := s.run(execpolicy.Command{Argv: argv, Dir: "/tmp", Env: env, Secrets: secrets, Timeout: ample / 2,
			Stdin: strings.NewReader("in\n")})
		assert.Equal(t, string(r.Stdout), fmt.Sprintf("/tmp\n12\nin\n%d\n", len(value)))
		assert.Assert(t, got.Stdin != nil)
		got.Stdin = nil
		assert.DeepEqual(t, got, execpolicy.Request{
			Kind: execpolicy.RequestArgv, Argv: []string{"false", "-c", argv[2]}, Dir: "/tmp",
			Env: map[string]string{"A": "changed", "B": "changed"}, Secrets: []string{"KEY"}, Timeout: ample / 2,
		})

		s.ok("true")
		assert.DeepEqual(t, got, execpolicy.Request{Kind: execpolicy.RequestScript, Code: "true", Timeout: ample})
		s.run(execpolicy.Command{Script: "true", Timeout: -1})
		assert.Assert(t, got.Timeout < 0)
	})
}

// What a refusal quotes is redacted as all else is.
func TestRefusalShowsNoSecret(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		sessions, value := newValue(), newValue()
		spec := p.approving(func(context.Context, execpolicy.Request) error { return errPolicy })
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: sessions}}
		s := open(t, p.policy(), spec)
		r := s.run(execpolicy.Command{Script: "a " + value + " " + sessions,
			Secrets: []execpolicy.Secret{{Name: "KEY", Value: value}}})
		assert.Equal(t, r.Text(),
			`Error: the command was refused: script "a [secret KEY] [secret TOKEN]": no deletions today.`)
	})
}

// Who approves reads as much of the stdin as it likes, and the command gets all of it.
func TestRequestStdin(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var approve func(r execpolicy.Request) error
		s := open(t, p.policy(), p.approving(func(_ context.Context, r execpolicy.Request) error { return approve(r) }))
		long := strings.Repeat("0123456789", 100_000)
		upTo := func(n int64) func(r execpolicy.Request) error {
			return func(r execpolicy.Request) error {
				got, err := io.ReadAll(io.LimitReader(r.Stdin, n))
				assert.Check(t, string(got) == long[:min(n, int64(len(long)))], "%d bytes", len(got))
				return err
			}
		}
		var kept io.Reader
		for _, c := range []struct {
			name    string
			approve func(r execpolicy.Request) error
		}{
			{"nothing is read", func(execpolicy.Request) error { return nil }},
			{"a part is read", upTo(5000)},
			{"all is read", upTo(1 << 40)},
			{"nothing is read at first", func(r execpolicy.Request) error {
				n, err := r.Stdin.Read(nil)
				assert.Check(t, n == 0)
				return err
			}},
			{"what was read is changed", func(r execpolicy.Request) error {
				got, err := io.ReadAll(r.Stdin)
				clear(got)
				return err
			}},
			{"it is read later", func(r execpolicy.Request) error { kept = r.Stdin; return upTo(100)(r) }},
		} {
			for _, stdin := range []io.Reader{strings.NewReader(long),
				iotest.DataErrReader(iotest.HalfReader(strings.NewReader(long)))} {
				approve = c.approve
				r := s.run(execpolicy.Command{Script: "wc -c; read x || echo end", Stdin: stdin})
				assert.Equal(t, strings.Join(strings.Fields(string(r.Stdout)), " "), "1000000 end", c.name)
			}
		}
		n, err := kept.Read(make([]byte, 1))
		assert.Equal(t, n, 0)
		assert.ErrorIs(t, err, fs.ErrClosed)

		approve = func(r execpolicy.Request) error {
			n, err := io.Copy(io.Discard, r.Stdin)
			assert.Check(t, n == execpolicy.MaxStdin+1)
			assert.Check(t, errors.Is(err, execpolicy.ErrStdinTooLong))
			return nil
		}
		_, err = s.Run(t.Context(), execpolicy.Command{Script: "cat", Stdin: endless{}})
		assert.ErrorIs(t, err, execpolicy.ErrStdinTooLong)

		approve = func(r execpolicy.Request) error {
			got, err := io.ReadAll(r.Stdin)
			assert.Check(t, string(got) == "some" && errors.Is(err, errHook))
			return nil
		}
		_, err = s.Run(t.Context(),
			execpolicy.Command{Script: "cat", Stdin: io.MultiReader(strings.NewReader("some"), iotest.ErrReader(errHook))})
		assert.ErrorIs(t, err, errHook)

		// What is refused unread stays the caller's.
		approve = func(execpolicy.Request) error { return errPolicy }
		stdin := strings.NewReader("stays")
		assert.Equal(t, s.run(execpolicy.Command{Script: "cat", Stdin: stdin}).Outcome, execpolicy.OutcomeRefused)
		assert.Equal(t, stdin.Len(), 5)

		// What a Read brings that goes on when Approve has returned is the command's all
		// the same.
		begun, w := make(chan struct{}), make(chan string)
		reads := 0
		from := readerFunc(func(p []byte) (int, error) {
			if reads++; reads == 1 {
				close(begun)
			}
			text, more := <-w
			if !more {
				return 0, io.EOF
			}
			return copy(p, text), nil
		})
		approve = func(r execpolicy.Request) error {
			go r.Stdin.Read(make([]byte, 10))
			<-begun
			return nil
		}
		c := make(chan string)
		go func() {
			r, err := s.Run(t.Context(), execpolicy.Command{Script: "cat", Stdin: from})
			assert.Check(t, err)
			c <- string(r.Stdout)
		}()
		w <- "first "
		w <- "second"
		close(w)
		assert.Equal(t, <-c, "first second")
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// endless is a stdin without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An Approve that is left behind, wherever it is, has nothing more of the caller's
// Reader.
func TestRequestStdinIsTheCallersAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		type kept struct {
			stdin io.Reader
			again chan struct{}
		}
		asked, left := make(chan kept, 1), make(chan error, 1)
		s := open(t, p.policy(), p.approving(func(_ context.Context, r execpolicy.Request) error {
			k := kept{r.Stdin, make(chan struct{})}
			asked <- k
			// Until it gets no more.
			b := make([]byte, 1)
			_, err := k.stdin.Read(b)
			for ; err == nil; _, err = k.stdin.Read(b) {
			}
			<-k.again
			_, again := k.stdin.Read(b)
			left <- errors.Join(err, again)
			return nil
		}))
		run := func(stdin io.Reader) kept {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() {
				r, err := s.Run(ctx, execpolicy.Command{Script: "cat", Stdin: stdin})
				assert.Check(t, r == nil)
				done <- err
			}()
			select {
			case k := <-asked:
				cancel(errHook)
				assert.ErrorIs(t, <-done, errHook)
				return k
			case err := <-done:
				t.Fatalf("Approve was not asked: %v", err)
				return kept{}
			}
		}

		// One that reads all the time: the race detector sees whether the caller is alone
		// with it.
		many := bytes.NewReader(bytes.Repeat([]byte("x"), execpolicy.MaxStdin))
		k := run(many)
		_, err := many.Seek(0, io.SeekStart)
		assert.NilError(t, err)
		_, err = io.Copy(io.Discard, many)
		assert.NilError(t, err)
		close(k.again)
		assert.ErrorIs(t, <-left, fs.ErrClosed)

		// One that waits: what it still gets is nobody's, and then it has an error.
		r, w := io.Pipe()
		defer r.Close()
		k = run(r)
		go w.Write([]byte("x")) // nobody reads it if Approve was slow to begin
		close(k.again)
		assert.ErrorIs(t, <-left, fs.ErrClosed)
	})
}

// Whoever gets an Approve's context runs something else with it.
func TestWhatApproveRunsIsSomethingElse(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var second execpolicy.Request
		other := open(t, p.policy(),
			p.approving(func(_ context.Context, r execpolicy.Request) error { second = r; return nil }))
		var first execpolicy.Request
		s := open(t, p.policy(), p.approving(func(ctx context.Context, r execpolicy.Request) error {
			first = r
			_, err := other.Run(ctx, execpolicy.Command{Script: "echo judge"})
			return err
		}))
		ctx := ours.WithCode(t.Context(), ours.Code{Kind: "block", Text: "harmless"})
		_, err := s.Run(ctx, execpolicy.Command{Script: "echo run"})
		assert.NilError(t, err)
		assert.Equal(t, first.Code, "harmless")
		assert.Equal(t, second.Code, "echo judge")
	})
}

func ExampleRequest() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{
		Approve: func(ctx context.Context, r execpolicy.Request) error {
			if strings.Contains(r.Code, "curl") || len(r.Argv) > 0 && r.Argv[0] == "curl" {
				return errors.New("nothing is to be fetched")
			}
			if r.Stdin != nil {
				data, err := io.ReadAll(r.Stdin) // the command gets all of it
				if err != nil {
					return err
				}
				fmt.Printf("%v is given %d bytes\n", r, len(data))
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Argv: []string{"sha256sum"}, Stdin: strings.NewReader("data")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

// A person who is asked sees what kind of thing is to run.
func ExampleRequestKind() {
	ask := func(r execpolicy.Request) {
		switch r.Kind {
		case execpolicy.RequestScript, execpolicy.RequestArgv:
			fmt.Println("May this command run?", r)
		default:
			fmt.Printf("May this %s code run?\n%s\n", r.Language, r.Code)
		}
	}
	ask(execpolicy.Request{Kind: execpolicy.RequestArgv, Argv: []string{"ls", "-l"}})
	ask(execpolicy.Request{Kind: execpolicy.RequestSnippet, Language: "python", Code: "x = 1\nprint(x)"})
	// Output:
	// May this command run? argv ["ls" "-l"]
	// May this python code run?
	// x = 1
	// print(x)
}
