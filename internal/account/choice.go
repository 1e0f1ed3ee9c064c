package account

import (
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A Case is what decides as whom a command runs in a container.
type Case struct {
	// User is who is asked for. If empty, it is the owner of what the container sees, or
	// nobody.
	User string
	// Workspace and Mounts are what the container sees of the host. Without a workspace,
	// that is the zero Share.
	Workspace Share
	Mounts    []Share
	// Rootless says that the engine has no root's rights, so that accounts have other
	// numbers on the host than inside. OwnersToo says that this is so of owners.
	Rootless, OwnersToo bool
	// Unjudged says that the modes of files do not tell what an account may do inside,
	// and RootUnjudged that they do not tell what root may do.
	Unjudged, RootUnjudged bool
}

// Choose returns the user, and whether that user was chosen because it owns what the
// container sees. Each problem is about something that the user can't use; that of the
// workspace wraps ErrNoMount.
func (c Case) Choose() (user string, isOwner bool, refused problems.List) {
	a := Nobody
	if c.User != "" {
		named, ok := Named(c.User)
		if !ok {
			return strings.TrimSuffix(c.User, ":"), false, nil
		}
		a = named
	} else if c.Workspace.Source == "" {
		a, isOwner = c.ownerOfMounts()
	} else if owner, ok := OwnerOf(c.Workspace.Info); ok {
		a, isOwner = c.ordinary(owner)
	}
	if c.Unjudged || c.RootUnjudged && a.UID == 0 {
		return a.String(), isOwner, nil
	}
	return a.String(), isOwner, c.refused(a, isOwner)
}

// ordinary returns as whom a command may run because that is the owner of a directory,
// and whether it is the owner at all: nothing inside is root, or in root's group, unless
// root is asked for.
func (c Case) ordinary(owner Account) (a Account, isOwner bool) {
	if owner.UID == 0 || c.OwnersToo {
		return Nobody, false
	}
	if owner.GID == 0 {
		owner.GID = Nobody.GID
	}
	return owner, true
}

// ownerOfMounts returns the account of a session without a workspace: nobody or, where
// nobody can't use some of the mounts and these have one owner, an ordinary user, that
// owner.
func (c Case) ownerOfMounts() (a Account, isOwner bool) {
	if c.Unjudged {
		return Nobody, false
	}
	here := c.outside(Nobody, false)
	var owners []Account
	for _, m := range c.Mounts {
		if !m.Takes(here) {
			owner, _ := OwnerOf(m.Info)
			owners = append(owners, owner)
		}
	}
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o Account) bool { return o.UID != owners[0].UID }) {
		return Nobody, false
	}
	return c.ordinary(owners[0])
}

// outside returns who an account of the container is on the host.
func (c Case) outside(a Account, isOwner bool) Account {
	if c.Rootless && !isOwner {
		return Stranger
	}
	return a
}

// refused reports what an account can't use.
func (c Case) refused(a Account, isOwner bool) problems.List {
	var refused problems.List
	here := c.outside(a, isOwner)
	if w := c.Workspace; w.Source != "" && !w.Takes(here) {
		remedies := "chown it to an ordinary user, "
		if reader := (Share{Source: w.Source, Info: w.Info}); reader.Takes(here) {
			remedies += "set WorkspaceReadOnly, "
		}
		refused.Add(`%w: %s; %scopy it with package execpolicy/workspace, or set User, to "0:0" if it is to be root`,
			policyerr.ErrNoMount, w.Refusal(a), remedies)
	}
	for _, m := range c.Mounts {
		if !m.Takes(here) {
			refused.Add(`the mount source: %s; chmod or chown it, bring what it holds in with CopyFS or WriteFile instead, or set User, `+
				`to "0:0" if it is to be root`, m.Refusal(a))
		}
	}
	return refused
}
