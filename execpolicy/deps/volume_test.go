package deps_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/deps"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
)

// A far is a place on an engine that is reached as one on another machine is.
type far struct {
	place
	enginetest.Engine
}

// onRemotes runs each case on a docker daemon of the test's own, by TCP, and on podman,
// by a service of the test's own; with -short, on one of them.
func onRemotes(t *testing.T, cases map[string]func(t *testing.T, p far)) {
	for _, e := range enginetest.Chosen(t, enginetest.Engines(t)) {
		t.Run(e.Kind.String(), func(t *testing.T) {
			// A test of another package that is alone would have the service wait for
			// more than its minute.
			enginetest.Beside(t)
			far := far{Engine: e}
			if e.Kind == dockercli.Podman {
				far.Engine.Engine = podmanService(t, e)
			} else {
				far.Engine.Engine, far.Image = dockerByTCP(t)
			}
			assert.Assert(t, far.Remote)
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				t.Run(name, func(t *testing.T) {
					enginetest.Check(t, far.Engine)
					p := far
					p.place = place{t: t, labels: e.Labels, policy: execpolicy.DockerPolicy{
						Engine: far.Engine.Engine, Image: far.Image,
						// Podman's service can't be given a filter.
						EngineSeccomp: e.Kind == dockercli.Podman,
						Limits:        execpolicy.Limits{CommandTimeout: time.Minute, TerminationTimeout: places.Patience},
					}}
					cases[name](t, p)
				})
			}
		})
	}
}

func dockerByTCP(t *testing.T) (*dockercli.Engine, string) {
	d, err := private.Start(t.Context(), os.Stderr)
	if errors.Is(err, errors.ErrUnsupported) {
		leftout.Skip(t, "%v", err)
	}
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	var open sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { forward(over, client.(*net.TCPConn), d.Engine().Socket) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		end() // a container that is left would keep its connection
		open.Wait()
	})
	e, err := dockercli.Lookup(t.Context(), fmt.Sprintf("'%s' --host tcp://%s", d.Engine().Path, l.Addr()))
	assert.NilError(t, err)
	return e, d.Image()
}

// plain hides that the kernel could copy, for which pipes would be kept.
type plain struct{ io.Writer }

// forward passes on what both sides say, until neither says any more, or it is over.
func forward(over context.Context, client *net.TCPConn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(over, func() {
		client.Close()
		server.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(plain{server}, client)
		server.(*net.UnixConn).CloseWrite()
	})
	both.Go(func() {
		io.Copy(plain{client}, server)
		client.CloseWrite()
	})
	both.Wait()
}

func podmanService(t *testing.T, e enginetest.Engine) *dockercli.Engine {
	dir, err := os.MkdirTemp("/tmp", "cofferdam-") // a socket's path is short
	assert.NilError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	// Without a test, it ends after a minute in which nobody asks it for anything.
	service := exec.Command(e.Path, slices.Concat(e.Global, []string{"system", "service", "--time=60", "unix://" + socket})...)
	service.Env = e.Env
	assert.NilError(t, service.Start())
	t.Cleanup(func() {
		service.Process.Signal(os.Interrupt)
		defer time.AfterFunc(time.Minute, func() { service.Process.Kill() }).Stop()
		service.Wait()
	})
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if _, err := os.Stat(socket); err != nil {
			return poll.Continue("%v", err)
		}
		return poll.Success()
	}, poll.WithTimeout(time.Minute))
	t.Setenv("CONTAINER_HOST", "unix://"+socket)
	remote, err := dockercli.Lookup(t.Context(), "'"+e.Path+"' --remote")
	assert.NilError(t, err)
	return remote
}

var nonce struct {
	sync.Mutex
	n int
}

// recipe returns one that no other test has built, whose volumes are removed with the
// test.
func (p far) recipe(scripts ...string) deps.Recipe {
	nonce.Lock()
	defer nonce.Unlock()
	nonce.n++
	r := deps.Recipe{Scripts: scripts, Env: map[string]string{"NONCE": p.labels["cofferdam-test"] + "-" + strconv.Itoa(nonce.n)}}
	p.t.Cleanup(func() {
		for _, name := range p.volumes(r) {
			_, stderr, err := p.Client("volume", "rm", "--force", name)
			assert.Check(p.t, err, stderr)
		}
	})
	return r
}

