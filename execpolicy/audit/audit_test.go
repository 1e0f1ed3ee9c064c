package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/audit"
)

// A record is a line of JSON.
type record map[string]any

// records reads lines, each of which has to be a whole record.
func records(t testing.TB, text string) []record {
	t.Helper()
	var all []record
	for line := range strings.Lines(text) {
		assert.Assert(t, strings.HasSuffix(line, "\n"), "a line is not whole: %q", line)
		var r record
		assert.NilError(t, json.Unmarshal([]byte(line), &r), "%q", line)
		all = append(all, r)
	}
	return all
}

// write returns what the JSON handler makes of events.
func write(t testing.TB, events ...execpolicy.Event) string {
	t.Helper()
	var b bytes.Buffer
	record := audit.To(slog.NewJSONHandler(&b, nil))
	for _, e := range events {
		assert.NilError(t, record(e))
	}
	return b.String()
}

// events are one of each kind, with all that it can have.
func events() []execpolicy.Event {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	const name = "cofferdam-name"
	list := []execpolicy.Event{
		{Kind: execpolicy.EventSpawn, Argv: []string{"docker", "run", "--env=A=***", "--name=" + name, "--",
			"image", "sh", "-c", "a && b"}},
		{Kind: execpolicy.EventStart, Image: "sha256:fa4e", Transport: execpolicy.TransportFIFO, Env: []string{"HOME", "TOKEN"}, Duration: 312 * time.Millisecond},
		{Kind: execpolicy.EventFailed, Error: "the session did not start: no image"},
		{Kind: execpolicy.EventCommand, Op: "startup", Script: "x=1"},
		{Kind: execpolicy.EventResult, Of: 4, Outcome: execpolicy.OutcomeExited, OOMAfter: -1, Duration: time.Millisecond},
		{Kind: execpolicy.EventCommand, Script: "echo <a> & echo \"b\"\n\t'c' \x00\x1b[0m \u2028 \xff é\n", Dir: "/tmp"},
		{Kind: execpolicy.EventResult, Of: 6, Outcome: execpolicy.OutcomeExited, ExitCode: 3, In: 5, Out: 1 << 40,
			OOMBefore: 1, OOMAfter: 2, Duration: 1500 * time.Microsecond,
			Usage: &execpolicy.Usage{CPU: 1250 * time.Microsecond, PeakBefore: 0, PeakAfter: 1 << 40}},
		{Kind: execpolicy.EventCommand, Argv: []string{"cat", "", "a b"}, Env: []string{"CI"}},
		{Kind: execpolicy.EventKill, Escalation: execpolicy.EscalationTerm, Cause: "the deadline has passed"},
		{Kind: execpolicy.EventResult, Of: 8, Outcome: execpolicy.OutcomeTimedOut, ExitCode: -1,
			Escalation: execpolicy.EscalationTerm, Cause: "the deadline has passed", Gone: true, OOMAfter: -1},
		{Kind: execpolicy.EventResult, Of: 8, Outcome: execpolicy.OutcomeSignaled, ExitCode: -1, Signal: 9,
			OOMBefore: -1, OOMAfter: -1, Usage: &execpolicy.Usage{CPU: -1, PeakBefore: -1, PeakAfter: -1}},
		{Kind: execpolicy.EventResult, Of: 8, Error: "the directory can't be entered"},
		{Kind: execpolicy.EventTransfer, Op: "write", Path: "/tmp/a b"},
		{Kind: execpolicy.EventTransferred, Of: 13, In: 2, Duration: time.Second},
		{Kind: execpolicy.EventEnd, Cause: "the session is closed", Gone: true, Duration: time.Minute},
		{Kind: execpolicy.EventEnd, Error: "not known to be gone"},
		{Kind: execpolicy.EventEgress, Target: "pypi.org:443", Addr: "151.101.0.223:443", In: 7, Out: 5, Duration: time.Second},
		{Kind: execpolicy.EventEgress, Target: "evil.example:443", Error: "not a destination"},
		{Kind: execpolicy.EventCommand, Script: strings.Repeat("é", audit.MaxText), Dir: strings.Repeat("d", audit.MaxText)},
		{Kind: execpolicy.EventCommand, Argv: []string{"printf", strings.Repeat("x", audit.MaxText), "more"}},
	}
	for i := range list {
		list[i].Name, list[i].Seq, list[i].Time = name, i+1, at
	}
	return list
}

