package dockercli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// everyOption returns options of which none is zero, but for the one that can't be
// together with another.
func everyOption() dockercli.RunOptions {
	return dockercli.RunOptions{
		Name:        "cofferdam-every.option_1",
		Labels:      map[string]string{"b.key": "a=b,c \"quoted\"\nsecond line", "a.key": ""},
		Remove:      true,
		Interactive: true,
		Detach:      true,
		Pull:        "never",
		Platform:    "linux/amd64",
		Network:     "none",
		Hostname:    "sandbox",
		HostsFile:   true,
		ExtraHosts:  []string{"one:192.0.2.1", "two:192.0.2.2"},
		DNS:         []string{"192.0.2.53"},
		HTTPProxy:   true,
		ReadOnly:    true,
		Tmpfs: []dockercli.Tmpfs{{Target: "/tmp"},
			{Target: "/scratch", SizeBytes: 64 << 20, Mode: 0o700, Exec: true, Chown: true}},
		Mounts: []dockercli.Mount{{Source: "/srv/plain", Target: "/in"},
			{Source: "/srv/a,b:c \"d\"\ne", Target: "/out", Writable: true},
			{Source: "/srv/a,b", Target: "/private", Relabel: "private"},
			{Source: "/srv/shared", Target: "/shared", Relabel: "shared", Writable: true},
			{Volume: "cofferdam-layer", Target: "/a,b"},
			{Volume: "cofferdam-layer", Target: "/layer", Writable: true}},
		Workdir:       "/scratch",
		ShmSize:       "16m",
		Env:           []string{"PLAIN", "_under_score9"},
		User:          "65534:65534",
		Entrypoint:    "/bin/env",
		Init:          true,
		StopTimeout:   1500 * time.Millisecond,
		NoHealthcheck: true,
		Memory:        "512m",
		MemorySwap:    "512m",
		CPUs:          "1.5",
		CPUShares:     512,
		PidsLimit:     256,
		Ulimits:       []string{"nofile=1024:1024", "core=0"},
		CapDrop:       []string{"ALL"},
		CapAdd:        []string{"CHOWN", "KILL"},
		SecurityOpt:   []string{"no-new-privileges"},
		IPC:           "private",
		UserNS:        "host",
		CgroupNS:      "private",
		Runtime:       "runc",
		GPUs:          "device=0,1",
		Devices: []dockercli.Device{{Source: "/dev/null"},
			{Source: "/dev/zero", Target: "/dev/another", Permissions: "r"}},
		LogDriver: "none",
		Extra:     []string{"--oom-score-adj=500"},
		Image:     "registry.example:5000/group/image:1.0",
		Command:   []string{"sh", "-c", "echo \"$HOME\" --privileged", "-x", ""},
	}
}

func TestEveryOptionIsSet(t *testing.T) {
	v := reflect.ValueOf(everyOption())
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "ImageEntrypoint" {
			assert.Check(t, !v.Field(i).IsZero(), "%s has to be in the case of every option", name)
		}
	}
}

type argvCase struct {
	name string
	// refusal is what a real engine says to it where nothing has the names. If nil, it
	// has no complaint.
	refusal error
	build   func(e *dockercli.Engine) ([]string, error)
}

