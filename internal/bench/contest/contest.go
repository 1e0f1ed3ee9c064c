// Package contest is what the scoreboard and the programs of those who take part in it
// have in common: each says on its standard output what it has done of what is asked on
// its standard input.
package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A Container is what commands are to run in.
type Container struct {
	Engine []string // the client's program and its flags
	Image  string
	Labels map[string]string
	Flags  []string // of run, such as others have that take flags
}

// A Contender runs commands in a container in the way that its users know.
type Contender interface {
	// Start makes ready for commands.
	Start(ctx context.Context, c Container) error
	// Run runs a shell script until ctx ends, and returns how much of what it prints a
	// user would have.
	Run(ctx context.Context, script string) (int, error)
	// Close ends what Start has started.
	Close() error
}

// The operations of a [Request].
const (
	Start = "start"
	Run   = "run"
	Close = "close"
)

// A Request asks for one operation.
type Request struct {
	Op        string
	Container Container     // of Start
	Script    string        // of Run
	Times     int           // how often Run runs it
	Timeout   time.Duration // of each; zero means none
}

// A Response says what came of a request.
type Response struct {
	Times []time.Duration // what each took
	Bytes int             // of output, of the last
	Err   string          // of the last
}

// Serve answers requests until the standard input ends. The first argument of the program
// says who contends.
func Serve(contenders map[string]Contender) {
	if err := serve(contenders, os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(contenders map[string]Contender, name string, r io.Reader, w io.Writer) error {
	c, ok := contenders[name]
	if !ok {
		return fmt.Errorf("there is no contender %q", name)
	}
	requests, responses := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var request Request
		if err := requests.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := responses.Encode(answer(c, request)); err != nil {
			return err
		}
	}
}

func answer(c Contender, r Request) (a Response) {
	for range max(1, r.Times) {
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		if r.Timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		}
		var err error
		switch r.Op {
		case Start:
			err = c.Start(ctx, r.Container)
		case Run:
			a.Bytes, err = c.Run(ctx, r.Script)
		case Close:
			err = c.Close()
		default:
			err = fmt.Errorf("there is no operation %q", r.Op)
		}
		a.Times = append(a.Times, time.Since(start))
		cancel()
		if err != nil {
			a.Err = err.Error()
			return a
		}
	}
	return a
}
