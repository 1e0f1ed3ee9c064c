package workspace_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// A project is copied in, whichever engine it is, and what a command has made of it is looked at before it is copied out.
func Example() {
	ctx := context.Background()
	spec := execpolicy.Spec{Workspace: "project"}
	s, err := workspace.Start(ctx, execpolicy.DockerPolicy{}, spec, workspace.Options{
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
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if _, err := s.Run(ctx, execpolicy.Command{Script: "mkdir -p out/deep; echo 1 >out/deep/a.csv"}); err != nil {
		fmt.Println(err)
		return
	}
	files, err := workspace.Collect(ctx, s, ".", workspace.CollectOptions{Patterns: []string{"out/**/*.csv"}, MaxFiles: 10, MaxBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(os.CopyFS("results", files))
}

func ExampleChange() {
	c := workspace.Change{Name: "src/main.py", Kind: workspace.Changed, Mode: 0o644, Size: 120}
	fmt.Println(c.Kind, c.Name, c.Mode, c.Size)
	// Output: changed src/main.py -rw-r--r-- 120
}
