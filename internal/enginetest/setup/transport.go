package setup

import (
	"os"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// Attaches reports whether sessions are to go by the engine's client: the environment
// variable COFFERDAM_ATTACH lists the kinds of such engines, with commas between them. If
// not, the library chooses.
func Attaches(e *dockercli.Engine) bool {
	return slices.Contains(strings.Split(os.Getenv("COFFERDAM_ATTACH"), ","), e.Kind.String())
}