// volumes returns the names of a layer's volumes, and of the one that has its name.
func (p far) volumes(r deps.Recipe) []string {
	mark := deps.Mark(r, p.Image)
	named, stderr, err := p.Client("volume", "ls", "--filter=name="+mark, "--format={{.Name}}")
	assert.NilError(p.t, err, stderr)
	ours, stderr, err := p.Client("volume", "ls", "--filter=label="+deps.LabelLayer+"="+
		deps.Labels(r, p.Image, "")[deps.LabelLayer], "--format={{.Name}}")
	assert.NilError(p.t, err, stderr)
	all := strings.Fields(named + ours)
	slices.Sort(all)
	return slices.Compact(all)
}

// whole checks that there is one finished layer, and nothing else.
func (p far) whole(r deps.Recipe, l *deps.Layer) {
	p.t.Helper()
	assert.DeepEqual(p.t, p.volumes(r), []string{deps.Mark(r, p.Image), l.Mount.Volume})
}

func (p far) none(r deps.Recipe) {
	p.t.Helper()
	assert.Equal(p.t, len(p.volumes(r)), 0, "%q", p.volumes(r))
}

func (p far) remove(r deps.Recipe) error { return deps.Remove(p.t.Context(), p.policy, "", r) }

func TestLayerInAVolume(t *testing.T) {
	onRemotes(t, map[string]func(t *testing.T, p far){
		"read-only":        isReadOnly,
		"failed":           failedVolumeLeavesNothing,
		"hostile":          hostileVolume,
		"at the same time": volumesAtTheSameTime,
		"killed":           killedBuilder,
		"foreign":          foreignVolumes,
		"lost":             lostVolume,
		"in use":           volumeInUse,
		"invalid":          invalidVolume,
	})
}

func isReadOnly(t *testing.T, p far) {
	r := p.recipe("pwd >where; id -u >user; echo 'answer = 42' >found.py; mkdir -p node_modules", "ls >seen")
	l := p.layer(r)
	p.whole(r, l)
	again := p.layer(r)
	assert.DeepEqual(t, again, l)
	p.whole(r, l)
	result := p.run(l, `cat /deps/where /deps/user; python3 -c 'import found; print(found.answer)'; echo $NODE_PATH; cat /deps/seen
		for f in new found.py node_modules/new; do touch /deps/$f 2>&1; done; rm /deps/found.py 2>&1`)
	text := string(result.Stdout)
	begin := "/deps\n65534\n42\n/deps/node_modules\nfound.py\nnode_modules\nseen\nuser\nwhere\n"
	assert.Assert(t, strings.HasPrefix(text, begin), text)
	assert.Equal(t, strings.Count(text, "Read-only file system"), 4, text)

	p.policy.User = "1000"
	own := p.recipe("id -u >user; mkdir dir; umask 077; echo >dir/mine")
	l = p.layer(own)
	assert.Equal(t, p.run(l, "cat /deps/user").Text(), "1000\n")
	assert.NilError(t, p.remove(own))
	p.none(own)
	assert.NilError(t, p.remove(own))
	p.whole(r, again)
}

func failedVolumeLeavesNothing(t *testing.T, p far) {
	p.policy.EngineSeccomp = true // or there would be no set-uid file
	r := p.recipe("echo well >file", strings.ReplaceAll(upset, "%[1]s", "/tmp")+"; echo said >&2; (exit 3)")
	_, err := p.build(t.Context(), r)
	assert.ErrorIs(t, err, deps.ErrBuild)
	assert.ErrorContains(t, err, "script 2 of 2: exit code 3: ")
	assert.ErrorContains(t, err, "said")
	p.none(r)
	p.policy.CommandTimeout = 500 * time.Millisecond
	r = p.recipe("echo >file; sleep 60")
	_, err = p.build(t.Context(), r)
	assert.ErrorIs(t, err, execpolicy.ErrTimeout)
	p.none(r)
}

