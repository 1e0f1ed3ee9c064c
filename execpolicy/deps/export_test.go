package deps

import (
	"context"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

var (
	Reason = reason
	Opener = opener
)

// The names and labels of a layer's volumes.
const (
	LabelLayer = labelLayer
	LabelIn    = labelIn
)

func Mark(r Recipe, image string) string { return volumes{digest: r.name(image)}.mark() }

func Labels(r Recipe, image, name string) map[string]string {
	return volumes{digest: r.name(image)}.labels(name)
}

func Sweep(ctx context.Context, e *dockercli.Engine) { volumes{Engine: e}.sweep(ctx) }
