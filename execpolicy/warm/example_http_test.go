package warm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
)

// A server runs the scripts that it is sent, each in a sandbox of its own:
//
//	curl --data-binary 'python3 -c "print(2 + 2)"' localhost:8080/run
//
// With more requests than sandboxes some wait. A request that would wait for too long, or
// comes while 32 others have a sandbox or wait for one, is told to come back: 429. The
// command of a client that goes away is ended. After a SIGTERM the requests that are under
// way are answered, and then no container is left.
func Example_http() {
	// Before anything is started, so that a signal is never missed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := warm.New(sandbox, execpolicy.Spec{}, warm.Options{
		Size:       4,
		MaxWaiting: 16,
		MaxWait:    5 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := net.Listen("tcp", "localhost:8080")
	if err == nil {
		// A pool does not limit how many sandboxes are in use, but memory does.
		err = serve(ctx, l, pool, 32)
	}
	fmt.Println(errors.Join(err, pool.Close()))
}

// serve answers requests until ctx ends, and those that have come by then, at most so many
// at a time.
func serve(ctx context.Context, l net.Listener, pool *warm.Pool, most int) error {
	places := make(chan struct{}, most)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			run(w, r, pool)
		default:
			busy(w)
		}
	})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// The commands of those that take longer are ended with their connections.
	grace, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := server.Shutdown(grace)
	return errors.Join(err, server.Close())
}

// busy tells a client to come back.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "all sandboxes are busy", http.StatusTooManyRequests)
}

// run runs the script that is the request's body. The request's context ends when the
// client goes away, whether that waits for a sandbox or for its command.
func run(w http.ResponseWriter, r *http.Request, pool *warm.Pool) {
	script, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s, err := pool.Take(r.Context(), execpolicy.Spec{Limits: execpolicy.Limits{CommandTimeout: 10 * time.Second}})
	switch {
	case errors.Is(err, warm.ErrBusy):
		busy(w)
		return
	case err != nil:
		// Why is the operator's to know.
		http.Error(w, "no sandbox", http.StatusServiceUnavailable)
		return
	}
	defer s.Close()
	result, _ := s.Run(r.Context(), execpolicy.Command{Argv: []string{"sh", "-c", string(script)}})
	if result == nil { // as when the client has gone
		http.Error(w, "the script did not run", http.StatusInternalServerError)
		return
	}
	text := result.Render(execpolicy.RenderOptions{})
	w.Header().Set("Outcome", result.Outcome.String())
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(w, text)
	// The client has it all, and need not wait for the end of the sandbox.
	http.NewResponseController(w).Flush()
}