func argvCases(name, image string) []argvCase {
	type E = dockercli.Engine
	return []argvCase{
		{"run-none", dockercli.ErrPull,
			func(e *E) ([]string, error) { return e.RunArgs(dockercli.RunOptions{Image: image}) }},
		{"run-every", dockercli.ErrImageMissing, func(e *E) ([]string, error) {
			o := everyOption()
			o.Image = image
			return e.RunArgs(o)
		}},
		{"run-image-entrypoint", dockercli.ErrPull, func(e *E) ([]string, error) {
			return e.RunArgs(dockercli.RunOptions{Image: image, ImageEntrypoint: true, Env: []string{"HTTP_PROXY"}})
		}},
		{"exec-none", dockercli.ErrNoContainer, func(e *E) ([]string, error) {
			return e.ExecArgs(dockercli.ExecOptions{Container: name, Command: []string{"true"}})
		}},
		{"exec-every", dockercli.ErrNoContainer, func(e *E) ([]string, error) {
			return e.ExecArgs(dockercli.ExecOptions{
				Container: name, Interactive: true, User: "0:0", Workdir: "/tmp", Env: []string{"A", "B"},
				Command: []string{"kill", "-9", "-1"},
			})
		}},
		{"kill", dockercli.ErrNoContainer, func(e *E) ([]string, error) { return e.KillArgs("SIGRTMIN+3", name) }},
		{"rm", dockercli.ErrNoContainer, func(e *E) ([]string, error) { return e.RemoveArgs(name) }},
		{"container-inspect", dockercli.ErrNoContainer,
			func(e *E) ([]string, error) { return dockercli.InspectArgs(e, name) }},
		{"image-inspect", dockercli.ErrImageMissing, func(e *E) ([]string, error) { return dockercli.ImageArgs(e, image) }},
		{"pull-none", dockercli.ErrPull,
			func(e *E) ([]string, error) { return dockercli.PullArgs(e, dockercli.PullOptions{Image: image}) }},
		{"pull-every", dockercli.ErrPull, func(e *E) ([]string, error) {
			return dockercli.PullArgs(e, dockercli.PullOptions{Image: image, Platform: "linux/arm64"})
		}},
		{"ps", nil, func(e *E) ([]string, error) {
			return dockercli.PSArgs(e, map[string]string{"b": "x,\"y\"=z", "a": "", "c": "plain"})
		}},
		{"events", nil, func(e *E) ([]string,
			error) {
			return dockercli.OOMArgs(e, name, time.Time{}, time.Unix(1234567890, 5))
		}},
		{"events-since", nil, func(e *E) ([]string, error) {
			return dockercli.OOMArgs(e, name, time.Unix(1234567000, 70), time.Unix(1234567890, 5))
		}},
		{"exit-code", nil, func(e *E) ([]string, error) {
			return dockercli.ExitArgs(e, name, time.Unix(1234567000, 70), time.Unix(1234567890, 5))
		}},
		{"import-none", nil, func(e *E) ([]string, error) { return dockercli.ImportArgs(e, image, nil) }},
		{"import-every", nil, func(e *E) ([]string, error) {
			return dockercli.ImportArgs(e, image, []string{"ENV PATH=/bin", "WORKDIR /work"})
		}},
		{"settings", dockercli.ErrNoContainer, func(e *E) ([]string, error) { return dockercli.SettingsArgs(e, name) }},
		{"volume-create", nil, func(e *E) ([]string, error) {
			return dockercli.CreateVolumeArgs(e, name, map[string]string{"b": "x=y z", "a": ""})
		}},
		{"volume-inspect", dockercli.ErrNoVolume,
			func(e *E) ([]string, error) { return dockercli.InspectVolumeArgs(e, name) }},
		{"volume-ls", nil, func(e *E) ([]string, error) {
			return dockercli.VolumesArgs(e, map[string]string{"b": "x=y z", "a": ""})
		}},
		{"volume-rm", dockercli.ErrNoVolume, func(e *E) ([]string, error) {
			return dockercli.RemoveVolumeArgs(e, name, "cofferdam.name", name)
		}},
		{"runtime", dockercli.ErrRuntime, func(e *E) ([]string, error) { return dockercli.TryRuntimeArgs(e, name) }},
		{"components", nil, func(e *E) ([]string, error) { return dockercli.ComponentsArgs(e), nil }},
		{"time", nil, func(e *E) ([]string, error) { return dockercli.TimeArgs(e) }},
		{"info", nil, func(e *E) ([]string, error) { return dockercli.InfoArgs(e), nil }},
		{"images", nil, func(e *E) ([]string, error) { return dockercli.ImagesArgs(e), nil }},
		{"contexts", nil, func(e *E) ([]string, error) { return dockercli.ContextsArgs(e) }},
	}
}

func lines(argv []string) string {
	var b strings.Builder
	for _, word := range argv {
		fmt.Fprintf(&b, "%q\n", word)
	}
	return b.String()
}

