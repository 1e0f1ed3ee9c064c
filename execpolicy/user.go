package execpolicy

import (
	"errors"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// ordinary returns as whom a command may run because that is the owner of a directory,
// and whether it is the owner at all: nothing inside is root, or in root's group, unless
// the policy names root.
func ordinary(e *dockercli.Engine, owner account.Account) (a account.Account, isOwner bool) {
	// Docker without root's rights has this program's user as root, and others have other
	// numbers.
	if owner.UID == 0 || e.Rootless && e.Kind == dockercli.Docker {
		return account.Nobody, false
	}
	if owner.GID == 0 {
		owner.GID = account.Nobody.GID
	}
	return owner, true
}

// Shares are what a container sees of the host.
type shares struct {
	workspace account.Share // the zero Share if there is none
	mounts    []account.Share
}

// runsAs returns the user for a container that sees those shares, and whether that user
// was chosen because it owns them. Each error is about one that the user can't use.
func (p *DockerPolicy) runsAs(e *dockercli.Engine, seen shares) (user string, isOwner bool, refused problems.List) {
	workspace := seen.workspace
	a := account.Nobody
	if p.User != "" {
		named, ok := account.Named(p.User)
		if !ok {
			return strings.TrimSuffix(p.User, ":"), false, nil
		}
		a = named
	} else if workspace.Source == "" {
		a, isOwner = p.ownerOfMounts(e, seen.mounts)
	} else if owner, ok := account.OwnerOf(workspace.Info); ok {
		a, isOwner = ordinary(e, owner)
	}
	if !p.judges(e, a) {
		return a.String(), isOwner, nil
	}
	here := a
	if e.Rootless && !isOwner {
		here = account.Stranger
	}
	if workspace.Source != "" && !workspace.Takes(here) {
		remedies := "chown it to an ordinary user, "
		if reader := (account.Share{Source: workspace.Source, Info: workspace.Info}); reader.Takes(here) {
			remedies += "set WorkspaceReadOnly, "
		}
		refused.Add(`%w: %s; %scopy it with package execpolicy/workspace, or set User, to "0:0" if it is to be root`,
			ErrNoMount, workspace.Refusal(a), remedies)
	}
	for _, m := range seen.mounts {
		if !m.Takes(here) {
			refused.Add(`the mount source: %s; chmod or chown it, bring what it holds in with CopyFS or WriteFile instead, or set User, `+
				`to "0:0" if it is to be root`, m.Refusal(a))
		}
	}
	return a.String(), isOwner, refused
}

// ownerOfMounts returns the account of a session without a workspace: nobody or, where
// nobody can't use some of the mounts and these have one owner, an ordinary user, that
// owner.
func (p *DockerPolicy) ownerOfMounts(e *dockercli.Engine, mounts []account.Share) (a account.Account, isOwner bool) {
	if !p.judges(e, account.Nobody) {
		return account.Nobody, false
	}
	here := account.Nobody
	if e.Rootless {
		here = account.Stranger
	}
	var owners []account.Account
	for _, m := range mounts {
		if !m.Takes(here) {
			owner, _ := account.OwnerOf(m.Info)
			owners = append(owners, owner)
		}
	}
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o account.Account) bool { return o.UID != owners[0].UID }) {
		return account.Nobody, false
	}
	return ordinary(e, owners[0])
}

// judges reports whether the modes of files say what an account may do inside. They don't
// on another machine, on systems where the engine has a virtual machine, for root with
// capabilities, for a number that an engine without root's rights maps to another, and
// where extra arguments say who is who.
func (p *DockerPolicy) judges(e *dockercli.Engine, a account.Account) bool {
	switch {
	case e.Remote, runtime.GOOS != "linux", a.UID == 0 && len(p.AddCapabilities) > 0, p.User != "" && e.Rootless:
		return false
	}
	for _, name := range []string{"user", "userns", "uidmap", "gidmap", "group-add", "cap-add", "privileged"} {
		if p.extra(e, name) {
			return false
		}
	}
	return true
}

// errElsewhere is why a remote engine mounts no workspace.
var errElsewhere = errors.New("the engine may run on another machine, to which this path means nothing")
