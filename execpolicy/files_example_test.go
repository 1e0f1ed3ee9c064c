package execpolicy_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing/fstest"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func ExampleSession_WriteFile() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := s.WriteFile(ctx, "main.py", []byte(`open("out.txt", "w").write("made inside")`), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Run(ctx, execpolicy.Command{Argv: []string{"python3", "main.py"}}); err != nil {
		fmt.Println(err)
		return
	}
	out, err := s.ReadFile(ctx, "out.txt", 1<<20)
	fmt.Printf("%s %v\n", out, err)
}

// Files are written with their directories, and what a command makes of them is walked.
func ExampleSession_WriteFiles() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := s.WriteFiles(ctx, "project",
		map[string][]byte{"main.py": []byte("import lib.a"), "lib/a.py": []byte("print('a')")}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Run(ctx, execpolicy.Command{Argv: []string{"python3", "main.py"}, Dir: "project"}); err != nil {
		fmt.Println(err)
		return
	}
	entries, err := s.ReadDir(ctx, "project/lib")
	for _, e := range entries {
		fmt.Println(e.Mode, e.Size, e.Name)
	}
	fmt.Println(err)
}

func ExampleTreeEntry() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	var bytes int64
	err = s.Walk(ctx, "/usr/lib", func(e execpolicy.TreeEntry, _ io.Reader) error {
		if e.Mode.IsRegular() {
			bytes += e.Size
		}
		return nil
	})
	fmt.Println(bytes, err)
}

// A tree goes in, a command changes it, and what it made comes out. Nothing of the host
// is mounted.
func ExampleSession_CopyFS() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	tree := fstest.MapFS{"src/a.txt": {Data: []byte("a\n"), Mode: 0o644}, "src/b.txt": {Data: []byte("b\n"), Mode: 0o644}}
	if err := s.CopyFS(ctx, ".", tree); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Run(ctx, execpolicy.Command{Script: "mkdir out && cat src/* >out/all.txt"}); err != nil {
		fmt.Println(err)
		return
	}
	results, err := os.OpenRoot("results")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer results.Close()
	fmt.Println(s.CopyOutTo(ctx, "out", results))
}
