package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
)

// A langchain is a shell of which LangChain's ShellSession is the model, with its flags,
// its limits and its pauses: two readers put lines into a queue without a bound, a marker
// that the shell prints ends a command, and the standard error is waited for afterwards.
type langchain struct {
	container
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *queue
}

const (
	maxLines         = 100
	stderrPause      = 50 * time.Millisecond
	terminationPause = 10 * time.Second
)

func (l *langchain) Start(_ context.Context, c contest.Container) error {
	l.Container = c
	args := append(l.run("-i", "--rm", "--network", "none", "-w", "/"), c.Image, "/bin/sh")
	l.cmd = l.client(context.Background(), args...)
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := l.cmd.StderrPipe()
	if err != nil {
		return err
	}
	l.stdin, l.lines = stdin, &queue{more: make(chan struct{}, 1)}
	go l.lines.fill(stdout, false)
	go l.lines.fill(stderr, true)
	return l.cmd.Start()
}

func (l *langchain) Run(ctx context.Context, script string) (int, error) {
	marker := "__LC_SHELL_DONE__" + rand.Text()
	if _, err := fmt.Fprintf(l.stdin, "%s\nprintf '%s %%s\\n' $?\n", script, marker); err != nil {
		return 0, err
	}
	size, count := 0, 0
	for {
		next, err := l.lines.next(ctx)
		if err != nil {
			// What was printed is dropped, and the shell is another one.
			return 0, errors.Join(err, l.Close(), l.Start(context.Background(), l.Container))
		}
		status, ended := strings.CutPrefix(next.text, marker+" ")
		if ended && !next.stderr {
			if status != "0\n" {
				return size, fmt.Errorf("exit status %s", status)
			}
			break
		}
		if count++; count <= maxLines {
			size += len(next.text)
		}
	}
	pause, cancel := context.WithTimeout(ctx, stderrPause)
	defer cancel()
	for {
		next, err := l.lines.next(pause)
		if err != nil {
			return size, nil
		}
		if next.stderr {
			size += len(next.text)
		}
	}
}

// Close asks the shell to exit, and kills the client if it does not.
func (l *langchain) Close() error {
	io.WriteString(l.stdin, "exit\n")
	killed := time.AfterFunc(terminationPause, func() { l.cmd.Process.Kill() })
	err := l.cmd.Wait()
	l.stdin.Close()
	if !killed.Stop() {
		return nil
	}
	return err
}

type line struct {
	text   string
	stderr bool
}

// A queue holds the lines of both streams until they are taken.
type queue struct {
	mu    sync.Mutex
	lines []line
	more  chan struct{}
}

func (q *queue) fill(r io.Reader, stderr bool) {
	for b := bufio.NewReader(r); ; {
		text, err := b.ReadString('\n')
		if text != "" {
			q.mu.Lock()
			q.lines = append(q.lines, line{text, stderr})
			q.mu.Unlock()
			select {
			case q.more <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

func (q *queue) next(ctx context.Context) (line, error) {
	for {
		q.mu.Lock()
		if len(q.lines) > 0 {
			next := q.lines[0]
			q.lines = q.lines[1:]
			q.mu.Unlock()
			return next, nil
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return line{}, ctx.Err()
		}
	}
}
