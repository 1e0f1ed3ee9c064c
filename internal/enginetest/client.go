package enginetest

import (
	"os/exec"
	"slices"
	"strings"
)

// Client runs the engine's client with those arguments, and returns what it prints.
func (e Engine) Client(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(e.Path, slices.Concat(e.Global, args)...)
	cmd.Env = e.Env
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}
