package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// A run is a pod that this program has created, or has tried to, with what carries its
// streams.
type run struct {
	policy *Policy
	kubectl.Client
	name string
	sent object
	// policies are the namespace's, when the pod was sent.
	policies []networkPolicy
	uid      string // empty if it is not known whether the pod was created
	// unsure is why that is not known, or why the pod that was created is not to be used.
	unsure error
	guard  *container.Guard

	pipes    *procgroup.Pipes
	attached sync.Mutex         // of who attaches, and who ends
	client   *procgroup.Process // that is attached; nil before
	ended    bool               // nobody may attach any more
	done     chan struct{}      // closed when the client has ended, or is not to be

	pending atomic.Bool // later goes on

	mu   sync.Mutex
	last *pod // what the cluster said last, or how the container ended
}

// Spawn creates a pod for spec.Command, or sh if that is empty. The Process that it
// returns is a kubectl that is attached to the pod once that runs, which
// [execpolicy.Process.Ready] waits for. What the command prints before kubectl is
// attached is lost, and if it has ended by then, Ready fails. So a command that is no
// session has to read from its stdin before it prints or ends. Most callers use
// [execpolicy.Start] or [execpolicy.Run]. An error wraps [execpolicy.ErrInvalid],
// [execpolicy.ErrAudit] or [execpolicy.ErrStart], the last as a rule with one of this
// package's, or is that of [Cluster.Find].
func (p Policy) Spawn(
	ctx context.Context, spec execpolicy.Spec,
) (*execpolicy.Process, error) {
	name := container.NewName()
	sent, err := p.draft(spec, name)
	if err != nil {
		return nil, err
	}
	k, err := p.Cluster.client(ctx)
	if err != nil {
		return nil, err
	}
	var policies []networkPolicy
	if !p.NetworkEnabled {
		if policies, err = networkPolicies(ctx, k); err == nil {
			err = checkNetwork(policies, p.NetworkPolicy, labelsOf(sent))
		}
		if err != nil {
			return nil, onCluster(k, err)
		}
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	if err := p.record(ctx, k, spec, sent); err != nil {
		return nil, err
	}
	r := &run{policy: &p, Client: *k, name: name, sent: sent, policies: policies,
		done: make(chan struct{})}
	if r.pipes, err = procgroup.NewPipes(); err != nil {
		return nil, fmt.Errorf("%w: %w", execpolicy.ErrStart, err)
	}
	// From here on a pod may come into being.
	r.guard = container.NewGuard(k.RemoveArgs(), nil, nil, k.Env)
	r.guard.Add(name)
	if err := r.create(ctx, body); err != nil {
		r.guard.Remove(name)
		r.pipes.CloseInside()
		r.pipes.CloseOutside()
		return nil, onCluster(k, err)
	}
	return &execpolicy.Process{
		Name:            name,
		Engine:          k.String(),
		Transport:       execpolicy.TransportAttach,
		Stdin:           r.pipes.Outside[0],
		Stdout:          r.pipes.Outside[1],
		Stderr:          r.pipes.Outside[2],
		Done:            r.done,
		Kill:            r.kill,
		Limits:          p.limits(),
		OwnPIDNamespace: true, // checkAdmitted refuses all that could make it another's
		KeepAlive:       p.KeepAlive,
		Worker:          spec.Command,
		Scratch:         scratchDir,
		Dir:             workspaceDir,
		DirWritable:     true,
		Env:             map[string]string{"HOME": "/tmp"},
		ReadableShell:   p.gVisor(),
		EndTold:         exitTimeout,
		Ready:           r.ready,
		ExitCode:        sync.OnceValue(r.exitCode),
		Diagnose:        r.diagnose,
		OOMKilled:       r.oomKilled,
		Exec:            r.exec,
		ImageID:         r.imageID,
	}, nil
}

// onCluster returns an error that also names the cluster.
func onCluster(k *kubectl.Client, err error) error {
	return fmt.Errorf("%w: %w; the engine is %v", execpolicy.ErrStart, err, k)
}

// labelsOf returns the labels of a pod that is to be sent.
func labelsOf(sent object) map[string]string {
	labels := map[string]string{}
	for key, value := range sent["metadata"].(object)["labels"].(object) {
		labels[key] = value.(string)
	}
	return labels
}

// record records the command line with the pod after it, which kubectl reads from stdin,
// without the values of variables.
func (p *Policy) record(
	ctx context.Context, k *kubectl.Client, spec execpolicy.Spec, sent object,
) error {
	shown := maps.Clone(spec.Env)
	for name := range shown {
		shown[name] = "…"
	}
	hidden := spec
	hidden.Env = shown
	body := maps.Clone(sent["spec"].(object))
	one := maps.Clone(body["containers"].([]any)[0].(object))
	one["env"] = p.env(hidden)
	body["containers"] = []any{one}
	text, err := json.Marshal(object{"metadata": sent["metadata"], "spec": body})
	if err != nil {
		return err
	}
	return spec.RecordSpawn(ctx, sent["metadata"].(object)["name"].(string),
		append(k.CreateArgs(k.Pods()), string(text)))
}

// create creates the pod. An error means that there is none. If it is not known whether
// there is one, or if it is not what it should be, ready fails.
func (r *run) create(ctx context.Context, body []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	made, err := r.Create(ctx, r.Pods(), body)
	if err != nil {
		if e, ok := err.(*kubectl.Error); ok && e.Unreached() {
			return err
		}
		for _, refusal := range []error{
			ErrNoKubectl, kubectl.ErrNotStarted, ErrTooOld, ErrNoCluster, ErrLoggedOut,
			ErrPermission, ErrQuota, ErrAdmission, ErrArgument, ErrNoPod,
		} {
			if errors.Is(err, refusal) {
				return err
			}
		}
		r.unsure = err
		return nil
	}
	pod, err := readPod(made)
	if err != nil {
		r.unsure = err
		return nil
	}
	if r.uid = pod.Metadata.UID; r.uid == "" {
		// Something between may answer in the API's place.
		r.unsure = errors.New("what answers has a pod without a UID")
		return nil
	}
	r.unsure = r.check(pod, made, false)
	return nil
}

// check returns why a pod is not to be used, or nil.
func (r *run) check(p *pod, text []byte, runs bool) error {
	err := r.policy.checkAdmitted(r.sent, text, runs)
	if err != nil || r.policy.NetworkEnabled {
		return err
	}
	// It may have labels that were not sent: the node's, and what AllowAdmitted allows.
	return checkNetwork(r.policies, r.policy.NetworkPolicy, p.Metadata.Labels)
}

// ready waits until the pod runs, and attaches a kubectl to it.
func (r *run) ready(ctx context.Context) error {
	if r.unsure != nil {
		return r.unsure
	}
	timeout := r.policy.readyTimeout()
	late := fmt.Errorf("the pod does not run after %v", timeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	limited, give := context.WithCancelCause(limited)
	defer give(nil)
	var room *time.Timer // gives up; nil unless there is no room
	var state string
	err := r.follow(limited, readyWatch, func(p *pod, text []byte) (bool, error) {
		if p == nil {
			return false, fmt.Errorf("%w: somebody has deleted the pod", kubectl.ErrNotFound)
		}
		runs, now, err := p.await()
		if now != state && r.policy.Progress != nil {
			r.policy.Progress(r.name, now)
		}
		state = now
		if errors.Is(err, kubectl.ErrNoRoom) && r.policy.RoomTimeout > 0 {
			if room == nil {
				room = time.AfterFunc(r.policy.RoomTimeout, func() { give(err) })
			}
			return false, nil
		}
		if room != nil {
			room.Stop()
			room = nil
		}
		if err == nil && runs {
			err = r.check(p, text, true)
		}
		return runs, err
	})
	if room != nil {
		room.Stop()
	}
	if errors.Is(err, late) && state != "" {
		return fmt.Errorf("%w: %s", err, state)
	}
	if err != nil {
		return err
	}
	return r.attach()
}

// attach starts the kubectl that carries the streams.
func (r *run) attach() error {
	r.attached.Lock()
	defer r.attached.Unlock()
	if r.ended {
		return errors.New("the pod was ended before it was attached to")
	}
	in := r.pipes.Inside
	client, err := r.Start(r.AttachArgs(r.name, containerName), in[0], in[1], in[2])
	if err != nil {
		return err
	}
	r.pipes.CloseInside()
	r.client = client
	go func() {
		<-client.Done()
		close(r.done)
	}()
	return nil
}

// lastKnown returns what the cluster said last; nil if that is nothing.
func (r *run) lastKnown() *pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// note keeps what the cluster says, but forgets nothing of how the container has ended.
func (r *run) note(p *pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || !r.last.ended() {
		r.last = p
	}
}

const (
	// readyWatch is how long a watch may say nothing of a pod that is awaited before the
	// cluster is asked in another way, and endWatch of one that is to end.
	readyWatch = 15 * time.Second
	endWatch   = 3 * time.Second
	// lookAgain is the pause after a question that the cluster did not answer.
	lookAgain = 500 * time.Millisecond
)

// get asks for the pod. It is nil if there is none, or another one of its name.
func (r *run) get(ctx context.Context) (*pod, []byte, error) {
	text, err := r.Get(ctx, r.Pods()+"/"+r.name)
	if errors.Is(err, kubectl.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := r.read(text)
	return p, text, err
}

func (r *run) read(text []byte) (*pod, error) {
	p, err := readPod(text)
	if err != nil {
		return nil, err
	}
	if p.Metadata.Name != r.name || p.Metadata.UID == "" {
		// Something between may answer in the API's place.
		return nil, fmt.Errorf("the cluster's answer is not the pod %s: %.200q", r.name, text)
	}
	if r.uid != "" && p.Metadata.UID != r.uid {
		return nil, nil
	}
	r.note(p)
	return p, nil
}

// follow calls each with what the cluster says of the pod, each time that this changes,
// until each returns true or an error, or until ctx ends. The pod is nil if there is
// none. A question that the cluster does not answer is asked again.
func (r *run) follow(
	ctx context.Context, watch time.Duration, each func(*pod, []byte) (bool, error),
) error {
	var failure error // of the last question
	answered := false
	var begun time.Time // the last watch
	for {
		p, text, err := r.get(ctx)
		done := false
		if err == nil {
			answered = true
			done, err = each(p, text)
			if done || err != nil {
				return err
			}
			begun = time.Now()
			_, watchErr := r.Watch(ctx, r.name, watch, func(text []byte) bool {
				var p *pod
				if text != nil {
					if p, err = r.read(text); err != nil {
						return true
					}
				}
				done, err = each(p, text)
				return done || err != nil
			})
			if done || err != nil {
				return err
			}
			err = watchErr
		}
		switch {
		case ctx.Err() != nil:
			if !answered && failure == nil {
				failure = err // it says that the cluster does not answer
			}
			if failure == nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), failure)
		case errors.Is(err, ErrPermission) || errors.Is(err, ErrLoggedOut) || errors.Is(err, ErrNoKubectl):
			return err
		case err == nil && time.Since(begun) > lookAgain:
			failure = nil
			continue
		}
		failure = err
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
}

// exitTimeout is for the cluster to tell how a container has ended: its node looks once a
// second.
const exitTimeout = 5 * time.Second

// exitCode returns how the container has ended, or -1 if that is not known in time.
func (r *run) exitCode() int {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	if p := r.awaitEnd(ctx); p != nil {
		return p.container().State.Terminated.ExitCode
	}
	return -1
}

// awaitEnd waits until the container has ended, and returns what the cluster says then;
// nil if it does not end in time, or if the cluster does not know.
func (r *run) awaitEnd(ctx context.Context) *pod {
	known := func() *pod {
		if p := r.lastKnown(); p != nil && p.ended() {
			return p
		}
		return nil
	}
	if p := known(); p != nil {
		return p
	}
	r.follow(ctx, endWatch, func(p *pod, _ []byte) (bool, error) {
		return p == nil || known() != nil, nil
	})
	return known()
}

// oomKilled tells whether the kernel has killed the container for memory. What it killed
// inside of one that lives is counted there.
func (r *run) oomKilled(ctx context.Context, _ time.Time) (killed, known bool) {
	p := r.lastKnown()
	if p == nil || !p.ended() {
		var err error
		if p, _, err = r.get(ctx); p == nil || err != nil {
			return false, false
		}
	}
	return p.oomKilled()
}

// diagnose returns why the pod ended before anything was heard of its command.
func (r *run) diagnose(_ int, stderr []byte) error {
	if p := r.lastKnown(); p != nil && (p.ended() || p.over()) {
		return p.end()
	}
	if len(stderr) > 0 {
		return kubectl.NewError("attach", r.AttachArgs(r.name, containerName),
			r.client.State().ExitCode(), stderr, nil)
	}
	return nil
}

// imageID returns the ID of the container's image, as the node tells it.
func (r *run) imageID(ctx context.Context) (string, error) {
	p := r.lastKnown()
	if p == nil || p.container().ImageID == "" {
		var err error
		if p, _, err = r.get(ctx); err != nil {
			return "", err
		}
		if p == nil {
			return "", kubectl.ErrNotFound
		}
	}
	return p.container().ImageID, nil
}

// exec starts one more command in the container.
func (r *run) exec(_ context.Context, command []string) (*execpolicy.Process, error) {
	pipes, err := procgroup.NewPipes()
	if err != nil {
		return nil, err
	}
	// It has the container's environment, with what only the trial of the network needs.
	argv := r.ExecArgs(r.name, containerName,
		r.policy.limited("unset "+reach.NodeVar+"\n", command))
	client, err := r.Start(argv, pipes.Inside[0], pipes.Inside[1], pipes.Inside[2])
	pipes.CloseInside()
	if err != nil {
		pipes.CloseOutside()
		return nil, err
	}
	in, out, errOut := pipes.Outside[0], pipes.Outside[1], pipes.Outside[2]
	return &execpolicy.Process{Name: r.name, Stdin: in, Stdout: out, Stderr: errOut,
		Kill: func(ctx context.Context) error {
			in.Close()
			defer out.Close()
			defer errOut.Close()
			return stopClient(ctx, client, clientGrace)
		}}, nil
}
