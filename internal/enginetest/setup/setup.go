// Package setup makes an engine ready to run containers for tests and demonstrations on
// any machine: it sees to an image, with or without a registry, and to podman's settings
// where its own ones do not work.
package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// probeTimeout bounds one trivial container: it takes a quarter of a second on an idle
// machine.
const probeTimeout = time.Minute

// Wanted returns the engines to look up: what the environment's ENGINE names, which may
// be a command line such as "docker --context ci", or else docker and podman.
func Wanted() []string {
	if spec := os.Getenv("ENGINE"); spec != "" {
		return []string{spec}
	}
	return []string{"docker", "podman"}
}

// Required returns the engines whose absence is a failure: those that the environment's
// COFFERDAM_REQUIRE_ENGINES lists, with commas between them.
func Required() []string {
	return strings.FieldsFunc(os.Getenv("COFFERDAM_REQUIRE_ENGINES"), func(r rune) bool { return r == ',' })
}

// Lookup is [dockercli.Lookup] for an engine that tests keep busy: one that does not
// answer in time is asked again.
func Lookup(ctx context.Context, spec string) (e *dockercli.Engine, err error) {
	for range 4 {
		if e, err = dockercli.Lookup(ctx, spec); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	return e, err
}

// Ready sees to an image as Image does, runs a trivial container of it, and returns its
// name. Where podman's own settings do not work, it writes a containers.conf that does
// into the user's cache and names it in e.Env. A CONTAINERS_CONF that is already set is
// left alone.
func Ready(ctx context.Context, e *dockercli.Engine, progress io.Writer) (image string, err error) {
	image, err = Image(ctx, e, progress)
	if err != nil {
		return "", err
	}
	// There may be two things to cure: crun refuses the cgroups, then runc the limits.
	for tries := 0; ; tries++ {
		err := probe(ctx, e, image)
		if err == nil {
			return image, nil
		}
		conf := containersConf(err.Error())
		if tries == 2 || conf == "" || e.Kind != dockercli.Podman || os.Getenv("CONTAINERS_CONF") != "" {
			return "", fmt.Errorf("%s cannot run a container: %w", e.Path, err)
		}
		path, err := writeConf(conf)
		if err != nil {
			return "", err
		}
		e.Env = append(slices.Clip(environ(e)), "CONTAINERS_CONF="+path)
	}
}

// Limits returns an error that names the limits that the engine does not set, if there
// are any. What needs them must not run there: the machine has to bear it.
func Limits(ctx context.Context, e *dockercli.Engine) error {
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for name, set := range map[string]bool{"memory": info.MemoryLimit, "processors": info.CPULimit,
		"processes": info.PidsLimit} {
		if !set {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%s sets no limit of %s here", filepath.Base(e.Path), strings.Join(missing, ", "))
}

func probe(ctx context.Context, e *dockercli.Engine, image string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	words, err := e.RunArgs(dockercli.RunOptions{Remove: true, Pull: "never", Network: "none", LogDriver: "none",
		HTTPProxy: true, ImageEntrypoint: true, Image: image, Command: []string{"true"}})
	if err != nil {
		return err
	}
	return run(ctx, e, words[1+len(e.Global):]...)
}

// containersConf returns the settings that cure podman's complaint, or nothing where it
// is another one. On machines with cgroups in hybrid mode crun refuses to work, and runc
// does not; without CAP_SYS_RESOURCE podman's default limits may not be set.
func containersConf(complaint string) string {
	hybrid := strings.Contains(complaint, "hybrid mode")
	rlimit := strings.Contains(complaint, "rlimit") && strings.Contains(strings.ToLower(complaint), "not permitted")
	if !hybrid && !rlimit {
		return ""
	}
	conf := "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
	if hybrid {
		conf += "[engine]\nruntime = \"runc\"\n"
	}
	return conf
}

// writeConf puts the settings where every process of the user finds them: a name of its
// own would be left behind.
func writeConf(conf string) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(dir, "containers.conf.*")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(conf)
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "containers.conf")
	return path, os.Rename(temp.Name(), path)
}

// cacheDir returns a directory that only this user may enter, even for a user without a
// home.
func cacheDir() (string, error) {
	if dir, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(dir, "cofferdam")
		if os.MkdirAll(dir, 0o700) == nil && takesFiles(dir) {
			return dir, nil
		}
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("cofferdam-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	// Somebody else could have made it first, and then own what podman reads there.
	if info, err := os.Lstat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 || !mine(info) {
		return "", fmt.Errorf("%s is not a private directory of this user's: remove it, or set HOME", dir)
	}
	return dir, nil
}

// takesFiles reports whether a file can be made in a directory, which may be another
// user's.
func takesFiles(dir string) bool {
	f, err := os.CreateTemp(dir, "probe.*")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

func environ(e *dockercli.Engine) []string {
	if e.Env != nil {
		return e.Env
	}
	return os.Environ()
}

// run runs one verb of the engine; what the engine printed is in the error.
func run(ctx context.Context, e *dockercli.Engine, args ...string) error {
	cmd := exec.CommandContext(ctx, e.Path, slices.Concat(e.Global, args)...)
	cmd.Env = environ(e)
	// A killed podman can leave a container behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(e.Path), args[0], cmp.Or(context.Cause(ctx), err),
			bytes.TrimSpace(said))
	}
	return nil
}
