package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// answer is what a model might say.
const answer = "First the list:\n\n" +
	"```python\n# filename: primes.py\nprimes = [n for n in range(2, 30) if all(n % d for d in range(2, n))]\n```\n\n" +
	"Then, with the shell:\n\n" +
	"~~~sh\npython3 -c 'from primes import primes; print(*primes)'\n~~~\n"

// blocks runs the code blocks of a model's answer.
func blocks(ctx context.Context, h *host) (string, error) {
	found := codeblock.Parse(answer)
	report, err := codeblock.Run(ctx, h.session, found, codeblock.Options{Dir: "/workspace"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d blocks, exit %d, %q", len(found), report.ExitCode(), report.Output()), nil
}

// call gives code a value and takes one from it, while it prints what could be taken for
// one.
func call(ctx context.Context, h *host) (string, error) {
	b := codeblock.Block{Language: "python",
		Code: "print('{\"sum\": -1}')\nresult = {'sum': sum(INPUT_DATA['numbers']), 'none': None}\n"}
	input := map[string]any{"numbers": []int{1, 2, 3, 4, 5}, "exact": true}
	r, err := codeblock.Call(ctx, h.session, b, input, codeblock.Options{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("result %s, stdout %q", r.Value, r.Stdout), nil
}

// notebook runs snippets in one interpreter.
func notebook(ctx context.Context, h *host) (string, error) {
	p, err := python.Start(ctx, h.session, python.Options{})
	if err != nil {
		return "", err
	}
	defer p.Close()
	if _, err = p.Run(ctx, python.Snippet{Code: "import math\nr = 2"}); err != nil {
		return "", err
	}
	area, err := p.Run(ctx, python.Snippet{Code: "round(math.pi * r**2)"})
	if err != nil {
		return "", err
	}
	failed, err := p.Run(ctx, python.Snippet{Code: "r / 0"})
	if err != nil || failed.Exception == nil {
		return "no exception", err
	}
	return fmt.Sprintf("%s, %s: %s", area.Value, failed.Exception.Type, failed.Exception.Message), nil
}

// artifacts collects some of the files that a program has made.
func artifacts(ctx context.Context, h *host) (string, error) {
	const made = `mkdir -p /workspace/out/deep; cd /workspace/out; echo a,b >deep/table.csv; echo '<svg/>' ` +
		`>plot.svg; ln -s /etc/passwd notes.txt; cd /tmp`
	if _, err := h.session.Run(ctx, script(made)); err != nil {
		return "", err
	}
	files, err := workspace.Collect(ctx, h.session, "out",
		workspace.CollectOptions{Patterns: []string{"**/*.csv", "*.svg"}})
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*")
	if err != nil {
		return "", err
	}
	table, err := fs.ReadFile(files, "deep/table.csv")
	if err != nil {
		return "", err
	}
	_, err = workspace.Collect(ctx, h.session, "out", workspace.CollectOptions{Patterns: []string{"*.txt"}})
	return fmt.Sprintf("%v, %q, a link: %v", names, table, errors.Is(err, execpolicy.ErrUnsafeType)), nil
}