// unsupported are the cases that a kind of engine has no answer for.
var unsupported = map[dockercli.Kind][]string{
	dockercli.Podman:  {"events", "events-since", "time"},
	dockercli.Nerdctl: {"events", "events-since", "exit-code", "contexts", "settings", "time"},
}

func TestArgv(t *testing.T) {
	used := map[string]bool{}
	for _, e := range []*dockercli.Engine{
		{Kind: dockercli.Docker},
		{Kind: dockercli.Podman, Path: "/usr/bin/podman", Global: []string{"--log-level=error"}},
		{Kind: dockercli.Nerdctl, Global: []string{"--namespace=ci"}},
	} {
		for _, c := range argvCases("cofferdam-1", "registry.example:5000/group/image:1.0") {
			if slices.Contains(unsupported[e.Kind], c.name) {
				_, err := c.build(e)
				assert.ErrorIs(t, err, errors.ErrUnsupported, "%v %s", e.Kind, c.name)
				continue
			}
			if e.Kind == dockercli.Nerdctl && c.name == "run-every" {
				continue // see TestNerdctlRefuses
			}
			if c.name == "runtime" && e.Kind != dockercli.Podman {
				continue // no other is asked for one
			}
			file := fmt.Sprintf("argv/%s-%s.txt", e.Kind, c.name)
			used[filepath.Base(file)] = true
			t.Run(filepath.Base(file), func(t *testing.T) {
				argv, err := c.build(e)
				assert.NilError(t, err)
				golden.Assert(t, lines(argv), file)
				again, err := c.build(e)
				assert.NilError(t, err)
				assert.DeepEqual(t, again, argv)
			})
		}
	}
	used["nerdctl-run-every.txt"] = true // of TestNerdctlRefuses
	entries, err := os.ReadDir("testdata/argv")
	assert.NilError(t, err)
	for _, entry := range entries {
		assert.Check(t, used[entry.Name()], "testdata/argv/%s belongs to no case", entry.Name())
	}
}

// What nerdctl has no flag for is refused, or is what it does anyway.
func TestNerdctlRefuses(t *testing.T) {
	e := &dockercli.Engine{Kind: dockercli.Nerdctl}
	_, err := e.RunArgs(everyOption())
	assert.ErrorIs(t, err, dockercli.ErrArgument)
	for _, words := range []string{"can't detach", "no flag for it", "keeps the output", "with a colon"} {
		assert.ErrorContains(t, err, words)
	}
	o := everyOption()
	o.Detach, o.UserNS = false, ""
	o.Mounts = o.Mounts[:1]
	argv, err := e.RunArgs(o)
	assert.NilError(t, err)
	golden.Assert(t, lines(argv), "argv/nerdctl-run-every.txt")
}

func TestArgvSharesNothing(t *testing.T) {
	global := make([]string, 1, 100)
	global[0] = "--log-level=error"
	e := &dockercli.Engine{Global: global}
	extra := make([]string, 0, 100)
	command := append(make([]string, 0, 100), "true")
	first, err := e.RunArgs(dockercli.RunOptions{Image: "one", Extra: extra, Command: command})
	assert.NilError(t, err)
	kept := slices.Clone(first)
	_, err = e.RunArgs(dockercli.RunOptions{Image: "two", Extra: extra, Command: command, ReadOnly: true})
	assert.NilError(t, err)
	assert.DeepEqual(t, first, kept)
}

func TestGPUs(t *testing.T) {
	e := &dockercli.Engine{Kind: dockercli.Podman}
	argv, err := e.RunArgs(dockercli.RunOptions{Image: "image", GPUs: "all"})
	assert.NilError(t, err)
	assert.Assert(t, slices.Contains(argv, "--device=nvidia.com/gpu=all"))
}