func TestRecords(t *testing.T) {
	text := write(t, events()...)
	records(t, text)
	// What is this machine's, and what is as long as the bound.
	for i, line := range slices.Collect(strings.Lines(text)) {
		var r struct {
			Host     string
			UID, PID int
		}
		assert.NilError(t, json.Unmarshal([]byte(line), &r))
		who := fmt.Sprintf(`"host":%q,"uid":%d,"pid":%d`, r.Host, r.UID, r.PID)
		assert.Assert(t, strings.Contains(line, who), "line %d: %s", i, line)
		text = strings.Replace(text, who, `"host":"*","uid":0,"pid":1`, 1)
	}
	for _, letter := range []string{"é", "d", "x"} {
		n := audit.MaxText / len(letter)
		if letter == "x" {
			n -= len("printf") + 1
		}
		text = strings.ReplaceAll(text, strings.Repeat(letter, n), fmt.Sprintf("(%s %d times)", letter, n))
	}
	golden.Assert(t, text, "records.jsonl")
}

// A record is one call of Write, so that what shares a file with others stays whole.
func TestOneWriteARecord(t *testing.T) {
	var b bytes.Buffer
	writes := 0
	w := writerFunc(func(p []byte) (int, error) {
		writes++
		return b.Write(p)
	})
	for _, h := range []slog.Handler{slog.NewJSONHandler(w, nil), slog.NewTextHandler(w, nil)} {
		writes = 0
		b.Reset()
		record := audit.To(h)
		for i, e := range events() {
			assert.NilError(t, record(e))
			assert.Equal(t, writes, i+1)
			assert.Equal(t, bytes.Count(b.Bytes(), []byte("\n")), i+1)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (writerFunc) Close() error                  { return nil }

// Who runs it is with the handler, whose level does not matter and whose error is told.
func TestHandler(t *testing.T) {
	var b bytes.Buffer
	full := errors.New("full")
	fails := false
	w := writerFunc(func(p []byte) (int, error) {
		if fails {
			return 0, full
		}
		return b.Write(p)
	})
	h := slog.NewJSONHandler(w,
		&slog.HandlerOptions{Level: slog.LevelError}).WithAttrs([]slog.Attr{slog.String("user", "ada")})
	record := audit.To(h)
	assert.NilError(t, record(execpolicy.Event{Kind: execpolicy.EventKill, Time: time.Now()}))
	r := records(t, b.String())[0]
	assert.Equal(t, r["user"], "ada")
	assert.Equal(t, r["msg"], "kill")
	assert.Equal(t, r["level"], "INFO")
	fails = true
	assert.ErrorIs(t, record(execpolicy.Event{Kind: execpolicy.EventKill}), full)
}

// A text can't get out of its string.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		"", "\n", "a\r\nb", `"}` + "\n" + `{"msg":"end"}`, `\`, `\u000a`, "\u2028\u2029\u0085", "\x00\x7f\xff\xc3",
		"\xed\xa0\x80", "é", "</script>",
		strings.Repeat("é\n", audit.MaxText), strings.Repeat("\xbf", 2*audit.MaxText),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := write(t, execpolicy.Event{
			Kind: execpolicy.EventCommand, Name: text, Op: text, Script: text, Dir: text, Path: text,
			Argv: []string{text, text}, Env: []string{text}, Image: text, Cause: text, Error: text,
		})
		assert.Equal(t, strings.Count(line, "\n"), 1)
		all := records(t, line)
		assert.Equal(t, len(all), 1)
		assert.Equal(t, all[0]["msg"], "command")
		if text == "" {
			return
		}
		head := audit.Cut(text, audit.MaxText)
		assert.Assert(t, strings.HasPrefix(text, head) && len(head) >= audit.MaxText-utf8.UTFMax || head == text)
		for _, key := range []string{"session", "op", "script", "dir", "path", "image", "cause", "error"} {
			if utf8.ValidString(text) {
				assert.Equal(t, all[0][key], head)
			}
			_, more := all[0][key+"_bytes"]
			assert.Equal(t, more, len(head) < len(text))
		}
	})
}

