package dockercli

import "context"

// Kill sends a signal, such as "KILL", to the container's first process. Its error matches [ErrNotRunning] or [ErrNoContainer]
// if there is nothing to send it to.
func (e *Engine) Kill(ctx context.Context, container, signal string) error {
	argv, err := e.killArgs(container, signal)
	if err != nil {
		return err
	}
	_, err = e.do(ctx, call{verb: "kill", argv: argv})
	return err
}

func (e *Engine) killArgs(container, signal string) ([]string, error) {
	var c checker
	c.container(container)
	if !consists(signal, isAlphanum, func(r byte) bool { return isAlphanum(r) || r == '+' || r == '-' }) {
		c.refuse("signal %q: it has to be a name or a number", signal)
	}
	return e.argv("kill", "--signal="+signal, "--", container), c.err()
}
