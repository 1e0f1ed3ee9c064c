// Package deps installs packages once for many sessions. It runs set-up scripts, under a
// policy of their own, that write to a directory of the host or, if the engine is on
// another machine, to a volume of the engine. Later sessions see that read-only.
//
//	build := execpolicy.DockerPolicy{NetworkEnabled: true}
//	install := []string{"python3 -m pip install --target . requests"}
//	layer, err := deps.Build(ctx, build, cache, deps.Recipe{Scripts: install})
//	...
//	run := execpolicy.DockerPolicy{Mounts: []dockercli.Mount{layer.Mount}}
//	s, err := execpolicy.Start(ctx, run, execpolicy.Spec{Env: layer.Env})
//
// # What is trusted
//
// Set-up scripts run code that nobody trusts, as every installation of packages does.
// They run in a session like any other, with the network if the policy has it, and see
// nothing of the host but the one directory or volume. They can put anything there:
// links, set-uid files, directories that nobody may read. On the host a layer is in a
// directory that only this program's user can enter. The library opens no file of it,
// follows no link in it and runs nothing from it.
//
// A layer gets its name when all scripts have succeeded and their container is gone, so
// nothing inside can change it any more. It can be as large as the host's disk allows. A
// session that uses a layer runs the layer's code, with all that the session may do.
//
// # Remote engines
//
// An engine on another machine can't mount this host's directories, so there a layer is a
// volume of the engine. The engine's own code makes and removes it, and this program
// never sees what is in it. Anybody who may use the engine may use the layer.
//
// Each build gives its volume a new name. When the scripts have succeeded, a second,
// empty volume marks the layer as finished: its name has the layer's digest, and a label
// names the first volume. [Build] and [Remove] recognize both by their labels. A volume
// that lacks the labels, or is not a plain volume of the engine's, is never used and
// never removed.
//
// The set-up runs as the policy's User, or as 65534:65534. The root of the volume belongs
// to root, and everybody may write to it until sessions see it read-only. Docker's client
// with podman's service is refused: it creates a missing volume, and does not fail.
//
// # Who owns the files
//
// The directory belongs to the user of this program, and the set-up runs as that user
// (see [execpolicy.DockerPolicy.User]). If that user is root, the directory is given to
// the policy's User, if that is a number, or to 65534:65534, the default user of
// sessions. So if this program runs as root, the container does not, unless the policy's
// User says so. Sessions that run as another user can read what the set-up lets everybody
// read, which is everything with the usual umask. Rootless docker needs the User "0:0",
// which is this program's user there.
package deps

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/filelock"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/turn"
)

// Target is the directory inside where a layer is, while it is built and later.
const Target = "/deps"

// ErrBuild is wrapped by the error of a set-up with a script that failed. The error also
// wraps the reason, such as [execpolicy.ErrTimeout], and quotes up to 4 KiB from the end
// of the script's stderr or, if there is none, of its stdout.
var ErrBuild = errors.New("the set-up failed")

// A Recipe says how to build a layer.
type Recipe struct {
	// Scripts run in order, each in Target and within [execpolicy.Limits.CommandTimeout],
	// up to the first that fails. There must be at least one. Each may have as many bytes
	// as [execpolicy.MaxText], less those of Target.
	Scripts []string
	// Env is the environment of the scripts. Put secrets here and not into Scripts: only
	// a hash of them is part of the layer's name. What the scripts print is not searched
	// for them, and an error may quote its end.
	Env map[string]string
	// Labels are put on the container that runs the scripts. They are not part of the
	// layer's name.
	Labels map[string]string
}

// A Layer is a directory or a volume that was built from a [Recipe]. It never changes.
type Layer struct {
	// Mount shows the layer to a session, read-only, at Target. If the engine is on
	// another machine, Mount is for that engine only.
	Mount dockercli.Mount
	// Env makes Python and Node.js find the packages in the layer: PYTHONPATH is Target,
	// and NODE_PATH is the directory node_modules in it.
	Env map[string]string
}

const (
	// stagePrefix begins the names of layers that are not finished.
	stagePrefix = ".cofferdam-layer-"
	// tree is the directory that containers see. The one that it is in is closed to
	// everybody else on the host.
	tree = "tree"
	// maxOutput is as much as an error shows of what a script has printed.
	maxOutput = 4 << 10
	// maxScript is how long a script may be that runs in Target.
	maxScript = execpolicy.MaxText - len(Target)
)