// argv returns the command line by which a policy starts a session, and starts none.
func argv(t *testing.T, p execpolicy.Policy, spec execpolicy.Spec) []string {
	t.Helper()
	var words []string
	refused := errors.New("only looking")
	spec.Audit = func(e execpolicy.Event) error {
		if e.Kind == execpolicy.EventSpawn {
			words = e.Argv
		}
		return refused
	}
	_, err := execpolicy.Start(t.Context(), p, spec)
	assert.ErrorIs(t, err, refused)
	assert.Assert(t, len(words) > 0)
	return words
}

// fakeClient returns the path of a program with the name of an engine's client, which is
// never started.
func fakeClient(t *testing.T, kind dockercli.Kind) string {
	t.Helper()
	harmless, err := exec.LookPath("true")
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), kind.String())
	assert.NilError(t, os.Symlink(harmless, path))
	return path
}

// A change of a policy that the engine is told changes its digest, and nothing else does.
func TestDigest(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		t.Run(kind.String(), func(t *testing.T) {
			one, other := t.TempDir(), t.TempDir()
			for _, dir := range []string{one, other} {
				assert.NilError(t, os.Chmod(dir, 0o777)) // for every user that a policy may name
			}
			client, another := fakeClient(t, kind), fakeClient(t, kind)
			zero := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: client, Kind: kind, MissingLimits: []string{}}}
			of := func(p execpolicy.DockerPolicy, dir string) string {
				return audit.Digest(argv(t, p, execpolicy.Spec{Workspace: dir, Env: map[string]string{"A": "b"}}))
			}
			first := of(zero, one)
			assert.Equal(t, len(first), 32)
			seen := map[string]string{first: "the zero policy"}
			same := func(p execpolicy.DockerPolicy, what string) {
				t.Helper()
				assert.Equal(t, seen[of(p, one)], "the zero policy", what)
			}
			differs := func(d, what string) {
				t.Helper()
				assert.Equal(t, seen[d], "", "%s has the digest of %s", what, seen[d])
				seen[d] = what
			}
			same(zero, "another start")
			differs(of(zero, other), "another workspace")
			differs(of(zero, ""), "no workspace")
			differs(of(execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: another, Kind: kind, MissingLimits: []string{}}}, one), "another engine")
			compat := execpolicy.Compat()
			compat.Engine = zero.Engine
			differs(of(compat, one), "Compat")
			filtered := zero
			filtered.SeccompProfile = `{"defaultAction": "SCMP_ACT_LOG"}`
			differs(of(filtered, one), "another SeccompProfile")

			changed := map[string]func(p *execpolicy.DockerPolicy){
				"Image":              func(p *execpolicy.DockerPolicy) { p.Image = "other" },
				"Platform":           func(p *execpolicy.DockerPolicy) { p.Platform = "linux/s390x" },
				"KeepContainer":      func(p *execpolicy.DockerPolicy) { p.KeepContainer = true },
				"NetworkEnabled":     func(p *execpolicy.DockerPolicy) { p.NetworkEnabled = true },
				"WritableRootfs":     func(p *execpolicy.DockerPolicy) { p.WritableRootfs = true },
				"WorkspaceReadOnly":  func(p *execpolicy.DockerPolicy) { p.WorkspaceReadOnly = true },
				"WorkspaceRelabel":   func(p *execpolicy.DockerPolicy) { p.WorkspaceRelabel = "private" },
				"MemoryBytes":        func(p *execpolicy.DockerPolicy) { p.MemoryBytes = 1 << 30 },
				"CPUs":               func(p *execpolicy.DockerPolicy) { p.CPUs = "2" },
				"CPUShares":          func(p *execpolicy.DockerPolicy) { p.CPUShares = 2048 },
				"PidsLimit":          func(p *execpolicy.DockerPolicy) { p.PidsLimit = 1000 },
				"Tmpfs":              func(p *execpolicy.DockerPolicy) { p.Tmpfs = map[string]int64{"/tmp": 1 << 30} },
				"User":               func(p *execpolicy.DockerPolicy) { p.User = "1:1" },
				"AddCapabilities":    func(p *execpolicy.DockerPolicy) { p.AddCapabilities = []string{"SYS_PTRACE"} },
				"AllowNewPrivileges": func(p *execpolicy.DockerPolicy) { p.AllowNewPrivileges = true },
				"EngineSeccomp":      func(p *execpolicy.DockerPolicy) { p.EngineSeccomp = true },
				"SeccompProfile":     func(p *execpolicy.DockerPolicy) { p.SeccompProfile = `{"defaultAction": "SCMP_ACT_ALLOW"}` },
				"Mounts":             func(p *execpolicy.DockerPolicy) { p.Mounts = []dockercli.Mount{{Source: "/usr", Target: "/mnt"}} },
				"ExtraHosts":         func(p *execpolicy.DockerPolicy) { p.ExtraHosts = []string{"a:192.0.2.1"} },
				"Devices":            func(p *execpolicy.DockerPolicy) { p.Devices = []dockercli.Device{{Source: "/dev/zero"}} },
				"GPUs":               func(p *execpolicy.DockerPolicy) { p.GPUs = "all" },
				"Runtime":            func(p *execpolicy.DockerPolicy) { p.Runtime = "io.containerd.runsc.v1" },
				"ExtraRunArgs":       func(p *execpolicy.DockerPolicy) { p.ExtraRunArgs = []string{"--stop-timeout=1"} },
				"AllowUnsafeArgs": func(p *execpolicy.DockerPolicy) {
					p.ExtraRunArgs, p.AllowUnsafeArgs = []string{"--privileged"}, []string{"privileged"}
				},
			}
			// The library's own limits are no business of the engine.
			unchanged := map[string]func(p *execpolicy.DockerPolicy){
				"Limits":       func(p *execpolicy.DockerPolicy) { p.CommandTimeout, p.Lifetime = time.Hour, time.Minute },
				"Pull":         func(p *execpolicy.DockerPolicy) { p.Pull = dockercli.PullNever },
				"PullTimeout":  func(p *execpolicy.DockerPolicy) { p.PullTimeout = time.Hour },
				"KeepAlive":    func(p *execpolicy.DockerPolicy) { p.KeepAlive = time.Minute },
				"Transport":    func(p *execpolicy.DockerPolicy) { p.Transport = execpolicy.TransportAttach },
				"PullProgress": func(p *execpolicy.DockerPolicy) { p.PullProgress = io.Discard },
				// What it lets pass is missing in the engine that it names.
				"AllowMissingLimits": func(p *execpolicy.DockerPolicy) { p.AllowMissingLimits = true },
				// They decide what may be mounted, and which devices there are, and that
				// shows.
				"ProtectedPaths":     func(p *execpolicy.DockerPolicy) { p.ProtectedPaths = []string{"/srv"} },
				"AllowUnsafeDevices": func(p *execpolicy.DockerPolicy) { p.AllowUnsafeDevices = []string{"/dev/kvm"} },
				"AllowUnsafeMounts":  func(p *execpolicy.DockerPolicy) { p.AllowUnsafeMounts = []string{"/etc"} },
			}
			// An Egress needs an engine that works. Its label, which changes the digest,
			// is in a golden of package execpolicy.
			others := []string{"Engine", "CPUTimeSeconds", "Egress", "compat"}
			for _, field := range reflect.VisibleFields(reflect.TypeFor[execpolicy.DockerPolicy]()) {
				if len(field.Index) > 1 {
					continue // one of Limits
				}
				assert.Check(t, changed[field.Name] != nil || unchanged[field.Name] != nil ||
					slices.Contains(others, field.Name), "%s stands in no list", field.Name)
			}
			for name, change := range changed {
				p := zero
				change(&p)
				differs(of(p, one), name)
			}
			for name, change := range unchanged {
				p := zero
				change(&p)
				same(p, name)
			}
		})
	}
	// What is run can't pose as what is left out.
	assert.Assert(t, audit.Digest([]string{"docker", "--", "i", "--name=a"}) != audit.Digest([]string{"docker",
		"--", "i", "--name=b"}))
	mount := func(source, target string) string {
		return audit.Digest([]string{"docker", "--mount=type=bind,source=" + source + ",target=" + target + ",readonly", "--", "i"})
	}
	assert.Equal(t, mount("/tmp/a/io", "/.cofferdam-io"), mount("/tmp/b/io", "/.cofferdam-io"))
	assert.Assert(t, mount("/tmp/a/io", "/io") != mount("/tmp/b/io", "/io"))
	assert.Assert(t, audit.Digest([]string{"ab", "c"}) != audit.Digest([]string{"a", "bc"}))
}

