package execpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/clientfile"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
	"github.com/seed-64a260eb/cofferdam/internal/runargs/samples"
)

// fuzzLabel marks the containers of one run of FuzzExtraArgs, whose workers are processes
// of their own.
const fuzzLabel = "cofferdam-fuzz"

// What the guard lets through must leave a container as the policy has it, whatever the
// spelling. The engine's client reads it, and the engine says what came of it.
func FuzzExtraArgs(f *testing.F) {
	const run = "COFFERDAM_FUZZ_RUN"
	engines := enginetest.Engines(f)
	if os.Getenv(run) == "" {
		// Workers inherit it. What those leave that are interrupted is removed here.
		os.Setenv(run, fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()))
		f.Cleanup(func() {
			removeFuzzed(f, engines, os.Getenv(run))
			os.Unsetenv(run)
		})
	}
	var sites []*site
	for _, e := range engines {
		for _, compat := range []bool{false, true} {
			sites = append(sites, newSite(e, compat, os.Getenv(run)))
		}
	}
	for _, s := range samples.Seeds() {
		f.Add(strings.Join(s.Args, "\x00"), s.Plan, s.Compat)
	}
	f.Cleanup(func() {
		for _, s := range sites {
			f.Logf("%s, compat %v: %d inputs judged, %d let through, %d containers created and compared", s.e.Name,
				s.compat, s.judged.Load(), s.passed.Load(), s.created.Load())
		}
	})
	f.Fuzz(func(t *testing.T, words string, plan []byte, compat bool) {
		t.Parallel()
		for _, s := range sites {
			if s.compat == compat {
				args := samples.Generate(s.e.Kind, plan)
				if words != "" || plan == nil {
					args = append(args, strings.Split(words, "\x00")...)
				}
				s.compare(t, args)
			}
		}
	})
}

// removeFuzzed removes what is left of a run, by name.
func removeFuzzed(tb testing.TB, engines []enginetest.Engine, run string) {
	for _, e := range engines {
		out, stderr, err := e.Client("ps", "--all", "--filter=label="+fuzzLabel+"="+run, "--format={{.Names}}")
		assert.Check(tb, err == nil, stderr)
		for _, name := range strings.Fields(out) {
			if assert.Check(tb, strings.HasPrefix(name, fuzzName(run)), name) {
				e.Client("rm", "--force", name)
			}
		}
	}
}

func fuzzName(run string) string { return "cofferdam-fuzz-" + run + "-" }

// A site is a policy on an engine.
type site struct {
	e      enginetest.Engine
	compat bool
	policy DockerPolicy
	spec   Spec
	run    string

	// bare is what the engine says of a container without extra flags.
	bare func(t *testing.T) facts

	judged, passed, created atomic.Int64
}

func newSite(e enginetest.Engine, compat bool, run string) *site {
	s := &site{e: e, compat: compat, run: run, spec: Spec{Command: []string{"true"}, Labels: maps.Clone(e.Labels)}}
	s.spec.Labels[fuzzLabel] = run
	if compat {
		s.policy = Compat()
	} else {
		s.policy.Mounts = []dockercli.Mount{{Source: "/usr/share", Target: "/data"}}
	}
	s.policy.Image = e.Image
	var once sync.Once
	var bare facts
	s.bare = func(t *testing.T) facts {
		once.Do(func() { bare, _ = s.create(t, nil) })
		assert.Assert(t, bare != nil)
		return bare
	}
	return s
}

var (
	fuzzed       atomic.Int64
	createdLabel = regexp.MustCompile(`"cofferdam\.created":"\d+"`)
)

// argv returns the words by which the library would run a container with those flags,
// without the program, to create it instead.
func (s *site) argv(name string, extra []string) ([]string, error) {
	p := s.policy
	p.ExtraRunArgs = extra
	argv, err := p.argv(s.e.Engine, s.spec, name)
	if err != nil {
		return nil, err
	}
	argv = argv[1+len(s.e.Global):]
	argv[0] = "create"
	// Nothing gives this client a descriptor.
	if i := slices.Index(argv, "--security-opt="+seccompOption+clientfile.Path); i >= 0 {
		argv[i] = "--security-opt=" + seccompOption + "seccomp.json"
	}
	// It has no such flag.
	i := slices.Index(argv, "--detach-keys=")
	if s.e.Kind == dockercli.Podman && i >= 0 {
		argv = slices.Delete(argv, i, i+1)
	}
	return argv, nil
}