// Build returns the layer of a recipe. If the cache does not have it, Build runs the
// recipe's scripts in a session with the policy p and keeps what they have written. A
// layer is identified by the image's reference, the scripts and their environment. So if
// the image's tag moves, or a script installs the newest version of something, the cached
// layer stays as it was built.
//
// The cache is a directory of the host. It must exist, and nobody but the user may be
// able to write to it. Several programs may use it at the same time, and may build the
// same layer: the first one to finish is kept. A layer that nobody uses any more may be
// removed like any directory. The name of an unfinished layer begins with
// ".cofferdam-layer-". Build removes its own and, on Linux and macOS, those of programs
// that were killed.
//
// If the engine is on another machine, the layer is a volume there, and the cache is not
// used: it may be empty. Build removes the volumes of its own builds that fail. It also
// removes those of unfinished layers that nobody can be building any more, by the rules
// of [execpolicy.Sweep].
//
// Calls of one program for the same layer wait for one build. If that fails, the next of
// them builds the layer itself.
//
// If the recipe, the policy or the cache is at fault, Build starts nothing, and the error
// wraps [execpolicy.ErrInvalid]. That is so, for example, if p has WorkspaceReadOnly or
// KeepContainer, or if the engine has a volume of the layer's name that is not this
// library's. If a script fails, the error wraps [ErrBuild]. Any other error is one of
// [execpolicy.DockerPolicy.FindEngine], [execpolicy.Start], [execpolicy.Session.Run] and
// [execpolicy.Session.Close], of the engine's client, or of the host's file system.
func Build(ctx context.Context, p execpolicy.DockerPolicy, cache string, r Recipe) (*Layer, error) {
	e, err := p.FindEngine(ctx)
	remote := err == nil && e.Remote
	if err := validate(ctx, p, cache, r, remote); err != nil {
		return nil, err
	}
	if remote {
		return buildVolume(ctx, p, volumes{e, r.name(p.Image)}, r)
	}
	if err == nil {
		p.Engine = e
	}
	return buildDirectory(ctx, p, cache, r)
}

// turns are of those who want the same layer.
var turns sync.Map

// takeTurn waits until nobody else of this program builds the layer.
func takeTurn(ctx context.Context, layer ...any) (give func(), err error) {
	t, _ := turns.LoadOrStore(fmt.Sprintf("%q", layer), turn.New(1))
	if err := t.(turn.Turn).Take(ctx); err != nil {
		return nil, err
	}
	return t.(turn.Turn).Give, nil
}

func buildVolume(ctx context.Context, p execpolicy.DockerPolicy, v volumes, r Recipe) (*Layer, error) {
	give, err := takeTurn(ctx, v.Path, v.Global, v.Env, v.digest)
	if err != nil {
		return nil, err
	}
	defer give()
	name, err := v.find(ctx)
	if err == nil && name == "" {
		p.Engine = v.Engine
		name, err = v.build(ctx, p, r)
	}
	if err != nil {
		return nil, err
	}
	return &Layer{Mount: dockercli.Mount{Volume: name, Target: Target}, Env: environment()}, nil
}

