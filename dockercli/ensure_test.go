package dockercli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/registry"
)

// imageEngine is a fake client for pulls, with the names of files beside its link.
func imageEngine(t *testing.T, client string, files ...string) (e *dockercli.Engine, file func(name string) string) {
	path := fake(t, "docker", client)
	file = func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	for _, name := range files {
		assert.NilError(t, os.WriteFile(file(name), nil, 0o600))
	}
	return &dockercli.Engine{Path: path}, file
}

// pulls returns the lines that the clients have written in full.
func pulls(t *testing.T, file func(string) string) []string {
	t.Helper()
	text, err := os.ReadFile(file("pulls"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	assert.NilError(t, err)
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

func TestEnsureImage(t *testing.T) {
	const digest = "alpine@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b"
	for _, c := range []struct {
		name, client string
		when         dockercli.PullPolicy
		options      dockercli.PullOptions
		pulls        []string
		err          error
	}{
		{"missing", "image-pulled", dockercli.PullMissing, dockercli.PullOptions{Image: "alpine:3.19"}, []string{"-- alpine:3.19"}, nil},
		{"there", "image-changed", dockercli.PullMissing, dockercli.PullOptions{Image: "alpine:3.19"}, nil, nil},
		{"always", "image-changed", dockercli.PullAlways, dockercli.PullOptions{Image: "alpine:3.19"}, []string{"-- alpine:3.19"}, nil},
		{"never", "image-changed", dockercli.PullNever, dockercli.PullOptions{Image: digest}, nil, nil},
		{"digest", "image-pulled", dockercli.PullMissing, dockercli.PullOptions{Image: digest}, []string{"-- " + digest}, nil},
		{"platform", "image-pulled", dockercli.PullMissing, dockercli.PullOptions{Image: "alpine", Platform: "linux/arm64/v8"},
			[]string{"--platform=linux/arm64/v8 -- alpine"}, nil},
		{"platform there", "image-changed", dockercli.PullMissing, dockercli.PullOptions{Image: "alpine", Platform: "linux/arm64/v8"}, nil, nil},
		// The registry has only the one that is there.
		{"another platform", "image-changed", dockercli.PullMissing, dockercli.PullOptions{Image: "alpine", Platform: "linux/amd64"},
			[]string{"--platform=linux/amd64 -- alpine"}, dockercli.ErrImageMissing},
		{"another platform, never", "image-changed", dockercli.PullNever, dockercli.PullOptions{Image: "alpine", Platform: "linux/amd64"},
			nil, dockercli.ErrImageMissing},
		{"unknown policy", "image-changed", 7, dockercli.PullOptions{Image: "alpine"}, nil, dockercli.ErrArgument},
		{"bad name", "image-changed", dockercli.PullMissing, dockercli.PullOptions{Image: "-x"}, nil, dockercli.ErrArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, file := imageEngine(t, c.client, "go")
			image, err := e.EnsureImage(t.Context(), c.when, c.options)
			assert.DeepEqual(t, pulls(t, file), c.pulls)
			if c.err != nil {
				assert.ErrorIs(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, image, &dockercli.Image{ID: "sha256:1", Platform: "linux/arm64"})
		})
	}
	e, file := imageEngine(t, "image-pulled")
	_, err := e.EnsureImage(t.Context(), dockercli.PullNever, dockercli.PullOptions{Image: "alpine"})
	assert.ErrorIs(t, err, dockercli.ErrImageMissing)
	assert.Equal(t, len(pulls(t, file)), 0)
}

func TestEnsureImageOnEngines(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx := t.Context()
		image, err := e.EnsureImage(ctx, dockercli.PullMissing, dockercli.PullOptions{Image: e.Image})
		assert.NilError(t, err)
		assert.Assert(t, strings.HasPrefix(image.Platform, "linux/") && image.ID != "", "%+v", image)
		again, err := e.EnsureImage(ctx, dockercli.PullNever, dockercli.PullOptions{Image: e.Image, Platform: image.Platform})
		assert.NilError(t, err)
		assert.Equal(t, again.ID, image.ID)
		_, err = e.EnsureImage(ctx, dockercli.PullNever, dockercli.PullOptions{Image: e.Image, Platform: "linux/s390x"})
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		_, err = e.EnsureImage(ctx, dockercli.PullMissing, dockercli.PullOptions{Image: "cofferdam.invalid/none:1"})
		assert.ErrorIs(t, err, dockercli.ErrPull)
	})
}

// What a registry has changed comes when it is asked for, and else not. A digest stays,
// and an image for another platform comes by its name.
func TestPullOnEngines(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		r := registry.Start(t)
		e = r.Engine(t, e)
		here, there := "linux/"+runtime.GOARCH, "linux/s390x"
		old := r.Add(t, "test:1", []string{here, there}, t.Name(), rand.Text(), rand.Text())
		ensure := func(when dockercli.PullPolicy, name, platform string) string {
			t.Helper()
			image, err := e.EnsureImage(ctx, when, dockercli.PullOptions{Image: name, Platform: platform})
			assert.NilError(t, err)
			return "sha256:" + strings.TrimPrefix(image.ID, "sha256:")
		}
		_, err := e.EnsureImage(ctx, dockercli.PullNever, dockercli.PullOptions{Image: old.Ref})
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		_, err = e.EnsureImage(ctx, dockercli.PullAlways, dockercli.PullOptions{Image: strings.Replace(old.Ref, ":1", ":2", 1)})
		assert.ErrorIs(t, err, dockercli.ErrPull)
		assert.Equal(t, ensure(dockercli.PullMissing, old.Ref, ""), old.IDs[here])
		asked := len(r.Asked())
		assert.Assert(t, asked > 0)

		changed := r.Add(t, "test:1", []string{here}, t.Name(), rand.Text())
		assert.Equal(t, ensure(dockercli.PullMissing, old.Ref, ""), old.IDs[here])
		assert.Equal(t, ensure(dockercli.PullNever, old.Ref, ""), old.IDs[here])
		assert.Equal(t, len(r.Asked()), asked)
		assert.Equal(t, ensure(dockercli.PullAlways, old.Ref, ""), changed.IDs[here])
		assert.Assert(t, len(r.Asked()) > asked)
		assert.Equal(t, ensure(dockercli.PullMissing, old.Digest, ""), old.IDs[here])

		_, err = e.EnsureImage(ctx, dockercli.PullNever, dockercli.PullOptions{Image: old.Ref, Platform: there})
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		other := r.Add(t, "test:other", []string{here, there}, t.Name(), rand.Text())
		assert.Equal(t, ensure(dockercli.PullMissing, other.Ref, there), other.IDs[there])
		assert.Equal(t, ensure(dockercli.PullMissing, other.Ref, here), other.IDs[here])
	})
}

