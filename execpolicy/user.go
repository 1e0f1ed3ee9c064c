package execpolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// An account is a user and a group, by their numbers.
type account struct{ uid, gid int }

func (a account) String() string { return strconv.Itoa(a.uid) + ":" + strconv.Itoa(a.gid) }

var (
	// nobody owns nothing.
	nobody = account{65534, 65534}
	// stranger is an account that the host does not know.
	stranger = account{-1, -1}
)

// accountOf returns the account that a policy's User names, unless the image has to say
// who that is. A number without a group has the group of that number: the engines would
// give it root's.
func accountOf(user string) (a account, ok bool) {
	name, group, _ := strings.Cut(user, ":")
	if group == "" {
		group = name
	}
	uid, uidOK := idOf(name)
	gid, gidOK := idOf(group)
	return account{uid, gid}, uidOK && gidOK
}

func idOf(name string) (id int, ok bool) {
	if name == "root" {
		return 0, true
	}
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0
}

// ordinary returns as whom a command may run because that is the owner of a directory,
// and whether it is the owner at all: nothing inside is root, or in root's group, unless
// the policy names root.
func ordinary(e *dockercli.Engine, owner account) (a account, isOwner bool) {
	// Docker without root's rights has this program's user as root, and others have other
	// numbers.
	if owner.uid == 0 || e.Rootless && e.Kind == dockercli.Docker {
		return nobody, false
	}
	if owner.gid == 0 {
		owner.gid = nobody.gid
	}
	return owner, true
}

// A share is a directory or a file of the host that a container sees.
type share struct {
	source   string
	info     fs.FileInfo // nil if it is not known
	writable bool
}

// takes reports whether the mode lets an account use the share. Its owner can change the
// mode.
func (s share) takes(a account) bool {
	if s.info == nil || !s.info.IsDir() && !s.info.Mode().IsRegular() {
		return true
	}
	owner, ok := ownerOf(s.info)
	if !ok || a.uid == owner.uid {
		return true
	}
	need := fs.FileMode(0o4)
	if s.info.IsDir() {
		need |= 0o1
	}
	if s.writable {
		need |= 0o2
	}
	perm := s.info.Mode().Perm()
	if a.gid == owner.gid {
		perm >>= 3
	}
	return perm&need == need || hasACL(s.source)
}

// refusal says what a user can't do with the share.
func (s share) refusal(user account) string {
	use := "read"
	if s.writable {
		use = "read and write"
	}
	owner, _ := ownerOf(s.info)
	return fmt.Sprintf("user %v, as which the command would run, can't %s %q, of %v and with mode %v", user, use, s.source, owner, s.info.Mode())
}

// runsAs returns the user for a container that sees a workspace, if that is not nil, and
// mounts, and whether that user was chosen because it owns them. Each error is about one
// that the user can't use.
func (p *DockerPolicy) runsAs(e *dockercli.Engine, workspace *share, mounts []share) (user string, isOwner bool, errs []error) {
	a := nobody
	if p.User != "" {
		named, ok := accountOf(p.User)
		if !ok {
			return strings.TrimSuffix(p.User, ":"), false, nil
		}
		a = named
	} else if workspace == nil {
		a, isOwner = p.ownerOfMounts(e, mounts)
	} else if owner, ok := ownerOf(workspace.info); ok {
		a, isOwner = ordinary(e, owner)
	}
	if !p.judges(e, a) {
		return a.String(), isOwner, nil
	}
	here := a
	if e.Rootless && !isOwner {
		here = stranger
	}
	if workspace != nil && !workspace.takes(here) {
		remedies := "chown it to an ordinary user, "
		if reader := (share{workspace.source, workspace.info, false}); reader.takes(here) {
			remedies += "set WorkspaceReadOnly, "
		}
		errs = append(errs, fmt.Errorf(`%w: %s; %scopy it with package execpolicy/workspace, or set User, to "0:0" if it is to be root`,
			ErrNoMount, workspace.refusal(a), remedies))
	}
	for _, m := range mounts {
		if !m.takes(here) {
			errs = append(errs, fmt.Errorf(`the mount source: %s; chmod or chown it, bring what it holds in with CopyFS or WriteFile instead, or set User, `+
				`to "0:0" if it is to be root`, m.refusal(a)))
		}
	}
	return a.String(), isOwner, errs
}

// ownerOfMounts returns the account of a session without a workspace: nobody or, where
// nobody can't use some of the mounts and these have one owner, an ordinary user, that
// owner.
func (p *DockerPolicy) ownerOfMounts(e *dockercli.Engine, mounts []share) (a account, isOwner bool) {
	if !p.judges(e, nobody) {
		return nobody, false
	}
	here := nobody
	if e.Rootless {
		here = stranger
	}
	var owners []account
	for _, m := range mounts {
		if !m.takes(here) {
			owner, _ := ownerOf(m.info)
			owners = append(owners, owner)
		}
	}
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o account) bool { return o.uid != owners[0].uid }) {
		return nobody, false
	}
	return ordinary(e, owners[0])
}

// judges reports whether the modes of files say what an account may do inside. They don't
// on another machine, on systems where the engine has a virtual machine, for root with
// capabilities, for a number that an engine without root's rights maps to another, and
// where extra arguments say who is who.
func (p *DockerPolicy) judges(e *dockercli.Engine, a account) bool {
	switch {
	case e.Remote, runtime.GOOS != "linux", a.uid == 0 && len(p.AddCapabilities) > 0, p.User != "" && e.Rootless:
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
