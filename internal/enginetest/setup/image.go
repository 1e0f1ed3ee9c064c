package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/testdata/image"
)

// DefaultImage is the image of a policy that names none.
const DefaultImage = "python:3.12-alpine3.19"

const (
	answerTimeout = 15 * time.Second // a machine without a registry should wait no longer
	pullTimeout   = 3 * time.Minute  // the default image is 20 MB
	buildTimeout  = 5 * time.Minute  // it takes five seconds beside a near package mirror
)

// Image returns the name of an image that the engine holds, with sh and Python in it. It
// is what COFFERDAM_IMAGE names; else DefaultImage, if the engine has it; else an image
// made from the distribution's packages, whose name holds a hash of its recipe, if the
// engine has that; else DefaultImage, if a registry answers within 15 seconds and sends
// it within three minutes; else the second one, newly made. If COFFERDAM_MAKE_IMAGE is
// set, DefaultImage is not thought of: the other has bash and dash as well. What takes
// time is told to progress.
func Image(ctx context.Context, e *dockercli.Engine, progress io.Writer) (string, error) {
	if name := os.Getenv("COFFERDAM_IMAGE"); name != "" {
		if has(ctx, e, name) {
			return name, nil
		}
		return name, pull(ctx, e, name, progress, answerTimeout, pullTimeout)
	}
	made := OfflineName()
	names := []string{made}
	pulls := os.Getenv("COFFERDAM_MAKE_IMAGE") == ""
	if pulls {
		names = []string{DefaultImage, made}
	}
	for _, name := range names {
		if has(ctx, e, name) {
			return name, nil
		}
	}
	// The test binaries of several packages run at once; one of them does the work, and
	// the others find it done.
	unlock, err := Lock("image", false)
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, name := range names {
		if has(ctx, e, name) {
			return name, nil
		}
	}
	if pulls {
		err := pull(ctx, e, DefaultImage, progress, answerTimeout, pullTimeout)
		if err == nil {
			return DefaultImage, nil
		}
		fmt.Fprintln(progress, err)
	}
	return made, build(ctx, e, made, progress)
}

// OfflineName returns the name of the image that is made from the distribution's
// packages.
func OfflineName() string {
	return fmt.Sprintf("localhost/cofferdam-test:%.6x", sha256.Sum256([]byte(image.Recipe)))
}

func has(ctx context.Context, e *dockercli.Engine, name string) bool {
	return run(ctx, e, "image", "inspect", "--format={{.Id}}", "--", name) == nil
}

// pull gives up if no registry has answered in one time, or if the image has not come in
// the whole.
func pull(ctx context.Context, e *dockercli.Engine, name string, progress io.Writer, answered,
	whole time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, whole, fmt.Errorf("it did not come within %v", whole))
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	silence := time.AfterFunc(answered, func() { give(fmt.Errorf("no registry answered within %v", answered)) })
	defer silence.Stop()
	fmt.Fprintf(progress, "pulling %s into %s\n", name, filepath.Base(e.Path))
	if isTerminal(progress) {
		terminal := progress
		progress = bar(terminal)
		defer fmt.Fprint(terminal, "\r\x1b[K")
	}
	return e.Pull(ctx, dockercli.PullOptions{Image: name, Progress: &answer{progress, silence}})
}

// An answer passes on what a client says of a pull, and stops the timer when a registry
// has answered.
type answer struct {
	io.Writer
	silence *time.Timer
}

func (a *answer) Write(b []byte) (int, error) {
	// Docker's word is the first; podman has said before that it will try.
	if bytes.Contains(b, []byte("Pulling from")) || bytes.Contains(b, []byte("Copying")) {
		a.silence.Stop()
	}
	return a.Writer.Write(b)
}

// Copy copies an image that an engine holds into another, by the command that loads one
// there from its stdin.
func Copy(ctx context.Context, from *dockercli.Engine, image string, load *exec.Cmd) error {
	save := exec.CommandContext(ctx, from.Path, slices.Concat(from.Global, []string{"save", image})...)
	save.Env = from.Env
	pipe, err := save.StdoutPipe()
	if err != nil {
		return err
	}
	load.Stdin = pipe
	save.WaitDelay = time.Minute
	if err := save.Start(); err != nil {
		return err
	}
	said, err := load.CombinedOutput()
	pipe.Close()
	if err = errors.Join(err, save.Wait()); err != nil {
		return fmt.Errorf("copying %s: %w: %s", image, err, bytes.TrimSpace(said))
	}
	return nil
}

func build(ctx context.Context, e *dockercli.Engine, name string, progress io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	fmt.Fprintf(progress, "making %s for %s from this machine's packages\n", name, filepath.Base(e.Path))
	sh, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	// The script is an argument, so that its standard input stays empty.
	recipe := &dockercli.Engine{Path: sh, Env: e.Env}
	return run(ctx, recipe, slices.Concat([]string{"-c", image.Recipe, "build.sh", name, e.Path}, e.Global)...)
}
