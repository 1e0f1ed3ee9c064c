package dockercli

import (
	"context"
	"errors"
)

const imagesTemplate = "image {{json .Repository}} {{json .Tag}}"

// Images returns the names of the images that the engine has, each with its tag. An image
// without a name is left out.
func (e *Engine) Images(ctx context.Context) ([]string, error) {
	out, err := e.do(ctx, call{verb: "images", argv: e.imagesArgs()})
	if err != nil {
		return nil, err
	}
	return parseImages(string(out))
}

func (e *Engine) imagesArgs() []string { return e.argv("images", "--format="+imagesTemplate) }

func parseImages(text string) (names []string, err error) {
	const none = "<none>"
	err = parseFacts(text, map[string]func([]string) error{
		"image": func(values []string) error {
			if len(values) != 2 {
				return errors.New("it has to be two values")
			}
			if repository, tag := values[0], values[1]; repository != "" && repository != none && tag != "" && tag != none {
				names = append(names, repository+":"+tag)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}
