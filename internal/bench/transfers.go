package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

const (
	transferRounds = 9
	largeFile      = 64 << 20
	smallFile      = 1 << 10
	smallRounds    = 15
	smallBurst     = 10
	// maxLarge is the time of a large file at 100 MB/s.
	maxLarge = largeFile * time.Second / 100e6
)

// transfers holds files that go through a session's pipes against the same files copied
// by the engine's cp, and a small one against a command that does nothing.
//
// A cp can't see into a tmpfs, and is refused where the root is read-only. So its files
// lie in the root of a container that differs from the session's in nothing but that its
// root can be written to, and its other end is a file of the host; both stay in the
// kernel's memory, as the session's tmpfs does. A session's other end is the memory of
// this process.
func transfers(ctx context.Context, p execpolicy.DockerPolicy, t *table) (err error) {
	// What is replaced lies beside what replaces it.
	p.Tmpfs = map[string]int64{"/workspace": 2*largeFile + 1<<20}
	s, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p.WritableRootfs = true
	other, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	dir, err := os.MkdirTemp("", "cofferdam-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	// A copy of it is one of nothing that could be squeezed or left out.
	data := make([]byte, largeFile)
	rand.NewChaCha8([32]byte{}).Read(data)
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	write := func(data []byte) func() error {
		return func() error { return s.WriteFile(ctx, "file", data, 0o644) }
	}
	read := func() error {
		got, err := s.ReadFile(ctx, "file", largeFile)
		if err == nil && len(got) != largeFile {
			err = fmt.Errorf("%d bytes were read", len(got))
		}
		return err
	}
	cp := func(from, to string) func() error {
		return func() error {
			c, err := startClient(p, append(append([]string{p.Engine.Path}, p.Engine.Global...), "cp", from, to))
			if err != nil {
				return err
			}
			return c.close()
		}
	}
	in, out := cp(source, other.Name()+":/file"), cp(other.Name()+":/file", target)

	if err := os.WriteFile(source, data, 0o600); err != nil {
		return err
	}
	subjects := []func() error{write(data), read, in, out}
	for _, f := range subjects {
		if err := f(); err != nil {
			return err
		}
	}
	if err := same(ctx, s, target, data); err != nil {
		return err
	}
	all, err := takeTurns(transferRounds, burst(1, subjects[0]), burst(1, subjects[1]), burst(1, subjects[2]),
		burst(1, subjects[3]))
	if err != nil {
		return err
	}
	rate := func(taken times) string { return fmt.Sprintf("%.0f MB/s", largeFile/1e6/taken.median().Seconds()) }
	for i, name := range []string{"64 MiB into a session", "64 MiB out of a session"} {
		ours, theirs := all[i], all[2+i]
		t.atLeast(name, rate(ours), rate(theirs)+", cp, writable root", 0.4, theirs.over(ours))
		t.within(name+", its time", "100 MB/s", maxLarge, times.median, ours)
	}

	small := bytes.Repeat([]byte("print('a line of a program')\n"), smallFile)[:smallFile]
	if err := errors.Join(os.WriteFile(source, small, 0o600), write(small)()); err != nil {
		return err
	}
	readSmall := func() error {
		got, err := s.ReadFile(ctx, "file", smallFile)
		if err == nil && !bytes.Equal(got, small) {
			err = errors.New("what was read is not what was written")
		}
		return err
	}
	all, err = takeTurns(smallRounds, burst(smallBurst, write(small)), burst(smallBurst, readSmall), burst(1, in),
		burst(smallBurst, func() error { return colon(ctx, s) }))
	if err != nil {
		return err
	}
	t.atLeast("1 KiB into a session, times faster", all[0].String(), all[2].String()+", cp, writable root", 20,
		all[2].over(all[0]))
	// Most of it is the programs that the image has for it.
	for i, name := range []string{"1 KiB into a session", "1 KiB out of a session"} {
		t.aims(name, all[i].String(), all[3].String()+", a command that does nothing", 2, 8, all[i].over(all[3]))
	}
	return nil
}

// same checks that both ways brought what was sent.
func same(ctx context.Context, s *execpolicy.Session, target string, data []byte) error {
	got, err := s.ReadFile(ctx, "file", largeFile)
	if err != nil {
		return err
	}
	copied, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, data) || !bytes.Equal(copied, data) {
		return errors.New("what was copied is not what was sent")
	}
	return nil
}
