package dockercli

import "context"

// Kill sends a signal, such as "KILL", to the container's first process. Its error
// matches [ErrNotRunning] or [ErrNoContainer] if there is nothing to send it to.
func (e *Engine) Kill(ctx context.Context, container, signal string) error {
	argv, err := e.KillArgs(signal, container)
	if err != nil {
		return err
	}
	_, err = e.do(ctx, call{verb: "kill", argv: argv})
	return err
}

// KillArgs returns the argument vector that sends a signal to containers, the client's
// program included. Names of containers can be appended to it. Its error names everything
// that is wrong, and matches [ErrArgument].
func (e *Engine) KillArgs(signal string, containers ...string) ([]string, error) {
	var c checker
	for _, container := range containers {
		c.container(container)
	}
	if !consists(signal, isAlphanum, func(r byte) bool { return isAlphanum(r) || r == '+' || r == '-' }) {
		c.refuse("signal %q: it has to be a name or a number", signal)
	}
	return append(e.argv("kill", "--signal="+signal, "--"), containers...), c.err()
}
