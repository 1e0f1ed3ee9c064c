package dockercli_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"gotest.tools/v3/assert"
)

// withEnv returns the engine with more in its client's environment.
func withEnv(e enginetest.Engine, entries ...string) enginetest.Engine {
	own := *e.Engine
	if own.Env == nil {
		own.Env = os.Environ()
	}
	own.Env = append(slices.Clip(own.Env), entries...)
	e.Engine = &own
	return e
}

// refused runs a container that the engine's client or the engine refuses, and returns
// what it said.
func refused(t *testing.T, e enginetest.Engine, o dockercli.RunOptions) string {
	t.Helper()
	argv, err := e.RunArgs(o)
	assert.NilError(t, err)
	_, stderr, exit := runClient(t, e, argv)
	assert.Assert(t, exit != 0, "%s", dockercli.Explain(argv))
	assert.NilError(t, e.Remove(t.Context(), o.Name))
	return stderr
}

// Docker has no such flags. What they are for on podman is each shown by a test of its
// own.
func TestEngineDockerLacksPodmansFlags(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		for _, flag := range []string{"--systemd=false", "--pid=private", "--sdnotify=ignore", "--no-hosts",
			"--read-only-tmpfs=false"} {
			o := options(e)
			o.Extra = []string{flag}
			o.Command = []string{"true"}
			if e.Kind == dockercli.Docker {
				said := refused(t, e, o)
				assert.ErrorIs(t, dockercli.Classify([]byte(said)), dockercli.ErrArgument, "%s: %s", flag, said)
			} else {
				run(t, e, o)
			}
		}
	})
}

// A command has the same mounts and the same environment, whatever it is called.
func TestEngineCommandCalledSystemd(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		dir := t.TempDir()
		const script = "#!/bin/sh\n{ cut -d' ' -f2,3 /proc/mounts; env | grep -v ^HOSTNAME=; } | sort"
		for _, name := range []string{"systemd", "init", "plain"} {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
		}
		called := func(name string, extra ...string) string {
			o := options(e)
			// Init is told by its whole path.
			o.Mounts = []dockercli.Mount{{Source: dir, Target: "/usr/local/sbin"}}
			o.Command = []string{"/usr/local/sbin/" + name}
			o.Extra = extra
			return run(t, e, o)
		}
		plain := called("plain")
		for _, name := range []string{"systemd", "init"} {
			assert.Equal(t, called(name), plain, name)
			if e.Kind == dockercli.Podman {
				assert.Assert(t, called(name, "--systemd=true") != plain, name)
			}
		}
	})
}

// The socket on which a supervising service is told of the client's state is out of the
// container's reach, and nobody is told anything.
func TestEngineKeepsTheNotificationSocketOut(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		path := filepath.Join(t.TempDir(), "s")
		service, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		assert.NilError(t, err)
		defer service.Close()
		// told returns what has come, which is all in front of a message of its own.
		told := func() (messages []string) {
			self, err := net.Dial("unixgram", path)
			assert.NilError(t, err)
			defer self.Close()
			_, err = self.Write([]byte("end"))
			assert.NilError(t, err)
			for raw := make([]byte, 1000); ; {
				n, err := service.Read(raw)
				assert.NilError(t, err)
				if string(raw[:n]) == "end" {
					return messages
				}
				messages = append(messages, string(raw[:n]))
			}
		}
		e = withEnv(e, "NOTIFY_SOCKET="+path)
		o := options(e)
		o.Command = []string{"sh", "-c", "env; cut -d' ' -f2 /proc/mounts"}
		assert.Assert(t, !strings.Contains(strings.ToLower(run(t, e, o)), "notify"))
		assert.Equal(t, len(told()), 0)
		if e.Kind == dockercli.Podman {
			o.Name = uniqueName()
			o.Extra = []string{"--sdnotify=container"}
			assert.Assert(t, strings.Contains(run(t, e, o), "NOTIFY_SOCKET="))
			assert.Assert(t, len(told()) > 0)
		}
	})
}

// What the host calls other machines is nothing that the container gets to know.
func TestEngineKeepsTheHostsNamesOut(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		const secret = "cofferdam-secret.example"
		if e.Kind == dockercli.Podman {
			e = withEnv(e, "CONTAINERS_CONF="+hostNames(t, e, "192.0.2.7 "+secret+"\n"))
		}
		hosts := func(o dockercli.RunOptions) string {
			o.Command = []string{"sh", "-c", "cat /etc/hosts 2>/dev/null || :"}
			return run(t, e, o)
		}
		theirs, err := os.ReadFile("/etc/hosts")
		assert.NilError(t, err)
		out := hosts(options(e))
		assert.Assert(t, !strings.Contains(out, secret), out)
		for line := range strings.Lines(string(theirs)) {
			if fields := strings.Fields(line); len(fields) > 1 && !strings.Contains(fields[0], ":") &&
				!strings.HasPrefix(fields[0], "127.") && !strings.HasPrefix(line, "#") {
				assert.Assert(t, !strings.Contains(out, fields[1]), out)
			}
		}
		if e.Kind == dockercli.Docker {
			return
		}
		// Without the flag it would; and a run that names hosts can't have it.
		o := options(e)
		o.ExtraHosts = []string{"one.example:192.0.2.1"}
		out = hosts(o)
		assert.Assert(t, strings.Contains(out, "one.example"), out)
		assert.Assert(t, strings.Contains(out, secret), out)
		o = options(e)
		o.ExtraHosts = []string{"one.example:192.0.2.1"}
		o.Extra = []string{"--no-hosts"}
		assert.Assert(t, strings.Contains(refused(t, e, o), "cannot be set together"))
	})
}

// hostNames returns a configuration for podman, which takes the text for the host's
// /etc/hosts, with all that the engine's own says.
func hostNames(t *testing.T, e enginetest.Engine, text string) string {
	t.Helper()
	dir := t.TempDir()
	hosts, conf := filepath.Join(dir, "hosts"), filepath.Join(dir, "containers.conf")
	assert.NilError(t, os.WriteFile(hosts, []byte(text), 0o644))
	own := "[containers]\n"
	for _, entry := range e.Env {
		if path, ok := strings.CutPrefix(entry, "CONTAINERS_CONF="); ok {
			data, err := os.ReadFile(path)
			assert.NilError(t, err)
			own = string(data)
		}
	}
	assert.Assert(t, strings.Contains(own, "[containers]\n"), own)
	own = strings.Replace(own, "[containers]\n", "[containers]\nbase_hosts_file = \""+hosts+"\"\n", 1)
	assert.NilError(t, os.WriteFile(conf, []byte(own), 0o600))
	return conf
}

// Without a network docker shows the host's name servers, which others replace; podman
// shows none and refuses any.
func TestEngineNameServersWithoutANetwork(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		servers := func(dns ...string) string {
			o := options(e)
			o.DNS = dns
			o.Command = []string{"sh", "-c", "grep ^nameserver /etc/resolv.conf 2>/dev/null || :"}
			return run(t, e, o)
		}
		if e.Kind == dockercli.Docker {
			assert.Equal(t, servers("192.0.2.53"), "nameserver 192.0.2.53\n")
			assert.Assert(t, strings.HasPrefix(servers(), "nameserver "))
			return
		}
		assert.Equal(t, servers("192.0.2.53"), "")
		assert.Equal(t, servers(), "")
		o := options(e)
		o.Extra = []string{"--dns=192.0.2.53"}
		assert.Assert(t, strings.Contains(refused(t, e, o), "dns and the network mode"))
	})
}
