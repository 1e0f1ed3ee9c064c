package setup

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

const barWidth = 30

// bar returns a Writer for a pull's progress that draws it on w, a terminal.
func bar(w io.Writer) io.Writer {
	return dockercli.PullEvents(func(e dockercli.PullEvent) {
		full := barWidth * e.Done / e.Layers
		fmt.Fprintf(w, "\r[%s%s] %d of %d layers\x1b[K", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), e.Done,
			e.Layers)
	})
}

// isTerminal reports whether a person may look at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
