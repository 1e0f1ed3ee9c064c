package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/spool"
)

// upload reads a command's stdin, and returns what sends it into a file inside, and the
// file's name.
func (c *conn) upload(ctx context.Context, stdin *spool.Spool, deadline time.Time) ([]shell.Op, string, error) {
	if stdin == nil {
		return nil, "", nil
	}
	ctx, cancel := bound.Until(ctx, deadline, ErrTimeout)
	defer cancel()
	read := make(chan []byte, 1)
	err := bound.Call(ctx, func() error {
		data, err := stdin.All(ctx)
		read <- data
		return err
	})
	switch {
	case errors.Is(err, ErrStdinTooLong):
		c.tally.in = MaxStdin + 1
		return nil, "", err
	case err != nil:
		return nil, "", fmt.Errorf("reading stdin: %w", err)
	}
	got := <-read
	if c.tally.in = int64(len(got)); len(got) == 0 {
		return nil, "", nil
	}
	name := "i" + random.Token()
	data := slices.Concat(shellwire.Upload(name, int64(len(got))), got)
	return []shell.Op{{Data: data, Raw: true, Tail: shellwire.Thaw}}, c.proc.Scratch + "/" + name, nil
}
