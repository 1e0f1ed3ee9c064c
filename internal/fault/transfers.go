//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// Sizes of files. A small one goes in as one piece, a large one as several.
const (
	smallFile = 2 << 10
	largeFile = 300 << 10
	hugeFile  = 4 << 20
)

// Deadlines of a transfer.
const (
	// hinderedTimeout is for one that the programs may keep from its end.
	hinderedTimeout = 3 * time.Second
	// transferTimeout is for the others.
	transferTimeout = 20 * time.Second
)

// unhindered reports whether transfers must go well beside the round's programs.
func (r *round) unhindered() bool {
	return !r.any(func(p *program) bool { return p.hinders || p.lies || len(p.own) > 0 })
}

// transfer writes and reads files beside programs that go on, up to the first transfer
// that fails.
func (r *round) transfer(ctx context.Context) {
	r.run(ctx, execpolicy.Command{Timeout: r.ownTimeout()})
	if r.result == nil {
		r.discard()
		return
	}
	r.moved = true
	s := r.session
	small, large := random(r.seed, smallFile), random(r.seed, largeFile)
	write := func(name string, data []byte) func(context.Context) error {
		return func(ctx context.Context) error { return s.WriteFile(ctx, name, data, 0o600) }
	}
	read := func(name string, want []byte) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := s.ReadFile(ctx, name, 0)
			if err == nil && !bytes.Equal(got, want) && !r.any(func(p *program) bool { return p.lies }) {
				r.wrong("%d bytes were read from %s, and not the %d that were written", len(got), name, len(want))
			}
			return err
		}
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"WriteFile of a small file", write("small", small)},
		{"WriteFile of a large file", write("large", large)},
		{"ReadFile of a small file", read("small", small)},
		{"ReadFile of a large file", read("large", large)},
		{"CopyIn", func(ctx context.Context) error {
			return s.CopyIn(ctx, "copied", archive(map[string][]byte{"small": small, "large": large}))
		}},
		{"ReadFile of a copied file", read("copied/large", large)},
	} {
		lost, err := r.move(ctx, step.what, step.do)
		if lost {
			r.discard()
			return
		}
		if err != nil {
			break
		}
	}
	r.probe(ctx)
}

// move does a transfer within its time, and reports whether it has cost the session.
func (r *round) move(ctx context.Context, what string, do func(context.Context) error) (lost bool, err error) {
	timeout := transferTimeout
	if !r.unhindered() {
		timeout = hinderedTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.suite.call(r.plan, what, timeout+r.suite.termination(), func() { err = do(ctx) })
	lost = errors.Is(err, execpolicy.ErrEnded)
	switch {
	case lost:
		r.failed, r.over = ", "+what+" cost the session", true
	case err != nil:
		r.failed = ", " + what + " failed"
	}
	r.checkTransfer(what, err)
	return lost, err
}

// checkTransfer compares the error of a transfer with what is honest.
func (r *round) checkTransfer(what string, err error) {
	switch {
	case err == nil:
	case r.unhindered(), errors.Is(r.honest(err), execpolicy.ErrStillThere):
		r.wrong("%s: %v", what, err)
	case errors.Is(err, execpolicy.ErrEnded) && !r.any((*program).mayLoseIn) && !r.idled():
		r.wrong("%s cost the session: %v", what, err)
	}
}

// mayLoseIn reports whether a transfer beside the program may cost the session.
func (p *program) mayLoseIn() bool { return p.hinders || p.mayLose() }

// random returns n bytes that follow from a seed.
func random(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	data := make([]byte, n)
	rand.NewChaCha8(key).Read(data)
	return data
}

// archive returns a tar archive of files.
func archive(files map[string][]byte) *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range files {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))})
		w.Write(data)
	}
	w.Close()
	return &b
}
