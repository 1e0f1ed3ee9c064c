package attest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/ours"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

var (
	// ErrNotInForce is wrapped by the error of a session in which a required protection
	// is not in force, or can't be seen to be in force.
	ErrNotInForce = errors.New("not in force")
	// ErrWeakEngine is wrapped by the error of an engine with published container
	// escapes, if [Options.RefuseWeakEngine] is set.
	ErrWeakEngine = errors.New("the engine has published escapes")
)

// Options say what is required.
type Options struct {
	// Require names the protections that must be in force, of [Protections] and of
	// [PodProtections]. Another name makes the error wrap [execpolicy.ErrInvalid]. One of
	// PodProtections is never in force in a container that is no pod. A protection that
	// the policy does not ask for is compared with what the zero policy asks for. If
	// empty, every protection that the policy asks for is required.
	Require []Protection
	// RefuseWeakEngine refuses an engine with published container escapes before anything
	// is started. If false, the report only names them.
	RefuseWeakEngine bool
}

func (o Options) validate() error {
	var found problems.List
	for _, name := range o.Require {
		if !slices.Contains(Protections(), name) && !slices.Contains(PodProtections(), name) {
			found.Add("Require: %q is not a protection; Protections and PodProtections have their names", name)
		}
	}
	return problems.Join(found...)
}

// A Subject is a policy whose sessions can be looked at: [execpolicy.DockerPolicy] is
// one, and so is kube.Policy. A policy that embeds one of them is one, too. No other
// policy can be one, because the method's result is this module's own.
type Subject interface {
	execpolicy.Policy
	// Outside returns what the policy asks for with a spec, and how the engine is asked
	// what it has applied. It may ask the engine.
	Outside(ctx context.Context, spec execpolicy.Spec) (*outside.View, error)
}

// Start opens a session as [execpolicy.Start] does, and looks at it before the startup
// scripts and any other command have run. [execpolicy.Session.Restart] looks again, and
// makes no new report: if a required protection is not in force then, its error wraps
// [ErrNotInForce].
//
// If a required protection is not in force, the error wraps [ErrNotInForce], names the
// protection and says what was seen, and the session is ended. If the engine is refused,
// the error wraps [ErrWeakEngine]. Both errors come with a report. Other errors are those
// of execpolicy.Start and of the engine's client.
func Start(ctx context.Context, p Subject, spec execpolicy.Spec, o Options) (*execpolicy.Session, *Report, error) {
	a, err := begin(ctx, p, spec, o)
	if err != nil {
		return nil, nil, err
	}
	if err := a.refuse(); err != nil {
		return nil, a.report(), err
	}
	var report *Report
	prepare := spec.Prepare
	spec.Prepare = func(ctx context.Context, s *execpolicy.Session) error {
		r, err := a.check(ctx, s)
		report = r
		if err != nil || prepare == nil {
			return err
		}
		return prepare(ctx, s)
	}
	s, err := execpolicy.Start(ctx, a.policy, spec)
	return s, report, err
}

// Check looks at a session that is open. p and spec should be those that it was started
// with, because they say what is asked for. Check waits for its turn as a command does,
// but Spec.Approve is not asked about it, and Spec.Filter does not change what it sees.
// What ran in the session before may have changed its shell so that it lies. [Start]
// looks before anything has run.
//
// If a required protection is not in force, the error wraps [ErrNotInForce] and names the
// protection. If the engine is refused, the error wraps [ErrWeakEngine]. Both errors come
// with a report. Other errors are those of [execpolicy.Session.Run] and of the engine's
// client.
func Check(ctx context.Context, s *execpolicy.Session, p Subject, spec execpolicy.Spec, o Options) (*Report, error) {
	a, err := begin(ctx, p, spec, o)
	if err != nil {
		return nil, err
	}
	r, err := a.check(ctx, s)
	if r != nil {
		err = errors.Join(a.refuse(), err)
	}
	return r, err
}

// Policy opens a session with a policy, looks at it as [Start] does, and closes it. Its
// error is that of Start, or of [execpolicy.Session.Close].
func Policy(ctx context.Context, p Subject, o Options) (*Report, error) {
	s, r, err := Start(ctx, p, execpolicy.Spec{}, o)
	if s != nil {
		err = errors.Join(err, s.Close())
	}
	return r, err
}

