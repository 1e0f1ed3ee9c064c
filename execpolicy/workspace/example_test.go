package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// sandbox is the zero policy: no network, a read-only root, 512 MiB of memory.
// TestExamples runs the examples below under it, on each engine.
var sandbox = execpolicy.DockerPolicy{}

// A project is copied in, and what a command has changed is looked at before it is copied
// out.
func Example() {
	ctx := context.Background()
	spec := execpolicy.Spec{Workspace: "project"}
	s, err := workspace.Start(ctx, sandbox, spec, workspace.Options{
		Mode:    workspace.Copied,
		Exclude: []string{".git", "**/node_modules"},
		Discard: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "python3 format.py"}); err != nil {
		fmt.Println(err)
		return
	}
	changes, err := s.Changes(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range changes {
		fmt.Println(c.Kind, c.Name)
	}
	_, err = s.Save(ctx)
	fmt.Println(err)
}

func ExampleCollect() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "mkdir -p out/deep; echo 1 >out/deep/a.csv"}); err != nil {
		fmt.Println(err)
		return
	}
	files, err := workspace.Collect(ctx, s, ".", workspace.CollectOptions{Patterns: []string{"out/**/*.csv"},
		MaxFiles: 10, MaxBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(os.CopyFS("results", files))
}

// A link among the artifacts, or a file that is too large, does not cost the others.
func ExampleCollectOptions_skip() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "echo 1 >a.csv; ln -s /etc/passwd b.csv"}); err != nil {
		fmt.Println(err)
		return
	}
	files, err := workspace.Collect(ctx, s, ".", workspace.CollectOptions{
		Patterns: []string{"*.csv"},
		Skip: func(e execpolicy.TreeEntry, reason error) error {
			fmt.Println("left out:", reason)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := fs.ReadFile(files, "a.csv")
	fmt.Printf("%s%v\n", text, err)
}

// Patterns and limits say which files are collected.
func ExampleCollectOptions() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, sandbox, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "mkdir plots; for i in 1 2 3; do echo $i >plots/$i.svg; done"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, most := range []int{3, 2} {
		_, err := workspace.Collect(ctx, s, ".", workspace.CollectOptions{
			Patterns: []string{"report.html", "plots/*.svg"},
			MaxFiles: most,
			MaxBytes: 10 << 20,
		})
		fmt.Println(most, errors.Is(err, execpolicy.ErrTooLarge))
	}
}

// A session that copies saves when it is asked to, and once more when it is closed.
func ExampleSession() {
	ctx := context.Background()
	s, err := workspace.Start(ctx, sandbox, execpolicy.Spec{Workspace: "project"},
		workspace.Options{Mode: workspace.Copied})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "echo '# Notes' >notes.md"}); err != nil {
		fmt.Println(err)
		return
	}
	saved, err := s.Save(ctx)
	for _, c := range saved {
		fmt.Println(c.Kind, c.Name)
	}
	fmt.Println(err)
}

// What Exclude names stays out, and with Discard nothing that is made inside is saved.
func ExampleOptions() {
	ctx := context.Background()
	s, err := workspace.Start(ctx, sandbox, execpolicy.Spec{Workspace: "project"}, workspace.Options{
		Exclude: []string{".git", "**/*.key"},
		Discard: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Script: "touch scratch; ls -A"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// A program that wants the directory itself, and no copy of it, gets an error if it can't
// be mounted.
func ExampleMode() {
	remote := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true", Remote: true}} // no engine is asked
	_, err := workspace.Start(context.Background(), remote, execpolicy.Spec{Workspace: "."},
		workspace.Options{Mode: workspace.Mounted})
	fmt.Println(errors.Is(err, execpolicy.ErrNoMount))
	// Output: true
}

// What was deleted inside stays on the host, for the caller to delete.
func ExampleKind() {
	for _, c := range []workspace.Change{
		{Name: "main.py", Kind: workspace.Changed},
		{Name: "new.py", Kind: workspace.Added},
		{Name: "old.py", Kind: workspace.Deleted},
	} {
		if c.Kind == workspace.Deleted {
			fmt.Println(c.Name, "may go")
			continue
		}
		fmt.Println(c.Name, "was", c.Kind)
	}
	// Output:
	// main.py was changed
	// new.py was added
	// old.py may go
}

func ExampleChange() {
	c := workspace.Change{Name: "src/main.py", Kind: workspace.Changed, Mode: 0o644, Size: 120}
	fmt.Println(c.Kind, c.Name, c.Mode, c.Size)
	// Output: changed src/main.py -rw-r--r-- 120
}
