package deps_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/deps"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// A place builds layers on one engine, in a cache of its own.
type place struct {
	t      *testing.T
	policy execpolicy.DockerPolicy
	labels map[string]string
	cache  string
}

// everywhere runs f on each engine, and fails on what is left behind.
func everywhere(t *testing.T, f func(t *testing.T, p place)) {
	places.OnEngines(t, execpolicy.Limits{CommandTimeout: time.Minute}, func(t *testing.T, p places.Place) {
		f(t, place{t, p.Policy, p.Spec.Labels, t.TempDir()})
	})
}

func (p place) build(ctx context.Context, r deps.Recipe) (*deps.Layer, error) {
	r.Labels = maps.Clone(p.labels)
	return deps.Build(ctx, p.policy, p.cache, r)
}

func (p place) layer(r deps.Recipe) *deps.Layer {
	p.t.Helper()
	l, err := p.build(p.t.Context(), r)
	assert.NilError(p.t, err)
	return l
}

// run runs a script in a session that has the layer.
func (p place) run(l *deps.Layer, script string) *execpolicy.Result {
	p.t.Helper()
	p.policy.Mounts = []dockercli.Mount{l.Mount}
	r, err := execpolicy.Run(p.t.Context(), p.policy, execpolicy.Spec{Env: l.Env, Labels: maps.Clone(p.labels)},
		execpolicy.Command{Script: script})
	assert.NilError(p.t, err)
	return r
}

// empty checks that the cache holds nothing.
func (p place) empty() {
	p.t.Helper()
	assert.DeepEqual(p.t, p.cached(), []string(nil))
}

func (p place) cached() (names []string) {
	p.t.Helper()
	entries, err := os.ReadDir(p.cache)
	assert.NilError(p.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func scripts(s ...string) deps.Recipe { return deps.Recipe{Scripts: s} }

func TestLayerIsReadOnlyAndWithoutANetwork(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		build := p
		build.policy.NetworkEnabled = true
		l := build.layer(scripts("pwd >where; ls /sys/class/net >net",
			"id -u >user; echo 'answer = 42' >found.py; mkdir -p node_modules"))
		r := p.run(l, `cat /deps/where; ls /sys/class/net; python3 -c 'import found; print(found.answer)'; echo $NODE_PATH
			for f in new found.py node_modules/new; do touch /deps/$f 2>&1; done; rm /deps/found.py 2>&1; ls /deps`)
		lines := strings.Split(string(r.Stdout), "\n")
		assert.DeepEqual(t, lines[:4], []string{"/deps", "lo", "42", "/deps/node_modules"})
		assert.Equal(t, strings.Count(string(r.Stdout), "Read-only file system"), 4, "%s", r.Stdout)
		assert.Assert(t, strings.HasSuffix(string(r.Stdout), "\nfound.py\nnet\nnode_modules\nuser\nwhere\n"), "%s", r.Stdout)
		// The set-up had a network, and was not root.
		user, net, _ := strings.Cut(string(p.run(l, "cat /deps/user /deps/net").Stdout), "\n")
		assert.Assert(t, user != "" && user != "0", user)
		assert.Assert(t, strings.Count(net, "\n") > 1, net)
		info, err := os.Stat(filepath.Dir(l.Mount.Source))
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), fs.FileMode(0o700))
	})
}

func TestLayerIsBuiltOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const script = "cat /proc/sys/kernel/random/uuid >stamp"
		stamp := func(l *deps.Layer) string {
			data, err := os.ReadFile(filepath.Join(l.Mount.Source, "stamp"))
			assert.NilError(t, err)
			return string(data)
		}
		l := p.layer(scripts(script))
		again := p.layer(scripts(script))
		assert.DeepEqual(t, again, l)
		for _, other := range []deps.Recipe{scripts(script, ":"), scripts(script + ";"),
			{Scripts: []string{script}, Env: map[string]string{"A": "1"}}} {
			o := p.layer(other)
			assert.Assert(t, o.Mount.Source != l.Mount.Source)
			assert.Assert(t, stamp(o) != stamp(l))
		}
	})
}

