package dockercli

import (
	"context"
	"fmt"
)

// An Image is what the engine knows of an image.
type Image struct {
	// ID is the engine's own name for it.
	ID string
	// Entrypoint and Command are the words that a run without its own would execute, one
	// after the other.
	Entrypoint, Command []string
	// User is whom it runs as. If empty, root.
	User string
}

const imageTemplate = "id {{json .ID}}{{println}}" +
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
		"id":         setString(&image.ID),
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
