package dockercli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// A client is what the test binary does when a link of the name docker or podman starts
// it. The link's directory has the client's name.
type client func(verb string, args []string) int

func say(lines ...string) int {
	for _, line := range lines {
		fmt.Println(line)
	}
	return 0
}

func complain(line string, exit int) int {
	fmt.Fprintln(os.Stderr, line)
	return exit
}

func dockerThat(components, host string) client {
	return func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("Docker version 28.2.2, build e6534b4")
		case "version":
			return say("27.1.0 6.1.0-25-amd64", components)
		case "info": // of one without root's rights only
			return say(`cgroup "2"`, "memory true", "cpu false", "pids true")
		case "context":
			if host != "" {
				return say(host)
			}
		}
		return complain("unknown command", 1)
	}
}

// hasImage is a client that has an image, for arm64, once it has pulled it; with always
// also before. Each pull adds a line to the file "pulls" beside the link, and ends when
// there is a file "go" or, as a failure, one called "fail".
func hasImage(always bool) client {
	return func(verb string, args []string) int {
		dir := filepath.Dir(os.Args[0])
		is := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
		switch verb {
		case "pull":
			fmt.Println("pulling")
			file, err := os.OpenFile(filepath.Join(dir, "pulls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return complain(err.Error(), 1)
			}
			fmt.Fprintln(file, strings.Join(args, " "))
			file.Close()
			for !is("go") && !is("fail") {
				time.Sleep(time.Millisecond)
			}
			if is("fail") || os.WriteFile(filepath.Join(dir, "pulled"), nil, 0o600) != nil {
				return complain("no such manifest", 1)
			}
			return 0
		case "image":
			if always || is("pulled") {
				return say(`id "sha256:1"`, `platform "linux" "arm64"`)
			}
			return complain("Error: No such image: "+args[len(args)-1], 1)
		}
		return complain("unknown command", 1)
	}
}

func podmanThat(facts string) client {
	return func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("podman version 5.8.2")
		case "info":
			return say(facts)
		}
		return complain("unknown command", 125)
	}
}

func nerdctlThat(facts string) client {
	return func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("nerdctl version 1.7.7")
		case "info":
			return say(facts)
		}
		return complain(`time="2026-11-26T04:26:26Z" level=fatal msg="unknown subcommand"`, 1)
	}
}

