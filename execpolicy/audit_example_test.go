package execpolicy_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// Package execpolicy/audit writes such records to a file; this is by hand.
func ExampleEvent() {
	spec := execpolicy.Spec{Audit: func(e execpolicy.Event) error {
		_, err := fmt.Println(e.Name, e.Seq, e.Kind, e.Script, e.Cause)
		return err
	}}
	r, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, spec, execpolicy.Command{Script: "make"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

// Nothing is done that can't be recorded.
func ExampleAuditor() {
	full := errors.New("the disk is full")
	spec := execpolicy.Spec{Audit: func(execpolicy.Event) error { return full }}
	_, err := execpolicy.Start(context.Background(), execpolicy.DockerPolicy{}, spec)
	fmt.Println(errors.Is(err, execpolicy.ErrAudit), errors.Is(err, full))
}

// The kinds' words never change.
func ExampleEventKind() {
	fmt.Println(execpolicy.EventCommand, execpolicy.EventResult)
	// Output: command result
}
