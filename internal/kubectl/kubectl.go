// Package kubectl runs the kubectl program: one typed function for each verb that
// execpolicy/kube uses, and one table that says what its errors mean. It knows paths and
// flags, and nothing of what is in a pod.
//
// The verbs are raw requests, but for attach, exec and the removal by the guard. A raw
// request is one HTTP request and needs neither discovery nor schemas. What is sent goes
// by stdin, so that nothing of it is in an argument list.
package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
)

// A Client is a kubectl program and where it points. The fields are those of a
// kube.Cluster.
type Client struct {
	Path, Kubeconfig, Context, Namespace string
	Env                                  []string
}

// String names the cluster.
func (c *Client) String() string {
	name := "kubectl"
	if c.Path != "" {
		name = c.Path
	}
	for _, part := range []struct{ what, value string }{
		{"context", c.Context}, {"namespace", c.Namespace},
	} {
		if part.value != "" {
			name += ", " + part.what + " " + part.value
		}
	}
	return name
}

// Find returns c with the fields filled in that are empty: the program on PATH, and the
// context and the namespace of its configuration. It fails if that names no server:
// kubectl would send what it is given to port 8080 of this machine.
func Find(ctx context.Context, c Client) (*Client, error) {
	path, err := lookPath(c.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoProgram, err)
	}
	c.Path = path
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(absolute(c.Env), "KUBERC=off")
	if c.Kubeconfig != "" {
		if c.Kubeconfig, err = filepath.Abs(c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
		}
	}
	out, err := c.run(ctx, "config", nil, "config", "view", "--minify", "--output=json")
	var config struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct{ Cluster struct{ Server string } }
		Contexts       []struct{ Context struct{ Namespace string } }
	}
	if err == nil {
		if err := json.Unmarshal(out, &config); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	switch {
	case err == nil && len(config.Clusters) > 0 && config.Clusters[0].Cluster.Server != "":
		if c.Context == "" {
			c.Context = config.CurrentContext
		}
		if c.Namespace == "" && len(config.Contexts) > 0 {
			c.Namespace = config.Contexts[0].Context.Namespace
		}
	case c.Kubeconfig == "" && c.Context == "" && (err == nil || errors.Is(err, ErrNoCluster)) && inCluster(c.Env):
		if c.Namespace == "" {
			name, _ := os.ReadFile(filepath.Join(accountDir, "namespace"))
			c.Namespace = strings.TrimSpace(string(name))
		}
	case err != nil:
		return nil, err
	default:
		return nil, ErrNoCluster
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	// It becomes a part of paths.
	if strings.Trim(c.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("%w: the namespace %q: its name has small letters, digits and \"-\"", ErrNoCluster, c.Namespace)
	}
	return &c, nil
}

// absolute returns an environment in which the files of KUBECONFIG have absolute names:
// the guard works in another directory.
func absolute(env []string) []string {
	env = slices.Clone(env)
	for i, e := range env {
		value, ok := strings.CutPrefix(e, "KUBECONFIG=")
		if !ok {
			continue
		}
		files := filepath.SplitList(value)
		for j, name := range files {
			if path, err := filepath.Abs(name); err == nil && name != "" {
				files[j] = path
			}
		}
		env[i] = "KUBECONFIG=" + strings.Join(files, string(filepath.ListSeparator))
	}
	return env
}

func lookPath(name string) (string, error) {
	if name == "" {
		name = "kubectl"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return path, err
}

// accountDir is where a pod has what its service account may ask the cluster with.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// inCluster reports whether kubectl takes the cluster of the pod that this program runs
// in, when it has no configuration.
func inCluster(env []string) bool {
	_, err := os.Stat(filepath.Join(accountDir, "token"))
	has := func(name string) bool {
		return slices.ContainsFunc(env,
			func(e string) bool { return strings.HasPrefix(e, name+"=") && e != name+"=" })
	}
	return err == nil && has("KUBERNETES_SERVICE_HOST") && has("KUBERNETES_SERVICE_PORT")
}

// Pods is the path of the pods of the namespace.
func (c *Client) Pods() string { return "/api/v1/namespaces/" + c.Namespace + "/pods" }

// argv returns the command line of a verb.
func (c *Client) argv(words ...string) []string {
	argv := []string{c.Path}
	for _, flag := range []struct{ name, value string }{
		{"--kubeconfig=", c.Kubeconfig}, {"--context=", c.Context}, {"--namespace=", c.Namespace},
	} {
		if flag.value != "" {
			argv = append(argv, flag.name+flag.value)
		}
	}
	return append(argv, words...)
}

// CreateArgs returns the command line that creates at a path what it reads from stdin.
func (c *Client) CreateArgs(path string) []string {
	return c.argv("create", "--raw="+path, "--filename=-")
}

// GetArgs returns the command line that gets what is at a path.
func (c *Client) GetArgs(path string) []string { return c.argv("get", "--raw="+path) }

// DeleteArgs returns the command line that deletes what is at a path, with the options
// that it reads from stdin.
func (c *Client) DeleteArgs(path string) []string {
	return c.argv("delete", "--raw="+path, "--filename=-")
}

// RemoveArgs returns the command line that removes pods, whose names are put after it,
// and does not wait for them to be gone. Nobody ends it, so it gives up by itself: it
// asks up to six times of a server that does not answer.
func (c *Client) RemoveArgs() []string {
	return c.argv("delete", "pod", "--now", "--wait=false", "--ignore-not-found",
		"--request-timeout=10s")
}

// AttachArgs returns the command line that connects its streams with those of a
// container.
func (c *Client) AttachArgs(pod, container string) []string {
	return c.argv("attach", "--stdin", "--quiet", "--container="+container, pod)
}

// ExecArgs returns the command line that runs a command in a container.
func (c *Client) ExecArgs(pod, container string, command []string) []string {
	return append(
		c.argv("exec", "--stdin", "--quiet", "--container="+container, pod, "--"),
		command...)
}

// Create creates at a path what the body says, and returns what was made of it.
func (c *Client) Create(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.run(ctx, "create", body, c.CreateArgs(path)[len(c.argv()):]...)
}

// Get returns what is at a path.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return c.run(ctx, "get", nil, c.GetArgs(path)[len(c.argv()):]...)
}

// DeletePod deletes a pod of that UID, which gets so many seconds to end. With none the
// cluster forgets it at once, so nothing may run in it any more.
func (c *Client) DeletePod(ctx context.Context, name, uid string, grace int64) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace,
		"preconditions": map[string]any{"uid": uid},
	})
	if err != nil {
		return err
	}
	_, err = c.run(
		ctx,
		"delete",
		body,
		c.DeleteArgs(c.Pods() + "/" + name)[len(c.argv()):]...)
	return err
}