// noting is a client that adds its arguments to a file beside its link, as goldens have
// them.
func noting(c client) client {
	return func(verb string, args []string) int {
		file, err := os.OpenFile(filepath.Join(filepath.Dir(os.Args[0]), "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return complain(err.Error(), 1)
		}
		defer file.Close()
		fmt.Fprintln(file, lines(append([]string{verb}, args...)))
		return c(verb, args)
	}
}

// withSELinux is a client whose engine says that it uses SELinux.
func withSELinux(c client) client {
	return func(verb string, args []string) int {
		if verb == "info" {
			return say(`version "27.1.0"`, `security "name=seccomp,profile=builtin"`, `security "name=selinux"`)
		}
		return c(verb, args)
	}
}

var clients = map[string]client{
	"docker-local":      dockerThat("Engine\ncontainerd", "unix:///var/run/docker.sock"),
	"docker-rootless":   dockerThat("Engine\nrootlesskit", "unix:///run/user/1000/docker.sock"),
	"docker-old-less":   dockerThat("Engine", "unix:///run/user/1000/docker.sock"),
	"docker-ssh":        dockerThat("Engine", "ssh://build.example"),
	"docker-tcp":        dockerThat("Engine", "tcp://192.0.2.1:2376"),
	"docker-windows":    dockerThat("Engine", "npipe:////./pipe/docker_engine"),
	"docker-no-context": dockerThat("Engine", ""),
	"docker-podman":     dockerThat("Podman Engine\nConmon\nEngine", "unix:///run/podman/podman.sock"),
	"docker-podman-less": func(verb string, args []string) int {
		if verb == "info" {
			return say(`cgroup "1"`, "memory true", "cpu true", "pids true")
		}
		return dockerThat("Podman Engine\nEngine", "unix:///run/user/1000/podman/podman.sock")(verb, args)
	},
	"podman-local":    podmanThat("5.8.1 false false 6.1.0-25-amd64"),
	"podman-rootless": podmanThat("5.8.1 false true"),
	"podman-v1":       podmanThat("4.3.1 false true 6.1.0-25-amd64\nv1 "),
	"podman-v2":       podmanThat("5.8.1 false true 6.1.0-25-amd64\nv2 memory pids "),
	"podman-v2-all":   podmanThat("5.8.1 false true 6.1.0-25-amd64\nv2 cpuset cpu io memory pids "),
	"podman-root":     podmanThat("5.8.1 false false 6.1.0-25-amd64\nv1 "),
	"podman-remote":   podmanThat("5.8.1 true false"),
	"podman-babble":   podmanThat("hello"),
	"nerdctl-local":   nerdctlThat("1.6.20~ds1 6.1.0-25-amd64\nname=seccomp,profile=builtin"),
	"nerdctl-rootless": func(verb string, args []string) int {
		if verb == "info" && strings.Contains(args[0], "json") {
			return say(`cgroup "2"`, "memory false", "cpu false", "pids true")
		}
		return nerdctlThat("2.0.1 6.1.0-25-amd64\nname=seccomp,profile=builtin\nname=rootless")(verb, args)
	},
	"nerdctl-babble": nerdctlThat("hello"),
	"babble": func(verb string, _ []string) int {
		return say("")
	},
	"down": func(verb string, _ []string) int {
		if verb == "--version" {
			return say("Docker version 28.2.2, build e6534b4")
		}
		return complain("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", 1)
	},
	"denied": func(verb string, _ []string) int {
		if verb == "--version" {
			return say("Docker version 28.2.2, build e6534b4")
		}
		return complain("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", 1)
	},
	"down-context": func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("Docker version 28.2.2, build e6534b4")
		case "context":
			return say("ci")
		}
		return complain("Cannot connect to the Docker daemon at tcp://u:hush@192.0.2.1:2376. Is the docker daemon running?", 1)
	},
	"denied-late": func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("Docker version 28.2.2, build e6534b4")
		case "version":
			return complain("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", 1)
		}
		<-time.After(time.Hour)
		return 0
	},
	"strange": func(verb string, _ []string) int {
		if verb == "--version" {
			return say("Docker version 28.2.2, build e6534b4")
		}
		return complain("error during connect: Get \"http://docker/version\": EOF", 1)
	},
	"late": func(verb string, _ []string) int {
		switch verb {
		case "--version":
			return say("Docker version 28.2.2, build e6534b4")
		case "context":
			return say("default")
		}
		<-time.After(time.Hour)
		return 0
	},
	"hang": func(verb string, _ []string) int {
		<-time.After(time.Hour)
		return 0
	},
	"global": func(verb string, args []string) int {
		// Only with its two words before the verb it answers.
		if verb != "--context" || len(args) < 2 || args[0] != "c i" {
			return complain("context missing", 1)
		}
		return dockerThat("Engine", "ssh://ci.example")(args[1], args[2:])
	},
	"docker-selinux":     withSELinux(dockerThat("Engine", "unix:///var/run/docker.sock")),
	"docker-far-selinux": withSELinux(dockerThat("Engine", "tcp://192.0.2.1:2376")),
	"podman-noted":       noting(podmanThat("5.8.1 false false")),
	"says": func(string, []string) int {
		fmt.Print(os.Getenv("PRINTED"))
		exit, _ := strconv.Atoi(os.Getenv("EXIT"))
		return complain(os.Getenv("SAID"), exit)
	},
	"nerdctl-noted": noting(nerdctlThat("2.0.1 6.1.0")),
	"docker-noted":  noting(dockerThat("Engine", "unix:///var/run/docker.sock")),
	"pull": func(verb string, _ []string) int {
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return 0
	},
	"image-pulled":  hasImage(false),
	"image-changed": hasImage(true),
	"flood": func(verb string, _ []string) int {
		fmt.Print(strings.Repeat("x", 2<<20))
		exit, _ := strconv.Atoi(os.Getenv("EXIT"))
		return exit
	},
}

