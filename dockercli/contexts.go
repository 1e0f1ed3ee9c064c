package dockercli

import (
	"context"
	"errors"
	"fmt"
)

// A Context is an engine that a client has a name for: docker's client calls it a
// context, and podman's a connection.
type Context struct {
	// Name is what docker's --context takes, and podman's --connection.
	Name string
	// Current says that the client uses it if it is told no other. Podman's client on
	// Linux uses none by itself, unless its configuration says that it is remote.
	Current bool
	// Endpoint is where the engine listens, such as "unix:///var/run/docker.sock".
	Endpoint string
}

// Contexts lists the contexts of docker's client, or the connections of podman's. The
// client reads them from its files, and asks no engine. Nerdctl has none: the error then
// matches [errors.ErrUnsupported].
func (e *Engine) Contexts(ctx context.Context) ([]Context, error) {
	argv, err := e.contextsArgs()
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "list of contexts", argv: argv})
	if err != nil {
		return nil, err
	}
	return parseContexts(string(out))
}

func (e *Engine) contextsArgs() ([]string, error) {
	words := e.Kind.dialect().contexts
	if words == nil {
		return nil, fmt.Errorf("%s has no contexts: %w", e.Kind, errors.ErrUnsupported)
	}
	return e.argv(words...), nil
}

func parseContexts(text string) (contexts []Context, err error) {
	err = parseFacts(text, map[string]func([]string) error{
		"context": func(values []string) error {
			if len(values) != 3 {
				return errors.New("it has to be three values")
			}
			contexts = append(contexts, Context{Name: values[0], Current: values[1] == "true", Endpoint: hidePasswords(values[2])})
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return contexts, nil
}
