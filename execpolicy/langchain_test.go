package execpolicy_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// refused starts what must be refused before anything is started, by an engine that isn't
// there.
func refused(t *testing.T, policy execpolicy.DockerPolicy, spec execpolicy.Spec, want ...string) {
	t.Helper()
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{})
	policy.Engine = e.Engine
	_, err := execpolicy.Start(t.Context(), policy, spec)
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, text := range want {
		assert.ErrorContains(t, err, text)
	}
	assert.Equal(t, len(e.Calls()), 0)
}

func hostRefused(t *testing.T, policy execpolicy.HostPolicy, want ...string) {
	t.Helper()
	_, err := execpolicy.Start(t.Context(), policy, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, text := range want {
		assert.ErrorContains(t, err, text)
	}
}

// setAny gives a field of a policy a value that is not its zero value.
func setAny(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(64)
	case reflect.String:
		field.SetString("x")
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
	case reflect.Interface:
		field.Set(reflect.ValueOf(anEgress{}))
	default:
		t.Fatalf("no value is known for a field of the type %v", field.Type())
	}
}

// langchainCases are those of the list that need no container.
var langchainCases = []struct {
	name string
	do   func(t *testing.T)
}{
	{"3.1.1 D38 values of a host policy", func(t *testing.T) {
		hostRefused(t, execpolicy.HostPolicy{CPUTimeSeconds: -1}, "CPUTimeSeconds is -1: it must not be negative")
		hostRefused(t, execpolicy.HostPolicy{MemoryBytes: -1}, "MemoryBytes is -1: it has to be at least 1024")
		hostRefused(t, execpolicy.HostPolicy{MemoryBytes: -1, CPUTimeSeconds: -1}, "CPUTimeSeconds is -1",
			"MemoryBytes is -1")
	}},
	{"3.1.14 argument list with limits", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.Image, policy.MemoryBytes = "ubuntu:22.04", 4096
		policy.ExtraRunArgs, policy.AllowUnsafeArgs = []string{"--ipc", "host"}, []string{"ipc"}
		dir := t.TempDir()
		argv, err := policy.Argv(&dockercli.Engine{Path: "/usr/bin/docker"}, execpolicy.Spec{
			Workspace: dir, Env: map[string]string{"PATH": "/bin"}, Command: []string{"/bin/bash"}}, "cofferdam-name")
		assert.NilError(t, err)
		assert.DeepEqual(t, argv[:3], []string{"/usr/bin/docker", "run", "-i"})
		assert.DeepEqual(t, argv[slices.Index(argv, "--rm"):],
			[]string{"--rm", "--network", "none", "--memory", "4096", "-v", dir + ":" + dir, "-w", dir,
				"-e", "PATH=/bin", "--ipc", "host", "ubuntu:22.04", "/bin/bash"})
	}},
	{"3.1.15 cpu_time_seconds", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.CPUTimeSeconds = 1
		refused(t, policy, execpolicy.Spec{},
			"DockerExecutionPolicy does not support cpu_time_seconds; configure CPU limits using Docker run options "+
				"such as '--cpus'.")
		refused(t, execpolicy.DockerPolicy{CPUTimeSeconds: 7}, execpolicy.Spec{},
			`CPUTimeSeconds is 7: a container has no such limit; ExtraRunArgs with "--ulimit=cpu=7" limits each process`)
	}},
	{"3.1.16 memory_bytes", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.MemoryBytes = -1
		refused(t, policy, execpolicy.Spec{}, "memory_bytes must be positive if provided.")
		refused(t, execpolicy.DockerPolicy{MemoryBytes: -1}, execpolicy.Spec{}, "MemoryBytes is -1: it must not be negative")
	}},
	{"3.1.17 a temporary workspace is not mounted", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.CPUs = "1.5"
		argv, err := policy.Argv(&dockercli.Engine{Path: "/usr/bin/docker"}, execpolicy.Spec{
			Workspace: filepath.Join(t.TempDir(), "langchain-shell-case"), Command: []string{"/bin/sh"}}, "cofferdam-name")
		assert.NilError(t, err)
		assert.DeepEqual(t, argv[slices.Index(argv, "--rm"):],
			[]string{"--rm", "--network", "none", "-w", "/", "--cpus", "1.5", execpolicy.DefaultImage, "/bin/sh"})
	}},
	{"3.1.18 cpus", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.CPUs = "  "
		refused(t, policy, execpolicy.Spec{}, "cpus must be a non-empty string when provided.")
		refused(t, execpolicy.DockerPolicy{CPUs: "  "}, execpolicy.Spec{},
			`CPUs is "  ": it has to be a decimal number from 0.01 to 999999`)
		for _, cpus := range []string{"0", "0.00", "0.009", ".", "1.2.3", "-1", "+1", "1e3", "0x1", " 1", "1 ",
			"inf", "NaN", "1000000", "1_0", "٣"} {
			refused(t, execpolicy.DockerPolicy{CPUs: cpus}, execpolicy.Spec{},
				"it has to be a decimal number from 0.01 to 999999")
		}
		for _, cpus := range []string{"0.01", ".5", "2", "2.", "1.50", "007", "999999.999"} {
			_, err := execpolicy.DockerPolicy{CPUs: cpus}.Argv(&dockercli.Engine{Kind: dockercli.Docker, Path: "docker"},
				execpolicy.Spec{}, "name")
			assert.NilError(t, err, cpus)
		}
	}},
	{"3.1.19 user", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.User = "  "
		refused(t, policy, execpolicy.Spec{}, "user must be a non-empty string when provided.")
		refused(t, execpolicy.DockerPolicy{User: "  "}, execpolicy.Spec{}, `User is "  ": it has to be a name or a number`)
	}},
	{"3.1.20 read_only_rootfs and user", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.WritableRootfs, policy.User = false, "1000:1000"
		argv, err := policy.Argv(&dockercli.Engine{Path: "/usr/bin/docker"}, execpolicy.Spec{}, "cofferdam-name")
		assert.NilError(t, err)
		assert.Assert(t, slices.Contains(argv, "--read-only"))
		assert.Equal(t, argv[slices.Index(argv, "--user")+1], "1000:1000")
	}},
	{"3.1.21 D37 D40 an engine that is missing", func(t *testing.T) {
		_, err := execpolicy.Start(t.Context(),
			execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "no-such-docker"}}, execpolicy.Spec{})
		assert.ErrorIs(t, err, dockercli.ErrNoEngine)
		t.Setenv("PATH", t.TempDir())
		_, err = execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: &dockercli.Engine{}}, execpolicy.Spec{})
		assert.ErrorIs(t, err, dockercli.ErrNoEngine)
	}},
	{"3.2.10 environment names", func(t *testing.T) {
		refused(t, execpolicy.DockerPolicy{},
			execpolicy.Spec{Env: map[string]string{"1A": "", "A-B": "", "": "", "OK": "\x00"}},
			`"1A" is not the name`, `"A-B" is not the name`, `"" is not the name`, "the value of OK holds a NUL byte")
	}},
	{"D8 the image's entry point is replaced", func(t *testing.T) {
		for _, policy := range []execpolicy.DockerPolicy{{}, execpolicy.Compat()} {
			argv, err := policy.Argv(&dockercli.Engine{}, execpolicy.Spec{}, "cofferdam-name")
			assert.NilError(t, err)
			assert.Assert(t, slices.Contains(argv, "--entrypoint="))
		}
	}},
	{"3.4.23 D35 images that are options", func(t *testing.T) {
		for _, image := range []string{"-x", "--privileged", " ", "a\x00b"} {
			refused(t, execpolicy.DockerPolicy{Image: image}, execpolicy.Spec{})
		}
	}},
	{"D34 extra arguments that weaken", func(t *testing.T) {
		for _, arg := range []string{"--privileged", "--network=host", "--pid=host", "--cap-add=ALL", "-v=/:/host"} {
			refused(t, execpolicy.DockerPolicy{ExtraRunArgs: []string{arg}}, execpolicy.Spec{})
			compat := execpolicy.Compat()
			compat.ExtraRunArgs = []string{arg}
			refused(t, compat, execpolicy.Spec{})
		}
	}},
	{"D38 every problem at once", func(t *testing.T) {
		refused(t, execpolicy.DockerPolicy{
			Image: "-x", MemoryBytes: 1, CPUTimeSeconds: 1, CPUs: "-1", User: " ", CPUShares: 1, PidsLimit: 1,
			Tmpfs:           map[string]int64{"/a": -1, "/.cofferdam/x": 1},
			Mounts:          []dockercli.Mount{{Source: "/", Target: "/.cofferdam"}},
			AddCapabilities: []string{" "}, ExtraRunArgs: []string{"--privileged"}, AllowUnsafeArgs: []string{"nonsense"},
		}, execpolicy.Spec{Labels: map[string]string{"cofferdam.pid": "1"}, Workspace: "/no/such/directory"},
			"MemoryBytes is 1", "CPUTimeSeconds", `CPUs is "-1"`, `User is " "`, "CPUShares is 1", "PidsLimit is 1",
			`the size of the tmpfs "/a"`, `the tmpfs "/.cofferdam/x"`, `the mount on "/.cofferdam"`, "AddCapabilities",
			"ExtraRunArgs[0]", `"nonsense"`,
			`the label "cofferdam.pid"`, "the workspace can't be used")
	}},
	{"D38 fields that Compat does not have", func(t *testing.T) {
		policy := execpolicy.Compat()
		policy.PidsLimit, policy.GPUs, policy.Tmpfs = 64, "all", map[string]int64{"/a": 1}
		policy.WorkspaceReadOnly, policy.Runtime, policy.CPUShares, policy.Platform = true, "runsc", 2, "linux/amd64"
		policy.WorkspaceRelabel = "private"
		policy.AddCapabilities, policy.AllowNewPrivileges = []string{"CHOWN"}, true
		policy.Mounts, policy.ExtraHosts = []dockercli.Mount{{Source: "/a", Target: "/b"}}, []string{"a:1.1.1.1"}
		var want []string
		for _, name := range []string{"PidsLimit", "GPUs", "Tmpfs", "WorkspaceReadOnly", "WorkspaceRelabel", "Runtime", "CPUShares", "Platform",
			"AddCapabilities", "AllowNewPrivileges", "Mounts", "ExtraHosts"} {
			want = append(want, name+" is not among the fields of LangChain's policy")
		}
		refused(t, policy, execpolicy.Spec{}, want...)
	}},
	{"D38 every field is LangChain's, or is refused under Compat, or has a reason", func(t *testing.T) {
		reasons := map[string]string{
			"Limits":             "the library keeps them, whatever the engine is told",
			"EngineSeccomp":      "it is refused where it is false",
			"AllowMissingLimits": "it is about MemoryBytes and CPUs",
			"AllowUnsafeArgs":    "it is about ExtraRunArgs",
			"AllowUnsafeDevices": "it is about Devices",
			"AllowUnsafeMounts":  "it is about the workspace", "ProtectedPaths": "it is about the workspace",
			"Pull": "it is about the image", "PullTimeout": "it is about the image", "PullProgress": "it is about the image",
			"KeepAlive": "the library keeps it, whatever the engine is told",
			"Transport": "TransportAttach is what it has, and TransportFIFO is refused",
		}
		langChains, err := os.ReadFile("compat.go") // the table in Compat's documentation
		assert.NilError(t, err)
		for _, field := range reflect.VisibleFields(reflect.TypeFor[execpolicy.DockerPolicy]()) {
			row := regexp.MustCompile(`(?m)^//\t[a-z_]+ +` + field.Name + `(,|$)`)
			if len(field.Index) > 1 || !field.IsExported() || reasons[field.Name] != "" || row.Match(langChains) {
				continue
			}
			policy := execpolicy.Compat()
			setAny(t, reflect.ValueOf(&policy).Elem().FieldByIndex(field.Index))
			_, err := policy.Argv(&dockercli.Engine{Path: "docker"}, execpolicy.Spec{}, "cofferdam-name")
			assert.Check(t, errors.Is(err, execpolicy.ErrInvalid) && strings.Contains(err.Error(),
				field.Name+" is not among the fields of LangChain's policy"), "%s: %v", field.Name, err)
		}
	}},
	{"3.4.22 D30 what -v can't mount", func(t *testing.T) {
		colon := filepath.Join(t.TempDir(), "a:b")
		assert.NilError(t, os.Mkdir(colon, 0o755))
		refused(t, execpolicy.Compat(), execpolicy.Spec{Workspace: colon}, "colon")
		refused(t, execpolicy.Compat(), execpolicy.Spec{Workspace: "testdata"}, "absolute path")
	}},
	{"D30 a workspace on another machine", func(t *testing.T) {
		_, err := execpolicy.Start(t.Context(),
			execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true", Remote: true}},
			execpolicy.Spec{Workspace: t.TempDir()})
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "another machine")
	}},
	{"D32 variables that would direct the client", func(t *testing.T) {
		for _, name := range []string{"PATH", "DOCKER_HOST", "HTTP_PROXY", "LD_PRELOAD", "CONTAINER_HOST"} {
			_, err := execpolicy.DockerPolicy{}.Argv(&dockercli.Engine{},
				execpolicy.Spec{Env: map[string]string{name: "x"}}, "cofferdam-name")
			assert.ErrorIs(t, err, execpolicy.ErrInvalid, name)
		}
	}},
	{"names of outcomes and steps", func(t *testing.T) {
		assert.Equal(t, execpolicy.Outcome(0).String(), "unknown")
		assert.Equal(t, execpolicy.OutcomeSessionLost.String(), "session lost")
		assert.Equal(t, execpolicy.Outcome(99).String(), "unknown")
		assert.Equal(t, execpolicy.Escalation(0).String(), "none")
		assert.Equal(t, execpolicy.EscalationContainer.String(), "container")
		assert.Equal(t, execpolicy.Escalation(-1).String(), "unknown")
	}},
	{"D5 an engine that fails says why", func(t *testing.T) {
		for words, class := range map[string]error{
			"docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n": dockercli.ErrEngineDown,
			"docker: Error response from daemon: No such image: x:1\n":                                                    dockercli.ErrImageMissing,
		} {
			e := fakeengine.New(t, dockercli.Docker,
				fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": {Exit: 125, Stderr: words}}})
			_, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e.Engine, Pull: dockercli.PullNever},
				execpolicy.Spec{})
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, class)
		}
	}},
	{"D5 what an engine says before the session is no command's output", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			e := fakeengine.New(t, kind, fakeengine.Faults{ImageMissing: true, Warning: "WARNING: No swap limit support"})
			var progress strings.Builder
			s := open(t, execpolicy.DockerPolicy{Engine: e.Engine, PullProgress: &progress}, execpolicy.Spec{})
			r := s.script("echo out; echo err >&2")
			assert.Equal(t, string(r.Stdout), "out\n")
			assert.Equal(t, string(r.Stderr), "err\n")
			assert.Equal(t, r.BackgroundBytes, int64(0))
			assert.Assert(t, strings.Contains(progress.String(), execpolicy.DefaultImage), progress.String())
			assert.NilError(t, s.Close())
		}
	}},
	{"D36 an image that is missing is pulled once", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true})
		s, err := execpolicy.Start(t.Context(), execpolicy.DockerPolicy{Engine: e.Engine}, execpolicy.Spec{})
		assert.NilError(t, err)
		assert.NilError(t, s.Close())
		var verbs []string
		for _, call := range e.Calls() {
			if call[0] == "run" || call[0] == "pull" {
				verbs = append(verbs, call[0])
			}
		}
		assert.DeepEqual(t, verbs, []string{"run", "pull", "run"})
	}},
}