// callTimeout bounds a request of which nobody says how long it may take.
const callTimeout = 30 * time.Second

// run runs kubectl with that stdin and returns its stdout.
func (c *Client) run(
	ctx context.Context, verb string, stdin []byte, words ...string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, notStarted(err)
	}
	defer r.Close()
	go func() {
		// It fails if kubectl ends before it has read all.
		w.Write(stdin)
		w.Close()
	}()
	// What waits for kubectl to read can't outlive it.
	out, errOut := bounded{most: maxAnswer}, bounded{most: maxErrors}
	argv := c.argv(words...)
	state, err := procgroup.Output(ctx, procgroup.Cmd{
		Path: c.Path, Args: argv, Env: c.Env, Stdin: r, NewSession: true,
	}, &out, &errOut)
	switch {
	case state == nil && ctx.Err() == nil:
		return nil, notStarted(err)
	case err != nil:
		return nil, NewError(verb, argv, -1, errOut.text, err)
	case out.full:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", verb, out.most)
	case state.ExitCode() != 0:
		if bytes.HasPrefix(out.text, []byte("Please enter ")) {
			// Kubectl asks for credentials on stdout.
			errOut.text = append(errOut.text, out.text...)
		}
		return nil, NewError(verb, argv, state.ExitCode(), errOut.text, nil)
	}
	return out.text, nil
}

