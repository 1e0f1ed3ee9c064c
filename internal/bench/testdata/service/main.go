// Command service answers requests with what their scripts print, each in a sandbox of
// its own, as a program does whose author has read the documentation of package warm. It
// prints its address, and ends with its stdin.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/warm"
)

func main() {
	if err := serve(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, program, image, size string) (err error) {
	engine, err := dockercli.Lookup(ctx, program)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	policy := execpolicy.DockerPolicy{Engine: engine, Image: image}
	pool, err := warm.New(policy, execpolicy.Spec{}, warm.Options{Size: n})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) { run(w, r, pool) })
	mux.HandleFunc("GET /idle", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pool.Stats().Idle) })
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: mux}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func run(w http.ResponseWriter, r *http.Request, pool *warm.Pool) {
	script, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s, err := pool.Take(r.Context(), execpolicy.Spec{})
	switch {
	case errors.Is(err, warm.ErrBusy):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.Close()
	result, err := s.Run(r.Context(), execpolicy.Command{Script: string(script)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// The client need not wait for the sandbox's end.
	text := result.Render(execpolicy.RenderOptions{})
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(w, text)
	http.NewResponseController(w).Flush()
}