// The engines of this machine print what PullEvents reads.
func TestPullEventsOfEngines(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		r := registry.Start(t)
		e = r.Engine(t, e)
		image := r.Add(t, "test:1", nil, rand.Text(), rand.Text(), rand.Text())
		r.Shut()
		layers := map[string]dockercli.LayerState{}
		var last dockercli.PullEvent
		err := e.Pull(ctx, dockercli.PullOptions{Image: image.Ref, Progress: dockercli.PullEvents(func(event dockercli.PullEvent) {
			last = event
			layers[strings.TrimPrefix(event.Layer, "sha256:")[:12]] = event.State
			if len(layers) == len(image.Layers) {
				r.Open() // all were told before any has come
			}
		})})
		assert.NilError(t, err)
		assert.Equal(t, last.Done, len(image.Layers))
		assert.Equal(t, last.Layers, len(image.Layers))
		for _, digest := range image.Layers {
			assert.Equal(t, layers[strings.TrimPrefix(digest, "sha256:")[:12]], dockercli.LayerDone, "%v", layers)
		}
	})
}

// However many want an image, it is pulled once, and who does not want to wait need not.
func TestPullIsShared(t *testing.T) {
	for _, c := range []struct {
		end string
		err error
	}{{"go", nil}, {"fail", dockercli.ErrPull}} {
		t.Run(c.end, func(t *testing.T) {
			e, file := imageEngine(t, "image-pulled")
			const callers = 8
			got := make(chan error, callers)
			for range callers {
				go func() { got <- e.Pull(t.Context(), dockercli.PullOptions{Image: "alpine"}) }()
			}
			awaitPulls(t, file, 1)
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			err := e.Pull(gone, dockercli.PullOptions{Image: "alpine"})
			assert.ErrorIs(t, err, dockercli.ErrPull)
			assert.ErrorIs(t, err, context.Canceled)
			awaitWaiting(t, callers-1)
			assert.NilError(t, os.WriteFile(file(c.end), nil, 0o600))
			for range callers {
				assert.Check(t, errors.Is(<-got, c.err))
			}
			assert.Equal(t, len(pulls(t, file)), 1)
		})
	}
}

