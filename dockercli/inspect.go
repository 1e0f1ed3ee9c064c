package dockercli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// A Container is what the engine says of a container.
type Container struct {
	// ID is the engine's own name for the container.
	ID string
	// Name is the container's name, without the slash that docker puts before it.
	Name string
	// ImageID is the image's ID, which stays when the image's reference moves on.
	ImageID string
	// Status is the engine's word, such as "created", "running" or "exited".
	Status string
	// Running says that the container's command runs.
	Running bool
	// Started says that the container's command was started. If false, ExitCode means
	// nothing.
	Started bool
	// ExitCode is the exit code of the container's command, once that has ended.
	ExitCode int
	// OOMKilled says that the kernel killed a process of the container for memory.
	// Nerdctl, and podman before 5, never say so.
	OOMKilled bool
	// Error is why the container could not be started, in the engine's words.
	Error string
	// OwnPIDs says that the container has a PID namespace of its own.
	OwnPIDs bool
	// Labels are the container's labels and those of its image.
	Labels map[string]string
}

// JSON strings are read back exactly by strconv.Unquote, whatever text they hold: both
// engines write them with Go's encoder.
const containerTemplate = "id {{json .ID}}{{println}}" +
	"name {{json .Name}}{{println}}" +
	"image {{json .Image}}{{println}}" +
	"{{with .State}}" +
	"status {{json .Status}}{{println}}" +
	"running {{json .Running}}{{println}}" +
	"started {{json .StartedAt}}{{println}}" +
	"exit {{json .ExitCode}}{{println}}" +
	"oom {{json .OOMKilled}}{{println}}" +
	"error {{json .Error}}{{println}}" +
	"{{end}}" +
	"pids {{json .HostConfig.PidMode}}{{println}}" +
	"{{range $key, $value := .Config.Labels}}label {{json $key}} {{json $value}}{{println}}{{end}}"

// Nerdctl tells only some of it. A container that was created and never started keeps
// that status.
const nerdctlContainerTemplate = "id {{json .ID}}{{println}}" +
	"name {{json .Name}}{{println}}" +
	"image {{json .Image}}{{println}}" +
	"{{with .State}}" +
	"status {{json .Status}}{{println}}" +
	"running {{json .Running}}{{println}}" +
	"started {{if ne .Status \"created\"}}\"yes\"{{else}}\"\"{{end}}{{println}}" +
	"exit {{json .ExitCode}}{{println}}" +
	"error {{json .Error}}{{println}}" +
	"{{end}}" +
	"{{range $key, $value := .Config.Labels}}label {{json $key}} {{json $value}}{{println}}{{end}}"

// Inspect returns the state of a container. Its error matches [ErrNoContainer] if there
// is none.
func (e *Engine) Inspect(ctx context.Context, container string) (*Container, error) {
	argv, err := e.inspectArgs(container)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "container inspect", argv: argv})
	if err != nil {
		return nil, err
	}
	return parseContainer(string(out))
}

func (e *Engine) inspectArgs(container string) ([]string, error) {
	var c checker
	c.container(container)
	return e.argv("container", "inspect", "--format="+e.Kind.dialect().container, "--", container), c.err()
}

func parseContainer(text string) (*Container, error) {
	container := &Container{Labels: map[string]string{}}
	pids := "unknown"
	err := parseFacts(text, map[string]func(values []string) error{
		"id":      setString(&container.ID),
		"name":    setString(&container.Name),
		"image":   setString(&container.ImageID),
		"status":  setString(&container.Status),
		"running": setBool(&container.Running),
		"started": setTimePassed(&container.Started),
		"exit":    setInt(&container.ExitCode),
		"oom":     setBool(&container.OOMKilled),
		"error":   setString(&container.Error),
		"pids":    setString(&pids),
		"label": func(values []string) error {
			if len(values) != 2 {
				return fs.ErrInvalid
			}
			container.Labels[values[0]] = values[1]
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	container.Name = strings.TrimPrefix(container.Name, "/")
	container.OwnPIDs = pids == "" || pids == "private"
	if container.ID == "" {
		return nil, fmt.Errorf("unexpected answer of the engine: it has no ID: %.200q", text)
	}
	return container, nil
}

// parseFacts reads lines of a name and values, each a JSON scalar, as the templates print
// them. A name that set has not is an error: it would mean that some text got out of its
// quotes.
func parseFacts(text string, set map[string]func(values []string) error) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			continue // the engine ends its answer with one
		}
		name, rest, _ := strings.Cut(line, " ")
		values, err := parseValues(rest)
		if err == nil {
			if f := set[name]; f != nil {
				err = f(values)
			} else {
				err = fs.ErrInvalid
			}
		}
		if err != nil {
			return fmt.Errorf("unexpected answer of the engine: %.200q: %w", line, err)
		}
	}
	return nil
}

// parseValues reads JSON scalars apart by one space. Strings lose their quotes, and null
// is empty.
func parseValues(text string) ([]string, error) {
	var values []string
	for text != "" {
		var value string
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, err
			}
			if value, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			text = text[len(quoted):]
			if text != "" && text[0] != ' ' {
				return nil, strconv.ErrSyntax
			}
			text = strings.TrimPrefix(text, " ")
		} else if value, text, _ = strings.Cut(text, " "); value == "null" {
			value = ""
		}
		values = append(values, value)
	}
	return values, nil
}

// one returns the value of a fact that has one.
func one(values []string) (string, error) {
	if len(values) != 1 {
		return "", errors.New("it has to be one value")
	}
	return values[0], nil
}

func setString(to *string) func([]string) error {
	return func(values []string) (err error) {
		*to, err = one(values)
		return err
	}
}

func setBool(to *bool) func([]string) error {
	return func(values []string) error {
		value, err := one(values)
		*to = value == "true"
		return err
	}
}

func setInt(to *int) func([]string) error {
	return func(values []string) error {
		value, err := one(values)
		if err == nil {
			*to, err = strconv.Atoi(value)
		}
		return err
	}
}

// setTimePassed sets whether there is a time. None is the first second of the year 1, in
// either engine's way to write it.
func setTimePassed(to *bool) func([]string) error {
	return func(values []string) error {
		value, err := one(values)
		*to = value != "" && !strings.HasPrefix(value, "0001-01-01")
		return err
	}
}

func addString(to *[]string) func([]string) error {
	return func(values []string) error {
		value, err := one(values)
		*to = append(*to, value)
		return err
	}
}