func TestRefused(t *testing.T) {
	good := func(change func(o *dockercli.RunOptions)) dockercli.RunOptions {
		o := dockercli.RunOptions{Image: "image"}
		change(&o)
		return o
	}
	type O = dockercli.RunOptions
	for _, c := range []struct {
		kind  dockercli.Kind
		words string // the error has to hold
		o     dockercli.RunOptions
	}{
		{0, "image", good(func(o *O) { o.Image = "" })},
		{0, "-image", good(func(o *O) { o.Image = "-image" })},
		{0, "oci-archive:/etc/x", good(func(o *O) { o.Image = "oci-archive:/etc/x" })},
		{0, "docker-archive:1/root/x.tar", good(func(o *O) { o.Image = "docker-archive:1/root/x.tar" })},
		{0, "dir:1/root/x", good(func(o *O) { o.Image = "dir:1/root/x" })},
		{0, "oci:1/root/x", good(func(o *O) { o.Image = "oci:1/root/x" })},
		{0, "oci-archive:1/x", good(func(o *O) { o.Image = "oci-archive:1/x" })},
		{0, "a:192.0.2.1,b:192.0.2.2", good(func(o *O) { o.ExtraHosts = []string{"a:192.0.2.1,b:192.0.2.2"} })},
		{0, "192.0.2.1,192.0.2.2", good(func(o *O) { o.DNS = []string{"192.0.2.1,192.0.2.2"} })},
		{0, "oci-archive:../etc/x", good(func(o *O) { o.Image = "oci-archive:../etc/x" })},
		{0, "docker-daemon:x", good(func(o *O) { o.Image = "docker-daemon:x" })},
		{0, "x:y:z", good(func(o *O) { o.Image = "x:y:z" })},
		{0, "x/dir:y/z", good(func(o *O) { o.Image = "x/dir:y/z" })},
		{0, "docker://x/y", good(func(o *O) { o.Image = "docker://x/y" })},
		{0, "im age", good(func(o *O) { o.Image = "im age" })},
		{0, "-name", good(func(o *O) { o.Name = "-name" })},
		{0, `"n"`, good(func(o *O) { o.Name = "n" })},
		{0, "a/b", good(func(o *O) { o.Name = "a/b" })},
		{0, "a=b", good(func(o *O) { o.Labels = map[string]string{"a=b": ""} })},
		{0, "a b", good(func(o *O) { o.Labels = map[string]string{"a b": ""} })},
		{0, "label", good(func(o *O) { o.Labels = map[string]string{"": "x"} })},
		{0, "FOO*", good(func(o *O) { o.Env = []string{"FOO*"} })},
		{0, `"A": its value`, good(func(o *O) { o.Env = []string{"A=1"} })},
		{0, `"A="`, good(func(o *O) { o.Env = []string{"A="} })},
		{0, "9A", good(func(o *O) { o.Env = []string{"9A"} })},
		{0, "NUL", good(func(o *O) { o.Command = []string{"a\x00b"} })},
		{0, "UTF-8", good(func(o *O) { o.Command = []string{"\xff"} })},
		{0, "longer", good(func(o *O) { o.Command = []string{strings.Repeat("x", 128<<10)} })},
		{0, "relative", good(func(o *O) { o.Workdir = "relative" })},
		{0, "relative", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "relative", Target: "/x"}} })},
		{0, "target", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x", Target: "//"}} })},
		{0, "white space", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x ", Target: "/x"}} })},
		{0, "carriage return", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x\r\ny", Target: "/x"}} })},
		{0, "a source and a volume",
			good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x", Volume: "vv", Target: "/x"}} })},
		{0, "Relabel", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x", Target: "/x", Relabel: "Z"}} })},
		{dockercli.Podman, "not for a volume",
			good(func(o *O) { o.Mounts = []dockercli.Mount{{Volume: "vv", Target: "/x", Relabel: "shared"}} })},
		{0, "colon", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "/x:/etc", Target: "/x", Relabel: "shared"}} })},
		{0, "absolute path", good(func(o *O) { o.Mounts = []dockercli.Mount{{Source: "x", Target: "/x", Relabel: "shared"}} })},
		{0, "volume name", good(func(o *O) { o.Mounts = []dockercli.Mount{{Volume: "/etc", Target: "/x"}} })},
		{0, "volume name", good(func(o *O) { o.Mounts = []dockercli.Mount{{Volume: "a,ro", Target: "/x"}} })},
		{0, "target", good(func(o *O) { o.Mounts = []dockercli.Mount{{Volume: "vv", Target: "x"}} })},
		{0, "tmpfs", good(func(o *O) { o.Tmpfs = []dockercli.Tmpfs{{Target: "/a:b"}} })},
		{0, "tmpfs", good(func(o *O) { o.Tmpfs = []dockercli.Tmpfs{{Target: "/"}} })},
		{0, "by their numbers", good(func(o *O) { o.Tmpfs = []dockercli.Tmpfs{{Target: "/a", UID: "me", GID: "1"}} })},
		{0, "by their numbers", good(func(o *O) { o.Tmpfs = []dockercli.Tmpfs{{Target: "/a", UID: "1"}} })},
		{dockercli.Podman, "gives it to root",
			good(func(o *O) { o.Tmpfs = []dockercli.Tmpfs{{Target: "/a", UID: "1", GID: "1"}} })},
		{0, "absolute", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "dev/null"}} })},
		{0, "nvidia.com/gpu=all", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "/nvidia.com/gpu=all"}} })},
		{0, "colon", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "/dev/null", Target: "/dev/a:b"}} })},
		{0, "device target", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "/dev/null", Target: "x"}} })},
		{0, "permissions", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "/dev/null", Permissions: "rr"}} })},
		{0, "permissions", good(func(o *O) { o.Devices = []dockercli.Device{{Source: "/dev/null", Permissions: "rx"}} })},
		{0, "A,B", good(func(o *O) { o.CapAdd = []string{"A,B"} })},
		{0, "A,B", good(func(o *O) { o.CapDrop = []string{"A,B"} })},
		{0, "core=0,cpu=1", good(func(o *O) { o.Ulimits = []string{"core=0,cpu=1"} })},
		{0, "list", good(func(o *O) { o.Entrypoint = `["sh"]` })},
		{0, "ImageEntrypoint", good(func(o *O) { o.Entrypoint, o.ImageEntrypoint = "sh", true })},
		{0, "--", good(func(o *O) { o.Extra = []string{"--"} })},
		{dockercli.Podman, "2", good(func(o *O) { o.GPUs = "2" })},
	} {
		_, err := (&dockercli.Engine{Kind: c.kind}).RunArgs(c.o)
		assert.Check(t, err != nil, "%+v", c.o)
		assert.Check(t, err == nil || strings.Contains(err.Error(), c.words), "%v lacks %q", err, c.words)
		assert.ErrorIs(t, err, dockercli.ErrArgument)
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	_, err := (&dockercli.Engine{}).RunArgs(dockercli.RunOptions{Name: "-n", Env: []string{"A=1", "B*"},
		Image: "-i", Workdir: "w"})
	for _, words := range []string{`"-n"`, `"A"`, `"B*"`, `"-i"`, `"w"`} {
		assert.ErrorContains(t, err, words)
	}
}

