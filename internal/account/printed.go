package account

import (
	"context"
	"io"
	"strconv"
	"strings"
)

// PrintScript prints the numbers of the user that it runs as, with builtins of the shell
// only.
const PrintScript = `while read -r k v rest; do case $k in Uid: | Gid:) echo "$k$v" ;; esac; done </proc/self/status`

// maxPrinted bounds what PrintScript prints.
const maxPrinted = 1 << 10

// ReadPrinted reads what PrintScript prints to out, up to the end of both out and what
// runs it. The error is the cause of ctx, if that ends before.
func ReadPrinted(ctx context.Context, out io.Reader, done <-chan struct{}) (a Account, ok bool, err error) {
	printed := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(out, maxPrinted))
		<-done
		printed <- text
	}()
	select {
	case text := <-printed:
		a, ok = parsePrinted(string(text))
		return a, ok, nil
	case <-ctx.Done():
		return a, false, context.Cause(ctx)
	}
}

// parsePrinted reads what PrintScript prints.
func parsePrinted(text string) (a Account, ok bool) {
	a = Stranger
	for line := range strings.Lines(text) {
		kind, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch id, err := strconv.Atoi(number); {
		case err != nil || id < 0:
		case kind == "Uid":
			a.UID = id
		case kind == "Gid":
			a.GID = id
		}
	}
	return a, a.UID >= 0 && a.GID >= 0
}
