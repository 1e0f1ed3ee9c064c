package runargs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
	"github.com/seed-64a260eb/cofferdam/internal/runargs/samples"
)

// reading renders what was read like [samples.Readings].
func reading(kind dockercli.Kind, args []string) string {
	var all []string
	for _, f := range runargs.Read(kind, args) {
		if f.Err != nil {
			all = append(all, "!")
		} else {
			all = append(all, f.Name+"="+f.Value)
		}
	}
	return strings.Join(all, " ")
}

func TestVariablesOfTheClient(t *testing.T) {
	for _, name := range []string{
		"PATH", "Path", "DOCKER_HOST", "https_proxy", "BASH_ENV", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA",
		"LOCALAPPDATA", "ProgramData", "ProgramFiles", "SystemRoot", "PATHEXT", "ComSpec", "TEMP", "TMP",
	} {
		assert.Check(t, runargs.IsClientVar(name), name)
	}
	for _, name := range []string{"ENV", "TEMPERATURE", "APPDATA_DIR", "LANG", "TOKEN"} {
		assert.Check(t, !runargs.IsClientVar(name), name)
	}
}

func TestExtraArgsAreReadInEverySpelling(t *testing.T) {
	for _, tt := range samples.Readings {
		for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
			assert.Equal(t, reading(kind, tt.Args), tt.Want, "%v %q", kind, tt.Args)
		}
	}
	// The engine would take the library's next flag for the missing value.
	for _, arg := range []string{"--hostname", "-h", "-ith"} {
		assert.Assert(t, strings.HasSuffix(reading(dockercli.Docker, []string{arg}), "!"), arg)
	}
}

// The reading is compared with that of the engines' own clients. None of these words lets
// a container be created: the flag at the end is unknown to a client that reads up to it,
// and an image that is named by mistake is never pulled, nor is it the begin of an
// image's number.
func TestClientsReadExtraArgsTheSame(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		const end = "--no-such-flag"
		for _, tt := range samples.Readings {
			args := slices.Concat([]string{"create", "--pull=never"}, tt.Args, []string{end})
			_, stderr, err := e.Client(args...)
			assert.Assert(t, err != nil, "%q", args)
			readToTheEnd := strings.Contains(stderr, "unknown flag: "+end)
			assert.Equal(t, readToTheEnd, !strings.Contains(tt.Want, "!"), "%q: %s", args, stderr)
		}
	})
}

func TestEnginesUnderstandExtraArgsTheSame(t *testing.T) {
	enginetest.RunOnAll(t, func(t *testing.T, e enginetest.Engine) {
		args := []string{
			"-lla=1", "-l=lb=2=2", "--label", "lc=3", "--label=ld=--init", "-il", "le=5", "-l", "lf=6",
			"-hone", "--hostname", "two", "-h=three", "--stop-timeout=7", "--stop-timeout", "9",
			"--privileged", "--privileged=f", "--read-only=0", "--read-only=T", "-iw/tmp", "-w=/var", "-u1:1", "-u",
			"2:2", "--cpuset-cpus=0",
		}
		last, labels := map[string]string{}, map[string]string{}
		for _, f := range runargs.Read(e.Kind, args) {
			assert.NilError(t, f.Err)
			last[f.Name] = f.Value
			if key, value, ok := strings.Cut(f.Value, "="); ok && f.Name == "label" {
				labels[key] = value
			}
		}
		// A bool of the engine's prints as one word.
		for _, name := range []string{"privileged", "read-only"} {
			set, err := strconv.ParseBool(last[name])
			assert.NilError(t, err)
			last[name] = strconv.FormatBool(set)
		}
		want := []string{last["hostname"], last["stop-timeout"], last["privileged"], last["read-only"],
			last["workdir"], last["user"], last["cpuset-cpus"]}
		format := "{{.Config.Hostname}} {{.Config.StopTimeout}} {{.HostConfig.Privileged}} " +
			"{{.HostConfig.ReadonlyRootfs}} {{.Config.WorkingDir}} {{.Config.User}} {{.HostConfig.CpusetCpus}}"
		for _, key := range []string{"la", "lb", "lc", "ld", "le", "lf"} {
			want = append(want, labels[key])
			format += fmt.Sprintf(" {{index .Config.Labels %q}}", key)
		}

		name := "cofferdam-extraargs-" + filepath.Base(os.Getenv("TMPDIR"))
		create := []string{"create", "--pull=never", "--network=none", "--name=" + name}
		for key, value := range e.Labels {
			create = append(create, "--label="+key+"="+value)
		}
		_, stderr, err := e.Client(slices.Concat(create, args, []string{"--", e.Image, "true"})...)
		assert.NilError(t, err, stderr)
		defer e.Client("rm", "--force", name)
		stdout, stderr, err := e.Client("inspect", "--format="+format, name)
		assert.NilError(t, err, stderr)
		assert.Equal(t, strings.TrimSpace(stdout), strings.Join(want, " "))
	})
}