func TestBuildsAtTheSameTimeAgree(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var layers [3]*deps.Layer
		var errs [3]error
		var wg sync.WaitGroup
		for i := range layers {
			wg.Go(func() { layers[i], errs[i] = p.build(t.Context(), scripts("echo >file; sleep 0.5")) })
		}
		wg.Wait()
		for i := range layers {
			assert.NilError(t, errs[i])
			assert.DeepEqual(t, layers[i], layers[0])
		}
		assert.DeepEqual(t, p.cached(), []string{filepath.Base(filepath.Dir(layers[0].Mount.Source))})
	})
}

func TestRemove(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		r := scripts("mkdir -p closed/below; chmod 0 closed; cat /proc/sys/kernel/random/uuid >stamp")
		remove := func() { assert.NilError(t, deps.Remove(t.Context(), p.policy, p.cache, r)) }
		remove()
		first := p.run(p.layer(r), "cat /deps/stamp").Text()
		remove()
		p.empty()
		remove()
		assert.Assert(t, p.run(p.layer(r), "cat /deps/stamp").Text() != first)
		remove() // an ordinary user's test could not
	})
}

// An engine that has no SELinux takes what one that enforces it needs.
func TestLayerIsRelabelled(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		e := *p.policy.Engine
		e.SELinux = true
		p.policy.Engine = &e
		l := p.layer(scripts("echo there >file"))
		assert.Equal(t, l.Mount.Relabel, "")
		assert.Equal(t, p.run(l, "cat /deps/file").Text(), "there\n")
	})
}

// upset is what a set-up can do to whoever removes what it made.
const upset = `
	ln -s %[1]s link; ln -s %[1]s/file filelink; ln -s / root; ln -s ../.. up
	mkfifo fifo; cp /bin/sh suid; chmod 6755 suid
	mkdir -p closed/below; echo x >closed/below/file; ln -s %[1]s closed/below/link; chmod 0 closed/below closed
	i=0; while [ $i -lt 300 ]; do i=$((i + 1)); mkdir ddddddddddddddddddddddddddddddddddddddddddd && cd ddddddddddddddddddddddddddddddddddddddddddd || exit; done
	ln -s %[1]s link; chmod 0 .; cd /deps; chmod 0 .`

func TestFailedBuildLeavesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		elsewhere := t.TempDir()
		assert.NilError(t, os.WriteFile(filepath.Join(elsewhere, "file"), []byte("untouched"), 0o600))
		p.policy.EngineSeccomp = true // or there would be no set-uid file
		_, err := p.build(t.Context(),
			scripts("echo well >file", strings.ReplaceAll(upset, "%[1]s", elsewhere)+"; echo said >&2; (exit 3)",
				"echo not me >&2"))
		assert.ErrorIs(t, err, deps.ErrBuild)
		assert.ErrorContains(t, err, "script 2 of 3: exit code 3: said")
		p.empty()
		data, err := os.ReadFile(filepath.Join(elsewhere, "file"))
		assert.NilError(t, err)
		assert.Equal(t, string(data), "untouched")
	})
}

func TestSlowBuildIsEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.policy.CommandTimeout = 500 * time.Millisecond
		_, err := p.build(t.Context(), scripts("echo >file; sleep 60"))
		assert.ErrorIs(t, err, deps.ErrBuild)
		assert.ErrorIs(t, err, execpolicy.ErrTimeout)
		p.empty()

		p.policy.CommandTimeout = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := p.build(ctx, scripts("echo >file; sleep 60"))
			done <- err
		}()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if begun, _ := filepath.Glob(filepath.Join(p.cache, ".cofferdam-layer-*", "tree", "file")); len(begun) == 1 {
				return poll.Success()
			}
			return poll.Continue("the script has not begun")
		}, poll.WithTimeout(30*time.Second), poll.WithDelay(10*time.Millisecond))
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		p.empty()
	})
}

