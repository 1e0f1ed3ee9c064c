package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// open starts the session that the other steps use.
func open(ctx context.Context, h *host) (string, error) {
	began := time.Now()
	s, err := execpolicy.Start(ctx, h.policy(), execpolicy.Spec{
		Env:    map[string]string{"API_KEY": h.secret},
		Labels: map[string]string{label: h.id},
	})
	if err != nil {
		return "", err
	}
	h.session = s
	return fmt.Sprintf("started in %d ms", time.Since(began).Milliseconds()), nil
}

// run runs a command in the session.
func run(c execpolicy.Command) func(context.Context, *host) (string, error) {
	return func(ctx context.Context, h *host) (string, error) {
		r, err := h.session.Run(ctx, c)
		if r == nil {
			return "", err
		}
		h.stateLost = r.StateLost
		return describe(c, r), err
	}
}

// cancelOnceHeard cancels a command as soon as it has printed.
func cancelOnceHeard(c execpolicy.Command) func(context.Context, *host) (string, error) {
	return func(ctx context.Context, h *host) (string, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		why := errors.New("the caller has heard enough")
		c.Stdout = canceler(func() { cancel(why) })
		r, err := h.session.Run(ctx, c)
		if r == nil || !errors.Is(err, why) {
			return "", err
		}
		return describe(c, r), nil
	}
}

// A canceler is called when something is written.
type canceler func()

func (f canceler) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// limited is run for what would harm the machine without limits.
func limited(c execpolicy.Command) func(context.Context, *host) (string, error) {
	return func(ctx context.Context, h *host) (string, error) {
		if h.limits != nil {
			return "", leftOut(h.limits.Error())
		}
		return run(c)(ctx, h)
	}
}

// kept looks for what the shell had before it was waiting for a loop. On a machine that
// stands still the end of the loop may cost the shell too, which is said: then it is all
// done once more.
func kept(ctx context.Context, h *host) (string, error) {
	if h.stateLost {
		for _, c := range []execpolicy.Command{toKeep, pythonLoop} {
			if _, err := run(c)(ctx, h); err != nil {
				return "", err
			}
		}
	}
	return run(script(`echo "$kept"`))(ctx, h)
}

// runAsRoot runs a command in a session of its own, whose user is root.
func runAsRoot(c execpolicy.Command) func(context.Context, *host) (string, error) {
	return func(ctx context.Context, h *host) (string, error) {
		p := h.policy()
		p.User = "0:0"
		r, err := execpolicy.Run(ctx, p, execpolicy.Spec{Labels: map[string]string{label: h.id}}, c)
		if r == nil {
			return "", err
		}
		return describe(c, r), err
	}
}

// roundTrip sends bytes through a program.
func roundTrip(ctx context.Context, h *host) (string, error) {
	sent := make([]byte, 1<<20)
	rand.Read(sent)
	var came bytes.Buffer
	if _, err := h.session.Run(ctx, execpolicy.Command{Script: "cat", Stdin: bytes.NewReader(sent),
		Stdout: &came}); err != nil {
		return "", err
	}
	equal := "equal"
	if !bytes.Equal(came.Bytes(), sent) {
		equal = "not equal"
	}
	return fmt.Sprintf("%d bytes, %s", came.Len(), equal), nil
}

// flood takes much more output than is kept. Memory may grow by what is kept of both
// streams and by 8 MiB.
func flood(ctx context.Context, h *host) (string, error) {
	const kept = 1 // MiB, by default
	const allowed = 2*kept + 8
	growth := watchMemory()
	r, err := h.session.Run(ctx, script(`yes | head -c 268435456`))
	if err != nil {
		return "", err
	}
	// Rounded up.
	grown := (growth() + 1<<20 - 1) >> 20
	verdict := "allowed"
	if grown > allowed {
		verdict = "exceeded"
	}
	return fmt.Sprintf("%d bytes, %d lines, %d kept, memory +%d MiB (%d %s)",
		r.StdoutInfo.Bytes, r.StdoutInfo.Lines, len(r.Stdout), grown, allowed, verdict), nil
}