// The help texts are the clients' own: docker 28.2.2 without a server, which hides no
// flag, and podman 4.3.1.
func TestEveryFlagOfTheHelpIsKnown(t *testing.T) {
	start := regexp.MustCompile(`^ {2,6}-`) // what is further in continues a description
	line := regexp.MustCompile(`^ +(-\w)?,? *(--[\w-]+)( \S+)?( {2,}|$)`)
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		help, err := os.ReadFile("testdata/help/" + kind.String() + ".txt")
		assert.NilError(t, err)
		known := runargs.Flags(kind)
		var flags int
		for _, text := range strings.Split(string(help), "\n") {
			if !start.MatchString(text) {
				continue
			}
			flags++
			m := line.FindStringSubmatch(text)
			assert.Assert(t, m != nil, "%v: %q was not read", kind, text)
			short, long, takesValue := m[1], m[2], m[3] != ""
			f, ok := known[long]
			assert.Assert(t, ok, "%v %s is not known", kind, long)
			assert.Equal(t, "--"+f.Name, long, "%v", kind)
			assert.Equal(t, f.TakesValue, takesValue, "%v %s", kind, long)
			if short != "" {
				assert.Equal(t, known[short].Name, f.Name, "%v %s", kind, short)
			}
		}
		assert.Assert(t, flags > 100, "%v: %d flags", kind, flags)
	}
}

