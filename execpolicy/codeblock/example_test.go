package codeblock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

const answer = "Let's see:\n\n```python\n# filename: shapes.py\ndef area(w, h):\n    return w * h\n```\n\n" +
	"And now:\n\n```python\nfrom shapes import area\nprint(area(2, 3))\n```\n\nIt prints:\n\n```text\n6\n```\n"

// The code in a model's answer is run, and the results go back to the model.
func Example() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	options := codeblock.Options{Timeout: 10 * time.Second}
	blocks := slices.DeleteFunc(codeblock.Parse(answer), func(b codeblock.Block) bool { return !options.Knows(b) })
	report, err := codeblock.Run(ctx, s, blocks, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.ExitCode(), report.Render(execpolicy.RenderOptions{}))
}

func ExampleParse() {
	for _, b := range codeblock.Parse(answer) {
		fmt.Printf("%s: %q\n", b.Language, b.Code)
	}
	// Output:
	// python: "# filename: shapes.py\ndef area(w, h):\n    return w * h\n"
	// python: "from shapes import area\nprint(area(2, 3))\n"
	// text: "6\n"
}

func ExampleBlock() {
	b := codeblock.Block{Language: "markdown", Info: `title="README.md"`, Code: "# Usage\n```sh\nmake\n```\n"}
	fmt.Print(b)
	fmt.Println(codeblock.Parse(b.String())[0] == b)
	// Output:
	// ````markdown title="README.md"
	// # Usage
	// ```sh
	// make
	// ```
	// ````
	// true
}

func ExampleBlock_Filename() {
	for _, b := range codeblock.Parse(answer) {
		name, ok := b.Filename()
		fmt.Printf("%q %v\n", name, ok)
	}
	// Output:
	// "shapes.py" true
	// "" false
	// "" false
}

func ExampleLanguage() {
	options := codeblock.Options{Languages: map[string]codeblock.Language{
		"ruby": {Programs: []string{"ruby"}},                                        // ruby -
		"go":   {Programs: []string{"go"}, Args: []string{"run"}, Extension: ".go"}, // go run FILE
		"bash": {Programs: []string{"bash", "sh"}, Stdin: []string{"-c", `eval "$(cat)"`}},
		"php":  {Programs: []string{"php"}, Stdin: []string{"--"}},
		"html": {}, // stored under its filename, and not run
	}}
	fmt.Println(options.Knows(codeblock.Block{Language: "Ruby"}), options.Knows(codeblock.Block{Language: "cobol"}))
	// Output: true false
}

func ExampleOptions() {
	options := codeblock.Options{
		Default:     "python", // of blocks that name no language
		Timeout:     time.Minute,
		Dir:         "/workspace/project",
		Env:         map[string]string{"PYTHONDONTWRITEBYTECODE": "1"},
		Stdout:      os.Stdout, // as it comes
		OutputLimit: 10 << 20,
	}
	fmt.Println(options.Knows(codeblock.Block{}))
	// Output: true
}

func ExampleReport() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	blocks := codeblock.Parse("```python\nprint(1)\n```\n```sh\nexit 3\n```\n```sh\necho never\n```\n")
	report, err := codeblock.Run(ctx, s, blocks, codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(report.Steps), "blocks were tried; exit code", report.ExitCode())
}

func ExampleStep() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	report, err := codeblock.Run(ctx, s, codeblock.Parse(answer), codeblock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range report.Steps {
		switch {
		case errors.Is(step.Err, codeblock.ErrLanguage):
			fmt.Println("not run:", step.Err)
		case step.Err != nil:
			fmt.Println("refused:", step.Err)
		case step.Result != nil:
			fmt.Println(step.Program, step.File, step.Result.Outcome, step.Result.Duration)
		}
	}
}
