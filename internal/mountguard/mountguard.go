// Package mountguard decides which directories and files of the engine's host a container
// may see.
package mountguard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// guarded are paths of a host that give it away, or its engine, which is as much.
	guarded = "/proc /sys /dev /etc /boot /var/lib/docker /var/lib/containers /var/lib/containerd " +
		"/var/lib/nerdctl " +
		"/run/docker.sock /run/docker /run/podman /run/containerd /run/crio /run/k3s /run/dbus /run/systemd /run/user"
	// credentials are what a home directory has of them, and the stores of engines
	// without root's rights.
	credentials = "/.ssh /.aws /.azure /.gnupg /.docker /.kube /.config /.netrc /.git-credentials /.npmrc " +
		"/.pypirc /.pgpass /.my.cnf " +
		"/.password-store /.vault-token /.terraform.d /.mozilla /.local/share/containers /.local/share/docker " +
		"/.local/share/keyrings " +
		"/Library/Keychains"
)

// homeDirs are the directories of home directories.
var homeDirs = "/home /Users"

// LayerPrefix begins the names of the volumes that package deps makes.
const LayerPrefix = "cofferdam-layer-"

// Volume returns why a container must not see the volume of that name, or nil.
func Volume(name string) error {
	if strings.HasPrefix(name, LayerPrefix) {
		return nil
	}
	return fmt.Errorf("the volume %q may show any directory of the engine's host: only a layer of package deps can be mounted", name)
}

// A Guard refuses what would give the host away.
type Guard struct {
	// Remote says that the host is another machine, of which only names are known.
	Remote bool
	// Socket is the engine's socket on this machine, if it has one.
	Socket string
	// Protected are more absolute paths that are refused, with what is inside and what
	// holds them.
	Protected []string
	// Copied says that a container gets a copy of what it is shown. The FIFOs of
	// sessions, which are in the directory for temporary files, are not in that.
	Copied bool
	// Allowed are absolute paths that may be shown although they would be refused. Each
	// allows that very file or directory.
	Allowed []string
}

// Check returns where the links in a source lead, if the host is this machine, and what
// is known of the file there. That is what to mount. Its error is why a container must
// not see it, and begins with what the source is.
func (g *Guard) Check(what, source string) (resolved string, info fs.FileInfo, err error) {
	resolved, err = g.follow(source)
	found, info := g.find(source, resolved)
	switch {
	case found != "":
	case err != nil:
		found = "nobody knows what"
	case info != nil && info.Mode()&(fs.ModeSocket|fs.ModeDevice) != 0:
		found = "a socket or a device"
	case info != nil && isHardLink(info):
		found = "a file of root's that has another name"
	default:
		return resolved, info, nil
	}
	if err != nil {
		// A name can't allow what it leads to only when the engine follows it.
		return resolved, info, fmt.Errorf("%s %q would show %s, and AllowUnsafeMounts can't help: %w", what, source,
			found, err)
	}
	if g.allows(resolved) {
		return resolved, info, nil
	}
	return resolved, info, fmt.Errorf("%s %q would show %s; add %q to AllowUnsafeMounts if you mean it", what,
		source, found, resolved)
}

// search begins to look for what a path would show, under each of its names.
func (g *Guard) search(resolved string) *search {
	s := &search{guard: g}
	names, parts, err := g.mountNames(resolved)
	if err != nil {
		s.found = "nobody knows what, as the table of mounts could not be read"
	}
	for _, name := range names {
		s.at = g.upwards(name, s.at)
	}
	for _, name := range append(names, parts...) {
		s.tops = append(s.tops, g.look(name))
	}
	return s
}

// find returns what a source, whose links lead to resolved, would show that is not for
// containers, and what is known of the file there.
func (g *Guard) find(source, resolved string) (found string, info fs.FileInfo) {
	s := g.search(resolved)
	if holds, _ := s.meets(os.TempDir()); holds && !g.Remote && !g.Copied {
		s.found = os.TempDir() + ", where the streams of sessions are"
	}
	s.protect("", g.Protected)
	if filepath.VolumeName(resolved) == "" {
		s.protect("", strings.Fields(guarded))
		s.home("/root")
	}
	s.protect(g.Socket, []string{""})
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		s.protect(run, strings.Fields("/docker.sock /podman"))
	}
	s.home(os.Getenv("HOME"))
	for _, dir := range strings.Fields(homeDirs) {
		s.home(dir)
		// The way there counts too, since a home may be a link.
		for _, above := range g.upwards(source, s.at) {
			if g.look(dir).is(g.look(filepath.Dir(above.name))) {
				s.home(above.name)
			}
		}
	}
	return s.found, s.at[0].info
}

// Holds reports whether a source is or holds a path of this machine, under any name of
// theirs. If that can't be known, it does.
func (g *Guard) Holds(source, path string) bool {
	resolved, err := g.follow(source)
	s := g.search(resolved)
	holds, _ := s.meets(path)
	return holds || err != nil || s.found != ""
}

const (
	// system are directories whose programs would be refused their files, were they
	// relabelled, or anything in them.
	system = "/usr /bin /sbin /lib /lib64 /opt /nix /snap"
	// tops are those that hold what belongs to many.
	tops = "/var /var/lib /var/log /var/tmp /run /tmp /srv /mnt /media"
)