func TestExtraArgsAreJudged(t *testing.T) {
	for _, tt := range []struct {
		args, allowed []string
		podman        bool
		want          []string
	}{
		{args: nil},
		{args: []string{"--cap-drop=ALL", "--dns-option", "ndots:1", "-h", "box", "--cpuset-cpus=0",
			"--memory-reservation=64m", "--stop-timeout", "3", "-q"}},
		{args: []string{"--no-healthcheck", "--no-hosts=1", "--timeout=60", "--umask=077", "--unsetenv-all"}, podman: true},
		{args: []string{"-l", "team=a", "--label=x", "--label", "cofferdamage=1"}},
		{args: []string{"--oom-score-adj=0", "--oom-score-adj", "500"}},
		{args: []string{"--ulimit=fsize=1000000", "--ulimit", "cpu=10:20", "--ulimit=core=0", "--ulimit=core=0:0"}},

		{args: []string{"--ipc", "host"}, want: []string{
			`ExtraRunArgs[0]: --ipc lets the container share what keeps it apart from the host or from other ` +
				`containers; add "ipc" to AllowUnsafeArgs if you mean it`}},
		{args: []string{"--ipc", "host", "--privileged"}, allowed: []string{"privileged", "ipc"}},
		{args: []string{"--privileged=false"}, want: []string{
			`ExtraRunArgs[0]: --privileged gives the container rights over the host; add "privileged" to ` +
				`AllowUnsafeArgs if you mean it`}},
		{args: []string{"-q", "-v/:/host"}, want: []string{
			`ExtraRunArgs[1]: -v (--volume) is what Spec.Workspace and Mounts are for; add "volume" to ` +
				`AllowUnsafeArgs if you mean it`}},
		{args: []string{"-v/:/host", "--volume=/a:/b", "--net", "host", "-m=1g"},
			allowed: []string{"volume", "network", "memory"}},
		{args: []string{"--net=host"}, allowed: []string{"net"}, want: []string{
			`AllowUnsafeArgs: "net" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`,
			`ExtraRunArgs[0]: --net (--network) is what NetworkEnabled is for; add "network" to AllowUnsafeArgs if you mean it`}},
		{allowed: []string{"privilegd", "--ipc", "-v", "v", "", "name", "hostname", "env-host"}, want: []string{
			`AllowUnsafeArgs: "privilegd" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`,
			`AllowUnsafeArgs: "--ipc" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`,
			`AllowUnsafeArgs: "-v" is not a flag of docker run that can be allowed; write its long name without dashes, ` +
				`such as "ipc"`,
			`AllowUnsafeArgs: "v" is not a flag of docker run that can be allowed; write its long name without dashes, ` +
				`such as "ipc"`,
			`AllowUnsafeArgs: "" is not a flag of docker run that can be allowed; write its long name without dashes, such as "ipc"`,
			`AllowUnsafeArgs: "name" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`,
			`AllowUnsafeArgs: "hostname" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`,
			`AllowUnsafeArgs: "env-host" is not a flag of docker run that can be allowed; write its long name without ` +
				`dashes, such as "ipc"`}},
		{args: []string{"--env-host"}, allowed: []string{"env-host"}, podman: true},
		{args: []string{"--env-host"}, want: []string{
			`ExtraRunArgs[0]: docker run has no flag "--env-host" that is known here; a flag of docker itself ` +
				`belongs in Engine.Global`}},
		{args: []string{"--conmon", "/bin/sh", "--root=/x"}, podman: true, want: []string{
			`ExtraRunArgs[0]: podman run has no flag "--conmon" that is known here; a flag of podman itself belongs ` +
				`in Engine.Global`,
			`ExtraRunArgs[2]: podman run has no flag "--root" that is known here; a flag of podman itself belongs in ` +
				`Engine.Global`}},

		{args: []string{"-it"}, allowed: []string{"pid"}, want: []string{
			`ExtraRunArgs[0]: -i (--interactive) can't be given: the library talks to the container over stdin, ` +
				`stdout and stderr, and nothing else may read or keep them`,
			`ExtraRunArgs[0]: -t (--tty) can't be given: the library talks to the container over stdin, stdout and ` +
				`stderr, and nothing else may read or keep them`}},
		{args: []string{"--init"}, want: []string{
			`ExtraRunArgs[0]: --init can't be given: the container's process 1 has to be the one that the library ` +
				`starts, so that all ends with it`}},
		{args: []string{"--no-healthcheck=false"}, want: []string{
			`ExtraRunArgs[0]: --no-healthcheck can't be given: the engine would run the image's health check beside ` +
				`the commands of the session`}},
		{args: []string{"-l=cofferdam.pid=1", "--label", " cofferdam.host"}, want: []string{
			`ExtraRunArgs[0]: -l (--label) can't be given: names that begin with cofferdam. are those by which the ` +
				`library knows its containers`,
			`ExtraRunArgs[1]: --label can't be given: names that begin with cofferdam. are those by which the ` +
				`library knows its containers`}},

		{args: []string{"--oom-score-adj=-1"}, want: []string{
			`ExtraRunArgs[0]: --oom-score-adj saves the container before the host's own processes when memory is ` +
				`short, unless it is a number from 0; add "oom-score-adj" to AllowUnsafeArgs if you mean it`}},
		{args: []string{"--ulimit=nofile=9"}, want: []string{
			`ExtraRunArgs[0]: --ulimit can raise a limit, unless it is a number for as, cpu, data, fsize or rss, or ` +
				`core=0; add "ulimit" to AllowUnsafeArgs if you mean it`}},
		{args: []string{"--ulimit=nofile=9", "--oom-score-adj=-1"}, allowed: []string{"ulimit", "oom-score-adj"}},

		{args: []string{"--quiet=yes"}, want: []string{"ExtraRunArgs[0]: --quiet can only be true or false"}},
		{args: []string{"--quiet", "false"}, want: []string{
			`ExtraRunArgs[1]: the word is neither a flag nor a flag's value, so it would be taken for the image; a ` +
				`flag that is true or false takes its value after "="`}},
		{args: []string{"--", "a", "---x"}, want: []string{
			`ExtraRunArgs[0]: "--" would end the flags`,
			`ExtraRunArgs[1]: the word is neither a flag nor a flag's value, so it would be taken for the image; a ` +
				`flag that is true or false takes its value after "="`,
			`ExtraRunArgs[2]: docker run has no flag "---x" that is known here; a flag of docker itself belongs in Engine.Global`}},
		{args: []string{"--label", "--", "-qh", "--"}, want: []string{
			`ExtraRunArgs[0]: --label has the value "--", which ends the flags for whoever reads the line; write it after "="`,
			`ExtraRunArgs[2]: -h (--hostname) has the value "--", which ends the flags for whoever reads the line; ` +
				`write it after "="`}},
		{args: []string{"--label=--", "-qh--"}},
		{args: []string{"-qh"}, want: []string{"ExtraRunArgs[0]: -h needs a value"}},
		{args: []string{"--hostname=a\x00b"}, want: []string{"ExtraRunArgs[0] holds a NUL byte"}},
		{args: []string{"-q", "--hostname=a\xff"},
			want: []string{"ExtraRunArgs[1] is not valid UTF-8, and the engine would change it"}},
	} {
		kind := dockercli.Docker
		if tt.podman {
			kind = dockercli.Podman
		}
		assert.DeepEqual(t, texts(runargs.Check(kind, tt.args, tt.allowed)), tt.want)
	}
}

