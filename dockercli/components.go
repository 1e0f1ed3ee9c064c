package dockercli

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// A Component is a part of an engine and its version, both as the engine reports them.
type Component struct {
	// Name is the program's name in small letters, such as "docker", "containerd",
	// "runc", "crun", "podman" or "conmon".
	Name string `json:"name"`
	// Version may have what a distribution added to it, such as "1.1.5+ds1".
	Version string `json:"version"`
}

const dockerVersionTemplate = "{{with .Server}}" +
	"{{with .Platform}}platform {{json .Name}}{{println}}{{end}}" +
	"{{range .Components}}component {{json .Name}} {{json .Version}}{{println}}{{end}}{{end}}" +
	"client {{json .Client.Version}}{{println}}"

const podmanVersionTemplate = "component \"podman\" {{json .Version.Version}}{{println}}" +
	"{{with .Host}}component {{json .OCIRuntime.Name}} {{json .OCIRuntime.Version}}{{println}}" +
	"component \"conmon\" {{json .Conmon.Version}}{{println}}{{end}}"

const nerdctlVersionTemplate = "component \"nerdctl\" {{json .Client.Version}}{{println}}" +
	"{{with .Server}}{{range .Components}}component {{json .Name}} {{json .Version}}{{println}}{{end}}{{end}}"

// Components asks the engine for the versions of its parts. The client's own comes first.
func (e *Engine) Components(ctx context.Context) ([]Component, error) {
	out, err := e.do(ctx, call{verb: e.componentsVerb(), argv: e.componentsArgs()})
	if err != nil {
		return nil, err
	}
	return e.Kind.parseComponents(string(out))
}

func (e *Engine) componentsVerb() string {
	if e.Kind == Podman {
		return "info"
	}
	return "version"
}

func (e *Engine) componentsArgs() []string {
	template := dockerVersionTemplate
	switch e.Kind {
	case Podman:
		template = podmanVersionTemplate
	case Nerdctl:
		template = nerdctlVersionTemplate
	}
	return e.argv(e.componentsVerb(), "--format="+template)
}

func (k Kind) parseComponents(text string) ([]Component, error) {
	var client, platform string
	var parts []Component
	err := parseFacts(text, map[string]func([]string) error{
		"client":   setString(&client),
		"platform": setString(&platform),
		"component": func(values []string) error {
			if len(values) != 2 {
				return errors.New("it has to be two values")
			}
			parts = append(parts, component(values[0], values[1]))
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(parts, func(c Component) bool { return c.Name == "podman" }) {
		// Podman's service also says that it is docker, of its own version.
		parts = slices.DeleteFunc(parts, func(c Component) bool { return c.Name == "docker" })
	}
	if k == Docker {
		parts = append([]Component{{Name: "docker client", Version: client}}, parts...)
	}
	// The engine's platform is what it is sold as, such as "Docker Desktop 4.43.2
	// (199162)".
	if name, version, ok := strings.Cut(platform, "Docker Desktop "); ok && name == "" {
		version, _, _ = strings.Cut(version, " ")
		parts = append(parts, Component{Name: "docker desktop", Version: version})
	}
	return parts, nil
}

// component brings what an engine says to a program's name and its version. A runtime
// answers with some lines, of which the first is such as "runc version 1.1.5+ds1";
// podman's service calls it "OCI Runtime (runc)".
func component(name, version string) Component {
	switch lower := strings.ToLower(name); {
	case lower == "engine":
		name = "docker"
	case lower == "podman engine":
		name = "podman"
	default:
		if _, inner, ok := strings.Cut(lower, "oci runtime ("); ok {
			lower = strings.TrimSuffix(inner, ")")
		}
		name = lower
	}
	version, _, _ = strings.Cut(version, "\n")
	if _, number, ok := strings.Cut(version, "version "); ok {
		version = number
	}
	version, _, _ = strings.Cut(strings.TrimSpace(version), " ")
	return Component{Name: name, Version: strings.TrimSuffix(version, ",")}
}
