package deps

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

const (
	// markPrefix begins the name of an empty volume that marks a layer as finished. The
	// layer's digest follows. An engine makes a name only once, so of those who build the
	// same layer at the same time, the mark names one.
	markPrefix = "cofferdam-built-"
	// labelLayer is the digest of the layer that a volume is, or marks.
	labelLayer = container.LabelPrefix + "layer"
	// labelIn is the name of the volume that holds the layer, on its mark.
	labelIn = container.LabelPrefix + "layer-in"

	// callTimeout is for a few calls of the engine's client.
	callTimeout = 30 * time.Second
	// defaultLifetime and defaultPull are those of a policy without a Lifetime and a
	// PullTimeout.
	defaultLifetime = 24 * time.Hour
	defaultPull     = 5 * time.Minute
)

// volumes are those of one layer in an engine.
type volumes struct {
	*dockercli.Engine
	digest string
}

func (v volumes) mark() string { return markPrefix + v.digest }

// discard removes the volume of a layer.
func (v volumes) discard(ctx context.Context, name string) error {
	return v.RemoveVolume(ctx, name, container.LabelName, name)
}

// labels are those of a volume of this layer.
func (v volumes) labels(name string) map[string]string {
	return map[string]string{container.LabelName: name, labelLayer: v.digest}
}

// owns reports whether a volume belongs to this layer, and holds nothing but what
// containers have written.
func (v volumes) owns(found *dockercli.Volume) bool {
	for key, value := range v.labels(found.Name) {
		if found.Labels[key] != value {
			return false
		}
	}
	return found.Driver == "local" && len(found.Options) == 0
}

// foreign is the error of a volume that somebody else has made under a name of ours.
func foreign(found *dockercli.Volume) error {
	return problems.Join(fmt.Errorf("the volume %q is not of this library, and is left alone: remove it if nobody needs it", found.Name))
}

// find returns the volume that holds the layer, or nothing if the layer is not finished.
func (v volumes) find(ctx context.Context) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	mark, err := v.InspectVolume(ctx, v.mark())
	if errors.Is(err, dockercli.ErrNoVolume) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if name, err = v.in(mark); err != nil {
		return "", err
	}
	layer, err := v.InspectVolume(ctx, name)
	switch {
	case errors.Is(err, dockercli.ErrNoVolume):
		// Somebody has removed it, and left the mark.
		return "", v.removeMark(ctx, name)
	case err != nil:
		return "", err
	case !v.owns(layer):
		return "", foreign(layer)
	}
	return name, nil
}

// in returns the name of the volume that a mark names.
func (v volumes) in(mark *dockercli.Volume) (name string, err error) {
	name = mark.Labels[labelIn]
	if !v.owns(mark) || mountguard.Volume(name) != nil {
		return "", foreign(mark)
	}
	return name, nil
}

// removeMark removes the mark that names that volume, and no other mark.
func (v volumes) removeMark(ctx context.Context, in string) error {
	return v.RemoveVolume(ctx, v.mark(), labelIn, in)
}

// build makes the layer in a volume of its own, and returns the volume that is marked as
// the layer in the end.
func (v volumes) build(ctx context.Context, p execpolicy.DockerPolicy, r Recipe) (name string, err error) {
	v.sweep(ctx)
	stage := mountguard.LayerPrefix + strings.ToLower(rand.Text())
	labels := container.Labels(stage, false, seconds(p), v.labels(stage))
	// What is whole gets its mark, and what is not is removed, whoever has given up.
	settle := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		return f(ctx)
	}
	discard := func(ctx context.Context) error { return v.discard(ctx, stage) }
	if _, err := v.CreateVolume(ctx, stage, labels); err != nil {
		// It may be there all the same.
		return "", errors.Join(err, settle(discard))
	}
	mount := dockercli.Mount{Volume: stage, Target: Target, Writable: true}
	if err = v.open(ctx, p, mount, r.Labels); err == nil {
		err = r.run(ctx, p, mount)
	}
	if err != nil {
		return "", errors.Join(err, settle(discard))
	}
	err = settle(func(ctx context.Context) error {
		labels := v.labels(v.mark())
		labels[labelIn] = stage
		mark, err := v.CreateVolume(ctx, v.mark(), labels)
		if err == nil {
			name, err = v.in(mark)
		}
		return err
	})
	if err != nil && !errors.Is(err, execpolicy.ErrInvalid) {
		// There may be a mark, so the volume is left to a later sweep.
		return "", err
	}
	if name != stage {
		err = errors.Join(err, settle(discard))
	}
	return name, err
}