func texts(errs []error) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestNoValueIsInAnError(t *testing.T) {
	const secret = "hunter2"
	args := []string{"--env=A=" + secret, "-eA=" + secret, "-e", secret, "--nonsense=" + secret, "-z" + secret,
		secret, "--name", secret, "--nonsense", secret, "--quiet=" + secret, "-h" + secret + "\x00"}
	errs := texts(runargs.Check(dockercli.Docker, args, nil))
	assert.Assert(t, len(errs) >= 9, "%q", errs)
	for _, text := range errs {
		assert.Assert(t, !strings.Contains(text, secret), text)
	}
}

func FuzzCheckExtraArgs(f *testing.F) {
	for _, tt := range samples.Readings {
		f.Add(strings.Join(tt.Args, "\n"), "ipc\nvolume", false)
		f.Add(strings.Join(tt.Args, "\n"), "", true)
	}
	f.Add("--ulimit=fsize=1\n-l=a=b\n--cap-drop\nALL", "", false)
	// What must never get through without leave. It stands here apart from the table that
	// is tested.
	dangerous := strings.Fields("privileged ipc pid uts userns cgroupns network volume mount volumes-from " +
		"device cap-add security-opt user " +
		"memory pids-limit cpus runtime env env-file gpus publish publish-all cgroup-parent sysctl read-only " +
		"use-api-socket env-host " +
		"name rm entrypoint init interactive tty detach attach log-driver pull cidfile restart sig-proxy " +
		"health-cmd pod rootfs replace systemd")
	f.Fuzz(func(t *testing.T, words, allow string, podman bool) {
		kind := dockercli.Docker
		if podman {
			kind = dockercli.Podman
		}
		args, allowed := strings.Split(words, "\n"), strings.Fields(allow)
		errs := runargs.Check(kind, args, allowed)
		if len(errs) > 0 {
			return
		}
		// Written the plainest way the arguments mean the same.
		var plain []string
		for _, f := range runargs.Read(kind, args) {
			assert.Assert(t, !slices.Contains(dangerous, f.Name) || slices.Contains(allowed, f.Name),
				"%q lets --%s through", args, f.Name)
			plain = append(plain, "--"+f.Name+"="+f.Value)
		}
		assert.Equal(t, reading(kind, plain), reading(kind, args), "%q", args)
		assert.Equal(t, len(runargs.Check(kind, plain, allowed)), 0, "%q", plain)
		// They don't hide what follows: the library's own flags and the end of them.
		for _, next := range []string{"--name=x", "-d", "--", "image"} {
			assert.Equal(t, len(runargs.Check(kind, slices.Concat(args, []string{next}), allowed)), 1, "%q hides %q", args, next)
		}
	})
}