func TestConformanceWithoutContainers(t *testing.T) {
	for _, c := range langchainCases {
		t.Run(c.name, c.do)
	}
}

// leftOut are the cases of the list that have none here, with the reason.
var leftOut = map[string]string{
	"3.1.2": "a host policy needs Linux, and says so",
	"3.1.3": "TestHost: limits are set by the command's own shell, before it starts",
	"3.1.4": "a host policy needs Linux", "3.1.5": "a command always has a process group of its own",
	"3.1.6": "there is always a limit on address space on Linux",
	"3.1.7": "no Codex policy", "3.1.8": "no Codex policy", "3.1.9": "no Codex policy", "3.1.10": "no Codex policy",
	"3.1.11": "no Codex policy", "3.1.12": "no Codex policy", "3.1.13": "no Codex policy",
	"3.2.5": "TestFilter", "3.2.7": "nothing rests on a finalizer: TestSIGKILL",
	"3.2.8": "Restart is a method, so no input can name both", "3.2.9": "an empty Command is the default",
	"3.2.21": "the types are fixed", "3.2.22": "there is one way to call", "3.2.23": "there is one way to call",
	"3.2.25": "a session is a value", "3.2.26": "a session is a value",
	"3.2.27": "a group is always the command's own: TestHost, and the tests of procgroup", "3.2.28": "as 3.2.27",
	"3.2.29": "as 3.2.27",
	"3.2.30": "as 3.2.27", "3.2.31": "as 3.2.27", "3.2.32": "as 3.2.27", "3.2.33": "as 3.2.27",
	"3.2.34": "no checkpointer",
	"3.3.8":  "a negative timeout is none, and zero the default",
	"D29":    "TestFilter", "D39": "TestHost",
}