// open opens the directory of a cache.
func open(cache string) (*os.Root, error) {
	// An engine wants a path without links, and a later change of the working directory
	// is not to matter.
	path, err := filepath.Abs(cache)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

func buildDirectory(ctx context.Context, p execpolicy.DockerPolicy, cache string, r Recipe) (*Layer, error) {
	root, err := open(cache)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := r.name(p.Image)
	give, err := takeTurn(ctx, root.Name(), name)
	if err != nil {
		return nil, err
	}
	defer give()
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		err = build(ctx, p, root, name, r)
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return &Layer{
		Mount: dockercli.Mount{Source: filepath.Join(root.Name(), name, tree), Target: Target},
		Env:   environment(),
	}, nil
}

// Remove removes the layer that Build makes with these arguments, if there is one. A
// later Build makes it anew. Sessions that have a layer of the cache see its files go
// away. A volume that a container has stays, and the error wraps
// [dockercli.ErrVolumeInUse]. A volume of that name that is not this library's stays too,
// and the error wraps [execpolicy.ErrInvalid]. Any other error is that of
// [execpolicy.DockerPolicy.FindEngine], of the engine's client, or of the host's file
// system.
func Remove(ctx context.Context, p execpolicy.DockerPolicy, cache string, r Recipe) error {
	e, err := p.FindEngine(ctx)
	if err != nil {
		return err
	}
	if e.Remote {
		return volumes{e, r.name(p.Image)}.remove(ctx)
	}
	root, err := open(cache)
	if err != nil {
		return err
	}
	defer root.Close()
	if err = removeLayer(root, r.name(p.Image)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func removeLayer(root *os.Root, name string) error {
	// Under its new name it is nobody's layer any more, and a sweep may come first.
	stage := stagePrefix + rand.Text()
	if err := root.Rename(name, stage); err != nil {
		return err
	}
	held, err := root.Open(stage)
	if err != nil {
		return err
	}
	defer held.Close()
	// Two that remove at once would fail. Where there are no locks, nothing is swept.
	filelock.Lock(held)
	return remove(root, stage)
}

func environment() map[string]string {
	return map[string]string{"PYTHONPATH": Target, "NODE_PATH": Target + "/node_modules"}
}

// validate reports everything that is wrong before anything is made.
func validate(ctx context.Context, p execpolicy.DockerPolicy, cache string, r Recipe, remote bool) error {
	var errs []error
	refuse := func(text string) { errs = append(errs, errors.New(text)) }
	if len(r.Scripts) == 0 {
		refuse("the recipe has no scripts")
	}
	for i, script := range r.Scripts {
		if strings.TrimSpace(script) == "" || strings.Contains(script, "\x00") {
			refuse(fmt.Sprintf("script %d is empty or holds a NUL byte", i+1))
		}
		if len(script) > maxScript {
			refuse(fmt.Sprintf("script %d has %d bytes, and may have %d: make several of it", i+1, len(script), maxScript))
		}
	}
	if p.WorkspaceReadOnly {
		refuse("WorkspaceReadOnly: a set-up has to write")
	}
	if p.KeepContainer {
		refuse("KeepContainer: what is kept could be started again, and change the layer")
	}
	if cache == "" && !remote {
		refuse("the cache has no name")
	}
	spec := execpolicy.Spec{Env: r.Env, Labels: r.Labels}
	broken := execpolicy.Check(ctx, p, spec)
	rest := problems.Of(broken)
	errs = append(errs, rest...)
	mounting := p
	place := "with a volume"
	if remote {
		mounting.Mounts = append(slices.Clip(p.Mounts), dockercli.Mount{Volume: mountguard.LayerPrefix + "new", Target: Target})
	} else {
		spec.Workspace, mounting.WorkspaceRelabel = cache, ""
		place = fmt.Sprintf("with the cache %q as the workspace", cache)
	}
	if _, _, ok := builder(p.User); ok || p.User == "" {
		// Whose the layer is, and so whether that one can use it, is decided when it is
		// made.
		mounting.User = "nobody"
	}
	for _, err := range problems.Of(execpolicy.Check(ctx, mounting, spec)) {
		// What comes with the place is wrong with that.
		if !slices.ContainsFunc(rest, func(other error) bool { return other.Error() == err.Error() }) {
			errs = append(errs, fmt.Errorf("%s: %w", place, err))
		}
	}
	for _, m := range p.Mounts {
		if mountguard.Within(m.Target, Target) {
			refuse(fmt.Sprintf("the mount on %q: %s is the layer's", m.Target, Target))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(p.Tmpfs)) {
		if mountguard.Within(dir, Target) {
			refuse(fmt.Sprintf("the tmpfs %q: %s is the layer's", dir, Target))
		}
	}
	if err := problems.Join(errs...); err != nil {
		return err
	}
	return broken
}

// name returns the name of the layer that the recipe makes in an image.
func (r Recipe) name(image string) string {
	if image == "" {
		image = execpolicy.DefaultImage
	}
	h := sha256.New()
	// Quoted, so that no two recipes look alike.
	fmt.Fprintf(h, "%q %q", image, r.Scripts)
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		fmt.Fprintf(h, " %q=%q", k, r.Env[k])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// build makes a layer beside its place and puts it there when it is whole.
func build(ctx context.Context, p execpolicy.DockerPolicy, root *os.Root, name string, r Recipe) (err error) {
	sweep(root)
	stage, held, err := claim(root)
	if err != nil {
		return err
	}
	defer held.Close()
	defer func() {
		if rmErr := remove(root, stage); !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}()
	dir := filepath.Join(stage, tree)
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	// Whatever the program's umask.
	if err := root.Chmod(dir, 0o755); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		uid, gid, ok := builder(p.User)
		if !ok {
			uid, gid = account.Nobody.UID, account.Nobody.GID
		}
		if err := root.Chown(dir, uid, gid); err != nil {
			return err
		}
	}
	mount := dockercli.Mount{Source: filepath.Join(root.Name(), dir), Target: Target, Writable: true}
	if p.Engine != nil && p.Engine.SELinux {
		mount.Relabel = "shared" // by the sessions that have the layer
	}
	if err := r.run(ctx, p, mount); err != nil {
		return err
	}
	err = root.Rename(stage, name)
	if _, there := root.Lstat(name); there == nil {
		// Somebody else may have been faster.
		return nil
	}
	return err
}

// builder returns the numbers of a policy's user, if root can give it a layer by them.
func builder(user string) (uid, gid int, ok bool) {
	name, group, _ := strings.Cut(user, ":")
	uid, err := strconv.Atoi(name)
	if err == nil {
		gid, err = strconv.Atoi(cmp.Or(group, name))
	}
	return uid, gid, err == nil && uid >= 0 && gid >= 0 && os.Getuid() == 0
}

// claim makes a directory for an unfinished layer, which is held until it is closed.
func claim(root *os.Root) (stage string, held *os.File, err error) {
	// Somebody's sweep may come between.
	for range 10 {
		stage = stagePrefix + rand.Text()
		if err := root.Mkdir(stage, 0o700); err != nil {
			return "", nil, err
		}
		held, err = root.Open(stage)
		if err != nil {
			continue
		}
		if err = filelock.TryLock(held); err == nil || errors.Is(err, errors.ErrUnsupported) {
			// It may have been removed before it was held.
			if _, err = root.Lstat(stage); err == nil {
				return stage, held, nil
			}
		}
		held.Close()
	}
	return "", nil, err
}

// sweep removes the unfinished layers that nobody holds. What can't be removed now,
// because its container is still ending, is left for the next time.
func sweep(root *os.Root) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), stagePrefix) {
			continue
		}
		if stage, err := root.Open(e.Name()); err == nil {
			if filelock.TryLock(stage) == nil {
				remove(root, e.Name())
			}
			stage.Close()
		}
	}
}

