// Package account says who owns a file of the host, and what an account may do with it.
package account

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// An Account is a user and a group, by their numbers.
type Account struct{ UID, GID int }

func (a Account) String() string { return strconv.Itoa(a.UID) + ":" + strconv.Itoa(a.GID) }

var (
	// Nobody owns nothing.
	Nobody = Account{65534, 65534}
	// Stranger is an account that the host does not know.
	Stranger = Account{-1, -1}
)

// The bounds of the random number of a pod's user. Systemd's list of users leaves them to
// nobody.
const (
	FirstRandom = 0x70000000
	LastRandom  = 0x7ffffffe
)

// Named returns the account that a text such as "1000", "1000:1000" or "root" names,
// unless the image has to say who that is. A number without a group has the group of that
// number: the engines would give it root's.
func Named(user string) (a Account, ok bool) {
	name, group, _ := strings.Cut(user, ":")
	if group == "" {
		group = name
	}
	uid, uidOK := idOf(name)
	gid, gidOK := idOf(group)
	return Account{uid, gid}, uidOK && gidOK
}

func idOf(name string) (id int, ok bool) {
	if name == "root" {
		return 0, true
	}
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0
}

// A Share is a directory or a file of the host that a container sees.
type Share struct {
	Source   string
	Info     fs.FileInfo // nil if it is not known
	Writable bool
}

// Takes reports whether the mode lets an account use the share. Its owner can change the
// mode.
func (s Share) Takes(a Account) bool {
	if s.Info == nil || !s.Info.IsDir() && !s.Info.Mode().IsRegular() {
		return true
	}
	owner, ok := OwnerOf(s.Info)
	if !ok || a.UID == owner.UID {
		return true
	}
	need := fs.FileMode(0o4)
	if s.Info.IsDir() {
		need |= 0o1
	}
	if s.Writable {
		need |= 0o2
	}
	perm := s.Info.Mode().Perm()
	if a.GID == owner.GID {
		perm >>= 3
	}
	return perm&need == need || hasACL(s.Source)
}

// Refusal says what a user can't do with the share.
func (s Share) Refusal(user Account) string {
	use := "read"
	if s.Writable {
		use = "read and write"
	}
	owner, _ := OwnerOf(s.Info)
	return fmt.Sprintf("user %v, as which the command would run, can't %s %q, of %v and with mode %v", user, use,
		s.Source, owner, s.Info.Mode())
}
