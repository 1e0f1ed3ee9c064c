package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

const (
	// ownEnd is how long the cluster may take to tell that a container has ended whose
	// client has seen its end.
	ownEnd = 5 * time.Second
	// createGrace is for the cluster to create a pod of which it was asked by a kubectl
	// that got no answer.
	createGrace = 3 * time.Second
	// clientGrace is for a kubectl to see that its pod is gone.
	clientGrace = time.Second
	// laterTimeout is how long an attempt may take when nobody waits any more, and
	// longestPause is between two of them.
	laterTimeout = 10 * time.Second
	longestPause = time.Minute
)

var (
	// pending has a turn for each pod that is removed when nobody waits any more. The
	// guard has the others, too, when this program ends.
	pending = turn.New(1000)
	// attempts has one for each of them that is tried at a time: a kubectl takes about
	// 50 MB.
	attempts = turn.New(4)
)

// kill makes sure that nothing runs in the pod, and that the cluster has forgotten it.
func (r *run) kill(ctx context.Context) error {
	r.attached.Lock()
	if !r.ended && r.client == nil {
		r.pipes.CloseInside()
		close(r.done)
	}
	r.ended = true
	r.attached.Unlock()
	left := bound.Left(ctx)
	limited, cancel := context.WithTimeout(ctx, left-min(clientGrace, left/4))
	defer cancel()
	err := r.remove(limited)
	if r.client != nil {
		// Its pod is gone, or nobody knows.
		err = errors.Join(err, stopClient(ctx, r.client, min(clientGrace, bound.Left(ctx)/2)))
	}
	if err != nil {
		// The guard goes on watching for it, too, and takes over when this program ends.
		if r.pending.CompareAndSwap(false, true) {
			if pending.TryTake() {
				go r.later()
			} else {
				r.pending.Store(false)
			}
		}
		return fmt.Errorf("pod %s of %v: %w: %w", r.name, &r.Client, policyerr.ErrStillThere,
			err)
	}
	r.guard.Remove(r.name)
	return nil
}

// later removes the pod as soon as the cluster lets it.
func (r *run) later() {
	defer r.pending.Store(false)
	defer pending.Give()
	// By the first attempt a pod that may have been created is there, or never will be.
	for pause := createGrace; ; pause = min(2*pause, longestPause) {
		time.Sleep(pause)
		if r.tryLater() {
			r.guard.Remove(r.name)
			return
		}
	}
}

// tryLater asks the cluster once to delete the pod, and reports whether it has no such
// pod any more. It does not wait for the node: the pods of one that is lost would keep
// all others from their turn.
func (r *run) tryLater() (gone bool) {
	attempts.Take(context.Background())
	defer attempts.Give()
	ctx, cancel := context.WithTimeout(context.Background(), laterTimeout)
	defer cancel()
	p, _, err := r.get(ctx)
	if err != nil {
		return false
	}
	if p == nil {
		return true
	}
	gone, _ = r.ask(ctx, p)
	return gone
}

// stopClient gives a kubectl so long to end by itself, and then ends it.
func stopClient(
	ctx context.Context, client *procgroup.Process, grace time.Duration,
) error {
	select {
	case <-client.Done():
		return nil
	case <-ctx.Done():
	case <-time.After(grace):
	}
	return client.Stop(context.WithoutCancel(ctx), clientGrace/4)
}

// remove removes the pod. A pod that has ended by itself is only forgotten. Another gets
// a second to end, and then its node kills it: the cluster forgets it when the node says
// that this is done. Package container removes in another way, because an engine can be
// asked whether it is down, and a node can't.
func (r *run) remove(ctx context.Context) error {
	if r.client != nil {
		select {
		case <-r.done:
			limited, cancel := context.WithTimeout(ctx, min(ownEnd, bound.Left(ctx)/3))
			p := r.awaitEnd(limited)
			cancel()
			if p != nil && p.over() {
				if err := r.DeletePod(ctx, r.name, r.uid, 0); err == nil || kubectl.IsGone(err) {
					return nil
				}
			}
		default:
		}
	}
	uid := r.uid
	if uid == "" {
		p, err := r.find(ctx)
		if p == nil || err != nil {
			return err
		}
		uid = p.Metadata.UID
	}
	return r.delete(ctx, uid)
}

// find looks for a pod of which it is not known whether it was created; nil if it was
// not.
func (r *run) find(ctx context.Context) (*pod, error) {
	for begin := time.Now(); ; {
		p, _, err := r.get(ctx)
		switch {
		case p != nil:
			return p, nil
		case err == nil && time.Since(begin) >= createGrace:
			return nil, nil
		case ctx.Err() != nil:
			return nil, errors.Join(err, fmt.Errorf("it may have been created: %w", r.unsure))
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
}

// ask asks the cluster to delete a pod, and reports whether it has no such pod any more.
// The error is that of a request that was not taken.
func (r *run) ask(ctx context.Context, p *pod) (gone bool, err error) {
	grace := int64(1)
	if p.over() {
		grace = 0 // nothing runs in it any more
	}
	err = r.DeletePod(ctx, r.name, p.Metadata.UID, grace)
	if kubectl.IsGone(err) {
		return true, nil
	}
	if err != nil || grace == 0 {
		return err == nil, err
	}
	// A watch says nothing of a pod that is gone already.
	p, _, err = r.get(ctx)
	return p == nil && err == nil, nil
}

// delete has the cluster delete the pod of that UID, and returns when it has no such pod
// any more.
func (r *run) delete(ctx context.Context, uid string) error {
	asked := false
	var refused error
	err := r.follow(ctx, endWatch, func(p *pod, _ []byte) (gone bool, _ error) {
		if p == nil || p.Metadata.UID != uid {
			return true, nil
		}
		if asked && !p.over() {
			return false, nil
		}
		gone, refused = r.ask(ctx, p)
		asked = refused == nil
		return gone, nil
	})
	switch {
	case err == nil:
		return nil
	case refused != nil:
		return errors.Join(refused, err)
	case asked:
		p := r.lastKnown()
		if p == nil || p.Spec.NodeName == "" {
			return fmt.Errorf("the cluster was asked to end it, and still has it: %w", err)
		}
		words := "it may run on there if the node or its kubelet is down"
		if since, lost := p.nodeLost(); lost {
			words = "the cluster takes that node for lost since " +
				since.UTC().Format(time.RFC3339) + ", and it may run on there"
		}
		return fmt.Errorf("the cluster was asked to end it, and its node %s has not said that "+
			"it has ended: %s: %w", p.Spec.NodeName, words, err)
	}
	return err
}
