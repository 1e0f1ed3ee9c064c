// Command try runs ordinary programs under the library's filter of system calls, on each
// engine that works: those of package programs, in an image that it makes of the
// distribution's packages and removes again. Go is the machine's own. It exits with 1 if
// one fails.
//
// The environment's ENGINE names one engine; else docker and podman are tried.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/programs"
	"github.com/seed-64a260eb/cofferdam/testdata/image"
)

const (
	tag = "localhost/cofferdam-programs:1"
	// packages are Debian's.
	packages = "coreutils findutils tar gcc libc6-dev make git nodejs python3-pip python3-setuptools " +
		"python3-wheel python3-venv python3-numpy strace"
	timeout = 20 * time.Minute // of one engine, its image included
)

func main() {
	ok := true
	for _, name := range setup.Wanted() {
		if err := try(name); err != nil && !errors.Is(err, dockercli.ErrNoEngine) {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

func try(name string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	e, err := setup.Lookup(ctx, name)
	if err != nil {
		return err
	}
	// It also sees to podman's settings.
	if _, err := setup.Ready(ctx, e, os.Stderr); err != nil {
		return err
	}
	env := e.Env
	if env == nil {
		env = os.Environ()
	}
	recipe := exec.CommandContext(ctx, "sh", slices.Concat([]string{"-c", image.Recipe, "build.sh", tag, e.Path},
		e.Global)...)
	recipe.Env = append(slices.Clip(env), "IMAGE_PACKAGES="+packages)
	if said, err := recipe.CombinedOutput(); err != nil {
		return fmt.Errorf("making the image: %w: %s", err, said)
	}
	defer func() {
		remove := exec.Command(e.Path, slices.Concat(e.Global, []string{"image", "rm", tag})...)
		remove.Env = env
		err = errors.Join(err, remove.Run())
	}()
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	p := execpolicy.DockerPolicy{
		Engine:      e,
		Image:       tag,
		MemoryBytes: 4 << 30,
		PidsLimit:   1024,
		Tmpfs:       map[string]int64{"/tmp": 2 << 30},
		Mounts:      []dockercli.Mount{{Source: strings.TrimSpace(string(goroot)), Target: "/usr/local/go"}},
	}
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{Env: map[string]string{"PATH": "/usr/local/go/bin:/usr/bin:/bin"}})
	if err != nil {
		return err
	}
	defer s.Close()
	var failed []error
	for _, program := range programs.All {
		r, err := s.Run(ctx, execpolicy.Command{Script: program.Line(), Timeout: 5 * time.Minute})
		if err != nil {
			return err
		}
		word := "works"
		if r.ExitCode != 0 {
			word = "FAILS: " + r.Text()
			failed = append(failed, fmt.Errorf("%s fails", program.Name))
		}
		fmt.Printf("%-8s %-24s %s\n", filepath.Base(e.Path), program.Name, word)
	}
	return errors.Join(failed...)
}