// An attestation is what is known of a session before it is looked at.
type attestation struct {
	policy     Subject
	view       *outside.View
	require    []Protection
	refused    bool
	components []dockercli.Component
}

// begin finds the engine and asks it for its versions.
func begin(ctx context.Context, p Subject, spec execpolicy.Spec, o Options) (*attestation, error) {
	if err := o.validate(); err != nil {
		// With what is wrong with the rest.
		if rest := execpolicy.Check(ctx, p, spec); errors.Is(rest, execpolicy.ErrInvalid) {
			err = problems.Join(err, rest)
		}
		return nil, err
	}
	if p == nil {
		return nil, problems.Join(errors.New("there is no policy"), execpolicy.Check(ctx, nil, spec))
	}
	view, err := p.Outside(ctx, spec)
	if err != nil {
		return nil, err
	}
	components, err := view.Versions(ctx)
	if err != nil {
		return nil, fmt.Errorf("the engine's versions: %w", err)
	}
	return &attestation{policy: p, view: view, require: o.Require, refused: o.RefuseWeakEngine,
		components: components}, nil
}

// refuse returns the error for a weak engine, if one is refused.
func (a *attestation) refuse() error {
	weak := Weaknesses(a.components)
	if !a.refused || len(weak) == 0 {
		return nil
	}
	words := make([]string, len(weak))
	for i, w := range weak {
		words[i] = w.String()
	}
	return fmt.Errorf("%w: %s", ErrWeakEngine, strings.Join(words, "; "))
}

// report returns a report without findings.
func (a *attestation) report() *Report {
	return &Report{
		Time:       time.Now().UTC(),
		Engine:     a.view.Engine,
		Versions:   a.components,
		Image:      a.view.Image,
		Egress:     a.view.Wanted.Egress,
		Weaknesses: Weaknesses(a.components),
	}
}

//go:embed inside.sh
var insideScript string

const (
	// insideTimeout is for a machine under load; it takes some hundredths of a second.
	insideTimeout = 20 * time.Second
	// maxInside bounds what is read of the container's answer, which is some kilobytes.
	maxInside = 1 << 20
)

// check looks at a session.
func (a *attestation) check(ctx context.Context, s *execpolicy.Session) (*Report, error) {
	r := a.report()
	r.Container = s.Name()
	script := insideScript
	if a.view.Inside != nil {
		more, err := a.view.Inside(ctx, s.Name())
		if err != nil {
			return nil, fmt.Errorf("looking from inside: %w", err)
		}
		script = more + script
	}
	var answer bytes.Buffer
	_, err := s.Run(ours.SkipHooks(ctx), execpolicy.Command{Script: script, Stdout: &answer,
		Timeout: insideTimeout, OutputLimit: maxInside})
	if err != nil {
		return nil, fmt.Errorf("looking from inside: %w", err)
	}
	settings, err := a.view.Settings(ctx, s.Name())
	if err != nil {
		return nil, fmt.Errorf("looking from outside: %w", err)
	}
	r.ImageID = settings.ImageID
	r.Transport = s.Transport().String()
	want := want{a.view.Wanted, s.Transport() == execpolicy.TransportFIFO}
	var info *dockercli.Info
	if a.view.Info != nil {
		if info, err = a.view.Info(ctx); err != nil {
			return nil, fmt.Errorf("what the engine can do: %w", err)
		}
	}
	seen := parseFacts(answer.String())
	r.Findings = classify(want, seen, settings)
	r.Confinement = confinement(info, seen, settings)
	if info != nil {
		a.explain(info, r)
	}
	return r, r.require(a.require)
}

// explain adds the engine's own reason to limits that are not in force, if it has one.
func (a *attestation) explain(info *dockercli.Info, r *Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if !slices.Contains(limits, f.Protection) || f.InForce == Yes {
			continue
		}
		able := map[Protection]bool{
			MemoryLimit: info.MemoryLimit, CPULimit: info.CPULimit, PidsLimit: info.PidsLimit,
			// Podman does not tell.
			NoSwap: info.SwapLimit || info.MemoryLimit && a.view.Engine == dockercli.Podman.String(),
		}
		if !able[f.Protection] {
			reason := "dropped in silence: the engine says of itself that it can't set this limit"
			if info.Rootless && info.CgroupVersion == "1" {
				reason += ", which it can't without root's rights on version 1 of cgroups"
			}
			f.note(reason)
		}
	}
}
