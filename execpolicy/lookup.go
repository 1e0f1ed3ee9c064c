package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
)

// giveTmpfs gives the directories in memory to the container's user. Where the image has
// a directory of that name, runc before 1.1.8 gives a tmpfs its mode, in which most users
// can't write.
func (p *DockerPolicy) giveTmpfs(e *dockercli.Engine, o *dockercli.RunOptions) {
	if p.extra(e, "user") {
		return // whoever that is
	}
	podman := e.Kind == dockercli.Podman || e.PodmanService
	a, ok := account.Named(o.User)
	if !ok && !podman {
		a, ok = accounts.Known(p.accountKey(e))
	}
	for i := range o.Tmpfs {
		t := &o.Tmpfs[i]
		switch {
		case podman:
			// Older ones know the option and take it for that of a mount.
			t.Chown = !strings.HasPrefix(e.ServerVersion, "3.")
		case ok:
			t.UID, t.GID, _ = strings.Cut(a.String(), ":")
		}
	}
}

// accounts are those of users with names, as images have them. The first of them to be
// needed starts a container, which takes as long as a session's.
var accounts = account.NewBook()

// accountKey is what the numbers of the policy's user depend on.
func (p *DockerPolicy) accountKey(e *dockercli.Engine) string {
	return fmt.Sprintf("%q", []any{e.Path, e.Global, e.Env, p.image(e), p.Platform, p.User})
}

// looksUp reports whether the numbers of the policy's user have to be looked up in the
// image, because the engine does not give a tmpfs to a user by name.
func (p *DockerPolicy) looksUp(e *dockercli.Engine) bool {
	if p.User == "" || p.compat || e.Kind == dockercli.Podman || e.PodmanService || p.extra(e, "user") {
		return false
	}
	if _, ok := account.Named(p.User); ok {
		return false
	}
	_, ok := accounts.Known(p.accountKey(e))
	return !ok
}

// lookUp learns the numbers of the policy's user from a container of the same image,
// hardened as those of the zero policy are, and returns when that is gone. If the
// container does not run, the numbers stay unknown: why it does not run is for the
// container to say that the caller asked for. It calls spawn and not Spawn, which would
// look up again.
func (p *DockerPolicy) lookUp(ctx context.Context, e *dockercli.Engine, spec Spec) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: the numbers of the user %q: %w; the engine is %v", ErrStart, p.User, err, e)
		}
	}()
	limits := p.Limits.withDefaults()
	if limits.StartupTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limits.StartupTimeout)
		defer cancel()
	}
	if err := accounts.Turn.Take(ctx); err != nil {
		return err
	}
	defer accounts.Turn.Give()
	if !p.looksUp(e) {
		return nil // somebody else has done it
	}
	q := DockerPolicy{Engine: e, Image: p.Image, Platform: p.Platform, User: p.User, Runtime: p.Runtime, Limits: p.Limits,
		EngineSeccomp: p.EngineSeccomp, SeccompProfile: p.SeccompProfile,
		Transport: TransportAttach, AllowMissingLimits: p.AllowMissingLimits}
	look := Spec{Supervisor: []string{"sh", "-c", account.PrintScript}, Labels: spec.Labels, Audit: spec.Audit, auditor: spec.auditor}
	proc, err := q.spawn(ctx, e, look)
	if err != nil {
		return err
	}
	defer proc.Stdout.Close()
	defer proc.Stderr.Close()
	proc.Stdin.Close()
	go io.Copy(io.Discard, proc.Stderr)
	a, ok, err := account.ReadPrinted(ctx, proc.Stdout, proc.Done)
	if ok {
		proc.Answered()
		accounts.Add(p.accountKey(e), a)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.TerminationTimeout)
	defer cancel()
	return errors.Join(err, proc.Kill(end))
}
