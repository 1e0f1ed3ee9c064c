package dockercli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
)

func TestParseContainer(t *testing.T) {
	container, err := dockercli.ParseContainer(`id "0123"
name "/cofferdam-1"
image "sha256:4567"
status "exited"
running false
started "2026-01-02T03:04:05.000000006Z"
exit 137
oom true
error ""
pids "private"
label "a" "b=c,d \"e\"\nf\u003c"
label "empty" ""

`)
	assert.NilError(t, err)
	assert.DeepEqual(t, container, &dockercli.Container{
		ID: "0123", Name: "cofferdam-1", ImageID: "sha256:4567", Status: "exited", ExitCode: 137, OOMKilled: true,
		Started: true,
		OwnPIDs: true,
		Labels:  map[string]string{"a": "b=c,d \"e\"\nf<", "empty": ""},
	})
}

func TestParseContainerNeverStarted(t *testing.T) {
	container, err := dockercli.ParseContainer("id \"0123\"\nstarted \"0001-01-01T00:00:00Z\"\n")
	assert.NilError(t, err)
	assert.Assert(t, !container.Started)
	assert.Assert(t, !container.OwnPIDs)
	for text, own := range map[string]bool{"": true, "private": true, "host": false, "container:0123": false} {
		container, err := dockercli.ParseContainer("id \"0123\"\npids \"" + text + "\"\n")
		assert.NilError(t, err)
		assert.Equal(t, container.OwnPIDs, own, text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "running true\n", "id\n", "id \"open\n", "id \"0\"\nsurprise 1\n", "id \"0\"\nlabel \"a\"\n",
		"id \"0\"\nexit many\n",
		"id \"0\"\"1\"\n",
	} {
		_, err := dockercli.ParseContainer(text)
		assert.ErrorContains(t, err, "unexpected answer", "%q", text)
	}
	_, err := dockercli.ParseImage("user \"x\"\n")
	assert.ErrorContains(t, err, "unexpected answer")
}

func TestParseImage(t *testing.T) {
	image, err := dockercli.ParseImage("id \"0\"\nplatform \"linux\" \"arm64\"\nuser \"1000\"\nentrypoint \"/bin/sh\"\nentrypoint " +
		"\"-c\"\ncommand \"a b\"\n\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, image, &dockercli.Image{ID: "0", Platform: "linux/arm64", User: "1000", Entrypoint: []string{"/bin/sh", "-c"},
		Command: []string{"a b"}})
}

func TestParseInfo(t *testing.T) {
	docker, err := dockercli.ParseInfo(`version "28.5.2"
cgroup "2"
runtime "runsc"
runtime "runc"
default "runc"
security "name=seccomp,profile=builtin"
security "name=apparmor"
security "name=rootless"
memory true
swap true
cpu true
pids true
`)
	assert.NilError(t, err)
	assert.DeepEqual(t, docker, &dockercli.Info{
		ServerVersion: "28.5.2", CgroupVersion: "2", Rootless: true, Runtimes: []string{"runc", "runsc"},
		DefaultRuntime: "runc",
		Seccomp:        true, AppArmor: true, MemoryLimit: true, SwapLimit: true, CPULimit: true, PidsLimit: true,
	})

	const podman = "version \"4.3.1\"\ncgroup \"v1\"\ncontroller \"memory\"\ncontroller \"cpu\"\ncontroller \"pids\"\n"
	info, err := dockercli.ParseInfo(podman + "rootless false\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, info, &dockercli.Info{ServerVersion: "4.3.1", CgroupVersion: "1", MemoryLimit: true,
		CPULimit: true, PidsLimit: true})

	info, err = dockercli.ParseInfo(podman + "rootless true\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, info, &dockercli.Info{ServerVersion: "4.3.1", CgroupVersion: "1", Rootless: true})
}

// The engines' templates write values with this encoder.
func FuzzParseValues(f *testing.F) {
	f.Add("a", "b")
	f.Add("a \"b\"\n\\", "\u2028<&>\x00\x7f")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return // the encoder would change it, which is why such labels are refused
		}
		first, err := json.Marshal(a)
		assert.NilError(t, err)
		second, err := json.Marshal(b)
		assert.NilError(t, err)
		values, err := dockercli.ParseValues(string(first) + " " + string(second))
		assert.NilError(t, err)
		assert.DeepEqual(t, values, []string{a, b})
	})
}

