package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	transportSets   = 6
	transportRounds = 4
	outputBytes     = 256 << 20
)

// transports holds sessions over FIFOs against sessions over the engine's client: the
// time of a command of some lengths, and that of an output.
func transports(ctx context.Context, p execpolicy.DockerPolicy, t *table) error {
	fifo, attach := p, p
	fifo.Transport, attach.Transport = execpolicy.TransportFIFO, execpolicy.TransportAttach
	if got, why, err := p.FindTransport(ctx); err != nil || got != execpolicy.TransportFIFO {
		return errors.Join(err, fmt.Errorf("there are no FIFOs: %s", why))
	}
	shells, err := shellsOf(ctx, p)
	if err != nil {
		return err
	}
	for _, shell := range shells {
		// Process 1 reads a script a byte at a time, and that takes as long either way.
		for length, most := range map[int]float64{1: 0.9, 500: 1.1, 4 << 10: 1.25} {
			command := execpolicy.Command{Script: ":" + strings.Repeat(" ", length-1)}
			all, err := transportSet(ctx, []execpolicy.DockerPolicy{fifo, attach}, shell, commandBurst, command)
			if err != nil {
				return err
			}
			t.atMost(fmt.Sprintf("%d bytes of command by FIFOs, %s", length, shell), all[0].String(),
				all[1].String()+", by the client", most, all[0].over(all[1]))
		}
	}
	output := execpolicy.Command{Stdout: io.Discard,
		Script: fmt.Sprintf("dd if=/dev/zero bs=%d count=%d 2>/dev/null", pipeBytes, outputBytes/pipeBytes)}
	all, err := transportSet(ctx, []execpolicy.DockerPolicy{fifo, attach}, "sh", 1, output)
	if err != nil {
		return err
	}
	rate := func(taken times) string { return fmt.Sprintf("%.0f MB/s", outputBytes/1e6/taken.mean().Seconds()) }
	least := 4.0
	if p.Engine.Kind == dockercli.Podman {
		least = 2 // its client passes on what a monitor reads, and no engine does
	}
	t.atLeast("256 MiB of output by FIFOs", rate(all[0]), rate(all[1])+", by the client", least,
		all[1].mean().Seconds()/all[0].mean().Seconds())
	return nil
}

// transportSet returns the times of a command in sessions of each policy.
func transportSet(
	ctx context.Context, policies []execpolicy.DockerPolicy, shell string, n int, c execpolicy.Command,
) ([]times, error) {
	return anew(transportSets, func() (set []times, err error) {
		var subjects []func() (time.Duration, error)
		for _, p := range policies {
			s, startErr := execpolicy.Start(ctx, p, execpolicy.Spec{Command: []string{shell}})
			if startErr != nil {
				return nil, startErr
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			subjects = append(subjects, burst(n, func() error {
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
