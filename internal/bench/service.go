package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	serviceRounds  = 3
	serviceClients = 20
	requests       = 100
	shortRequests  = 40
	// minRefilled is the least part of the client's rate at which a pool is filled again.
	// A session has an engine's question and a removal with proof beside its start.
	minRefilled = 0.7
	// maxWarmRequest is the longest that a request to a warm session may take, of most.
	maxWarmRequest = 30 * time.Millisecond
)

// services holds an HTTP service over a pool of warm sessions, one session a request,
// against containers that the engine's client runs and removes, as many at a time as
// there are clients. The first request of each client finds a session that is idle, so
// requests are answered faster than the pool can go on answering them. How fast that is,
// is told by the time until the pool is as full as before: both have then started the
// same number of containers.
func services(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	dir, err := os.MkdirTemp("", "cofferdam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := size(ctx, dir, "service"); err != nil {
		return err
	}
	s, err := startService(filepath.Join(dir, "service"), p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	n := requests
	if short {
		n = shortRequests
	}
	var mu sync.Mutex
	var warm, answered times
	all, err := takeTurns(serviceRounds,
		func() (time.Duration, error) {
			if err := s.full(); err != nil {
				return 0, err
			}
			start := time.Now()
			err := inParallel(n, serviceClients, func(i int) error {
				start := time.Now()
				err := s.request()
				if i < serviceClients {
					mu.Lock()
					defer mu.Unlock()
					warm = append(warm, time.Since(start))
				}
				return err
			})
			answered = append(answered, time.Since(start))
			err = errors.Join(err, s.full())
			return time.Since(start), err
		},
		bareStarts(ctx, p, n, serviceClients))
	if err != nil {
		return err
	}
	rate := func(t times) string { return fmt.Sprintf("%.3g/s", float64(n)/t.median().Seconds()) }
	bare := rate(all[1]) + ", run -i to its end"
	if !short {
		// Of fewer requests, too many find a session that is idle.
		t.atLeast("HTTP requests, 20 clients", rate(answered), bare, 1, all[1].over(answered))
	}
	t.atLeast("HTTP requests, to a full pool again", rate(all[0]), bare, minRefilled, all[1].over(all[0]))
	t.within("HTTP request to a warm session", bare, maxWarmRequest, times.median, warm)
	return nil
}

// A service is a program that answers requests.
type service struct {
	url    string
	client http.Client
	cmd    *exec.Cmd
	stdin  io.Closer
}

func startService(program string, p execpolicy.DockerPolicy) (*service, error) {
	s := &service{cmd: exec.Command(program, p.Engine.Kind.String(), p.Image, strconv.Itoa(serviceClients))}
	s.client.Timeout = patience
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: serviceClients}
	s.cmd.Stderr = os.Stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.stdin = stdin
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.url = "http://" + strings.TrimSpace(address)
	return s, nil
}

func (s *service) close() error {
	s.client.CloseIdleConnections()
	s.stdin.Close()
	return s.cmd.Wait()
}

// full waits until all sessions of the pool are idle.
func (s *service) full() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		body, err := s.answer(s.client.Get(s.url + "/idle"))
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(body); err != nil || n >= serviceClients {
			return err
		}
	}
	return errors.New("the pool is not full in time")
}

// request has a script run.
func (s *service) request() error {
	body, err := s.answer(s.client.Post(s.url+"/run", "", strings.NewReader("echo hello")))
	if err == nil && body != "hello\n" {
		err = fmt.Errorf("the service answered %q", body)
	}
	return err
}

func (s *service) answer(r *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("the service answered %s: %s", r.Status, body)
	}
	return string(body), err
}