func TestOtherVerbsRefuse(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		e := &dockercli.Engine{Kind: kind}
		refused := func(_ []string, err error) {
			t.Helper()
			assert.Check(t, err != nil)
			assert.ErrorIs(t, err, dockercli.ErrArgument)
		}
		refused(e.KillArgs("KILL", "--all"))
		refused(e.KillArgs("KILL --all", "name"))
		refused(e.KillArgs("", "name"))
		refused(e.RemoveArgs("--all"))
		refused(e.RemoveArgs(""))
		refused(dockercli.InspectArgs(e, "a b"))
		refused(dockercli.ImageArgs(e, "--x"))
		refused(dockercli.PullArgs(e, dockercli.PullOptions{Image: "--x"}))
		refused(dockercli.PSArgs(e, nil))
		refused(dockercli.PSArgs(e, map[string]string{"a": " x"}))
		refused(dockercli.CreateVolumeArgs(e, "/etc", nil))
		refused(dockercli.CreateVolumeArgs(e, "name", map[string]string{"a=b": ""}))
		refused(dockercli.InspectVolumeArgs(e, "--all"))
		refused(dockercli.CreateVolumeArgs(e, "name", map[string]string{"a": "b,c=d"}))
		refused(dockercli.VolumesArgs(e, nil))
		refused(dockercli.VolumesArgs(e, map[string]string{"a": "\"b"}))
		refused(dockercli.RemoveVolumeArgs(e, "-f", "a", "1"))
		refused(dockercli.RemoveVolumeArgs(e, "name", "", "1"))
		refused(dockercli.RemoveVolumeArgs(e, "name", "a,b", "1"))
		refused(dockercli.RemoveVolumeArgs(e, "name", "a", ""))
		refused(dockercli.RemoveVolumeArgs(e, "name", "a", "x*"))
		refused(dockercli.ImportArgs(e, "-", nil))
		refused(e.ExecArgs(dockercli.ExecOptions{Container: "name"}))
		refused(e.ExecArgs(dockercli.ExecOptions{Container: "-n", Command: []string{"true"}}))
		refused(e.ExecArgs(dockercli.ExecOptions{Container: "name", Command: []string{"true"}, Env: []string{"A=1"},
			Workdir: "x"}))
	}
	refusedEvents := func(kind dockercli.Kind, container string) error {
		_, err := dockercli.OOMArgs(&dockercli.Engine{Kind: kind}, container, time.Time{}, time.Unix(0, 0))
		return err
	}
	assert.ErrorIs(t, refusedEvents(dockercli.Docker, "-x"), dockercli.ErrArgument)
	assert.ErrorContains(t, refusedEvents(dockercli.Podman, "name"), "unsupported")
}

