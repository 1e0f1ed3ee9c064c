package execpolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const (
	// guarded are paths of a host that give it away, or its engine, which is as much.
	guarded = "/proc /sys /dev /etc /boot /var/lib/docker /var/lib/containers /var/lib/containerd " +
		"/run/docker.sock /run/docker /run/podman /run/containerd /run/crio /run/dbus /run/systemd /run/user"
	// credentials are what a home directory has of them, and the stores of engines
	// without root's rights.
	credentials = "/.ssh /.aws /.azure /.gnupg /.docker /.kube /.config /.netrc /.git-credentials /.npmrc /.pypirc /.pgpass /.my.cnf " +
		"/.password-store /.vault-token /.terraform.d /.mozilla /.local/share/containers /.local/share/docker /.local/share/keyrings " +
		"/Library/Keychains"
)

// homeDirs are the directories of home directories.
var homeDirs = "/home /Users"

// guardMount returns what to mount for a source: where its links lead, if the engine is
// here.
func (p *DockerPolicy) guardMount(e *dockercli.Engine, what, source string) (string, error) {
	leads, err := follow(e, source)
	g := mountGuard{engine: e}
	names, parts := mountNames(e, leads)
	for _, name := range names {
		g.at = upwards(e, name, g.at)
	}
	for _, name := range append(names, parts...) {
		g.tops = append(g.tops, look(e, name))
	}
	g.protect("", p.ProtectedPaths)
	drive := filepath.VolumeName(leads)
	if drive == "" {
		g.protect("", strings.Fields(guarded))
		g.home("/root")
	}
	g.protect(e.Socket, []string{""})
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		g.protect(run, strings.Fields("/docker.sock /podman"))
	}
	g.home(os.Getenv("HOME"))
	for _, dir := range strings.Fields(homeDirs) {
		g.home(dir)
		// The way there counts too, since a home may be a link.
		for _, s := range upwards(e, source, g.at) {
			if look(e, dir).is(look(e, filepath.Dir(s.name))) {
				g.home(s.name)
			}
		}
	}
	info := g.at[0].info
	switch {
	case g.found != "":
	case err != nil:
		g.found = "nobody knows what"
	case info != nil && info.Mode()&(fs.ModeSocket|fs.ModeDevice) != 0:
		g.found = "a socket or a device"
	case info != nil && isHardLink(info):
		g.found = "a file of root's that has another name"
	default:
		return leads, nil
	}
	if err != nil {
		// A name can't allow what it leads to only when the engine follows it.
		return leads, fmt.Errorf("%s %q would show %s, and AllowUnsafeMounts can't help: %w", what, source, g.found, err)
	}
	for _, name := range p.AllowUnsafeMounts {
		// Were the name followed, it would allow whatever somebody has made it lead to.
		if plain(name) == plain(leads) && strings.EqualFold(filepath.VolumeName(filepath.Clean(name)), drive) {
			return leads, nil
		}
	}
	return leads, fmt.Errorf("%s %q would show %s; add %q to AllowUnsafeMounts if you mean it", what, source, g.found, leads)
}

// CheckWorkspace returns why a directory of this machine is not to be shown to a session,
// whether mounted or copied, or nil. Its error wraps [ErrInvalid]: the directory can't be
// used, or it is one that Mounts says is refused and AllowUnsafeMounts does not name. An
// empty name is no directory, and so is fine. Whoever copies a directory of their own
// accord asks here first; Spawn asks for itself.
func (p DockerPolicy) CheckWorkspace(dir string) error {
	path, _, err := workspace(dir)
	if path != "" {
		// A copy is of this machine, wherever the engine is.
		e := dockercli.Engine{}
		if p.Engine != nil {
			e.Socket = p.Engine.Socket
		}
		_, err = p.guardMount(&e, "the workspace", path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// SavesWorkspace reports whether what a session makes of a copied workspace may be saved:
// not with WorkspaceReadOnly.
func (p DockerPolicy) SavesWorkspace() bool { return !p.WorkspaceReadOnly }

// A mountGuard finds what would be shown of the host, wholly or in part, that is not for
// containers.
type mountGuard struct {
	engine *dockercli.Engine
	at     []spot // the source under each of its names, and all above it
	tops   []spot // the source under each of its names, and what is in it
	found  string
}

// protect looks for paths that begin so: one that the source is, holds or is inside.
func (g *mountGuard) protect(begin string, names []string) {
	for _, name := range names {
		if holds, inside := g.meets(begin + name); holds || inside {
			g.found = begin + name
		}
	}
}

// home looks for a home directory, which the source may be inside, but for the
// credentials there.
func (g *mountGuard) home(name string) {
	holds, inside := g.meets(name)
	if holds {
		g.found = name
	} else if inside {
		g.protect(name, strings.Fields(credentials))
	}
}

// meets reports whether the source is or holds a path, and whether it is that or inside
// it.
func (g *mountGuard) meets(name string) (holds, inside bool) {
	if name == "" {
		return false, false // and not the working directory, which an empty name would lead to
	}
	name, _ = follow(g.engine, name)
	above := upwards(g.engine, name, nil)
	for _, s := range above {
		for _, top := range g.tops {
			holds = holds || s.is(top)
		}
	}
	for _, s := range g.at {
		inside = inside || s.is(above[0])
	}
	return holds, inside
}

// A spot is a path of the engine's host and, if the engine is here, the file there.
type spot struct {
	name string
	info fs.FileInfo
}

func look(e *dockercli.Engine, name string) spot {
	s := spot{name: name}
	if !e.Remote {
		s.info, _ = os.Stat(name)
	}
	return s
}

// upwards returns all, with a path and what is above it.
func upwards(e *dockercli.Engine, name string, all []spot) []spot {
	for above := ""; name != above; name = filepath.Dir(name) {
		above = name
		all = append(all, look(e, name))
	}
	return all
}

// is reports whether both are the same file, under whatever names.
func (s spot) is(t spot) bool { return plain(s.name) == plain(t.name) || os.SameFile(s.info, t.info) }

// follow returns where the links in a path lead, if it is one of this machine. What is
// not there is the engine's to refuse.
func follow(e *dockercli.Engine, name string) (string, error) {
	if e.Remote {
		return name, nil
	}
	leads, err := filepath.EvalSymlinks(name)
	if err == nil {
		return leads, nil
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