func TestMain(m *testing.M) {
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "docker", "podman", "nerdctl":
		client := clients[filepath.Base(filepath.Dir(os.Args[0]))]
		os.Exit(client(os.Args[1], os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or every fake client takes a second to end under -race
	os.Exit(m.Run())
}

// fake returns the path of a link called name that makes the test binary the named
// client.
func fake(t testing.TB, name, client string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		leftout.Skip(t, "links need rights on Windows")
	}
	assert.Assert(t, clients[client] != nil, client)
	self, err := os.Executable()
	assert.NilError(t, err)
	dir := filepath.Join(t.TempDir(), client)
	assert.NilError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, name)
	assert.NilError(t, os.Symlink(self, path))
	return path
}

func TestLookup(t *testing.T) {
	const client, server, kernel = "28.2.2", "27.1.0", "6.1.0-25-amd64"
	const elsewhere = runtime.GOOS != "linux" // where it is a script for a virtual machine
	for _, c := range []struct {
		name, client string
		want         dockercli.Engine
	}{
		{"docker", "docker-local", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel,
			Socket: "/var/run/docker.sock"}},
		{"docker", "docker-rootless", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel,
			Socket: "/run/user/1000/docker.sock", Rootless: true, MissingLimits: []string{"processors"}}},
		{"docker", "docker-old-less", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel,
			Socket: "/run/user/1000/docker.sock", Rootless: true, MissingLimits: []string{"processors"}}},
		{"docker", "docker-ssh", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel, Remote: true}},
		{"docker", "docker-tcp", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel, Remote: true}},
		{"docker", "docker-windows", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel}},
		{"docker", "docker-no-context", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel, Remote: true}},
		{"docker", "docker-podman", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel,
			Socket: "/run/podman/podman.sock", PodmanService: true}},
		{"docker", "docker-podman-less", dockercli.Engine{ClientVersion: client, ServerVersion: server, Kernel: kernel,
			Socket: "/run/user/1000/podman/podman.sock", PodmanService: true, Rootless: true,
			MissingLimits: []string{"memory", "processors", "processes"}}},
		{"podman", "podman-local", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "5.8.1",
			Kernel: kernel}},
		{"podman", "podman-rootless", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2",
			ServerVersion: "5.8.1", Rootless: true}},
		{"podman", "podman-v1", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "4.3.1",
			Kernel: kernel, Rootless: true, MissingLimits: []string{"memory", "processors", "processes"}}},
		{"podman", "podman-v2", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "5.8.1",
			Kernel: kernel, Rootless: true, MissingLimits: []string{"processors"}}},
		{"podman", "podman-v2-all", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "5.8.1",
			Kernel: kernel, Rootless: true}},
		{"podman", "podman-root", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "5.8.1",
			Kernel: kernel}},
		{"podman", "podman-remote", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2",
			ServerVersion: "5.8.1", Remote: true}},
		{"nerdctl", "nerdctl-local", dockercli.Engine{Kind: dockercli.Nerdctl, ClientVersion: "1.7.7", ServerVersion: "1.6.20~ds1",
			Kernel: kernel, Remote: elsewhere}},
		{"docker", "nerdctl-rootless", dockercli.Engine{Kind: dockercli.Nerdctl, ClientVersion: "1.7.7", ServerVersion: "2.0.1",
			Kernel: kernel, Rootless: true, Remote: elsewhere, MissingLimits: []string{"memory", "processors"}}},
		// Podman under docker's name.
		{"docker", "podman-local", dockercli.Engine{Kind: dockercli.Podman, ClientVersion: "5.8.2", ServerVersion: "5.8.1",
			Kernel: kernel}},
	} {
		t.Run(c.name+"-"+c.client, func(t *testing.T) {
			path := fake(t, c.name, c.client)
			e, err := dockercli.Lookup(context.Background(), path)
			assert.NilError(t, err)
			c.want.Path, c.want.Global = path, []string{}
			if c.want.MissingLimits == nil {
				c.want.MissingLimits = []string{} // it is known that none is missing
			}
			assert.DeepEqual(t, *e, c.want)
		})
	}
}

// Only a local engine of a host that has SELinux is asked for it.
func TestLookupAsksForSELinux(t *testing.T) {
	there := filepath.Join(t.TempDir(), "enforce")
	assert.NilError(t, os.WriteFile(there, []byte("1"), 0o600))
	for _, c := range []struct {
		client, file string
		want         bool
	}{
		{"docker-selinux", there, true}, {"docker-selinux", there + "-none", false}, {"docker-far-selinux", there, false},
	} {
		dockercli.SetSELinuxFile(t, c.file)
		e, err := dockercli.Lookup(t.Context(), fake(t, "docker", c.client))
		assert.NilError(t, err)
		assert.Equal(t, e.SELinux, c.want, "%+v", c)
	}
}

