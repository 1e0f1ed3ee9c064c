package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// An Image is what the engine knows of an image.
type Image struct {
	// ID is the engine's own name for the image.
	ID string
	// Entrypoint, followed by Command, is what a run executes that names neither.
	Entrypoint, Command []string
	// User is the user that the image runs as. If empty, it is root.
	User string
	// Platform is what the image is made for, such as "linux/arm64", without a variant.
	Platform string
}

const imageTemplate = "id {{json .ID}}{{println}}" +
	"platform {{json .Os}} {{json .Architecture}}{{println}}" +
	"{{with .Config}}" +
	"user {{json .User}}{{println}}" +
	"{{range .Entrypoint}}entrypoint {{json .}}{{println}}{{end}}" +
	"{{range .Cmd}}command {{json .}}{{println}}{{end}}" +
	"{{end}}"

// InspectImage returns what the engine knows of an image. Its error matches
// [ErrImageMissing] if the engine does not have it.
func (e *Engine) InspectImage(ctx context.Context, image string) (*Image, error) {
	argv, err := e.inspectImageArgs(image)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "image inspect", argv: argv})
	if err != nil {
		return nil, err
	}
	return parseImage(string(out))
}

func (e *Engine) inspectImageArgs(image string) ([]string, error) {
	var c checker
	c.image(image)
	return e.argv("image", "inspect", "--format="+imageTemplate, "--", image), c.err()
}

func parseImage(text string) (*Image, error) {
	image := new(Image)
	err := parseFacts(text, map[string]func([]string) error{
		"id": setString(&image.ID),
		"platform": func(values []string) error {
			image.Platform = strings.Join(values, "/")
			return nil
		},
		"user":       setString(&image.User),
		"entrypoint": addString(&image.Entrypoint),
		"command":    addString(&image.Command),
	})
	if err != nil {
		return nil, err
	}
	if image.ID == "" {
		return nil, fmt.Errorf("unexpected answer of the engine: it has no ID: %.200q", text)
	}
	return image, nil
}

// A PullPolicy says when [Engine.EnsureImage] pulls.
type PullPolicy int

const (
	// PullMissing pulls an image that the engine does not have.
	PullMissing PullPolicy = iota
	// PullAlways asks the registry each time, and pulls what has changed.
	PullAlways
	// PullNever pulls nothing.
	PullNever
)

var pullPolicies = [...]string{PullMissing: "missing", PullAlways: "always", PullNever: "never"}

// String returns "missing", "always" or "never".
func (p PullPolicy) String() string {
	if p < 0 || int(p) >= len(pullPolicies) {
		return fmt.Sprintf("PullPolicy(%d)", int(p))
	}
	return pullPolicies[p]
}

// EnsureImage pulls an image as the policy says, and returns what the engine knows of it.
// o.Image names it by a tag or by a digest, as in "alpine@sha256:…". If o.Platform is
// set, an image for another platform does not count; variants are not compared. The error
// matches [ErrImageMissing] if the engine does not have the image and nothing is to be
// pulled, or does not have it after the pull. Any other error is that of [Engine.Pull] or
// [Engine.InspectImage].
func (e *Engine) EnsureImage(ctx context.Context, when PullPolicy, o PullOptions) (*Image, error) {
	if when < 0 || int(when) >= len(pullPolicies) {
		return nil, fmt.Errorf("%w: there is no %v", ErrArgument, when)
	}
	if when != PullAlways {
		image, err := e.inspectFor(ctx, o)
		if err == nil || when == PullNever || !errors.Is(err, ErrImageMissing) {
			return image, err
		}
	}
	if err := e.Pull(ctx, o); err != nil {
		return nil, err
	}
	return e.inspectFor(ctx, o)
}

// inspectFor is InspectImage for a platform, unless that is empty.
func (e *Engine) inspectFor(ctx context.Context, o PullOptions) (*Image, error) {
	image, err := e.InspectImage(ctx, o.Image)
	if err != nil {
		return nil, err
	}
	if want := strings.Split(o.Platform, "/"); o.Platform != "" && image.Platform != strings.Join(want[:min(2, len(want))], "/") {
		return nil, fmt.Errorf("%w: %s is for %s, and not for %s", ErrImageMissing, o.Image, image.Platform, o.Platform)
	}
	return image, nil
}