// What a set-up has made is seen by sessions, and by nobody on this machine.
func hostileVolume(t *testing.T, p far) {
	elsewhere := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(elsewhere, "file"), []byte("untouched"), 0o600))
	p.policy.EngineSeccomp = true
	r := p.recipe(strings.ReplaceAll(upset, "%[1]s", elsewhere) + "; cd /; true")
	l := p.layer(r)
	result := p.run(l, "cat /deps/filelink; [ -u /deps/suid ] && echo suid; ls /deps/root/workspace; ls /deps/closed/below")
	assert.Assert(t, !strings.Contains(result.Text(), "untouched"), result.Text())
	assert.Assert(t, strings.HasPrefix(string(result.Stdout), "suid\n"), result.Text())
	assert.Assert(t, strings.Contains(string(result.Stderr), "Permission denied"), result.Text())
	assert.NilError(t, p.remove(r))
	p.none(r)
	data, err := os.ReadFile(filepath.Join(elsewhere, "file"))
	assert.NilError(t, err)
	assert.Equal(t, string(data), "untouched")
}

// childVar has what a program that builds a layer is to build.
const childVar = "COFFERDAM_TEST_LAYER"

// slow is a directory that makes the scripts of slowRecipe wait. It is not a part of the
// layer's name.
const slow = "/slow"

const slowScript = "[ ! -d " + slow + " ] || sleep 600; cat /proc/sys/kernel/random/uuid >file"

// child starts another program that builds a layer. Its line is empty if it fails.
func (p far) child(r deps.Recipe, slowly bool) (line func() string, kill func()) {
	env := append(p.Environ(p.t), childVar+"="+r.Env["NONCE"]+" "+strconv.FormatBool(slowly)+" "+
		strconv.FormatBool(p.policy.EngineSeccomp))
	lines := make(chan string, 1)
	kills := make(chan func(), 1)
	go func() {
		defer close(lines)
		defer close(kills)
		line, kill := enginetest.Child(p.t, env)
		kills <- kill
		lines <- line
	}()
	return func() string { return <-lines }, func() {
		if kill := <-kills; kill != nil {
			kill()
		}
	}
}