// secrets looks for the session's secret and a command's where other users of the host
// could see them, while a program has both.
func secrets(ctx context.Context, h *host) (string, error) {
	ofCommand := rand.Text()
	var look sync.Once
	var ps, inspect string
	var inspectErr error
	r, err := h.session.Run(ctx, execpolicy.Command{
		Argv:    []string{"sh", "-c", `echo "$API_KEY ${#TOKEN} $TOKEN"; sleep 0.5`},
		Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: ofCommand}},
		Stdout: writerFunc(func([]byte) {
			look.Do(func() {
				ps = hostProcesses(ctx)
				inspect, inspectErr = h.inspect(ctx, h.session.Name())
			})
		}),
	})
	if err = errors.Join(err, inspectErr); err != nil {
		return "", err
	}
	if ps == "" {
		return "", leftOut("this system has no list of processes that the tour can read")
	}
	// Lists without the container would prove nothing.
	for where, text := range map[string]string{"ps": ps, "inspect": inspect} {
		if !strings.Contains(text, h.session.Name()) {
			return "", fmt.Errorf("%s does not show %s", where, h.session.Name())
		}
	}
	shows := func(s string) bool { return strings.Contains(s, h.secret) || strings.Contains(s, ofCommand) }
	printed, program := strings.CutPrefix(string(r.Stdout), fmt.Sprintf("%s %d ", h.secret, len(ofCommand)))
	return fmt.Sprintf("program: %v, ps: %v, inspect: %v, printed: %q", program, shows(ps), shows(inspect), printed), nil
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// hostProcesses returns the command lines of the host's processes, or nothing where there
// is no way to learn them.
func hostProcesses(ctx context.Context) string {
	var all strings.Builder
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, _ := os.ReadFile(f) // it may have ended
		all.Write(append(line, '\n'))
	}
	if len(files) == 0 {
		out, _ := exec.CommandContext(ctx, "ps", "-A", "-o", "args=").Output()
		all.Write(out)
	}
	return all.String()
}

// mounted makes a file in a mounted directory. Root gives the directory to somebody else
// first.
func mounted(ctx context.Context, h *host) (string, error) {
	if h.engine.Remote {
		return "", leftOut("a remote engine can't mount this machine's directories")
	}
	dir, err := os.MkdirTemp("", "cofferdam-tour-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 1000, 1000); err != nil {
			return "", err
		}
	}
	r, err := execpolicy.Run(ctx, h.policy(),
		execpolicy.Spec{Workspace: dir, Labels: map[string]string{label: h.id}}, script(`echo 'made inside' >made`))
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "made")
	text, err := os.ReadFile(file)
	if err != nil {
		return describe(execpolicy.Command{}, r), err
	}
	want, came := owner(dir), owner(file)
	if came != want {
		return fmt.Sprintf("%q, owned by %s, not by %s", text, came, want), nil
	}
	return fmt.Sprintf("%q, owned by the workspace's owner (%s)", text, came), nil
}

// sensitive asks for a mount that would give the host away.
func sensitive(ctx context.Context, h *host) (string, error) {
	p := h.policy()
	p.Mounts = []dockercli.Mount{{Source: "/etc", Target: "/mnt"}}
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Labels: map[string]string{label: h.id}})
	switch {
	case err == nil:
		return "it was mounted", s.Close()
	case !errors.Is(err, execpolicy.ErrInvalid):
		return "", err
	}
	return "refused: " + strings.TrimPrefix(err.Error(), execpolicy.ErrInvalid.Error()+": "), nil
}

// closeSession closes the session and looks for containers of any step.
func closeSession(ctx context.Context, h *host) (string, error) {
	if err := h.session.Close(); err != nil {
		return "", err
	}
	left, err := h.engine.PS(ctx, map[string]string{label: h.id})
	return fmt.Sprintf("%d containers left", len(left)), err
}
