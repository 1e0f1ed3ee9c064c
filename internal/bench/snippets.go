package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/python"
)

const (
	snippetRounds = 15
	snippetBurst  = 10
	snippet       = "print(6 * 7)"
	snippetPrints = "42\n"
)

// snippets holds a line of Python in an interpreter that has run one before against the
// plainest run of a container for it, and against a command that does nothing.
func snippets(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	interpreter, err := python.Start(ctx, s, python.Options{})
	if err != nil {
		return err
	}
	warm := func() error { return runSnippet(ctx, interpreter) }
	plain := append(append([]string{p.Engine.Path}, p.Engine.Global...), "run", "--rm", p.Image, "python3", "-c", snippet)
	cold := func() error {
		c, err := startClient(p, plain)
		if err != nil {
			return err
		}
		return errors.Join(c.discard(len(snippetPrints)), c.close())
	}
	subjects := []func() (time.Duration, error){
		burst(snippetBurst, warm), burst(1, cold), burst(commandBurst, func() error { return colon(ctx, s) }),
	}
	if _, err := takeTurns(1, subjects...); err != nil {
		return err
	}
	all, err := takeTurns(snippetRounds, subjects...)
	if err != nil {
		return err
	}
	t.atLeast("Python snippet, times faster", all[0].String(), all[1].String()+", run --rm IMAGE python3 -c", 20,
		all[1].over(all[0]))
	// A copy of the session's shell talks with the interpreter.
	t.atMost("Python snippet", all[0].String(), all[2].String()+", a command that does nothing", 3, all[0].over(all[2]))
	return nil
}

// runSnippet runs the snippet in an interpreter.
func runSnippet(ctx context.Context, p *python.Interpreter) error {
	r, err := p.Run(ctx, python.Snippet{Code: snippet})
	if err != nil {
		return err
	}
	if err := succeeded(r.Result); err != nil {
		return err
	}
	if string(r.Stdout) != snippetPrints {
		return fmt.Errorf("the snippet printed %q", r.Stdout)
	}
	return nil
}
