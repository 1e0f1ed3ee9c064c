package execpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
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
	for _, s := range fuzzSeeds() {
		f.Add(strings.Join(s.args, "\x00"), s.plan, s.compat)
	}
	f.Cleanup(func() {
		for _, s := range sites {
			f.Logf("%s, compat %v: %d inputs judged, %d let through, %d containers created and compared", s.e.Name, s.compat, s.judged.Load(), s.passed.Load(), s.created.Load())
		}
	})
	f.Fuzz(func(t *testing.T, words string, plan []byte, compat bool) {
		t.Parallel()
		for _, s := range sites {
			if s.compat == compat {
				args := generate(s.e.Kind, plan)
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
		out, stderr, err := client(e, "ps", "--all", "--filter=label="+fuzzLabel+"="+run, "--format={{.Names}}")
		assert.Check(tb, err == nil, stderr)
		for _, name := range strings.Fields(out) {
			if assert.Check(tb, strings.HasPrefix(name, fuzzName(run)), name) {
				client(e, "rm", "--force", name)
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
	if i := slices.Index(argv, "--security-opt="+seccompOption+profileFile); i >= 0 {
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
	_, stderr, err := client(s.e, argv...)
	if err != nil {
		assert.Assert(t, !errors.Is(dockercli.Classify([]byte(stderr)), dockercli.ErrEngineDown), stderr)
		return nil, stderr
	}
	defer func() {
		_, stderr, err := client(s.e, "rm", "--force", name)
		assert.Check(t, err == nil, stderr)
	}()
	stdout, stderr, err := client(s.e, "container", "inspect", name)
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
	if len(checkExtraArgs(s.e.Kind, args, nil)) > 0 {
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
	for _, f := range readExtraArgs(s.e.Kind, args) {
		read[f.name] = append(read[f.name], f.value)
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
	all := slices.DeleteFunc(list(f["Config.Env"]), func(v string) bool { return v == strings.Replace(f["Config.Hostname"], `"`, `"HOSTNAME=`, 1) })
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
		return isNotNegative(is)
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
	"hostname": "Config.Hostname", "domainname": "Config.Domainname", "stop-timeout": "Config.StopTimeout", "oom-score-adj": "HostConfig.OomScoreAdj",
	"cpuset-cpus": "HostConfig.CpusetCpus", "cpuset-mems": "HostConfig.CpusetMems", "timeout": "Config.Timeout",
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
		if key, value, _ := strings.Cut(v, "="); !strings.HasPrefix(key, labelPrefix) {
			labels[key] = value
		}
	}
	return labels
}

// valueOf has ones that engines take, and that would show. A flag without one is true or
// false.
var valueOf = flagValues(`
	add-host evil:10.0.0.1|annotation a=b|arch amd64|attach stdin|authfile /tmp/x|blkio-weight 300|blkio-weight-device /dev/vda:300|cap-add SYS_ADMIN
	cap-drop CHOWN|cert-dir /tmp|cgroup-conf memory.high=1|cgroup-parent /evil|cgroupns host|cgroups disabled|chrootdirs /tmp|cidfile /tmp/cofferdam-no-such-file
	conmon-pidfile /tmp/cofferdam-no-such-file|cpu-count 1|cpu-percent 50|cpu-period 50000|cpu-quota 1000000|cpu-rt-period 1000|cpu-rt-runtime 1000|cpu-shares 4096
	cpus 2|cpuset-cpus 0|cpuset-mems 0|creds a:b|decryption-key x|detach-keys ctrl-a|device /dev/null:/dev/evil|device-cgroup-rule "a *:* rwm"
	device-read-bps /dev/vda:1mb|device-read-iops /dev/vda:1000|device-write-bps /dev/vda:1mb|device-write-iops /dev/vda:1000|dns 192.0.2.2|dns-option ndots:2
	dns-search example.org|domainname example.org|entrypoint /bin/evil|env EVIL=1|env-file /etc/os-release|env-merge PATH=${PATH}:/evil|expose 81|gidmap 0:1:1000
	gpus all|group-add 0|group-entry evil:x:0:|health-cmd true|health-interval 1s|health-log-destination local|health-max-log-count 5|health-max-log-size 500
	health-on-failure kill|health-retries 2|health-start-interval 1s|health-start-period 1s|health-startup-cmd true|health-startup-interval 1s
	health-startup-retries 2|health-startup-success 2|health-startup-timeout 1s|health-timeout 1s|hostname box|hosts-file /etc/hosts|hostuser root
	image-volume ignore|init-path /bin/evil|io-maxbandwidth 1000|io-maxiops 1000|ip 10.0.0.1|ip6 fd00::1|ipc host|isolation hyperv|kernel-memory 64m
	label team=a|label-file /etc/os-release|link evil|link-local-ip 169.254.0.1|log-driver json-file|log-opt max-size=1|mac-address 02:00:00:00:00:01
	memory 1g|memory-reservation 64m|memory-swap -1|memory-swappiness 50|mount type=bind,source=/usr,target=/evil|name evil|network host|network-alias evil
	oom-score-adj 500|os linux|passwd-entry evil:x:0:0::/:/bin/sh|personality LINUX32|pid host|pidfile /tmp/cofferdam-no-such-file|pids-limit -1|platform linux/amd64
	pod new:evil|pod-id-file /tmp/x|preserve-fd 3|preserve-fds 1|publish 8080:80|pull always|rdt-class evil|requires evil|restart always|retry 1|retry-delay 1s
	runtime runc|sdnotify container|seccomp-policy image|secret evil|security-opt seccomp=unconfined|shm-size 1g|shm-size-systemd 1g|signature-policy /tmp/x
	stop-signal 9|stop-timeout 7|storage-opt size=1g|subgidname evil|subuidname evil|sysctl net.ipv4.ip_forward=1|systemd always|timeout 60|tmpfs /evil|tz local
	uidmap 0:1:1000|ulimit fsize=1000000|umask 077|unsetenv PATH|user 0:0|userns host|uts host|variant v8|volume /usr:/evil|volume-driver evil
	volumes-from evil|workdir /evil`)

func flagValues(table string) map[string]string {
	all := map[string]string{}
	for _, entry := range strings.FieldsFunc(table, func(r rune) bool { return r == '|' || r == '\n' }) {
		if name, value, ok := strings.Cut(strings.TrimSpace(entry), " "); ok {
			all[name] = strings.Trim(value, `"`)
		}
	}
	return all
}

// evil are values that would be worth something to whoever got one through.
var evil = []string{
	"", "=", "host", "true", "false", "0", "1", "t", "F", "ALL", "--", "-", "-v", "-v/:/host", "--privileged", "--privileged=true", "/:/host", "none", "--network=host",
	"seccomp=unconfined", "no-new-privileges=false", "label=disable", "a=b", "cofferdam.pid=1", " cofferdam.pid=1", "\tcofferdam.keep=true", "\u00a0cofferdam.pid=1",
	"\ufeffcofferdam.pid=1", "cofferdam.pid", "a,b", `"a"`, "a\nb", "\n", "\r\n", "é", "\u2003", "--name=x", "--pid=host", "fsize=1,nofile=9", "core=0", "nofile=9:9",
	"cpu=1:2", "as=unlimited", "-1", "0x10", "1e3", "NET_ADMIN,SYS_ADMIN", "all", "10.0.0.1,10.0.0.2", "type=bind,src=/,dst=/host", "65534", "0:0", "image", "sh",
}

// generate makes plausible spellings of flags out of bytes.
func generate(kind dockercli.Kind, plan []byte) []string {
	known := runFlags(kind)
	spellings := slices.Sorted(maps.Keys(known))
	gentle := slices.DeleteFunc(slices.Clone(spellings), func(s string) bool { return known[s].verdict != harmless })
	gentle = append(gentle, "-l", "--label", "--ulimit", "--oom-score-adj", "--no-healthcheck")
	next := func(n int) int {
		if len(plan) == 0 {
			return 0
		}
		b := int(plan[0])
		plan = plan[1:]
		return b % n
	}
	pick := func(from []string) string { return from[next(len(from))] }
	var args []string
	for len(plan) > 0 && len(args) < 20 {
		from := gentle
		if next(4) == 3 {
			from = spellings
		}
		spelling := pick(from)
		f := known[spelling]
		value := valueOf[f.name]
		if !f.takesValue {
			value = pick([]string{"true", "false", "1", "0", "T", "f"})
		}
		if next(4) == 3 {
			value = pick(evil)
		}
		name := strings.TrimLeft(spelling, "-")
		switch style := next(24); style {
		default:
			if style%2 == 0 || !f.takesValue {
				args = append(args, spelling+"="+value)
			} else {
				args = append(args, spelling, value)
			}
		case 12, 13:
			args = append(args, spelling)
		case 14:
			args = append(args, spelling+value)
		case 15, 16:
			args = append(args, "-"+pick([]string{"q", "qq", "q=true", "i", "it", "P", "l", "h"})+name+value)
		case 17:
			args = append(args, "-q"+name, value)
		case 18:
			args = append(args, strings.ToUpper(spelling)+"="+value)
		case 19:
			args = append(args, pick([]string{"-", "---", "–", "—", " --", "\n--", "\u00ad--"})+name+"="+value)
		case 20:
			args = append(args, spelling+pick([]string{"==", " =", "\n=", "= ", ":"})+value)
		case 21:
			args = append(args, spelling+"="+value, spelling+"="+pick(evil))
		case 22:
			args = append(args, value)
		case 23:
			args = append(args, spelling, pick(evil), spelling, value)
		}
	}
	return args
}

// However a variable is written, a line that is shown does not have its value.
func FuzzExtraArgsShown(f *testing.F) {
	const secret = "hunter2"
	for _, s := range fuzzSeeds() {
		f.Add(strings.Join(s.args, "\x00"), s.plan, s.compat)
	}
	for _, words := range []string{
		"-qeEVIL=1", "-qe=EVIL=1", "-qqPeEVIL=1", "-qeEVIL=1\x00-e=EVIL=1", "--label\x00-e\x00--env\x00EVIL=1", "--label\x00--env\x00-eEVIL=1",
		"-l\x00-qe\x00-qe\x00EVIL=1", "--label\x00--\x00-eEVIL=1", "-e\x00-e\x00-eEVIL=1",
	} {
		f.Add(words, []byte(nil), false)
	}
	f.Fuzz(func(t *testing.T, words string, plan []byte, podman bool) {
		kind := dockercli.Docker
		if podman {
			kind = dockercli.Podman
		}
		args := generate(kind, plan)
		if words != "" {
			args = append(args, strings.Split(words, "\x00")...)
		}
		for i, word := range args {
			args[i] = strings.ReplaceAll(word, "EVIL=1", "EVIL="+secret)
		}
		hidden := false
		for _, flag := range readExtraArgs(kind, args) {
			holds := strings.Contains(flag.value, secret)
			variable := flag.name == "env" || flag.name == "env-merge"
			if flag.err != nil || flag.apart && flag.value == "--" || holds && !variable || holds && !strings.Contains(flag.value, "="+secret) {
				return
			}
			hidden = hidden || holds
		}
		line := dockercli.Explain(dockercli.Redact(append(args, "--", "image")))
		if hidden && strings.Contains(line, secret) {
			t.Errorf("%q shows the variable: %s", args, line)
		}
	})
}

type fuzzSeed struct {
	args   []string
	plan   []byte
	compat bool
}

// fuzzSeeds are inputs of which some 40 reach each engine, and the others are what the
// guard has to stop.
func fuzzSeeds() []fuzzSeed {
	var seeds []fuzzSeed
	add := func(args ...string) { seeds = append(seeds, fuzzSeed{args: args}) }
	for _, tt := range readings {
		if tt.args != nil && !strings.Contains(tt.want, "hostname=-") {
			add(tt.args...)
		}
	}
	// The table that is tested does not say which these are.
	fine := strings.Fields("label quiet platform no-healthcheck no-hosts no-hostname arch os variant image-volume passwd passwd-entry group-entry")
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		known := runFlags(kind)
		for _, spelling := range slices.Sorted(maps.Keys(known)) {
			f := known[spelling]
			switch {
			case changes[f.name].paths != "" || slices.Contains(fine, f.name):
			case f.takesValue:
				add(spelling + "=" + valueOf[f.name])
				add(spelling, valueOf[f.name])
			default:
				add(spelling)
				add(spelling + "=false")
			}
		}
	}
	add("-l=cofferdam.keep=true")
	add("--label", "cofferdam.pid=1", "-l", "cofferdam.new")
	add("--ulimit=nofile=9:9")
	add("--ulimit", "fsize=1,nofile=9")
	add("--oom-score-adj=-1")
	add("--no-healthcheck=false")
	add("--no-hosts=false")
	add("-qv/usr:/evil")
	add("-qv", "/usr:/evil")
	add("-qu0:0", "-q")
	add("-qe", "EVIL=1")
	add("-qP")
	add("-q=true", "-qq", "-qhbox", "-h", "bax")
	add("-qlteam=a", "-ql", "b=c", "-l=d")
	add("--label", "--privileged", "-l--init", "-l", "cofferdamage=1", "-l=-it")
	add("-l", " spaced=1", "-l=\u00a0n=1", "-l", "v= a = b ")
	add("-l", "two\nlines=1", "-l", "é=\"x\"", "-l", "a,b=c,d")
	add("--label", "\ufeffcofferdam.pid=1")
	add("--hostname", "-v/usr:/evil")
	add("-h", "--privileged", "-h=-it")
	add("--hostname=a", "-hb", "--hostname", "c", "-h=d", "-qhe")
	add("--cap-drop=ALL", "--cap-drop", "chown", "--cap-drop=NET_RAW")
	add("--cpuset-cpus=0", "--cpuset-mems=0", "--stop-timeout=7", "--stop-timeout", "9", "--memory-reservation=64m")
	add("--stop-timeout", "-1")
	add("--oom-score-adj=0", "--oom-score-adj", "500")
	add("--ulimit=fsize=1000000", "--ulimit", "cpu=10:20", "--ulimit=core=0")
	add("--ulimit=fsize=5", "--ulimit", "data=1000000000:1000000000")
	add("--dns=192.0.2.7", "--dns-option", "ndots:1", "--dns-opt=ndots:3", "--dns-search=example.org")
	add("--expose=81", "--expose", "82-84/udp")
	add("--no-healthcheck", "--no-healthcheck=1", "--quiet=0")
	add("--platform=linux/amd64")
	add("--blkio-weight=300")
	add("--device-read-bps=/dev/vda:1mb", "--device-write-iops", "/dev/vda:100")
	add("--memory-swappiness=50", "--domainname=example.org")
	add("--kernel-memory=64m")
	add("--timeout=60", "--umask=077", "--unsetenv=PATH", "--no-hosts")
	add("--unsetenv-all", "--image-volume=ignore")
	add("--passwd-entry=evil:x:0:0::/:/bin/sh")
	add("--arch=amd64", "--override-os=linux")
	for _, args := range [][]string{
		{"--blkio-weight=300", "-qhbox"}, {"-l", "two\nlines=1", "--label=--", "--stop-timeout=7"}, {"--hostname", "a\xff"}, {"--ulimit=fsize=1"}, {"--cap-drop=ALL"}, {"-qu0:0", "-q"}, {"--hostname", "--"},
		{"--hostname"}, {"-l"}, {"--privileged=false"}, {"--", "x"}, {"image"},
	} {
		seeds = append(seeds, fuzzSeed{args: args, compat: true})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		plan := make([]byte, 24)
		for k := range plan {
			plan[k] = byte(random.Uint32())
		}
		seeds = append(seeds, fuzzSeed{plan: plan, compat: i%8 == 0})
	}
	return seeds
}

// A value for each flag shows the guard's table to be needed, and a new flag that is let
// through must say what it is for.
func TestFuzzKnowsEveryFlag(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		for spelling, f := range runFlags(kind) {
			assert.Check(t, (valueOf[f.name] != "") == f.takesValue, "%v %s: a value of its own: %q", kind, spelling, valueOf[f.name])
		}
	}
}
