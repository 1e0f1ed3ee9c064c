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
	pullTimeout  = 15 * time.Second // enough where a registry is near; a machine without one should not wait longer
	buildTimeout = 5 * time.Minute  // it takes five seconds beside a near package mirror
)

// Image returns the name of an image that the engine holds, with sh, bash and Python in it. It is what COFFERDAM_IMAGE names; else
// DefaultImage, if the engine has it; else an image made from the distribution's packages, whose name holds a hash of its recipe,
// if the engine has that; else DefaultImage, if it can be pulled within 15 seconds and COFFERDAM_NO_PULL is not set; else the
// second one, newly made. What takes time is told to progress.
func Image(ctx context.Context, e *dockercli.Engine, progress io.Writer) (string, error) {
	if name := os.Getenv("COFFERDAM_IMAGE"); name != "" {
		if has(ctx, e, name) {
			return name, nil
		}
		return name, pull(ctx, e, name, progress)
	}
	made := offlineName()
	for _, name := range []string{DefaultImage, made} {
		if has(ctx, e, name) {
			return name, nil
		}
	}
	// The test binaries of several packages run at once; one of them does the work, and the others find it done.
	unlock, err := Lock("image", false)
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, name := range []string{DefaultImage, made} {
		if has(ctx, e, name) {
			return name, nil
		}
	}
	if os.Getenv("COFFERDAM_NO_PULL") == "" {
		err := pull(ctx, e, DefaultImage, progress)
		if err == nil {
			return DefaultImage, nil
		}
		fmt.Fprintln(progress, err)
	}
	return made, build(ctx, e, made, progress)
}

func offlineName() string {
	return fmt.Sprintf("localhost/cofferdam-test:%.6x", sha256.Sum256([]byte(image.Recipe)))
}

func has(ctx context.Context, e *dockercli.Engine, name string) bool {
	return run(ctx, e, "image", "inspect", "--format={{.Id}}", "--", name) == nil
}

func pull(ctx context.Context, e *dockercli.Engine, name string, progress io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pullTimeout, fmt.Errorf("nothing came within %v", pullTimeout))
	defer cancel()
	fmt.Fprintf(progress, "pulling %s into %s\n", name, filepath.Base(e.Path))
	return run(ctx, e, "pull", "--quiet", "--", name)
}

// Copy copies an image that an engine holds into another, by the command that loads one there from its stdin.
func Copy(ctx context.Context, from *dockercli.Engine, image string, load *exec.Cmd) error {
	save := exec.CommandContext(ctx, from.Path, slices.Concat(from.Global, []string{"save", image})...)
	save.Env = from.Env
	pipe, err := save.StdoutPipe()
	if err != nil {
		return err
	}
	load.Stdin = pipe
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
