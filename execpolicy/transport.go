package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/engines"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A Transport is what carries a session's streams between this program and the container.
// What is promised does not depend on it. Speed, memory, and whether a session needs its
// engine while it runs do.
type Transport int

const (
	// TransportAuto chooses TransportFIFO or, if something is known to prevent FIFOs,
	// TransportAttach.
	TransportAuto Transport = iota
	// TransportAttach is the engine's client. It runs for as long as the session lives,
	// and takes 25 MB of memory with docker and 34 MB with podman. Where sh is busybox's,
	// a signal that comes to process 1 while it waits for the rest of a line, as it may
	// over a network, can end the session.
	TransportAttach
	// TransportFIFO is four FIFOs of this machine, in a directory that is mounted
	// read-only at /.cofferdam-io. The client ends when the container runs, and the names
	// of the FIFOs are removed as soon as process 1 has opened them. The directory stays
	// for the FIFOs of jobs: it can't be listed inside. It needs Linux, docker or podman
	// on this machine but not a service of podman's, and a container that shares this
	// machine's kernel and is not kept. The engine has to see the directory for temporary
	// files, whose name may have letters, digits, "/", ".", "_" and "-" alone, and the
	// container must not see it.
	// ExtraRunArgs must not have --runtime, --pid, --attach, --mount, --volume or
	// --volumes-from. Runtime must be empty, "runc" or "crun". [Compat] has no FIFOs.
	TransportFIFO
)

var transports = [...]string{TransportAuto: "auto", TransportAttach: "attach", TransportFIFO: "fifo"}

// String returns "auto", "attach" or "fifo".
func (t Transport) String() string {
	if t < 0 || int(t) >= len(transports) {
		return fmt.Sprintf("Transport(%d)", int(t))
	}
	return transports[t]
}

// FindTransport returns what carries a session's streams under the policy,
// TransportAttach or TransportFIFO, and why it is not the other one. It looks for the
// engine as [DockerPolicy.FindEngine] does, and returns the error of that. If the policy
// wants FIFOs where they can't be used, the error wraps [ErrInvalid].
//
// It knows no [Spec.Workspace]: a session has no FIFOs if its workspace holds the
// directory for temporary files.
//
// Only a start finds out that the engine does not see the directory of the FIFOs, that
// its container does not open them, or that they can't be made. With TransportFIFO that
// start fails with [ErrStart]. With TransportAuto it goes on with TransportAttach. If the
// session then answers, the library uses TransportAttach with that engine for the
// program's life. If only room for files or descriptors was missing, the next start tries
// to make FIFOs again.
func (p DockerPolicy) FindTransport(ctx context.Context) (t Transport, why string, err error) {
	e, err := p.engine(ctx)
	if err != nil {
		return TransportAuto, "", err
	}
	t, why = p.transport(e, "")
	return t, why, problems.Join(p.checkTransport(e, ""))
}

// transport is FindTransport for an engine and a workspace.
func (p *DockerPolicy) transport(e *dockercli.Engine, workspace string) (t Transport, why string) {
	if p.Transport == TransportAttach {
		return TransportAttach, "the policy says so"
	}
	if why := p.noFIFOs(e, workspace); why != "" {
		return TransportAttach, why
	}
	return TransportFIFO, "the engine has this machine's kernel"
}

// checkTransport returns why the policy can't have the transport that it names.
func (p *DockerPolicy) checkTransport(e *dockercli.Engine, workspace string) error {
	switch {
	case p.Transport < 0 || int(p.Transport) >= len(transports):
		return fmt.Errorf("Transport: there is no %v", p.Transport)
	case p.Transport == TransportFIFO:
		if why := p.noFIFOs(e, workspace); why != "" {
			return fmt.Errorf("Transport: no FIFOs can be used: %s", why)
		}
	}
	return nil
}

// noFIFOs returns why FIFOs can't be used, or the empty text.
func (p *DockerPolicy) noFIFOs(e *dockercli.Engine, workspace string) string {
	if p.compat {
		return `LangChain's policy has "run -i"`
	}
	if why := container.NoFIFOs(e, p.Runtime); why != "" {
		return why
	}
	switch {
	case p.KeepContainer:
		return "the container would be kept with the name of a directory that is gone"
	case !fifo.IsPlain(container.FIFODir("")):
		return "the name of the directory for temporary files is not a plain one"
	case p.showsFIFOs(workspace):
		return "the container sees the directory for temporary files, in which FIFOs would be"
	}
	for _, name := range []string{"runtime", "pid", "attach", "mount", "volume", "volumes-from"} {
		if p.extra(e, name) {
			return "ExtraRunArgs have --" + name
		}
	}
	return fifo.DoubtOf(engines.Key(e)).Why()
}

// showsFIFOs reports whether the container sees the directory for temporary files, where
// AllowUnsafeMounts allows that. Code inside could put a link in place of the FIFOs.
func (p *DockerPolicy) showsFIFOs(workspace string) bool {
	sources := []string{workspace}
	for _, m := range p.Mounts {
		sources = append(sources, m.Source)
	}
	guard := &mountguard.Guard{}
	return slices.ContainsFunc(sources, func(source string) bool {
		return source != "" && guard.Holds(source, os.TempDir())
	})
}

// fifos returns the directory for the FIFOs of a session's container of that name. It is
// empty if the streams pass through the client.
func (p *DockerPolicy) fifos(e *dockercli.Engine, spec Spec, name string) string {
	if len(spec.Supervisor) == 0 {
		return ""
	}
	if t, _ := p.transport(e, spec.Workspace); t != TransportFIFO {
		return ""
	}
	return container.FIFODir(name)
}

// recover removes the cause of a failed start: FIFOs that don't carry, a missing image,
// or an sshd that is busy.
func (p *DockerPolicy) recover(ctx context.Context, c *container.Container, cause error) error {
	if c.FIFOs != "" && p.Transport == TransportAuto {
		for _, why := range []error{fifo.ErrNotMet, fifo.ErrNotSeen} {
			if errors.Is(cause, why) {
				fifo.Suspect(engines.Key(c.Engine), why)
				return nil
			}
		}
	}
	if errors.Is(cause, dockercli.ErrImageMissing) && p.Pull != dockercli.PullNever {
		ctx, cancel := context.WithTimeout(ctx, p.pullTimeout())
		defer cancel()
		_, err := c.Engine.InspectImage(ctx, p.image(c.Engine))
		switch {
		case err == nil && p.Platform == "":
			return cause // a container has printed the engine's words
		case err == nil: // it may be there for another platform
		case !errors.Is(err, dockercli.ErrImageMissing):
			return err
		}
		return p.pull(ctx, c.Engine)
	}
	if c.Engine.Remote && errors.Is(cause, engines.ErrTurnedAway) {
		return engines.Pause(ctx, cause)
	}
	return cause
}
