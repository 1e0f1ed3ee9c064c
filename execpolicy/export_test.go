package execpolicy

import (
	"io"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// Argv returns the argument list by which Spawn starts spec in a container of that name.
func (p DockerPolicy) Argv(e *dockercli.Engine, spec Spec, name string) ([]string, error) {
	return p.argv(e, spec, name)
}

// Ended reports whether it is proven that a process has ended.
func Ended(pid int, start uint64) bool { return ended(pid, start) }

// OwnerGone reports whether labels prove that the program which started a container has ended.
func OwnerGone(labels map[string]string) bool { return ownerGone(labels) }

// Limited returns argv as [HostPolicy] executes it.
func (p HostPolicy) Limited(argv []string) []string { return p.limited(argv) }

// OutcomeOf returns the outcome of a command of which that is known.
func OutcomeOf(cause error, lost, oom bool, status int) Outcome {
	return ending{cause, lost, oom, status}.outcome()
}

// MaxStarts is how many sessions are started at a time.
const MaxStarts = maxStarts

// Conceal returns a writer through which a stream passes on its way to w where those secrets are known.
func Conceal(w io.Writer, secrets ...Secret) io.WriteCloser {
	return &concealer{values: (*values)(nil).with(secrets), w: w}
}

// SecretForms are the forms in which a text of a secret is found.
var SecretForms = forms