func TestProbeArgv(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman, dockercli.Nerdctl} {
		path := fake(t, kind.String(), kind.String()+"-noted")
		_, err := dockercli.Lookup(context.Background(), path)
		assert.NilError(t, err)
		calls, err := os.ReadFile(filepath.Join(filepath.Dir(path), "calls"))
		assert.NilError(t, err)
		golden.Assert(t, string(calls), "probe/"+kind.String()+".txt")
	}
}

func TestLookupWithFlags(t *testing.T) {
	path := fake(t, "docker", "global")
	e, err := dockercli.Lookup(context.Background(), path+` --context 'c i'`)
	assert.NilError(t, err)
	assert.Equal(t, e.Path, path)
	assert.DeepEqual(t, e.Global, []string{"--context", "c i"})
	assert.Assert(t, e.Remote)
}

func TestLookupPathWithSpaces(t *testing.T) {
	path := fake(t, "docker", "docker-local")
	dir := filepath.Join(t.TempDir(), "a b # c")
	assert.NilError(t, os.Mkdir(dir, 0o700))
	assert.NilError(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "docker-local")))
	path = filepath.Join(dir, "docker-local", "docker")
	e, err := dockercli.Lookup(context.Background(), path)
	assert.NilError(t, err)
	assert.Equal(t, e.Path, path)
}

