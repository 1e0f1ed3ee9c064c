package dockercli

import (
	"context"
	"errors"
	"fmt"
)

// A Context is an engine that docker's client has a name for.
type Context struct {
	// Name is what --context takes.
	Name string
	// Current says that the client uses it if it is told no other.
	Current bool
	// Endpoint is where the engine listens, such as "unix:///var/run/docker.sock".
	Endpoint string
}

const contextTemplate = "context {{json .Name}} {{json .Current}} {{json .DockerEndpoint}}"

// Contexts lists the contexts of docker's client. The client reads them from its files,
// and asks no engine. Other clients have none: the error then matches
// [errors.ErrUnsupported].
func (e *Engine) Contexts(ctx context.Context) ([]Context, error) {
	argv, err := e.contextsArgs()
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "context ls", argv: argv})
	if err != nil {
		return nil, err
	}
	return parseContexts(string(out))
}

func (e *Engine) contextsArgs() ([]string, error) {
	if e.Kind != Docker {
		return nil, fmt.Errorf("context ls: %s has no contexts: %w", e.Kind, errors.ErrUnsupported)
	}
	return e.argv("context", "ls", "--format="+contextTemplate), nil
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
