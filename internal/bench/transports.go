package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	transportSets   = 6
	transportRounds = 4
	outputBytes     = 256 << 20
)

// transports holds an output of a session over FIFOs against that of one over the
// engine's client.
func transports(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	fifo, attach := p, p
	fifo.Transport, attach.Transport = execpolicy.TransportFIFO, execpolicy.TransportAttach
	if got, why, err := p.FindTransport(ctx); err != nil || got != execpolicy.TransportFIFO {
		return errors.Join(err, fmt.Errorf("there are no FIFOs: %s", why))
	}
	output := execpolicy.Command{Stdout: io.Discard,
		Script: fmt.Sprintf("dd if=/dev/zero bs=%d count=%d 2>/dev/null", pipeBytes, outputBytes/pipeBytes)}
	all, err := transportSet(ctx, []execpolicy.DockerPolicy{fifo, attach}, output)
	if err != nil {
		return err
	}
	rate := func(taken times) string { return fmt.Sprintf("%.0f MB/s", outputBytes/1e6/taken.mean().Seconds()) }
	least := 4.0
	if p.Engine.Kind == dockercli.Podman {
		least = 3 // its client passes on what a monitor reads, and no engine does
	}
	t.atLeast("256 MiB of output by FIFOs", rate(all[0]), rate(all[1])+", by the client", least,
		all[1].meanOver(all[0]))
	return nil
}

// transportSet returns the times of a command in sessions of each policy.
func transportSet(ctx context.Context, policies []execpolicy.DockerPolicy, c execpolicy.Command) ([]times, error) {
	return anew(transportSets, times.mean, func() (set []times, err error) {
		var subjects []func() (time.Duration, error)
		for _, p := range policies {
			s, startErr := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{"sh"}})
			if startErr != nil {
				return nil, startErr
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			subjects = append(subjects, burst(1, func() error {
				r, err := s.Run(ctx, c)
				if err != nil {
					return err
				}
				return succeeded(r)
			}))
		}
		if _, err := takeTurns(2, subjects...); err != nil {
			return nil, err
		}
		return takeTurns(transportRounds, subjects...)
	})
}