// The FIFOs of a session are its own, however they are mounted.
func TestDigestOfFIFOs(t *testing.T) {
	for _, mount := range []string{
		"--mount=type=bind,source=%s,target=/.cofferdam-io,readonly",
		"--mount=type=bind,source=%s,target=/.cofferdam-io,readonly,relabel=private",
		"--volume=%s:/.cofferdam-io:ro,Z",
	} {
		of := func(mount, dir string) string {
			return audit.Digest([]string{"docker", "run", fmt.Sprintf(mount, dir), "--", "image"})
		}
		assert.Equal(t, of(mount, "/tmp/one"), of(mount, "/tmp/other"))
		other := strings.Replace(mount, "/.cofferdam-io", "/other", 1)
		assert.Check(t, of(other, "/tmp/one") != of(other, "/tmp/other"))
	}
}

// Two pods of one policy have the same digest, and one of another has another.
func TestDigestOfPods(t *testing.T) {
	pod := func(name string, user int, cpus, label string) string {
		return audit.Digest([]string{"kubectl", "create", "--filename=-", fmt.Sprintf(
			`{"metadata":{"labels":{"cofferdam.name":%[1]q,"cofferdam.created":%[1]q,"mine":%[4]q},"name":%[1]q},`+
				`"spec":{"cpus":%[3]q,"securityContext":{"runAsGroup":%[2]d,"runAsUser":%[2]d}}}`, name, user, cpus, label)})
	}
	const drawn = 0x70000000
	first := pod("a", drawn, "1", "x")
	assert.Equal(t, pod("b", drawn+1, "1", "x"), first)
	for what, other := range map[string]string{
		"another limit": pod("a", drawn, "2", "x"), "another label": pod("a", drawn, "1", "y"),
		"a user that was named": pod("a", 1000, "1", "x"),
	} {
		assert.Check(t, other != first, what)
	}
	assert.Check(t, pod("a", 1000, "1", "x") != pod("a", 1001, "1", "x"))
	// What only looks like a pod counts as it is.
	assert.Check(t, audit.Digest([]string{"echo", "{a"}) != audit.Digest([]string{"echo", "{b"}))
	assert.Check(t, audit.Digest([]string{"run", `{"task":1}`}) != audit.Digest([]string{"run", `{"task":2}`}))
	assert.Check(t, audit.Digest([]string{"{}", "a"}) != audit.Digest([]string{"{}", "b"}))
}
