package dockercli_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"gotest.tools/v3/poll"
)

// uniqueName returns a name that no other container has, also of those who test at the
// same time.
func uniqueName() string { return "cofferdam-cli-" + strings.ToLower(rand.Text()[:10]) }

// options returns options for a container that is found if it is left behind.
func options(e enginetest.Engine) dockercli.RunOptions {
	return dockercli.RunOptions{
		Name: uniqueName(), Labels: maps.Clone(e.Labels), Remove: true, Network: "none", Pull: "never",
		LogDriver: "none", Image: e.Image,
	}
}

// runClient runs an argument vector, and returns what it printed and how it ended.
func runClient(t *testing.T, e enginetest.Engine, argv []string) (stdout, stderr string, exit int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = e.Env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	assert.Assert(t, err == nil || errors.As(err, &exited), "%v", err)
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// run runs a container to its end, which has to be a good one, and returns its output.
func run(t *testing.T, e enginetest.Engine, o dockercli.RunOptions) string {
	t.Helper()
	argv, err := e.RunArgs(o)
	assert.NilError(t, err)
	stdout, stderr, exit := runClient(t, e, argv)
	assert.Equal(t, exit, 0, "%s\n%s", dockercli.Explain(argv), stderr)
	return stdout
}

// detached starts a container that sleeps for longer than any test takes, and returns its
// name.
func detached(t *testing.T, e enginetest.Engine, change func(o *dockercli.RunOptions)) string {
	t.Helper()
	o := options(e)
	o.Extra = []string{"--detach"}
	o.Command = []string{"sleep", "1000"}
	if change != nil {
		change(&o)
	}
	run(t, e, o)
	return o.Name
}

// The engine answers what the goldens of a lookup ask.
func TestEngineAnswersTheProbe(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		calls := strings.TrimSpace(string(golden.Get(t, "probe/"+e.Kind.String()+".txt")))
		for call := range strings.SplitSeq(calls, "\n\n") {
			argv := append([]string{e.Path}, e.Global...)
			for line := range strings.SplitSeq(call, "\n") {
				word, err := strconv.Unquote(line)
				assert.NilError(t, err)
				argv = append(argv, word)
			}
			stdout, stderr, exit := runClient(t, e, argv)
			assert.Check(t, exit == 0, "%q: %s", argv, stderr)
			assert.Check(t, strings.TrimSpace(stdout) != "" && !strings.Contains(stdout, "<no value>"), "%q: %s", argv, stdout)
		}
	})
}

// A remote podman client reads the keys that it gets, and passes on what is written.
func TestEngineDetachKeysOfARemoteClient(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		if e.Kind != dockercli.Podman {
			return // docker's client has them with a terminal only
		}
		dir, err := os.MkdirTemp("/tmp", "cofferdam-") // a socket's path is short
		assert.NilError(t, err)
		defer os.RemoveAll(dir)
		socket := filepath.Join(dir, "s")
		var said bytes.Buffer
		service := exec.Command(e.Path,
			slices.Concat(e.Global, []string{"system", "service", "--time=0", "unix://" + socket})...)
		service.Env, service.Stderr, service.WaitDelay = e.Env, &said, time.Second
		assert.NilError(t, service.Start())
		defer service.Wait()
		defer service.Process.Signal(os.Interrupt)
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if _, err := os.Stat(socket); err != nil {
				return poll.Continue("%v", err)
			}
			return poll.Success()
		}, poll.WithTimeout(time.Minute))
		remote, err := dockercli.Lookup(t.Context(), "'"+e.Path+"' --remote --url=unix://"+socket)
		assert.NilError(t, err)
		assert.Assert(t, remote.Remote)
		remote.Env = e.Env
		e.Engine = remote

		// Behind an exec the service keeps a helper for five minutes.
		_, _, err = e.Exec(t.Context(), dockercli.ExecOptions{Container: uniqueName(), Interactive: true,
			Command: []string{"true"}})
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
		o := options(e)
		o.Interactive, o.Command = true, []string{"cat"}
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		// A key is told from other bytes when it comes alone.
		keys := []byte("\x10\x11")
		for c := range 256 {
			keys = append(keys, byte(c))
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = e.Env
		cmd.Stdin = iotest.OneByteReader(bytes.NewReader(keys))
		out, err := cmd.Output()
		assert.NilError(t, err, "%q", argv)
		assert.DeepEqual(t, out, keys)
	})
}

