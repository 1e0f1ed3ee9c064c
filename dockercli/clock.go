package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Time returns what the engine's clock shows. An engine on this machine has this
// machine's clock, and is not asked. If a remote engine is not docker's own, the error
// matches [errors.ErrUnsupported].
func (e *Engine) Time(ctx context.Context) (time.Time, error) {
	if !e.Remote {
		return time.Now(), nil
	}
	argv, err := e.timeArgs()
	if err != nil {
		return time.Time{}, err
	}
	out, err := e.do(ctx, call{verb: "info", argv: argv})
	if err != nil {
		return time.Time{}, err
	}
	now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(out)))
	if err != nil {
		return time.Time{}, fmt.Errorf("info: unexpected answer %.200q", out)
	}
	return now, nil
}

func (e *Engine) timeArgs() ([]string, error) {
	if e.Kind != Docker || e.PodmanService {
		return nil, fmt.Errorf("info: the engine does not tell its time: %w", errors.ErrUnsupported)
	}
	return e.argv("info", "--format={{.SystemTime}}"), nil
}