// create returns what the engine says of a container with those flags, or the client's
// words if there is none.
func (s *site) create(t *testing.T, extra []string) (facts, string) {
	name := fuzzName(s.run) + fmt.Sprintf("%d-%d", os.Getpid(), fuzzed.Add(1))
	argv, err := s.argv(name, extra)
	assert.NilError(t, err)
	_, stderr, err := s.e.Client(argv...)
	if err != nil {
		assert.Assert(t, !errors.Is(dockercli.Classify([]byte(stderr)), dockercli.ErrEngineDown), stderr)
		return nil, stderr
	}
	defer func() {
		_, stderr, err := s.e.Client("rm", "--force", name)
		assert.Check(t, err == nil, stderr)
	}()
	stdout, stderr, err := s.e.Client("container", "inspect", name)
	assert.NilError(t, err, stderr)
	var all []map[string]any
	assert.NilError(t, json.Unmarshal([]byte(stdout), &all))
	id, ok := all[0]["Id"].(string)
	assert.Assert(t, ok && len(id) == 64, id)
	stdout = strings.NewReplacer(id, "ID", id[:12], "SHORTID", name, "NAME").Replace(stdout)
	all = nil
	assert.NilError(t, json.Unmarshal([]byte(stdout), &all))
	f := facts{}
	f.add("", all[0])
	// It holds the time in seconds.
	f["Config.Labels"] = createdLabel.ReplaceAllString(f["Config.Labels"], `"cofferdam.created":"then"`)
	f["Config.Env"] = f.env()
	s.created.Add(1)
	return f, ""
}

// compare fails the test if the guard lets flags through that change the container in
// another way than they say.
func (s *site) compare(t *testing.T, args []string) {
	s.judged.Add(1)
	if len(runargs.Check(s.e.Kind, args, nil)) > 0 {
		return
	}
	if _, err := s.argv("cofferdam-name", args); err != nil {
		return
	}
	s.passed.Add(1)
	bare := s.bare(t)
	got, words := s.create(t, args)
	if got == nil {
		if testing.Verbose() {
			t.Logf("%s has none of %q: %.300s", s.e.Name, args, words)
		}
		return
	}

	read := map[string][]string{}
	for _, f := range runargs.Read(s.e.Kind, args) {
		read[f.Name] = append(read[f.Name], f.Value)
	}
	labels := wantLabels(bare, read["label"])
	for _, path := range slices.Sorted(maps.Keys(union(bare, got))) {
		was, is := bare[path], got[path]
		if path == "Config.Labels" {
			assert.Check(t, sameJSON(is, labels), "%s: %q: the labels are %s, want %s", s.e.Name, args, is, asJSON(labels))
		} else if was != is && !ignored(path) && !explained(read, path, was, is) {
			t.Errorf("%s, compat %v: %q changes %s from %s to %s", s.e.Name, s.compat, args, path, was, is)
		}
	}
	for name, path := range shown {
		if values := read[name]; len(values) > 0 && values[len(values)-1] != "" {
			assert.Check(t, shows(got[path], values[len(values)-1]), "%s: %q: %s is %s", s.e.Name, args, path, got[path])
		}
	}
}

// facts are what an engine says of a container, each value as JSON by its path. Lists and
// labels are one value.
type facts map[string]string