// told returns what the engine says of a container by a template.
func told(t *testing.T, e enginetest.Engine, template, name string) string {
	t.Helper()
	stdout, stderr, exit := runClient(t, e,
		slices.Concat([]string{e.Path}, e.Global, []string{"container", "inspect", "--format=" + template, "--", name}))
	assert.Equal(t, exit, 0, stderr)
	return strings.TrimSpace(stdout)
}

// created turns a run's arguments into those of create, which starts nothing. It has the
// flags of run but for those of its client.
func created(argv []string) []string {
	argv = slices.DeleteFunc(slices.Clone(argv), func(word string) bool { return word == "--detach-keys=" })
	argv[slices.Index(argv, "run")] = "create"
	return argv
}

// Every vector of the goldens is read by the engine's own client, and what it names is
// missing: that is all there is to say of it.
func TestEngineReadsEveryVector(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		own := *e.Engine
		own.Global = append(slices.Clip(own.Global), "--log-level=error")
		e.Engine = &own
		image := "cofferdam.invalid/nothing:" + strings.ToLower(rand.Text())
		for _, c := range argvCases(uniqueName(), image) {
			argv, err := c.build(e.Engine)
			if errors.Is(err, errors.ErrUnsupported) || c.name == "run-every" || c.name == "runtime" && e.Kind == dockercli.Docker {
				continue // of which TestEngineTakesEveryOption makes a container
			}
			assert.NilError(t, err, c.name)
			_, stderr, exit := runClient(t, e, argv)
			switch {
			case c.refusal == nil:
				assert.Check(t, exit == 0, "%s: %s", c.name, stderr)
			case (c.name == "rm" || c.name == "volume-rm") && exit == 0:
				// Some versions have no complaint where nothing is left to remove.
				assert.Check(t, !strings.Contains(stderr, "flag"), stderr)
			default:
				assert.Check(t, exit != 0, c.name)
				assert.Check(t, dockercli.Classify([]byte(stderr)) == c.refusal, "%s: %s", c.name, stderr)
			}
			if strings.HasPrefix(c.name, "import-") && exit == 0 {
				_, stderr, exit := runClient(t, e, slices.Concat([]string{e.Path}, e.Global, []string{"rmi", "--", image}))
				assert.Equal(t, exit, 0, stderr)
			}
			if c.name == "volume-create" && exit == 0 {
				_, stderr, exit := runClient(t, e,
					slices.Concat([]string{e.Path}, e.Global, []string{"volume", "rm", "--", argv[len(argv)-1]}))
				assert.Equal(t, exit, 0, stderr)
			}
		}
	})
}

func TestEngineTakesEveryOption(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		dir := t.TempDir()
		all := everyOption()
		all.Name, all.Image = uniqueName(), e.Image
		all.Detach = false // a container that is only created has no client; see TestEngineExitCode
		maps.Copy(all.Labels, e.Labels)
		for i := range all.Mounts {
			if all.Mounts[i].Volume != "" {
				all.Mounts[i].Volume = newVolume(t, e).Name
				continue
			}
			all.Mounts[i].Source = filepath.Join(dir, filepath.Base(all.Mounts[i].Source))
			assert.NilError(t, os.Mkdir(all.Mounts[i].Source, 0o700))
		}
		if e.Kind == dockercli.Podman {
			all.GPUs = "" // see TestEngineTakesGPUs
			// Podman's own needs a program of the host's, which many hosts lack. Nothing
			// is started here, so any is good enough.
			self, err := os.Executable()
			assert.NilError(t, err)
			all.Extra = append(slices.Clip(all.Extra), "--init-path="+self)
		}
		for _, o := range []dockercli.RunOptions{{Image: e.Image, Name: uniqueName(), Labels: e.Labels,
			Command: []string{"true"}}, all} {
			argv, err := e.RunArgs(o)
			assert.NilError(t, err)
			_, stderr, exit := runClient(t, e, created(argv))
			assert.Equal(t, exit, 0, stderr)
			container, err := e.Inspect(t.Context(), o.Name)
			assert.NilError(t, err)
			assert.Equal(t, container.Name, o.Name)
			assert.Equal(t, container.Status, "created")
			assert.Assert(t, !container.Started)
			for key, value := range o.Labels {
				assert.Equal(t, container.Labels[key], value)
			}
			assert.Equal(t, told(t, e, "{{.HostConfig.Init}}", o.Name) == "true", o.Init)
			assert.NilError(t, e.Remove(t.Context(), o.Name))
		}
	})
}