const (
	// maxAnswer is how long an answer may be. A list of pods has about 10 kB for each.
	maxAnswer = 64 << 20
	// maxErrors is how much is read of what kubectl says on stderr.
	maxErrors = 64 << 10
)

// A bounded buffer takes no more than most bytes.
type bounded struct {
	text []byte
	most int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-len(b.text))
	b.text = append(b.text, p[:n]...)
	if n < len(p) {
		b.full = true
		return n, io.ErrShortWrite
	}
	return n, nil
}

// notStarted returns the error of a kubectl that could not be started.
func notStarted(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrNoProgram, err)
	}
	return fmt.Errorf("%w: %w", ErrNotStarted, err)
}

// Watch calls each with every version of the pod of that name, until each returns true,
// or the cluster ends the watch, which it does after so long. It returns whether each has
// returned true. A watch that says nothing may have lost its server, so the caller has to
// ask again in another way.
func (c *Client) Watch(
	ctx context.Context, name string, within time.Duration,
	each func(object []byte) bool,
) (bool, error) {
	seconds := max(int(within/time.Second), 1)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+watchGrace)
	defer cancel()
	path := fmt.Sprintf("%s?watch=1&fieldSelector=metadata.name=%s&timeoutSeconds=%d",
		c.Pods(), name, seconds)
	events := &events{each: each, enough: cancel}
	errOut := bounded{most: maxErrors}
	argv := c.GetArgs(path)
	state, err := procgroup.Output(ctx,
		procgroup.Cmd{Path: c.Path, Args: argv, Env: c.Env, NewSession: true}, events, &errOut)
	// It may still be in a call of each.
	events.Lock()
	done := events.done
	events.done = true
	events.Unlock()
	switch {
	case done:
		return true, nil
	case state == nil && ctx.Err() == nil:
		return false, notStarted(err)
	case errors.Is(err, context.DeadlineExceeded):
		return false, nil // it was silent
	case err != nil:
		return false, NewError("watch", argv, -1, errOut.text, err)
	case state.ExitCode() != 0:
		return false, NewError("watch", argv, state.ExitCode(), errOut.text, nil)
	}
	return false, nil
}

// watchGrace is how much later than the cluster the client ends a watch.
const watchGrace = 2 * time.Second

// maxEvent is how long an event may be: a pod's object has at most 1.5 MiB in the
// cluster.
const maxEvent = 4 << 20

// events takes the lines of a watch.
type events struct {
	sync.Mutex
	each   func([]byte) bool
	enough context.CancelFunc
	line   []byte
	done   bool
}

func (e *events) Write(p []byte) (int, error) {
	e.Lock()
	defer e.Unlock()
	n := len(p)
	for !e.done {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		e.line = append(e.line, line...)
		if len(e.line) > maxEvent {
			return 0, errors.New("an event of a watch is too long")
		}
		if !whole {
			break
		}
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(e.line, &event); err != nil {
			return 0, fmt.Errorf("an event of a watch: %w", err)
		}
		e.line, p = e.line[:0], rest
		object := event.Object
		switch event.Type {
		case "ADDED", "MODIFIED":
		case "DELETED":
			object = nil
		default:
			continue // it is about the watch itself
		}
		if e.each(object) {
			e.done = true
			e.enough()
		}
	}
	return n, nil
}

// Start starts kubectl with that command line and those streams.
func (c *Client) Start(
	argv []string, stdin, stdout, stderr *os.File,
) (*procgroup.Process, error) {
	p, err := procgroup.Start(procgroup.Cmd{
		Path:       c.Path,
		Args:       argv,
		Env:        c.Env,
		Stdin:      stdin,
		Stdout:     stdout,
		Stderr:     stderr,
		NewSession: true,
	})
	if err != nil {
		return nil, notStarted(err)
	}
	return p, nil
}