// seconds is for how long a build may take: its two sessions, and a pull.
func seconds(p execpolicy.DockerPolicy) int64 {
	if p.Lifetime < 0 || p.StartupTimeout < 0 {
		return -1
	}
	total := int64(defaultPull / time.Second)
	for _, d := range []time.Duration{p.Lifetime, p.StartupTimeout, p.TerminationTimeout, p.PullTimeout} {
		total += 2 * int64(max(d, 0)/time.Second)
	}
	if p.Lifetime == 0 {
		total += 2 * int64(defaultLifetime/time.Second)
	}
	return total
}

// opener returns the policy of a container that opens a volume: one that starts where a
// container of p does, and has nothing else of it.
func opener(p execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	return execpolicy.DockerPolicy{
		Image: p.Image, Platform: p.Platform, Pull: p.Pull, PullTimeout: p.PullTimeout, PullProgress: p.PullProgress,
		Runtime: p.Runtime, EngineSeccomp: p.EngineSeccomp, AllowMissingLimits: p.AllowMissingLimits,
		Transport: p.Transport, KeepAlive: p.KeepAlive, Limits: p.Limits,
		User: "0:0",
	}
}

// open lets everybody write to a new volume, which is root's. Root of that container has
// no capability, and nothing of the recipe runs in it.
func (v volumes) open(ctx context.Context, p execpolicy.DockerPolicy, mount dockercli.Mount, labels map[string]string) error {
	root := opener(p)
	root.Engine, root.Mounts = v.Engine, []dockercli.Mount{mount}
	r, err := execpolicy.Run(ctx, root, execpolicy.Spec{Labels: labels}, execpolicy.Command{Script: "chmod 0777 " + Target})
	if r == nil {
		return err
	}
	if r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 {
		err = errors.Join(fmt.Errorf("%w: the volume can't be opened to the scripts: %v: %s", ErrBuild, r.Outcome, output(r)),
			reason(r, err))
	}
	return err
}

// sweep removes the volumes of unfinished layers whose builders are gone. What can't be
// removed now, because its container is still ending, is left for the next time.
func (v volumes) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	names, err := v.Volumes(ctx, map[string]string{labelLayer: ""})
	if err != nil {
		return
	}
	now := container.Earlier(ctx, v.Engine)
	for _, name := range names {
		if mountguard.Volume(name) != nil {
			continue
		}
		found, err := v.InspectVolume(ctx, name)
		if err != nil || !container.Abandoned(name, found.Labels, now) {
			continue
		}
		other := volumes{v.Engine, found.Labels[labelLayer]}
		if !other.owns(found) {
			continue
		}
		// Nobody can mark it any more.
		mark, err := other.InspectVolume(ctx, other.mark())
		if errors.Is(err, dockercli.ErrNoVolume) || err == nil && mark.Labels[labelIn] != name {
			_ = other.discard(ctx, name)
		}
	}
}

// remove removes the layer, if it is finished. The mark goes last: a layer that a
// container has stays as it is.
func (v volumes) remove(ctx context.Context) error {
	name, err := v.find(ctx)
	if name == "" || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := v.discard(ctx, name); err != nil {
		return err
	}
	return v.removeMark(ctx, name)
}