// Both engines take the names for those of processors, each of which they look for: these
// nobody has.
func TestEngineTakesGPUs(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.GPUs = "device=cofferdam-1,cofferdam-2"
		o.Command = []string{"true"}
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		_, stderr, exit := runClient(t, e, argv)
		assert.Assert(t, exit != 0)
		assert.Assert(t, !strings.Contains(stderr, "invalid argument") && !strings.Contains(stderr, "unknown flag"), stderr)
		if e.Kind == dockercli.Podman {
			assert.Assert(t, strings.Contains(stderr, "CDI"), stderr)
			for _, device := range []string{"nvidia.com/gpu=cofferdam-1", "nvidia.com/gpu=cofferdam-2"} {
				assert.Assert(t, strings.Contains(stderr, device), stderr)
			}
		} else {
			assert.Assert(t, strings.Contains(stderr, "gpu") || strings.Contains(stderr, "nvidia"), stderr)
		}
		assert.NilError(t, e.Remove(t.Context(), o.Name))
	})
}

func TestEngineMountsAnyPath(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		dir := t.TempDir()
		names := []string{"plain", "a,b", "a:b", `"quoted"`, `q"u,o`, "two words", "new\nline", "equal=sign",
			"ümlaut", `back\slash`, "cr\rx", "tab\tx", "'", "$x", "readonly,ro"}
		o := options(e)
		var want strings.Builder
		for i, name := range names {
			source := filepath.Join(dir, name)
			assert.NilError(t, os.Mkdir(source, 0o755))
			assert.NilError(t, os.WriteFile(filepath.Join(source, "file"), []byte(fmt.Sprintf("%q\n", name)), 0o644))
			target := fmt.Sprintf("/mnt/%d/%s", i, name)
			o.Mounts = append(o.Mounts, dockercli.Mount{Source: source, Target: target})
			o.Command = append(o.Command, target+"/file")
			fmt.Fprintf(&want, "%q\n", name)
		}
		o.Command = append([]string{"cat"}, o.Command...)
		assert.Equal(t, run(t, e, o), want.String())
	})
}

func TestEngineMountIsReadOnlyUnlessWritable(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.Mounts = []dockercli.Mount{{Source: t.TempDir(), Target: "/in"},
			{Source: t.TempDir(), Target: "/out", Writable: true}}
		o.Command = []string{"sh", "-c", "touch /in/x 2>/dev/null || echo refused; touch /out/x && echo written"}
		assert.Equal(t, run(t, e, o), "refused\nwritten\n")
	})
}

func TestEngineTmpfs(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.ReadOnly = true
		o.User = "65534:65534"
		o.Tmpfs = []dockercli.Tmpfs{{Target: "/mnt/a", SizeBytes: 1 << 20}, {Target: "/mnt/b", Exec: true}, {Target: "/etc"}}
		// The image has files in /etc, which a tmpfs hides.
		o.Command = []string{"sh", "-c",
			`for d in a b; do printf '#!/bin/sh\necho %s executes\n' $d >/mnt/$d/t; chmod +x /mnt/$d/t; /mnt/$d/t 2>/dev/null; done
			touch /run/x /var/tmp/x 2>/dev/null && echo the root is writable; ls /etc/passwd 2>/dev/null; grep ' /mnt/' /proc/mounts`}
		out := run(t, e, o)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		assert.Equal(t, len(lines), 3, out)
		assert.Equal(t, lines[0], "b executes")
		for _, line := range lines[1:] {
			assert.Assert(t, strings.Contains(line, "nosuid") && strings.Contains(line, "nodev"), line)
			assert.Equal(t, strings.Contains(line, "noexec"), strings.Contains(line, "/mnt/a"), line)
			assert.Equal(t, strings.Contains(line, "size=1024k"), strings.Contains(line, "/mnt/a"), line)
		}
	})
}