// Why a script was ended is told also if something else is wrong.
func TestReason(t *testing.T) {
	late, canceled := &execpolicy.Result{Cause: execpolicy.ErrTimeout}, &execpolicy.Result{Cause: context.Canceled}
	assert.Equal(t, deps.Reason(late, nil).Error(), execpolicy.ErrTimeout.Error())
	both := deps.Reason(late, execpolicy.ErrStillThere)
	assert.ErrorIs(t, both, execpolicy.ErrTimeout)
	assert.ErrorIs(t, both, execpolicy.ErrStillThere)
	assert.Equal(t, deps.Reason(canceled, context.Canceled), context.Canceled)
	assert.Equal(t, deps.Reason(&execpolicy.Result{}, execpolicy.ErrEnded), execpolicy.ErrEnded)
	assert.NilError(t, deps.Reason(&execpolicy.Result{}, nil))
}

// A script's background job does not outlive it, nor change the layer.
func TestNothingChangesALayer(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		l := p.layer(scripts("(while :; do echo x >>grows; done) & until [ -s grows ]; do sleep 0.01; done"))
		size := func() int64 {
			info, err := os.Stat(filepath.Join(l.Mount.Source, "grows"))
			assert.NilError(t, err)
			return info.Size()
		}
		was := size()
		p.run(l, "sleep 0.1")
		assert.Equal(t, size(), was)
	})
}

func TestInvalidBuildStartsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		_, err := p.build(t.Context(), deps.Recipe{Scripts: []string{" "}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		_, err = p.build(t.Context(), deps.Recipe{Scripts: []string{":"}, Env: map[string]string{"A-B": ""}})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		// A script shares the bound with the name of its directory.
		_, err = p.build(t.Context(), scripts(":", strings.Repeat(":", execpolicy.MaxText-len(deps.Target)+1)))
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "script 2 has 4194300 bytes, and may have 4194299")
		p.empty()

		p.policy.WorkspaceReadOnly, p.policy.KeepContainer, p.policy.MemoryBytes = true, true, -1
		p.policy.Mounts = []dockercli.Mount{{Source: p.cache, Target: "/deps/x"}}
		p.policy.Tmpfs = map[string]int64{"/deps/": 1 << 20}
		_, err = p.build(t.Context(), deps.Recipe{})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		for _, words := range []string{"no scripts", "WorkspaceReadOnly", "KeepContainer", "MemoryBytes",
			`the mount on "/deps/x"`, `the tmpfs "/deps/"`} {
			assert.ErrorContains(t, err, words)
		}
		p.empty()

		p.policy = execpolicy.DockerPolicy{Engine: p.policy.Engine, Image: p.policy.Image}
		_, err = deps.Build(t.Context(), p.policy, "", scripts(":"))
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		_, err = deps.Build(t.Context(), p.policy, filepath.Join(p.cache, "none"), scripts(":"))
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "with the cache")
	})
}

// A layer of root's is made by the policy's user, and by root only if the policy names
// it.
func TestLayerIsMadeByThePolicysUser(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if os.Geteuid() != 0 || p.policy.Engine.Rootless {
			leftout.Skip(t, "only root gives a layer to others")
		}
		for user, ids := range map[string]string{"": "65534 65534", "1000": "1000 1000", "1000:1001": "1000 1001",
			"0:0": "0 0"} {
			b := p
			b.policy.User = user
			b.cache = t.TempDir()
			l := b.layer(scripts("echo $(id -u) $(id -g) >ids"))
			made, err := os.ReadFile(filepath.Join(l.Mount.Source, "ids"))
			assert.NilError(t, err)
			assert.Equal(t, string(made), ids+"\n", user)
			assert.Equal(t, string(p.run(l, "cat /deps/ids").Stdout), ids+"\n")
		}
	})
}