func (f facts) add(path string, value any) {
	object, ok := value.(map[string]any)
	if !ok || path == "Config.Labels" {
		f[path] = asJSON(value)
		// To podman a list is nothing, or an empty one once there is another limit on
		// block devices.
		if f[path] == "[]" {
			f[path] = "null"
		}
		// Nor does it always say the same where nothing was asked for.
		if path == "HostConfig.MemorySwappiness" && f[path] == "-1" {
			f[path] = "0"
		}
		return
	}
	for key, value := range object {
		f.add(strings.TrimPrefix(path+"."+key, "."), value)
	}
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func union(a, b facts) facts {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func sameJSON(is string, want any) bool {
	var value any
	return json.Unmarshal([]byte(is), &value) == nil && asJSON(value) == asJSON(want)
}

func list(text string) []string {
	var values []json.RawMessage
	_ = json.Unmarshal([]byte(text), &values)
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// env returns the variables in order, which docker's client passes on in any, without the
// one in which podman tells the host's name.
func (f facts) env() string {
	all := slices.DeleteFunc(list(f["Config.Env"]),
		func(v string) bool { return v == strings.Replace(f["Config.Hostname"], `"`, `"HOSTNAME=`, 1) })
	slices.Sort(all)
	return "[" + strings.Join(all, ",") + "]"
}

// ignored reports whether a fact is another for every container: when and where it was
// made, and how it was asked for.
func ignored(path string) bool {
	for _, p := range []string{"Id", "Created", "State", "Config.CreateCommand", "GraphDriver.Data"} {
		if path == p || strings.HasPrefix(path, p+".") {
			return true
		}
	}
	return false
}

// A change is what a flag may do to a container.
type change struct {
	paths string
	// right reports whether the flag may make that of a value; if nil, it may make
	// anything.
	right func(path, was, is string) bool
}

func more(_, was, is string) bool {
	now := list(is)
	return !slices.ContainsFunc(list(was), func(v string) bool { return !slices.Contains(now, v) })
}

func less(path, was, is string) bool { return more(path, is, was) }

// changes are what each of the flags that the guard lets through is for.
var changes = map[string]change{
	"blkio-weight":        {paths: "HostConfig.BlkioWeight"},
	"blkio-weight-device": {paths: "HostConfig.BlkioWeightDevice"},
	"cap-drop": {"HostConfig.CapDrop BoundingCaps EffectiveCaps", func(path, was, is string) bool {
		return path == "HostConfig.CapDrop" && more(path, was, is) || path != "HostConfig.CapDrop" && less(path, was, is)
	}},
	"cpu-count":          {paths: "HostConfig.CpuCount"},
	"cpu-percent":        {paths: "HostConfig.CpuPercent"},
	"cpuset-cpus":        {paths: "HostConfig.CpusetCpus"},
	"cpuset-mems":        {paths: "HostConfig.CpusetMems"},
	"device-read-bps":    {paths: "HostConfig.BlkioDeviceReadBps"},
	"device-read-iops":   {paths: "HostConfig.BlkioDeviceReadIOps"},
	"device-write-bps":   {paths: "HostConfig.BlkioDeviceWriteBps"},
	"device-write-iops":  {paths: "HostConfig.BlkioDeviceWriteIOps"},
	"dns":                {paths: "HostConfig.Dns"},
	"dns-option":         {paths: "HostConfig.DnsOptions"},
	"dns-search":         {paths: "HostConfig.DnsSearch"},
	"domainname":         {paths: "Config.Domainname"},
	"expose":             {paths: "Config.ExposedPorts NetworkSettings.Ports"},
	"hostname":           {paths: "Config.Hostname"},
	"io-maxbandwidth":    {paths: "HostConfig.IOMaximumBandwidth"},
	"io-maxiops":         {paths: "HostConfig.IOMaximumIOps"},
	"kernel-memory":      {paths: "HostConfig.KernelMemory"},
	"memory-reservation": {paths: "HostConfig.MemoryReservation"},
	"memory-swappiness":  {paths: "HostConfig.MemorySwappiness"},
	"oom-score-adj": {"HostConfig.OomScoreAdj", func(_, _, is string) bool {
		score, err := strconv.Atoi(is)
		return err == nil && score >= 0
	}},
	"stop-timeout": {paths: "Config.StopTimeout"},
	"timeout":      {paths: "Config.Timeout"},
	"ulimit": {"HostConfig.Ulimits", func(path, was, is string) bool {
		added := slices.DeleteFunc(list(is), func(v string) bool { return slices.Contains(list(was), v) })
		return more(path, was, is) && !slices.ContainsFunc(added, func(v string) bool {
			var limit struct{ Name string }
			_ = json.Unmarshal([]byte(v), &limit)
			name := strings.ToLower(strings.TrimPrefix(limit.Name, "RLIMIT_"))
			return !slices.Contains(strings.Fields("as core cpu data fsize rss"), name)
		})
	}},
	"umask":        {paths: "Config.Umask"},
	"unsetenv":     {"Config.Env", less},
	"unsetenv-all": {"Config.Env", less},
}

// explained reports whether one of the flags is for that change.
func explained(read map[string][]string, path, was, is string) bool {
	for name := range read {
		c := changes[name]
		for _, p := range strings.Fields(c.paths) {
			if (path == p || strings.HasPrefix(path, p+".")) && (c.right == nil || c.right(path, was, is)) {
				return true
			}
		}
	}
	return false
}

// shown are flags, of which the last one counts, and where their values show as they were
// written.
var shown = map[string]string{
	"hostname": "Config.Hostname", "domainname": "Config.Domainname", "stop-timeout": "Config.StopTimeout",
	"oom-score-adj": "HostConfig.OomScoreAdj",
	"cpuset-cpus":   "HostConfig.CpusetCpus", "cpuset-mems": "HostConfig.CpusetMems", "timeout": "Config.Timeout",
}

func shows(is, value string) bool {
	if n, err := strconv.ParseInt(value, 0, 64); err == nil && is == strconv.FormatInt(n, 10) {
		return true
	}
	return is == asJSON(value)
}

// wantLabels returns a container's labels with those that were read added.
func wantLabels(bare facts, values []string) map[string]string {
	labels := map[string]string{}
	_ = json.Unmarshal([]byte(bare["Config.Labels"]), &labels)
	for _, v := range values {
		// The library's own stay as they are.
		if key, value, _ := strings.Cut(v, "="); !strings.HasPrefix(key, container.LabelPrefix) {
			labels[key] = value
		}
	}
	return labels
}