func TestEngineKeepsProxiesOut(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		config := t.TempDir()
		assert.NilError(t, os.WriteFile(filepath.Join(config, "config.json"),
			[]byte(`{"proxies":{"default":{"httpProxy":"http://secret.example","httpsProxy":"http://secret.example","noProxy":"secret.example","allProxy":"http://secret.example"}}}`), 0o600))
		own := *e.Engine
		if own.Env == nil {
			own.Env = os.Environ()
		}
		own.Env = append(slices.Clip(own.Env), "http_proxy=http://secret.example")
		if own.Kind == dockercli.Docker {
			own.Env = append(own.Env, "DOCKER_CONFIG="+config)
		}
		e.Engine = &own
		o := options(e)
		o.Command = []string{"env"}
		assert.Assert(t, !strings.Contains(run(t, e, o), "secret"))

		o = options(e)
		o.HTTPProxy = true
		o.Command = []string{"env"}
		assert.Assert(t, strings.Contains(run(t, e, o), "secret"))
	})
}

func TestEnginePassesEnvironmentAndWordsExactly(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		own := *e.Engine
		if own.Env == nil {
			own.Env = os.Environ()
		}
		const value = "a=b \"c\"\n'd',e\\ "
		own.Env = append(slices.Clip(own.Env), "COFFERDAM_TEST_VALUE="+value)
		e.Engine = &own
		o := options(e)
		o.Env = []string{"COFFERDAM_TEST_VALUE"}
		o.Command = []string{"sh", "-c", `printf '%s|' "$COFFERDAM_TEST_VALUE" "$@"`, "sh", "--privileged", "",
			"a\nb", "-e", "X=1", "--"}
		assert.Equal(t, run(t, e, o), value+"|--privileged||a\nb|-e|X=1|--|")
	})
}

func TestEngineInspect(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.Remove = false
		o.Command = []string{"sh", "-c", "exit 7"}
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		_, _, exit := runClient(t, e, argv)
		assert.Equal(t, exit, 7)
		container, err := e.Inspect(t.Context(), o.Name)
		assert.NilError(t, err)
		assert.Equal(t, container.Status, "exited")
		assert.Equal(t, container.ExitCode, 7)
		assert.Assert(t, !container.Running && !container.OOMKilled)
		assert.Assert(t, container.Started, "%v", container)
		image, err := e.InspectImage(t.Context(), e.Image)
		assert.NilError(t, err)
		assert.Equal(t, container.ImageID, image.ID)
		assert.NilError(t, e.Remove(t.Context(), o.Name))
	})
}

func TestEnginePS(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		key, value := "cofferdam.cli", rand.Text()+`,"quoted" a=b`
		name := detached(t, e, func(o *dockercli.RunOptions) { o.Labels[key] = value })
		other := detached(t, e, func(o *dockercli.RunOptions) { o.Labels[key] = value + "x" })
		names, err := e.PS(t.Context(), map[string]string{key: value, "cofferdam-test": ""})
		assert.NilError(t, err)
		assert.DeepEqual(t, names, []string{name})
		assert.NilError(t, e.Remove(t.Context(), name))
		assert.NilError(t, e.Remove(t.Context(), other))
		names, err = e.PS(t.Context(), map[string]string{key: value})
		assert.NilError(t, err)
		assert.Equal(t, len(names), 0)
	})
}

