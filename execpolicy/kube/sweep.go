package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// sweepTimeout is how long Sweep takes for one pod.
const sweepTimeout = 30 * time.Second

// Sweep removes the pods of this library in the cluster's namespace that nobody can be
// using any more, and returns their names. Its rules are those of [execpolicy.Sweep]: the
// program that created a pod ran on this machine and has ended, or the time that its
// policy gave the pod ended more than an hour ago. The time is that of this machine's
// clock or of the cluster's, whichever is behind, and counts from the pod's creation by
// the cluster's clock if that is later.
//
// Sweep can't tell machines apart that were resumed from one snapshot of memory: they
// must not share a namespace.
//
// The kubelet ends a pod whose time is over by itself. Sweep is for what is left of it,
// and for pods whose program was killed with its guard.
//
// Sweep goes on after an error. If pods could not be removed, its error names them and
// wraps [execpolicy.ErrStillThere]. If the cluster does not list its pods, Sweep removes
// nothing, and the error is that of [Cluster.Find], or wraps [ErrDown], [ErrPermission]
// or another of this package's. ctx bounds the whole, and each pod gets at most 30 s.
func Sweep(ctx context.Context, c Cluster) (removed []string, err error) {
	k, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	text, err := k.Get(ctx, k.Pods()+"?labelSelector="+container.LabelName)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []pod }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	now := earlier(ctx, k)
	var errs []error
	for i, p := range list.Items {
		if ctx.Err() != nil {
			errs = append(
				errs,
				fmt.Errorf("%d pods were not looked at: %w", len(list.Items)-i, context.Cause(ctx)),
			)
			break
		}
		if !container.AbandonedSince(p.Metadata.Name, p.Metadata.Labels,
			p.Metadata.CreationTimestamp, now) {
			continue
		}
		r := &run{policy: &Policy{}, Client: *k, name: p.Metadata.Name, uid: p.Metadata.UID}
		limited, cancel := context.WithTimeout(ctx, min(sweepTimeout, bound.Left(ctx)/2))
		err := r.delete(limited, r.uid)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w: %w", r.name, policyerr.ErrStillThere, err))
			continue
		}
		removed = append(removed, r.name)
	}
	return removed, errors.Join(errs...)
}

// earlier returns the time by this machine's clock or, if that is behind, by the
// cluster's. A cluster that does not tell it, as those before Kubernetes 1.28, is taken
// to have this machine's.
func earlier(ctx context.Context, k *kubectl.Client) time.Time {
	now := time.Now()
	text, err := k.Create(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	var review pod
	if err == nil && json.Unmarshal(text, &review) == nil {
		if its := review.Metadata.CreationTimestamp; !its.IsZero() && its.Before(now) {
			return its
		}
	}
	return now
}