// caseID matches the identifier of a case in testdata/cases.txt.
var caseID = regexp.MustCompile(`\b(3\.\d\.\d+|D\d+)\b`)

// idsOf returns the identifiers that a case's name begins with.
func idsOf(name string) []string {
	words := strings.Fields(name)
	n := slices.IndexFunc(words, func(word string) bool { return caseID.FindString(word) != word })
	if n < 0 {
		n = len(words)
	}
	return words[:n]
}

// listedCases returns the identifiers in testdata/cases.txt.
func listedCases(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.txt")
	assert.NilError(t, err)
	var ids []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, what, _ := strings.Cut(line, " ")
		assert.Check(t, caseID.FindString(id) == id && strings.TrimSpace(what) != "", line)
		assert.Check(t, !slices.Contains(ids, id), "%s comes twice", id)
		ids = append(ids, id)
	}
	return ids
}

// Every case of the list has one here, or a reason, and only those do.
func TestConformanceIsComplete(t *testing.T) {
	var names []string
	for _, c := range slices.Concat(protocolCases, outputCases, limitCases, commandCases, killCases) {
		names = append(names, c.name)
	}
	for _, c := range sessionCases {
		names = append(names, c.name)
	}
	for _, c := range langchainCases {
		names = append(names, c.name)
	}
	found := map[string]bool{}
	for _, name := range names {
		for _, id := range idsOf(name) {
			found[id] = true
		}
	}
	listed := listedCases(t)
	for _, id := range listed {
		assert.Check(t, found[id] != (leftOut[id] != ""), "%s has a case (%v), or a reason why not (%q)", id,
			found[id], leftOut[id])
	}
	for id := range maps.Keys(found) {
		assert.Check(t, slices.Contains(listed, id), "%s is not in testdata/cases.txt", id)
	}
	for id := range maps.Keys(leftOut) {
		assert.Check(t, slices.Contains(listed, id), "%s is not in testdata/cases.txt", id)
	}
}

// A test of any package that names a case, in a comment or at the beginning of a name,
// names one of the list.
func TestEveryCaseNamedIsListed(t *testing.T) {
	listed, seen := listedCases(t), 0
	fset := token.NewFileSet()
	named := func(pos token.Pos, ids []string) {
		for _, id := range ids {
			seen++
			assert.Check(t, slices.Contains(listed, id), "%v: %s is not in testdata/cases.txt", fset.Position(pos), id)
		}
	}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			named(group.Pos(), caseID.FindAllString(group.Text(), -1))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				assert.NilError(t, err)
				if ids := idsOf(text); len(ids) < len(strings.Fields(text)) {
					named(l.Pos(), ids) // what is all identifiers may be a version
				}
			}
			return true
		})
		return nil
	})
	assert.NilError(t, err)
	assert.Assert(t, seen > len(listed))
}