func TestEngineKillAndRemove(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx := t.Context()
		name := detached(t, e, func(o *dockercli.RunOptions) { o.Remove = false })
		assert.NilError(t, e.Kill(ctx, name, "KILL"))
		exit, _, err := e.Exec(ctx, dockercli.ExecOptions{Container: name, Command: []string{"true"}})
		assert.ErrorIs(t, err, dockercli.ErrNotRunning, "%d", exit)
		assert.ErrorIs(t, e.Kill(ctx, name, "KILL"), dockercli.ErrNotRunning)
		assert.NilError(t, e.Remove(ctx, name))
		assert.NilError(t, e.Remove(ctx, name))
		assert.ErrorIs(t, e.Kill(ctx, name, "KILL"), dockercli.ErrNoContainer)
		_, err = e.Inspect(ctx, name)
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)

		// A sleeping first process does not obey TERM, for which podman would wait as
		// long as it is told.
		name = detached(t, e, func(o *dockercli.RunOptions) { o.StopTimeout = 10 * time.Minute })
		bounded, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		assert.NilError(t, e.Remove(bounded, name))
	})
}

// A signal arrives as what it is, in every way to say it.
func TestEngineKillsWithAnySignal(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for signal, number := range map[string]int{"TERM": 15, "SIGINT": 2, "10": 10, "RTMIN+3": 37, "SIGRTMIN+3": 37} {
			name := detached(t, e, func(o *dockercli.RunOptions) {
				o.Remove = false
				o.Command = []string{"sh", "-c",
					fmt.Sprintf("trap 'exit 100' 15 2 10 37; trap 'exit 7' %d; while :; do sleep 0.1; done", number)}
			})
			// Process 1 gets no signal that it has no trap for yet.
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				if err := e.Kill(t.Context(), name, signal); err != nil && !errors.Is(err, dockercli.ErrNotRunning) {
					return poll.Error(err)
				}
				container, err := e.Inspect(t.Context(), name)
				switch {
				case err != nil:
					return poll.Error(err)
				case container.Running:
					return poll.Continue("%s has not come", signal)
				case container.ExitCode != 7:
					return poll.Error(fmt.Errorf("%s: exit code %d", signal, container.ExitCode))
				}
				return poll.Success()
			}, poll.WithTimeout(time.Minute))
			assert.NilError(t, e.Remove(t.Context(), name))
		}
		assert.ErrorContains(t, e.Kill(t.Context(), uniqueName(), "NOSUCH"), "nvalid signal")
	})
}

// The engine removes the container at the same time, because it has ended.
func TestEngineRemovesWhatIsBeingRemoved(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for range 4 {
			name := detached(t, e, nil)
			assert.NilError(t, e.Kill(t.Context(), name, "KILL"))
			assert.NilError(t, e.Remove(t.Context(), name))
			_, err := e.Inspect(t.Context(), name)
			assert.ErrorIs(t, err, dockercli.ErrNoContainer)
		}
	})
}

func TestEngineExec(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx := t.Context()
		name := detached(t, e, nil)
		exit, out, err := e.Exec(ctx,
			dockercli.ExecOptions{Container: name, Command: []string{"sh", "-c", "id -u; exit 5"}, User: "65534"})
		assert.NilError(t, err)
		assert.Equal(t, exit, 5)
		assert.Equal(t, string(out), "65534\n")
		exit, out, err = e.Exec(ctx, dockercli.ExecOptions{Container: name, Command: []string{"echo", "hello"}})
		assert.NilError(t, err)
		assert.Equal(t, exit, 0)
		assert.Equal(t, string(out), "hello\n")
		for _, said := range []string{"dd: Invalid argument", "Error: no such container"} {
			exit, out, err = e.Exec(ctx, dockercli.ExecOptions{Container: name,
				Command: []string{"sh", "-c", "echo \"$0\"; echo \"$0\" >&2; exit 1", said}})
			assert.NilError(t, err)
			assert.Equal(t, exit, 1)
			assert.Equal(t, string(out), said+"\n")
		}
		_, _, err = e.Exec(ctx, dockercli.ExecOptions{Container: name, Command: []string{"cofferdam-no-such-command"}})
		assert.ErrorIs(t, err, dockercli.ErrNoCommand)
		assert.NilError(t, e.Remove(ctx, name))
		_, _, err = e.Exec(ctx, dockercli.ExecOptions{Container: name, Command: []string{"true"}})
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
	})
}

