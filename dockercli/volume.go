package dockercli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// A Volume is a directory that the engine keeps for containers.
type Volume struct {
	// Name is what a [Mount] names it by.
	Name string
	// Driver is what stores it: "local" is the engine itself.
	Driver string
	// Labels are those of the volume.
	Labels map[string]string
	// Options are the driver's. With some of them a local volume shows another directory
	// of the engine's host, or a file system of another machine.
	Options map[string]string
}

const volumeTemplate = "name {{json .Name}}{{println}}" +
	"driver {{json .Driver}}{{println}}" +
	"{{range $key, $value := .Labels}}label {{json $key}} {{json $value}}{{println}}{{end}}" +
	"{{range $key, $value := .Options}}option {{json $key}} {{json $value}}{{println}}{{end}}"

// CreateVolume makes a local volume with those labels, which have no comma, quote or line
// break. If there is a volume of that name, it stays as it is. Either way CreateVolume
// returns the volume that is there, so that several programs that create one name learn
// whose labels it has.
func (e *Engine) CreateVolume(ctx context.Context, name string, labels map[string]string) (*Volume, error) {
	argv, err := e.createVolumeArgs(name, labels)
	if err != nil {
		return nil, err
	}
	if _, err = e.do(ctx, call{verb: "volume create", argv: argv}); err != nil && !errors.Is(err, errVolumeExists) {
		return nil, err
	}
	return e.InspectVolume(ctx, name)
}

func (e *Engine) createVolumeArgs(name string, labels map[string]string) ([]string, error) {
	var c checker
	c.volume(name)
	argv := e.argv("volume", "create")
	c.volumeLabels(labels)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		c.labelKey(key)
		argv = append(argv, "--label="+key+"="+labels[key])
	}
	argv = append(argv, "--", name)
	c.words(argv)
	return argv, c.err()
}

// volumeLabels checks what some of podman's verbs read as comma-separated values, and
// others, or other versions, do not.
func (c *checker) volumeLabels(labels map[string]string) {
	for key, value := range labels {
		if strings.ContainsAny(key+value, ",\"\r\n") {
			c.refuse("volume label %s=%q: it can't have a comma, a quote or a line break", key, value)
		}
	}
}

// InspectVolume returns what the engine says of a volume. Its error matches [ErrNoVolume]
// if there is none.
func (e *Engine) InspectVolume(ctx context.Context, name string) (*Volume, error) {
	argv, err := e.inspectVolumeArgs(name)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "volume inspect", argv: argv})
	if err != nil {
		return nil, err
	}
	v, err := parseVolume(string(out))
	if err == nil && v.Name != name {
		// Podman takes the beginning of a name for the whole.
		return nil, fmt.Errorf("volume inspect: %w: %q", ErrNoVolume, name)
	}
	return v, err
}

func (e *Engine) inspectVolumeArgs(name string) ([]string, error) {
	var c checker
	c.volume(name)
	return e.argv("volume", "inspect", "--format="+volumeTemplate, "--", name), c.err()
}

func parseVolume(text string) (*Volume, error) {
	v := &Volume{Labels: map[string]string{}, Options: map[string]string{}}
	pairs := func(to map[string]string) func([]string) error {
		return func(values []string) error {
			if len(values) != 2 {
				return fs.ErrInvalid
			}
			to[values[0]] = values[1]
			return nil
		}
	}
	err := parseFacts(text, map[string]func([]string) error{
		"name":   setString(&v.Name),
		"driver": setString(&v.Driver),
		"label":  pairs(v.Labels),
		"option": pairs(v.Options),
	})
	if err != nil {
		return nil, err
	}
	if v.Name == "" {
		return nil, fmt.Errorf("unexpected answer of the engine: it has no name: %.200q", text)
	}
	return v, nil
}

// Volumes returns the names of all volumes that have all of the labels. A label with an
// empty value matches any value. There must be at least one label.
func (e *Engine) Volumes(ctx context.Context, labels map[string]string) ([]string, error) {
	argv, err := e.volumesArgs(labels)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "volume ls", argv: argv})
	return strings.Fields(string(out)), err
}

func (e *Engine) volumesArgs(labels map[string]string) ([]string, error) {
	var c checker
	c.volumeLabels(labels)
	argv := append(e.argv("volume", "ls", "--format={{.Name}}"), e.labelFilters(&c, labels)...)
	c.words(argv)
	return argv, c.err()
}

// RemoveVolume removes the volume of that name if it has the label key with that value,
// which no other volume may have. The value consists of letters, digits, "_", "." and
// "-". It is not an error if there is no such volume. The error matches [ErrVolumeInUse]
// if a container has it, running or not, and [ErrArgument] if it does not have the label.
//
// Podman is told the label and not the name: if the volume went away in the meantime,
// podman would take the name for the beginning of another's, and remove that. It is told
// only one label, because it removes what has any of several.
func (e *Engine) RemoveVolume(ctx context.Context, name, key, value string) error {
	argv, err := e.removeVolumeArgs(name, key, value)
	if err != nil {
		return err
	}
	v, err := e.InspectVolume(ctx, name)
	if errors.Is(err, ErrNoVolume) {
		return nil
	}
	if err != nil {
		return err
	}
	if v.Labels[key] != value {
		return fmt.Errorf("%w: volume rm: the volume %q does not have the label %s=%q", ErrArgument, name, key, value)
	}
	_, err = e.do(ctx, call{verb: "volume rm", argv: argv})
	if errors.Is(err, ErrNoVolume) {
		return nil
	}
	if err == nil && e.Kind.dialect().removesByLabel {
		// Podman does not say what it has not removed.
		_, err = e.InspectVolume(ctx, name)
		if errors.Is(err, ErrNoVolume) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("volume rm: %w: %q (%s)", ErrVolumeInUse, name, advise(ErrVolumeInUse))
		}
	}
	return err
}

func (e *Engine) removeVolumeArgs(name, key, value string) ([]string, error) {
	var c checker
	c.volume(name)
	c.labelKey(key)
	c.volumeLabels(map[string]string{key: value})
	if !consists(value, isAlphanum, func(r byte) bool { return isAlphanum(r) || strings.IndexByte("_.-", r) >= 0 }) {
		c.refuse("volume label %s=%q: its value has to match [a-zA-Z0-9][a-zA-Z0-9_.-]*", key, value)
	}
	argv := e.argv("volume", "rm", "--", name)
	if e.Kind.dialect().removesByLabel {
		argv = e.argv("volume", "prune", "--force", "--filter=label="+key+"="+value)
	}
	c.words(argv)
	return argv, c.err()
}