func FuzzParseContainer(f *testing.F) {
	f.Add("id \"0\"\nlabel \"a\" \"b\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		container, err := dockercli.ParseContainer(text)
		assert.Equal(t, container == nil, err != nil)
	})
}

// scalars returns what a template prints of names and values, one a line.
func scalars(t *testing.T, pairs ...any) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		assert.NilError(t, err)
		fmt.Fprintf(&b, "%s %s\n", pairs[i], value)
	}
	return b.String() + "\n"
}

// What an image holds comes back as it is, and no other text makes an image without an
// ID.
func FuzzParseImage(f *testing.F) {
	f.Add("sha256:0", "1000", "/bin/sh", "-c")
	f.Add("0", "", "a\nid \"1\"", "\u2028<&>\x00\"\\")
	f.Add("", "", "", "")
	f.Fuzz(func(t *testing.T, id, user, entrypoint, command string) {
		if image, err := dockercli.ParseImage(user); err != nil {
			assert.Assert(t, image == nil)
			assert.ErrorContains(t, err, "unexpected answer")
		} else {
			assert.Assert(t, image.ID != "" && strings.Contains(user, "id "))
		}
		if !utf8.ValidString(strings.Join([]string{id, user, entrypoint, command}, " ")) {
			return // the encoder would change it
		}
		image, err := dockercli.ParseImage(scalars(t, "id", id, "user", user, "entrypoint", entrypoint,
			"entrypoint", command, "command", command))
		if id == "" {
			assert.ErrorContains(t, err, "it has no ID")
			return
		}
		assert.NilError(t, err)
		assert.DeepEqual(t, image, &dockercli.Image{ID: id, User: user, Entrypoint: []string{entrypoint, command},
			Command: []string{command}})
	})
}

// What an engine says of itself comes back as it is; a limit or a protection is claimed
// only by the words for it.
func FuzzParseInfo(f *testing.F) {
	f.Add("28.5.2", "runsc", "name=seccomp,profile=builtin", "cpu", true, false)
	f.Add("4.3.1", "crun", "name=rootless", "memory", false, true)
	f.Add("x\nmemory true", "\"", "name=seccomp,profile=unconfined", "memory ", true, true)
	f.Fuzz(func(t *testing.T, version, runtime, security, controller string, limits, rootless bool) {
		if _, err := dockercli.ParseInfo(version); err != nil {
			assert.ErrorContains(t, err, "unexpected answer")
		}
		if !utf8.ValidString(strings.Join([]string{version, runtime, security, controller}, " ")) {
			return // the encoder would change it
		}
		docker, err := dockercli.ParseInfo(scalars(t, "version", version, "cgroup", "1", "runtime", runtime,
			"runtime", "a", "default", runtime,
			"security", security, "memory", limits, "swap", limits, "cpu", limits, "pids", limits))
		assert.NilError(t, err)
		name, options, _ := strings.Cut(security, ",")
		runtimes := []string{runtime, "a"}
		slices.Sort(runtimes)
		assert.DeepEqual(t, docker, &dockercli.Info{
			ServerVersion: version, CgroupVersion: "1", Runtimes: runtimes, DefaultRuntime: runtime,
			Rootless: name == "name=rootless", AppArmor: name == "name=apparmor", SELinux: name == "name=selinux",
			Seccomp:     name == "name=seccomp" && !strings.Contains(options, "profile=unconfined"),
			MemoryLimit: limits, SwapLimit: limits, CPULimit: limits, PidsLimit: limits,
		})
		for _, cgroup := range []string{"1", "2"} {
			podman, err := dockercli.ParseInfo(scalars(t, "version", version, "cgroup", "v"+cgroup, "controller",
				controller, "rootless", rootless))
			assert.NilError(t, err)
			may := !rootless || cgroup == "2"
			assert.DeepEqual(t, podman, &dockercli.Info{
				ServerVersion: version, CgroupVersion: cgroup, Rootless: rootless,
				MemoryLimit: may && controller == "memory", CPULimit: may && controller == "cpu", PidsLimit: may &&
					controller == "pids",
			})
		}
	})
}
