package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// maxAdded is how many bytes the library may add to a program: TestSizeAdded of package
// execpolicy says why.
const maxAdded = 1_410_000

// sizes holds the size of a program that runs a command in a session against one that
// runs the engine's client with os/exec.
func sizes(ctx context.Context, _ execpolicy.DockerPolicy, t *table) error {
	dir, err := os.MkdirTemp("", "cofferdam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := size(ctx, dir, "library")
	if err != nil {
		return err
	}
	theirs, err := size(ctx, dir, "bare")
	if err != nil {
		return err
	}
	mb := func(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }
	t.line("stripped binary", mb(ours)+" ("+mb(ours-theirs)+" more)", mb(theirs)+", with os/exec",
		"at most "+mb(maxAdded)+" more", ours-theirs <= maxAdded,
		ratio{value: float64(ours) / float64(theirs)})
	return nil
}

// size builds a program from testdata into a directory, and returns its size in bytes.
func size(ctx context.Context, dir, name string) (int64, error) {
	return build(ctx, ".", "github.com/seed-64a260eb/cofferdam/internal/bench/testdata/"+name, filepath.Join(dir, name))
}

// build builds a program in the module that is in a directory, and returns its size in
// bytes.
func build(ctx context.Context, module, program, out string) (int64, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, program)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build %s: %w: %s", program, err, said)
	}
	info, err := os.Stat(out)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