func BenchmarkRunArgs(b *testing.B) {
	b.ReportAllocs()
	e, o := &dockercli.Engine{}, everyOption()
	for b.Loop() {
		if _, err := e.RunArgs(o); err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever the options hold, no word of theirs is taken for a flag, for the image or for
// its command.
func FuzzRunArgs(f *testing.F) {
	f.Add("name", "key", "value", "ENV", "/dir", "image", "word")
	f.Add("--x", "a=b", "--", "E*", "-v", "-image", "--rm")
	f.Fuzz(func(t *testing.T, name, key, value, env, dir, image, word string) {
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman, dockercli.Nerdctl} {
			argv, err := (&dockercli.Engine{Kind: kind}).RunArgs(dockercli.RunOptions{
				Name: name, Labels: map[string]string{key: value}, Env: []string{env}, Workdir: dir, Image: image,
				Command:  []string{word},
				Hostname: value, User: value, Entrypoint: value, Memory: value, CapAdd: []string{value},
				SecurityOpt: []string{value}, Runtime: value,
				ExtraHosts: []string{value}, Tmpfs: []dockercli.Tmpfs{{Target: dir}},
				Mounts: []dockercli.Mount{{Source: dir, Target: dir}, {Volume: name, Target: dir}},
			})
			if err != nil {
				assert.ErrorIs(t, err, dockercli.ErrArgument)
				continue
			}
			end := slices.Index(argv, "--")
			assert.DeepEqual(t, argv[end:], []string{"--", image, word})
			for _, flag := range argv[1:end] {
				assert.Assert(t, flag == "run" || strings.HasPrefix(flag, "--"), "%q", flag)
			}
		}
	})
}

// A remote podman client refuses to have no detach keys.
func TestDetachKeysOfARemoteClient(t *testing.T) {
	for _, c := range []struct {
		engine dockercli.Engine
		want   string
	}{
		{dockercli.Engine{Kind: dockercli.Podman}, "--detach-keys="},
		{dockercli.Engine{Kind: dockercli.Podman, Remote: true},
			"--detach-keys=ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^"},
	} {
		run, err := c.engine.RunArgs(dockercli.RunOptions{Image: "image"})
		assert.NilError(t, err)
		assert.Equal(t, run[2], c.want)
		exec, err := c.engine.ExecArgs(dockercli.ExecOptions{Container: "container", Command: []string{"true"}})
		assert.NilError(t, err)
		assert.Equal(t, exec[2], c.want)
	}
}

func TestTmpfsOwner(t *testing.T) {
	argv, err := (&dockercli.Engine{}).RunArgs(dockercli.RunOptions{Image: "image",
		Tmpfs: []dockercli.Tmpfs{{Target: "/a", UID: "1", GID: "2"}}})
	assert.NilError(t, err)
	assert.Assert(t, slices.Contains(argv, "--tmpfs=/a:rw,nosuid,nodev,noexec,mode=1777,uid=1,gid=2"), "%q", argv)
}