func TestLookupFails(t *testing.T) {
	lookup := func(spec string) error {
		_, err := dockercli.Lookup(context.Background(), spec)
		return err
	}
	for _, spec := range []string{"", "  ", "# docker", "docker # comment", "docker 'open", `docker "open`, `docker \`} {
		assert.ErrorIs(t, lookup(spec), dockercli.ErrArgument, spec)
	}
	assert.ErrorIs(t, lookup(filepath.Join(t.TempDir(), "docker")), dockercli.ErrNoEngine)
	assert.ErrorIs(t, lookup("cofferdam-no-such-program"), dockercli.ErrNoEngine)
	assert.ErrorIs(t, lookup("cofferdam-no-such-program"), exec.ErrNotFound)
	assert.ErrorIs(t, lookup(fake(t, "docker", "down")), dockercli.ErrEngineDown)
	assert.ErrorIs(t, lookup(fake(t, "docker", "babble")), dockercli.ErrEngineDown)
	assert.ErrorIs(t, lookup(fake(t, "nerdctl", "nerdctl-babble")), dockercli.ErrEngineDown)
	assert.ErrorIs(t, lookup(fake(t, "podman", "podman-babble")), dockercli.ErrEngineDown)
}

func TestLookupRefusesTheCurrentDirectory(t *testing.T) {
	path := fake(t, "docker", "docker-local")
	t.Chdir(filepath.Dir(path))
	t.Setenv("PATH", ".")
	_, err := dockercli.Lookup(context.Background(), "docker")
	assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	assert.ErrorIs(t, err, exec.ErrDot)

	e, err := dockercli.Lookup(context.Background(), "./docker")
	assert.NilError(t, err)
	assert.Assert(t, filepath.IsAbs(e.Path))
}

// path sets PATH to the directories of programs.
func path(t *testing.T, programs ...string) {
	t.Helper()
	var dirs []string
	for _, program := range programs {
		dirs = append(dirs, filepath.Dir(program))
	}
	t.Setenv("PATH", strings.Join(dirs, string(os.PathListSeparator)))
}

// unchosen clears what chooses an engine.
func unchosen(t *testing.T) {
	t.Helper()
	for _, name := range []string{dockercli.EngineVar, "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION"} {
		t.Setenv(name, "")
	}
}

// Podman is taken only where docker is certainly of no use.
func TestFind(t *testing.T) {
	unchosen(t)
	docker, podman := fake(t, "docker", "docker-local"), fake(t, "podman", "podman-local")
	path(t, podman, docker)
	e, err := dockercli.Find(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, e.Path, docker)
	assert.Equal(t, e.Kind, dockercli.Docker)
	assert.NilError(t, e.PassedOver)

	for _, c := range []struct {
		name   string
		docker string
		why    error
	}{
		{"missing", "", dockercli.ErrNoEngine},
		{"down", "down", dockercli.ErrEngineDown},
		{"denied", "denied", dockercli.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			if path(t, podman); c.docker != "" {
				path(t, podman, fake(t, "docker", c.docker))
			}
			e, err := dockercli.Find(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, e.Path, podman)
			assert.Equal(t, e.Kind, dockercli.Podman)
			assert.ErrorIs(t, e.PassedOver, c.why)
			assert.Equal(t, e.String(), fmt.Sprintf("podman 5.8.1 (%s), used because docker could not be: %v", podman, e.PassedOver))
		})
	}
}

func TestFindNothing(t *testing.T) {
	unchosen(t)
	t.Setenv("PATH", t.TempDir())
	_, err := dockercli.Find(context.Background())
	assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	assert.ErrorIs(t, err, exec.ErrNotFound)

	path(t, fake(t, "docker", "down"), fake(t, "podman", "podman-babble"))
	_, err = dockercli.Find(context.Background())
	assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	assert.ErrorIs(t, err, dockercli.ErrEngineDown)
	assert.ErrorContains(t, err, "Is the docker daemon running?")
	assert.ErrorContains(t, err, "hello")
}

// What may answer the next time is no reason to take another engine.
func TestFindStaysWithDocker(t *testing.T) {
	unchosen(t)
	for _, c := range []struct {
		docker string
		cause  error
		says   string
	}{
		{"late", context.DeadlineExceeded, "podman is not tried"},
		{"denied-late", context.DeadlineExceeded, "podman is not tried"}, // whether it has a context is not known
		{"strange", dockercli.ErrEngineDown, "EOF"},
		{"babble", dockercli.ErrEngineDown, "podman is not tried"},
		{"down-context", dockercli.ErrEngineDown,
			`docker was chosen by the current context "ci" in the configuration of its client`},
	} {
		t.Run(c.docker, func(t *testing.T) {
			path(t, fake(t, "docker", c.docker), fake(t, "podman", "podman-local"))
			// That is far beyond its patience with one engine.
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := dockercli.Find(ctx)
			assert.ErrorIs(t, err, dockercli.ErrNoEngine)
			assert.ErrorIs(t, err, c.cause)
			assert.ErrorContains(t, err, c.says)
			assert.Assert(t, !strings.Contains(err.Error(), "hush"), "%v", err)
		})
	}
}

// The environment chooses the engine, and says so when that fails.
func TestFindChosen(t *testing.T) {
	const unix = "unix:///nonexistent.sock"
	for _, c := range []struct {
		name, docker, podman string // the clients; none if empty
		variable, value      string
		want                 string // a word of the error, or "" for success
		kind                 dockercli.Kind
	}{
		{"docker-host", "docker-local", "podman-local", "DOCKER_HOST", unix, "", dockercli.Docker},
		{"docker-host-down", "down", "podman-local", "DOCKER_HOST", unix, "docker was chosen by DOCKER_HOST=" + unix, 0},
		{"docker-host-denied", "denied", "podman-local", "DOCKER_HOST", unix, "docker was chosen by DOCKER_HOST=" + unix, 0},
		{"docker-host-missing", "", "podman-local", "DOCKER_HOST", unix, "docker was chosen by DOCKER_HOST=" + unix, 0},
		{"docker-host-secret", "down-context", "podman-local", "DOCKER_HOST", "tcp://u:hush@192.0.2.1:2376",
			"DOCKER_HOST=tcp://u:***@192.0.2.1:2376", 0},
		{"docker-host-bare", "down", "podman-local", "DOCKER_HOST", "u:hush@192.0.2.1", "DOCKER_HOST=u:***@192.0.2.1", 0},
		{"docker-context", "down", "podman-local", "DOCKER_CONTEXT", "ci", "docker was chosen by DOCKER_CONTEXT=ci", 0},
		{"engine", "docker-local", "podman-local", dockercli.EngineVar, "podman", "", dockercli.Podman},
		{"engine-with-flags", "global", "podman-local", dockercli.EngineVar, "docker --context 'c i'", "", dockercli.Docker},
		{"engine-down", "docker-local", "podman-babble", dockercli.EngineVar, "podman", "podman was chosen by COFFERDAM_ENGINE=podman", 0},
		{"engine-missing", "docker-local", "podman-local", dockercli.EngineVar, "ci", `as in "docker --context ci"`, 0},
		{"engine-not-read", "docker-local", "podman-local", dockercli.EngineVar, "docker # tcp://u:hush@h",
			"COFFERDAM_ENGINE=docker # tcp://u:***@h", 0},
		{"engine-blank", "docker-local", "podman-local", dockercli.EngineVar, " ", "it names no program", 0},
		{"container-host", "docker-local", "podman-local", "CONTAINER_HOST", unix, "", dockercli.Podman},
		{"container-connection", "docker-local", "podman-local", "CONTAINER_CONNECTION", "ci", "", dockercli.Podman},
		{"container-host-down", "docker-local", "podman-babble", "CONTAINER_HOST", unix,
			"podman was chosen by CONTAINER_HOST=" + unix, 0},
		{"container-host-missing", "docker-local", "", "CONTAINER_HOST", unix,
			"podman was chosen by CONTAINER_HOST=" + unix, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			unchosen(t)
			t.Setenv(c.variable, c.value)
			programs := []string{filepath.Join(t.TempDir(), "none")}
			if c.docker != "" {
				programs = append(programs, fake(t, "docker", c.docker))
			}
			if c.podman != "" {
				programs = append(programs, fake(t, "podman", c.podman))
			}
			path(t, programs...)
			e, err := dockercli.Find(context.Background())
			if c.want == "" {
				assert.NilError(t, err)
				assert.Equal(t, e.Kind, c.kind)
				assert.NilError(t, e.PassedOver)
				assert.Equal(t, e.ChosenBy, c.variable+"="+c.value)
				return
			}
			assert.ErrorIs(t, err, dockercli.ErrNoEngine)
			assert.ErrorContains(t, err, c.want)
			assert.Assert(t, !strings.Contains(err.Error(), "hush"), "%v", err)
		})
	}
}

// A path chooses too, and COFFERDAM_ENGINE comes before what the clients read.
func TestFindChosenByPath(t *testing.T) {
	unchosen(t)
	podman := fake(t, "podman", "podman-local")
	path(t, fake(t, "docker", "docker-local"))
	t.Setenv("DOCKER_HOST", "unix:///nonexistent.sock")
	t.Setenv(dockercli.EngineVar, podman)
	e, err := dockercli.Find(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, e.Path, podman)
	assert.Equal(t, e.String(), fmt.Sprintf("podman 5.8.1 (%s), chosen by COFFERDAM_ENGINE=%[1]s", podman))
}

func TestEngineString(t *testing.T) {
	for _, c := range []struct {
		engine dockercli.Engine
		want   string
	}{
		{dockercli.Engine{}, "docker (docker)"},
		{dockercli.Engine{Kind: dockercli.Podman, ServerVersion: "4.3.1"}, "podman 4.3.1 (podman)"},
		{dockercli.Engine{Path: "/a b/docker", Global: []string{"-H", "tcp://u:hush@h"}, ServerVersion: "28.2.2"},
			"docker 28.2.2 ('/a b/docker' -H tcp://u:***@h)"},
		{dockercli.Engine{PodmanService: true, ServerVersion: "5.0.0"}, "podman's service 5.0.0 (docker)"},
	} {
		assert.Equal(t, c.engine.String(), c.want)
	}
}

func TestHidePasswords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"docker":                            "docker",
		"a:b@c":                             "a:b@c",
		"tcp://host:1":                      "tcp://host:1",
		"ssh://me@host":                     "ssh://me@host",
		"ssh://me:pw@host/x":                "ssh://me:***@host/x",
		"ssh://me:p@w@host":                 "ssh://me:***@host",
		"at tcp://u:pw@h. Is http://v:w@x?": "at tcp://u:***@h. Is http://v:***@x?",
		`"http://u:pw@h/a@b:c@d"`:           `"http://u:***@h/a@b:c@d"`,
		"://:@":                             "://:***@",
	} {
		assert.Equal(t, dockercli.HidePasswords(text), want)
	}
}

// An error of the client's shows no half of a password either.
func TestRunErrorIsCutBetweenWords(t *testing.T) {
	const url = "tcp://user:hush@192.0.2.1"
	for i := range 2 * len(url) {
		for _, at := range []int{2<<10 - i, 8<<10 + i} {
			text := bytes.Repeat([]byte("x\n"), 5<<10)
			copy(text[at:], url)
			err := dockercli.NewRunError([]string{"docker", "run"}, 1, text, nil)
			assert.Assert(t, !strings.Contains(err.Stderr, "hu") && !strings.Contains(err.Stderr, "sh@"), "%d: %q", at,
				err.Stderr)
			assert.Assert(t, len(err.Stderr) > 3<<10)
		}
	}
}

func TestHidePassword(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://host:1":                     "tcp://host:1",
		"ssh://me@host":                    "ssh://me@host",
		"tcp://u:pa/hush@192.0.2.1:2376":   "tcp://u:***@192.0.2.1:2376",
		"tcp://u:p#a?h u@sh@192.0.2.1":     "tcp://u:***@192.0.2.1",
		"unix:///run/user/1/docker.sock":   "unix:///run/user/1/docker.sock",
		"tcp://:@h":                        "tcp://:***@h",
		"npipe:////./pipe/docker_engine":   "npipe:////./pipe/docker_engine",
		"ssh://me:pw@host/run/engine.sock": "ssh://me:***@host/run/engine.sock",
	} {
		assert.Equal(t, dockercli.HidePassword(text), want)
	}
}

func FuzzHidePasswords(f *testing.F) {
	f.Add("at tcp://u:pw@h. Is it?", "hush")
	f.Add("://://", "@")
	f.Fuzz(func(t *testing.T, text, password string) {
		hidden := dockercli.HidePasswords(text)
		assert.Equal(t, dockercli.HidePasswords(hidden), hidden)
		if !strings.ContainsAny(password, "/?#\"' \t\r\n") {
			got := dockercli.HidePasswords(text + " tcp://user:" + password + "@host")
			assert.Equal(t, got, dockercli.HidePasswords(text+" ")+"tcp://user:***@host")
		}
	})
}

func TestContextEndsALookup(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := dockercli.Lookup(ctx, fake(t, "docker", "hang"))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorIs(t, err, dockercli.ErrEngineDown)
	var failed *dockercli.Error
	assert.Assert(t, errors.As(err, &failed))
	assert.Equal(t, failed.ExitCode, -1)
}

func TestResolve(t *testing.T) {
	docker := fake(t, "docker", "docker-local")
	path(t, docker)
	zero := dockercli.Engine{}
	e, err := zero.Resolve()
	assert.NilError(t, err)
	assert.Equal(t, e.Path, docker)
	assert.Equal(t, zero.Path, "")
	_, err = (&dockercli.Engine{Kind: dockercli.Podman}).Resolve()
	assert.ErrorIs(t, err, dockercli.ErrNoEngine)
}

func TestOutputIsBounded(t *testing.T) {
	_, err := (&dockercli.Engine{Path: fake(t, "docker", "flood")}).InspectImage(context.Background(), "image")
	assert.ErrorContains(t, err, "more than")
	// An exec's exit code makes no difference.
	for _, exit := range []string{"0", "1"} {
		t.Setenv("EXIT", exit)
		_, _, err := (&dockercli.Engine{Path: fake(t, "docker", "flood")}).Exec(context.Background(),
			dockercli.ExecOptions{Container: "name", Command: []string{"true"}})
		assert.ErrorContains(t, err, "more than")
	}
}

func TestPullProgress(t *testing.T) {
	var progress strings.Builder
	err := (&dockercli.Engine{Path: fake(t, "docker", "pull")}).Pull(context.Background(),
		dockercli.PullOptions{Image: "image", Progress: &progress})
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(progress.String(), "to stdout\n"))
	assert.Assert(t, strings.Contains(progress.String(), "to stderr\n"))
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"docker", "docker --context 'c i'", "docker # x", `docker "a#b" c#d`, "'", `\`,
		"docker\n--x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		words, err := dockercli.Split(spec)
		if err != nil {
			assert.ErrorIs(t, err, dockercli.ErrArgument)
			return
		}
		assert.Assert(t, len(words) > 0)
		// Nothing was dropped: every "#" is in a word.
		assert.Equal(t, strings.Count(strings.Join(words, ""), "#"), strings.Count(spec, "#"))
	})
}