func TestEngineOOM(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.Memory, o.MemorySwap = "16m", "16m"
		o.Command = []string{"sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"}
		// Podman's monitor leaves a file where its client works.
		t.Chdir(t.TempDir())
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		begin := time.Now()
		_, _, exit := runClient(t, e, argv)
		assert.Assert(t, exit != 0)
		killed, err := e.OOMKilled(t.Context(), o.Name, time.Time{})
		if e.Kind == dockercli.Podman {
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			return
		}
		// The engine may tell of the end before it tells of the reason.
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if killed, err = e.OOMKilled(t.Context(), o.Name, begin); err != nil {
				return poll.Error(err)
			}
			if !killed {
				return poll.Continue("no event")
			}
			return poll.Success()
		}, poll.WithTimeout(time.Minute))
		killed, err = e.OOMKilled(t.Context(), o.Name, time.Now())
		assert.NilError(t, err)
		assert.Assert(t, !killed)
		killed, err = e.OOMKilled(t.Context(), uniqueName(), time.Time{})
		assert.NilError(t, err)
		assert.Assert(t, !killed)
	})
}

// The engine tells how a container has ended that is gone.
func TestEngineExitCode(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		o := options(e)
		o.Detach, o.Remove = true, true
		o.Command = []string{"sh", "-c", "exit 96"}
		argv, err := e.RunArgs(o)
		assert.NilError(t, err)
		begin := time.Now()
		_, stderr, exit := runClient(t, e, argv)
		assert.Equal(t, exit, 0, "%s", stderr)
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			switch code, err := e.ExitCode(t.Context(), o.Name, begin); {
			case err != nil:
				return poll.Error(err)
			case code == -1:
				return poll.Continue("no event")
			case code != 96:
				return poll.Error(fmt.Errorf("exit status %d", code))
			}
			return poll.Success()
		}, poll.WithTimeout(time.Minute))
		code, err := e.ExitCode(t.Context(), uniqueName(), begin)
		assert.NilError(t, err)
		assert.Equal(t, code, -1)
	})
}

func TestEngineImport(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx := t.Context()
		path := filepath.Join(t.TempDir(), "root.tar")
		file, err := os.Create(path)
		assert.NilError(t, err)
		defer file.Close()
		w := tar.NewWriter(file)
		assert.NilError(t, w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 1}))
		_, err = w.Write([]byte("x"))
		assert.NilError(t, err)
		assert.NilError(t, w.Close())
		_, err = file.Seek(0, 0)
		assert.NilError(t, err)

		name := "cofferdam-cli-test:" + strings.ToLower(rand.Text())
		_, err = e.InspectImage(ctx, name)
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		err = e.Import(ctx, file, name, `ENTRYPOINT ["/bin/a b", "c\"d"]`, `CMD ["e"]`, "USER 1000")
		assert.NilError(t, err)
		t.Cleanup(func() {
			_, stderr, exit := runClient(t, e, append(append([]string{e.Path}, e.Global...), "rmi", "--", name))
			assert.Equal(t, exit, 0, stderr)
		})
		image, err := e.InspectImage(ctx, name)
		assert.NilError(t, err)
		assert.Assert(t, image.ID != "")
		assert.DeepEqual(t, image.Entrypoint, []string{"/bin/a b", `c"d`})
		assert.DeepEqual(t, image.Command, []string{"e"})
		assert.Equal(t, image.User, "1000")
	})
}

func TestEnginePullFails(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var progress strings.Builder
		err := e.Pull(ctx, dockercli.PullOptions{Image: "cofferdam.invalid/nothing:1", Progress: &progress})
		assert.ErrorIs(t, err, dockercli.ErrPull)
		assert.Assert(t, strings.Contains(progress.String(), "cofferdam.invalid"))
	})
}

func TestEngineInfo(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		info, err := e.Info(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, info.ServerVersion, e.ServerVersion)
		assert.Equal(t, info.Rootless, e.Rootless)
		assert.Assert(t, info.CgroupVersion == "1" || info.CgroupVersion == "2", info.CgroupVersion)
		assert.Assert(t, slices.Contains(info.Runtimes, info.DefaultRuntime))
	})
}

