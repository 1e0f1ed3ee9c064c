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
// comes while 32 others have a sandbox or wait for one, is told to try again later: 429.
// The command of a client that goes away is ended. After a SIGTERM the requests that are
// under way are answered, and then no container is left.
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

// serve answers requests until ctx ends, and those that have come by then, at most so
// many of them at a time.
func serve(ctx context.Context, l net.Listener, pool *warm.Pool, most int) error {
	h := handler{pool, make(chan struct{}, most)}
	mux := http.NewServeMux()
	mux.Handle("POST /run", h)
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		err = server.Shutdown(grace)
	}
	// The commands of those that take longer are ended with their connections.
	err = errors.Join(err, server.Close())
	for range most {
		h.places <- struct{}{} // nobody else has it any more
	}
	return err
}

// A handler runs the scripts of requests, each of which takes a place.
type handler struct {
	pool   *warm.Pool
	places chan struct{}
}

// busy tells a client to try again later.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "all sandboxes are busy", http.StatusTooManyRequests)
}

// ServeHTTP runs the script that is the request's body. The request's context ends when
// the client goes away, whether that waits for a sandbox or for its command.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	script, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	default:
		busy(w)
		return
	}
	s, err := h.pool.Take(r.Context(), execpolicy.Spec{Limits: execpolicy.Limits{CommandTimeout: 10 * time.Second}})
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