func TestMain(m *testing.M) {
	if what := strings.Fields(os.Getenv(childVar)); len(what) == 3 {
		fmt.Println(buildAsChild(what[0], what[1] == "true", what[2] == "true"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func buildAsChild(nonce string, slowly, seccomp bool) string {
	e, err := enginetest.FromEnviron()
	if err != nil {
		return err.Error()
	}
	e.Remote = true
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: e.Image, EngineSeccomp: seccomp,
		Limits: execpolicy.Limits{CommandTimeout: 10 * time.Minute, TerminationTimeout: places.Patience}}
	if slowly {
		fmt.Println("building")
		p.Tmpfs = map[string]int64{"/tmp": 1 << 20, slow: 1 << 20}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	l, err := deps.Build(ctx, p, "", deps.Recipe{Scripts: []string{slowScript}, Env: map[string]string{"NONCE": nonce}, Labels: e.Labels})
	if err != nil {
		return err.Error()
	}
	return l.Mount.Volume
}

func volumesAtTheSameTime(t *testing.T, p far) {
	r := p.recipe(slowScript)
	begin := time.Now()
	var lines [2]string
	var layers [3]*deps.Layer
	var errs [3]error
	var all sync.WaitGroup
	for i := range lines {
		line, kill := p.child(r, false)
		all.Go(func() { lines[i] = line(); kill() })
	}
	for i := range layers {
		all.Go(func() { layers[i], errs[i] = p.build(t.Context(), r) })
	}
	all.Wait()
	for i := range layers {
		assert.NilError(t, errs[i])
		assert.DeepEqual(t, layers[i], layers[0])
	}
	assert.DeepEqual(t, lines[:], []string{layers[0].Mount.Volume, layers[0].Mount.Volume})
	p.whole(r, layers[0])
	if p.Kind == dockercli.Docker {
		// Two containers for each program that has built: a program builds once.
		stdout, stderr, err := p.Client("events", "--since="+strconv.FormatInt(begin.Unix()-1, 10),
			"--until="+strconv.FormatInt(time.Now().Unix()+1, 10), "--filter=event=create", "--filter=type=container",
			"--filter=label=cofferdam-test="+p.labels["cofferdam-test"],
			"--format={{.Actor.ID}}")
		assert.NilError(t, err, stderr)
		n := strings.Count(stdout, "\n")
		assert.Assert(t, 2 <= n && n <= 6, stdout)
	}
}

// What a killed program has begun is removed, and built anew.
func killedBuilder(t *testing.T, p far) {
	r := p.recipe(slowScript)
	line, kill := p.child(r, true)
	assert.Equal(t, line(), "building")
	inScript := func(poll.LogT) poll.Result {
		for _, name := range p.Containers(t) {
			if top, _, err := p.Client("top", name); err == nil && strings.Contains(top, "sleep 600") {
				return poll.Success()
			}
		}
		return poll.Continue("the script has not begun: %q", p.volumes(r))
	}
	poll.WaitOn(t, inScript, poll.WithTimeout(time.Minute), poll.WithDelay(20*time.Millisecond))
	unfinished := p.volumes(r)
	assert.Equal(t, len(unfinished), 1)
	// A builder that lives keeps what it has begun.
	deps.Sweep(t.Context(), p.Engine.Engine)
	assert.DeepEqual(t, p.volumes(r), unfinished)
	kill()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if left := p.Containers(t); len(left) > 0 {
			return poll.Continue("left: %q", left)
		}
		return poll.Success()
	}, poll.WithTimeout(2*time.Minute), poll.WithDelay(100*time.Millisecond))
	assert.DeepEqual(t, p.volumes(r), unfinished)
	l := p.layer(r)
	assert.Assert(t, l.Mount.Volume != unfinished[0])
	p.whole(r, l)
	assert.Equal(t, len(p.run(l, "cat /deps/file").Stdout), 37)
}

// create makes a volume by the engine's client.
func (p far) create(name string, labels map[string]string, options ...string) {
	p.t.Helper()
	args := []string{"volume", "create"}
	for k, v := range labels {
		args = append(args, "--label="+k+"="+v)
	}
	_, stderr, err := p.Client(slices.Concat(args, options, []string{name})...)
	assert.NilError(p.t, err, stderr)
	p.t.Cleanup(func() { p.Client("volume", "rm", "--force", name) })
}

// Volumes that are not of this library are neither used nor touched, whatever they are
// called and labelled.
func foreignVolumes(t *testing.T, p far) {
	dir := t.TempDir()
	bind := []string{"--opt=type=none", "--opt=o=bind", "--opt=device=" + dir}
	for name, make := range map[string]func(r deps.Recipe, mark string){
		"the name only": func(r deps.Recipe, mark string) { p.create(mark, nil) },
		"another digest": func(r deps.Recipe, mark string) {
			labels := deps.Labels(deps.Recipe{}, p.Image, mark)
			labels[deps.LabelIn] = "cofferdam-layer-none"
			p.create(mark, labels)
		},
		"a mark that names no layer": func(r deps.Recipe, mark string) {
			labels := deps.Labels(r, p.Image, mark)
			labels[deps.LabelIn] = "data"
			p.create(mark, labels)
		},
		"a mark with options": func(r deps.Recipe, mark string) {
			labels := deps.Labels(r, p.Image, mark)
			labels[deps.LabelIn] = "cofferdam-layer-none"
			p.create(mark, labels, bind...)
		},
		"a layer without labels": func(r deps.Recipe, mark string) {
			labels := deps.Labels(r, p.Image, mark)
			labels[deps.LabelIn] = "cofferdam-layer-" + r.Env["NONCE"]
			p.create(mark, labels)
			p.create(labels[deps.LabelIn], nil)
		},
		"a layer with options": func(r deps.Recipe, mark string) {
			labels := deps.Labels(r, p.Image, mark)
			labels[deps.LabelIn] = "cofferdam-layer-" + r.Env["NONCE"]
			p.create(mark, labels)
			p.create(labels[deps.LabelIn], deps.Labels(r, p.Image, labels[deps.LabelIn]), bind...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.t = t
			r := p.recipe("echo >file")
			make(r, deps.Mark(r, p.Image))
			before := p.volumes(r)
			_, err := p.build(t.Context(), r)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid)
			assert.ErrorContains(t, err, "is not of this library")
			assert.ErrorIs(t, p.remove(r), execpolicy.ErrInvalid)
			deps.Sweep(t.Context(), p.Engine.Engine)
			assert.DeepEqual(t, p.volumes(r), before)
		})
	}
}

// A layer whose volume somebody has removed is built anew.
func lostVolume(t *testing.T, p far) {
	r := p.recipe("echo >file")
	l := p.layer(r)
	_, stderr, err := p.Client("volume", "rm", l.Mount.Volume)
	assert.NilError(t, err, stderr)
	// A session does not run with an empty one.
	p.policy.Mounts = []dockercli.Mount{l.Mount}
	_, err = execpolicy.Run(t.Context(), p.policy, execpolicy.Spec{Labels: maps.Clone(p.labels)}, execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, dockercli.ErrNoVolume)
	p.policy.Mounts = nil
	assert.DeepEqual(t, p.volumes(r), []string{deps.Mark(r, p.Image)})
	again := p.layer(r)
	assert.Assert(t, again.Mount.Volume != l.Mount.Volume)
	p.whole(r, again)
}

func volumeInUse(t *testing.T, p far) {
	r := p.recipe("echo kept >file")
	l := p.layer(r)
	user := p.policy
	user.Mounts = []dockercli.Mount{l.Mount}
	s, err := execpolicy.Start(t.Context(), user, execpolicy.Spec{Labels: maps.Clone(p.labels)})
	assert.NilError(t, err)
	defer s.Close()
	assert.ErrorIs(t, p.remove(r), dockercli.ErrVolumeInUse)
	p.whole(r, l)
	result, err := s.Run(t.Context(), execpolicy.Command{Script: "cat /deps/file"})
	assert.NilError(t, err)
	assert.Equal(t, result.Text(), "kept\n")
	assert.NilError(t, s.Close())
	assert.NilError(t, p.remove(r))
	p.none(r)
}

func invalidVolume(t *testing.T, p far) {
	p.policy.KeepContainer, p.policy.MemoryBytes = true, -1
	p.policy.Tmpfs = map[string]int64{"/deps/": 1 << 20}
	r := p.recipe()
	_, err := p.build(t.Context(), r)
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, words := range []string{"no scripts", "KeepContainer", "MemoryBytes", `the tmpfs "/deps/"`} {
		assert.ErrorContains(t, err, words)
	}
	p.none(r)
}

// What a policy says of how a container starts goes for the one that opens a volume, too.
func TestVolumeIsOpenedAsItsSetUpStarts(t *testing.T) {
	p := execpolicy.DockerPolicy{
		Image: "image", Platform: "linux/arm64", Pull: dockercli.PullNever, PullTimeout: time.Minute, PullProgress: io.Discard,
		Runtime: "runsc", EngineSeccomp: true, AllowMissingLimits: true, Transport: execpolicy.TransportAttach,
		KeepAlive: -1, Limits: execpolicy.Limits{Lifetime: time.Hour},
	}
	// It needs nothing of these, or has its own.
	others := strings.Fields("Engine KeepContainer NetworkEnabled Egress WritableRootfs WorkspaceReadOnly WorkspaceRelabel MemoryBytes CPUs CPUShares " +
		"PidsLimit Tmpfs User AddCapabilities AllowNewPrivileges SeccompProfile Mounts ProtectedPaths AllowUnsafeMounts " +
		"ExtraHosts GPUs Devices AllowUnsafeDevices ExtraRunArgs AllowUnsafeArgs CPUTimeSeconds")
	want, got := reflect.ValueOf(p), reflect.ValueOf(deps.Opener(p))
	for i := range want.NumField() {
		field := want.Type().Field(i)
		if !field.IsExported() || slices.Contains(others, field.Name) {
			continue
		}
		assert.Assert(t, !want.Field(i).IsZero(), "%s is a new field: does a container that opens a volume need it?", field.Name)
		assert.Assert(t, reflect.DeepEqual(want.Field(i).Interface(), got.Field(i).Interface()), field.Name)
	}
}