// CheckRelabel returns why a source, which what names in the error, must not get another
// SELinux label, or nil. Allowed does not help: it is not containers that would be
// harmed.
func (g *Guard) CheckRelabel(what, source string) error {
	resolved, err := g.follow(source)
	if err != nil {
		return fmt.Errorf("%s %q can't be relabelled: %w", what, source, err)
	}
	found, info := g.find(source, resolved)
	s := g.search(resolved)
	s.protect("", strings.Fields(system))
	for _, name := range strings.Fields(tops) {
		if holds, _ := s.meets(name); holds {
			s.found = name
		}
	}
	switch {
	case s.found != "":
		found = s.found
	case found == "" && info == nil && !g.Remote:
		return fmt.Errorf("%s %q can't be relabelled: it does not exist", what, source)
	}
	if found != "" {
		return fmt.Errorf("%s %q must not be relabelled: the host needs the label of %s", what, source, found)
	}
	return nil
}

// allows reports whether Allowed has a path.
func (g *Guard) allows(resolved string) bool {
	drive := filepath.VolumeName(resolved)
	for _, name := range g.Allowed {
		// Were the name followed, it would allow whatever somebody has made it lead to.
		if plain(name) == plain(resolved) && strings.EqualFold(filepath.VolumeName(filepath.Clean(name)), drive) {
			return true
		}
	}
	return false
}

// Workspace returns the absolute path of a workspace on this machine, with no symbolic
// link in it. An empty name is no workspace, and has no path.
func Workspace(dir string) (path string, err error) {
	if dir == "" {
		return "", nil
	}
	var info fs.FileInfo
	path, err = filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("the workspace can't be used: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("the workspace %q is not a directory", dir)
	case path == filepath.Dir(path):
		return "", fmt.Errorf("the workspace %q is the root of the file system", dir)
	}
	return path, nil
}

// IsAbs reports whether a name in Protected or Allowed is an absolute path, on whatever
// machine.
func IsAbs(name string) bool { return strings.HasPrefix(plain(name)+"/", "/") }

// Within reports whether a path is the directory or inside it.
func Within(path, dir string) bool {
	path = filepath.ToSlash(filepath.Clean(path))
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// A search finds what a source would show of the host, wholly or in part, that is not for
// containers.
type search struct {
	guard *Guard
	at    []location // the source under each of its names, and all above it
	tops  []location // the source under each of its names, and what is in it
	found string
}

// protect looks for paths that begin so: one that the source is, holds or is inside.
func (s *search) protect(begin string, names []string) {
	for _, name := range names {
		if holds, inside := s.meets(begin + name); holds || inside {
			s.found = begin + name
		}
	}
}

// home looks for a home directory, which the source may be inside, but for the
// credentials there.
func (s *search) home(name string) {
	holds, inside := s.meets(name)
	if holds {
		s.found = name
	} else if inside {
		s.protect(name, strings.Fields(credentials))
	}
}

// meets reports whether the source is or holds a path, and whether it is that or inside
// it.
func (s *search) meets(name string) (holds, inside bool) {
	if name == "" {
		return false, false // an empty name would lead to the working directory
	}
	name, _ = s.guard.follow(name)
	above := s.guard.upwards(name, nil)
	for _, dir := range above {
		for _, top := range s.tops {
			holds = holds || dir.is(top)
		}
	}
	for _, dir := range s.at {
		inside = inside || dir.is(above[0])
	}
	return holds, inside
}

// A location is a path of the host and, if the host is this machine, the file there.
type location struct {
	name string
	info fs.FileInfo
}

func (g *Guard) look(name string) location {
	s := location{name: name}
	if !g.Remote {
		s.info, _ = os.Stat(name)
	}
	return s
}

// upwards returns all, with a path and what is above it.
func (g *Guard) upwards(name string, all []location) []location {
	for above := ""; name != above; name = filepath.Dir(name) {
		above = name
		all = append(all, g.look(name))
	}
	return all
}

// is reports whether both are the same file, under whatever names.
func (s location) is(t location) bool {
	return plain(s.name) == plain(t.name) || os.SameFile(s.info, t.info)
}

// follow returns where the links in a path lead, if it is one of this machine. What is
// not there is the engine's to refuse.
func (g *Guard) follow(name string) (string, error) {
	if g.Remote {
		return name, nil
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err == nil {
		return resolved, nil
	}
	// For an engine "nothing/../file" is the file.
	if cleaned := filepath.Clean(name); cleaned != name && errors.Is(err, fs.ErrNotExist) {
		return g.follow(cleaned)
	}
	for dir := name; errors.Is(err, fs.ErrNotExist); dir = filepath.Dir(dir) {
		// What a link does not lead to yet may be there when the engine follows it.
		if info, missing := os.Lstat(dir); missing == nil {
			if info.Mode()&fs.ModeSymlink == 0 {
				err = nil
			}
			break
		}
		if dir == filepath.Dir(dir) {
			break // a drive that is not there
		}
	}
	return name, err
}

// plain returns an absolute path as the lists above have it, with slashes and without a
// drive.
func plain(name string) string {
	name = filepath.Clean(name)
	name = filepath.ToSlash(name[len(filepath.VolumeName(name)):])
	if strings.HasPrefix(name+"/", "/var/run/") {
		name = name[len("/var"):]
	}
	return name
}