func TestEngineSettings(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		dir := t.TempDir()
		name := detached(t, e, func(o *dockercli.RunOptions) {
			o.Mounts = []dockercli.Mount{{Source: dir, Target: "/in"}}
			o.Tmpfs = []dockercli.Tmpfs{{Target: "/t", SizeBytes: 1 << 20}}
			o.ReadOnly, o.User, o.IPC, o.ShmSize = true, "65534:65534", "private", "16m"
			o.Memory, o.MemorySwap, o.CPUs, o.PidsLimit = "64m", "64m", "0.5", 32
			o.CapDrop, o.SecurityOpt = []string{"ALL"}, []string{"no-new-privileges"}
			o.Ulimits = []string{"nofile=1024:1024", "nproc=1024:1024"}
		})
		s, err := e.InspectSettings(t.Context(), name)
		assert.NilError(t, err)
		assert.Assert(t, s.ImageID != "")
		assert.Equal(t, s.User, "65534:65534")
		assert.Equal(t, s.Network, "none")
		assert.Assert(t, s.ReadOnly && !s.Privileged)
		assert.Assert(t, len(s.CapDrop) > 0 && len(s.CapAdd) == 0)
		assert.DeepEqual(t, s.SecurityOpt, []string{"no-new-privileges"})
		assert.DeepEqual(t, s.Mounts, []dockercli.MountPoint{{Type: "bind", Source: dir, Target: "/in"}})
		assert.Assert(t, strings.Contains(s.Tmpfs["/t"], "size=1048576"), s.Tmpfs["/t"])
		assert.DeepEqual(t, []int64{s.Memory, s.MemorySwap, s.ShmSize, s.NanoCPUs, s.PidsLimit},
			[]int64{64 << 20, 64 << 20, 16 << 20, 5e8, 32})
		assert.Equal(t, len(s.Devices), 0)

		_, err = e.InspectSettings(t.Context(), uniqueName())
		assert.ErrorIs(t, err, dockercli.ErrNoContainer)
		assert.NilError(t, e.Remove(t.Context(), name))
	})
}

func TestEngineComponents(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		parts, err := e.Components(t.Context())
		assert.NilError(t, err)
		t.Log(parts)
		names := map[string]string{}
		for _, c := range parts {
			assert.Check(t, c.Version != "" && !strings.ContainsAny(c.Version, " \n"), "%+v", c)
			names[c.Name] = c.Version
		}
		assert.Equal(t, names[e.Kind.String()], e.ServerVersion)
		assert.Assert(t, names["runc"] != "" || names["crun"] != "")
	})
}

func TestEngineRefusals(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for _, c := range []struct {
			want   error
			change func(o *dockercli.RunOptions)
		}{
			{dockercli.ErrImageMissing, func(o *dockercli.RunOptions) { o.Image = "cofferdam.invalid/nothing:1" }},
			{dockercli.ErrNoCommand, func(o *dockercli.RunOptions) { o.Command = []string{"cofferdam-no-such-command"} }},
			{dockercli.ErrArgument, func(o *dockercli.RunOptions) { o.Extra = []string{"--no-such-flag"} }},
			{dockercli.ErrArgument, func(o *dockercli.RunOptions) { o.Memory = "lots" }},
			{dockercli.ErrArgument, func(o *dockercli.RunOptions) {
				o.Mounts = []dockercli.Mount{{Source: "/cofferdam/nothing", Target: "/x"}}
			}},
			{dockercli.ErrRuntime, func(o *dockercli.RunOptions) { o.Runtime = "cofferdam-nothing" }},
		} {
			o := options(e)
			o.Command = []string{"true"}
			c.change(&o)
			argv, err := e.RunArgs(o)
			assert.NilError(t, err)
			_, stderr, exit := runClient(t, e, argv)
			assert.Assert(t, exit != 0)
			assert.ErrorIs(t, dockercli.NewRunError(argv, exit, []byte(stderr), nil), c.want, "%s", stderr)
			assert.NilError(t, e.Remove(t.Context(), o.Name))
		}
	})
}