// run runs the scripts on a directory or a volume, which they see where it will be later.
// It returns when their container is gone.
func (r Recipe) run(ctx context.Context, p execpolicy.DockerPolicy, mount dockercli.Mount) (err error) {
	p.Mounts = append(slices.Clip(p.Mounts), mount)
	p.WorkspaceRelabel = mount.Relabel // it is the same directory
	// The session's directory decides whose the container is.
	spec := execpolicy.Spec{Workspace: mount.Source, Env: environment(), Labels: r.Labels}
	maps.Copy(spec.Env, r.Env)
	s, err := execpolicy.Start(ctx, p, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i, script := range r.Scripts {
		result, err := s.Run(ctx, execpolicy.Command{Script: script, Dir: Target})
		if result == nil {
			return err
		}
		err = reason(result, err)
		if err == nil && result.Outcome == execpolicy.OutcomeExited && result.ExitCode == 0 {
			continue
		}
		how := result.Outcome.String()
		if result.Outcome == execpolicy.OutcomeExited {
			how = fmt.Sprintf("exit code %d", result.ExitCode)
		}
		failed := fmt.Errorf("%w: script %d of %d: %s: %s", ErrBuild, i+1, len(r.Scripts), how, output(result))
		return errors.Join(failed, err)
	}
	return nil
}

// reason joins why a script was ended with the error beside its result, which says that
// only of a cancel.
func reason(r *execpolicy.Result, err error) error {
	if r.Cause == nil || errors.Is(err, r.Cause) {
		return err
	}
	return errors.Join(r.Cause, err)
}

// output returns the end of what a script printed.
func output(r *execpolicy.Result) string {
	text := r.Stderr
	if len(text) == 0 {
		text = r.Stdout
	}
	text = text[max(0, len(text)-maxOutput):]
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "\ufffd")
}
