package dockercli

import (
	"context"
	"os"
)

// Import makes an image from a tar archive of a root file system. Each change is an
// instruction of a Dockerfile, such as "ENV PATH=/bin" or "WORKDIR /work".
func (e *Engine) Import(ctx context.Context, archive *os.File, image string, changes ...string) error {
	argv, err := e.importArgs(image, changes)
	if err != nil {
		return err
	}
	_, err = e.do(ctx, call{verb: "import", argv: argv, stdin: archive})
	return err
}

func (e *Engine) importArgs(image string, changes []string) ([]string, error) {
	var c checker
	c.image(image)
	f := flags{words: []string{"import"}}
	f.list("change", changes)
	argv := append(e.argv(f.words...), "--", "-", image)
	c.words(argv)
	return argv, c.err()
}