// One that was begun by a caller who has gone is begun again by one who waits.
func TestPullIsTakenOver(t *testing.T) {
	e, file := imageEngine(t, "image-pulled")
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- e.Pull(ctx, dockercli.PullOptions{Image: "alpine"}) }()
	awaitPulls(t, file, 1)
	var progress strings.Builder
	go func() { second <- e.Pull(t.Context(), dockercli.PullOptions{Image: "alpine", Progress: &progress}) }()
	awaitWaiting(t, 1)
	cancel()
	assert.ErrorIs(t, <-first, context.Canceled)
	awaitPulls(t, file, 2)
	// Another image is none of theirs.
	other := make(chan error, 1)
	go func() { other <- e.Pull(t.Context(), dockercli.PullOptions{Image: "debian"}) }()
	awaitPulls(t, file, 3)
	assert.NilError(t, os.WriteFile(file("go"), nil, 0o600))
	assert.NilError(t, <-second)
	assert.NilError(t, <-other)
	assert.Equal(t, progress.String(), "pulling\n")
}

// A caller's writer that does not return is no failure of another's pull.
func TestPullWithAStuckWriter(t *testing.T) {
	e, file := imageEngine(t, "image-pulled")
	first, second := make(chan error, 1), make(chan error, 1)
	r, w := io.Pipe() // from which nobody reads
	defer r.Close()
	go func() { first <- e.Pull(t.Context(), dockercli.PullOptions{Image: "alpine", Progress: w}) }()
	awaitPulls(t, file, 1)
	go func() { second <- e.Pull(t.Context(), dockercli.PullOptions{Image: "alpine"}) }()
	awaitWaiting(t, 1)
	assert.NilError(t, os.WriteFile(file("go"), nil, 0o600))
	err := <-first
	assert.ErrorIs(t, err, dockercli.ErrPull)
	assert.ErrorContains(t, err, "does not return")
	assert.NilError(t, <-second)
	assert.Equal(t, len(pulls(t, file)), 2)
}

func awaitPulls(t *testing.T, file func(string) string, n int) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if got := pulls(t, file); len(got) != n {
			return poll.Continue("%q", got)
		}
		return poll.Success()
	}, poll.WithTimeout(time.Minute), poll.WithDelay(time.Millisecond))
}

// awaitWaiting returns when so many wait for a pull of another's.
func awaitWaiting(t *testing.T, n int) {
	t.Helper()
	waiting := regexp.MustCompile(`(?m)^goroutine \d+ \[select.*\n.*/dockercli\.\(\*Engine\)\.Pull\(`)
	stacks := make([]byte, 1<<20)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if got := len(waiting.FindAll(stacks[:runtime.Stack(stacks, true)], -1)); got != n {
			return poll.Continue("%d", got)
		}
		return poll.Success()
	}, poll.WithTimeout(time.Minute), poll.WithDelay(time.Millisecond))
}
