package attest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
)

const (
	v1Memory = "value /sys/fs/cgroup/memory/memory.limit_in_bytes "
	v1Swap   = "value /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes "
	v1Quota  = "value /sys/fs/cgroup/cpu/cpu.cfs_quota_us "
	v1Period = "value /sys/fs/cgroup/cpu/cpu.cfs_period_us "
	v1Pids   = "value /sys/fs/cgroup/pids/pids.max "
	noSwap   = "read /proc/swaps\nswap Filename Type Size Used Priority\n"
	aSwap    = noSwap + "swap /dev/vdb partition 1048572 0 -2\n"
	mounts   = "read /proc/self/mountinfo\nmount 1 0 0:1 / / ro,relatime - overlay overlay rw\n"
	scratch  = "mount 3 1 0:8 / /.cofferdam rw,nosuid,nodev - tmpfs tmpfs rw,size=36864k\n"
	devices  = "device c /dev/null\n"
)

// What a kernel shows, and what follows from it for the zero policy.
func TestInside(t *testing.T) {
	for _, c := range []struct {
		name  string
		about attest.Protection
		seen  string
		want  attest.State
	}{
		{"nothing is seen", attest.NoNetwork, "", attest.Unknown},
		{"loopback", attest.NoNetwork, "read /proc/net/dev\nread /proc/net/route\nnet face |bytes\nnet     lo: 1 2\n",
			attest.Yes},
		{"routes can't be read", attest.NoNetwork, "read /proc/net/dev\nnet lo: 1\n", attest.Unknown},
		{"a tunnel of the kernel's, which is down", attest.NoNetwork,
			"read /proc/net/dev\nread /proc/net/route\nnet lo: 1\nnet sit0: 0\n", attest.Yes},
		{"a route", attest.NoNetwork,
			"read /proc/net/dev\nread /proc/net/route\nnet lo: 1\nroute sit0 00000000 010011AC 0003\n", attest.No},
		{"a route of version 6", attest.NoNetwork,
			"read /proc/net/dev\nread /proc/net/route\nnet lo: 1\nroute6 00 00 00 00 00 ff 01 00 eth0\n", attest.No},
		{"an answer", attest.NoNetwork, "read /proc/net/dev\nread /proc/net/route\nnet lo: 1\nreach bash: sent\n",
			attest.No},

		{"no core dumps", attest.NoUnsafeArgs, "core 0 0 bytes\n", attest.Yes},
		{"core dumps later", attest.NoUnsafeArgs, "core 0 unlimited bytes\n", attest.No},
		{"core dumps", attest.NoUnsafeArgs, "core 4096 4096 bytes\n", attest.No},
		{"no end", attest.NoUnsafeArgs, "value /sys/fs/cgroup/memory/memory.oom_control oom_kill_disable 1\n",
			attest.No},

		{"v1", attest.MemoryLimit, v1Memory + "536870912\n", attest.Yes},
		{"v1 less than asked", attest.MemoryLimit, v1Memory + "1048576\n", attest.Yes},
		{"v1 none", attest.MemoryLimit, v1Memory + "9223372036854771712\n", attest.No},
		{"v2", attest.MemoryLimit, "cgroup2\nvalue memory.max 536870912\n", attest.Yes},
		{"v2 none", attest.MemoryLimit, "cgroup2\nvalue memory.max max\n", attest.No},
		{"v2 without a controller", attest.MemoryLimit, "cgroup2\nvalue pids.max 256\n", attest.No},
		{"no control group", attest.MemoryLimit, noSwap, attest.Unknown},

		{"v1", attest.NoSwap, v1Memory + "536870912\n" + v1Swap + "536870912\n", attest.Yes},
		{"v1 twice as much", attest.NoSwap, v1Memory + "536870912\n" + v1Swap + "1073741824\n", attest.No},
		{"v1 without accounting, and swap", attest.NoSwap, aSwap + v1Memory + "536870912\n", attest.No},
		{"v1 without accounting, and no swap", attest.NoSwap, noSwap + v1Memory + "536870912\n", attest.Yes},
		{"v1 without accounting, and who knows", attest.NoSwap, v1Memory + "536870912\n", attest.No},
		{"v2", attest.NoSwap, "cgroup2\nvalue memory.swap.max 0\n", attest.Yes},
		{"v2 some", attest.NoSwap, "cgroup2\nvalue memory.swap.max 4096\n", attest.No},
		{"v2 none", attest.NoSwap, "cgroup2\nvalue memory.swap.max max\n", attest.No},
		{"v2 without accounting, and swap", attest.NoSwap, aSwap + "cgroup2\nvalue memory.max 536870912\n", attest.No},

		{"v1", attest.CPULimit, v1Quota + "100000\n" + v1Period + "100000\n", attest.Yes},
		{"v1 none", attest.CPULimit, v1Quota + "-1\n" + v1Period + "100000\n", attest.No},
		{"v1 more", attest.CPULimit, v1Quota + "100100\n" + v1Period + "100000\n", attest.No},
		{"v2", attest.CPULimit, "cgroup2\nvalue cpu.max 100000 100000\n", attest.Yes},
		{"v2 none", attest.CPULimit, "cgroup2\nvalue cpu.max max 100000\n", attest.No},
		{"v2 without a controller", attest.CPULimit, "cgroup2\n", attest.No},
		{"a period of nothing", attest.CPULimit, "cgroup2\nvalue cpu.max 1 0\n", attest.Unknown},

		{"v1", attest.PidsLimit, v1Pids + "256\n", attest.Yes},
		{"v1 none", attest.PidsLimit, v1Pids + "max\n", attest.No},
		{"v2", attest.PidsLimit, "cgroup2\nvalue pids.max 256\n", attest.Yes},
		{"nonsense", attest.PidsLimit, v1Pids + "0x10\n", attest.No},

		{"the parent is the first process", attest.PIDNamespace, "parent 1\nparent 12\n", attest.Yes},
		{"it is not", attest.PIDNamespace, "parent 100\nparent 200\n", attest.No},
		{"the kernel's threads", attest.PIDNamespace, "parent 1\nparent 12\nsecond kthreadd\n", attest.No},

		{"a capability to gain", attest.NoCapabilities, caps("0", "0", "0", "400", "0"), attest.No},
		{"one that is not known", attest.NoCapabilities, caps("0", "8000000000000000", "0", "0", "0"), attest.No},
		{"none", attest.NoCapabilities, caps("0", "0", "0", "0", "0"), attest.Yes},
		{"a set is missing", attest.NoCapabilities, "status CapPrm: 0\n", attest.Unknown},

		{"a filter, of which nothing is tried", attest.Seccomp, "status Seccomp:\t2\n", attest.Yes},
		{"all is refused", attest.Seccomp, "status Seccomp:\t2\ncall refused set-uid files\ncall refused priorities\n",
			attest.Yes},
		{"one is allowed", attest.Seccomp, "status Seccomp:\t2\ncall refused set-uid files\ncall allowed priorities\n",
			attest.No},
		{"no filter", attest.Seccomp, "status Seccomp:\t0\ncall refused set-uid files\n", attest.No},
		{"who knows", attest.Seccomp, "call refused set-uid files\n", attest.Unknown},

		{"a set-uid user", attest.User, "status Uid: 65534 0 0 0\nstatus Gid: 65534 65534 65534 65534\n", attest.No},

		{"a bind of the host's null", attest.NoHostMounts,
			mounts + "mount 2 1 0:5 /null /dev/null rw - devtmpfs udev rw\n", attest.Yes},
		{"a bind of another device", attest.NoHostMounts,
			mounts + "mount 2 1 0:5 /kmsg /dev/kmsg rw - devtmpfs udev rw\n", attest.No},
		{"the host's devices", attest.NoHostMounts, mounts + "mount 2 1 0:5 / /dev rw - devtmpfs udev rw\n", attest.No},
		{"a path with a blank", attest.NoHostMounts,
			mounts + "mount 2 1 8:1 /a\\040b /mnt/a\\040b rw - ext4 /dev/sda rw\n", attest.No},
		{"the engine's own hosts", attest.NoHostMounts, mounts + "mount 2 1 8:1 /run/" + strings.Repeat("0a", 32) +
			"/hosts /etc/hosts ro - ext4 x rw\n", attest.Yes},
		{"the host's own hosts", attest.NoHostMounts, mounts + "mount 2 1 8:1 /etc/hosts /etc/hosts ro - ext4 x rw\n",
			attest.No},
		{"another file for its hosts", attest.NoHostMounts,
			mounts + "mount 2 1 8:1 /run/" + strings.Repeat("0a", 32) + "/key /etc/hosts ro - ext4 x rw\n", attest.No},
		{"a disk on /tmp", attest.NoHostMounts, mounts + "mount 2 1 8:1 /x /tmp rw - ext4 /dev/sda rw\n", attest.No},
		{"the host's processes", attest.NoHostMounts, mounts + "mount 2 1 8:1 / /proc/x rw - ext4 /dev/sda rw\n",
			attest.No},

		{"a mount over the root", attest.ReadOnlyRoot, mounts + "mount 2 1 0:1 / / rw - overlay overlay rw\n",
			attest.No},
		{"a shell that goes by the mode", attest.ReadOnlyRoot, mounts + "writable /var/tmp\n", attest.Yes},
		{"a writable mount", attest.ReadOnlyRoot,
			mounts + "mount 2 1 0:2 / /var rw - ext4 /dev/sda rw\nwritable /var/tmp\n", attest.No},
		{"a writable mount with a blank", attest.ReadOnlyRoot,
			mounts + "mount 2 1 8:1 /x /my\\040data rw - ext4 /dev/sda rw\n", attest.No},
		{"a read-only mount with a blank", attest.ReadOnlyRoot,
			mounts + "mount 2 1 8:1 /x /my\\040data ro - ext4 /dev/sda rw\n", attest.Yes},
		{"a writable mount with a blank in memory", attest.ReadOnlyRoot,
			mounts + "mount 2 1 0:9 / /tmp/my\\040data rw - tmpfs x rw\n", attest.Yes},

		{"any device", attest.NoDevices, devices + "value /sys/fs/cgroup/devices/devices.list a *:* rwm\n", attest.No},
		{"any device, and no root", attest.NoDevices,
			devices + "value /sys/fs/cgroup/devices/devices.list a *:* rwm\nuidmap 0 1000 1\n", attest.Yes},
		{"any device, and root", attest.NoDevices,
			devices + "value /sys/fs/cgroup/devices/devices.list a *:* rwm\nuidmap 0 0 4294967295\n", attest.No},
		{"the kernel's messages", attest.NoDevices, devices + "device c /dev/kmsg\n", attest.No},
		{"a disk", attest.NoDevices, devices + "device b /dev/sda\n", attest.No},
		{"a disk by a common name", attest.NoDevices, devices + "device b /dev/zero\n", attest.No},
		{"a name that can't be told", attest.NoDevices, devices + "device c ?\n", attest.No},

		{"kept shut", attest.Lifeline, "refused /proc/1/environ\nrefused /proc/1/fd\n", attest.Yes},
		{"one is open", attest.Lifeline, "refused /proc/1/environ\nopen /proc/1/fd\n", attest.No},
		{"none is there", attest.Lifeline, "", attest.Unknown},
	} {
		got := attest.Inside(execpolicy.DockerPolicy{}, execpolicy.Spec{}, c.about, c.seen)
		assert.Check(t, got == c.want, "%s: %s: it is %s, not %s", c.about, c.name, got, c.want)
	}
}

func caps(sets ...string) string {
	var b strings.Builder
	for i, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		b.WriteString("status " + name + ":\t" + sets[i] + "\n")
	}
	return b.String()
}

// What the policy allows is no weakness.
func TestInsideAsAsked(t *testing.T) {
	p := execpolicy.DockerPolicy{
		AddCapabilities: []string{"cap_chown", "NET_RAW"}, CPUs: "0.25", MemoryBytes: 64 << 20, User: "1000",
		Mounts: []dockercli.Mount{{Source: "/srv", Target: "/srv/"}}, Tmpfs: map[string]int64{"/var/cache": 1 << 20},
	}
	spec := execpolicy.Spec{Workspace: "/home/me"}
	for _, c := range []struct {
		about attest.Protection
		seen  string
		want  attest.State
	}{
		{attest.NoCapabilities, caps("0", "2001", "2001", "2001", "0"), attest.Yes},
		{attest.NoCapabilities, caps("0", "2003", "2001", "2001", "0"), attest.No},
		{attest.CPULimit, "cgroup2\nvalue cpu.max 25000 100000\n", attest.Yes},
		{attest.CPULimit, "cgroup2\nvalue cpu.max 30000 100000\n", attest.No},
		{attest.User, "status Uid: 1000 1000 1000 1000\nstatus Gid: 1000 1000 1000 1000\n", attest.Yes},
		{attest.User, "status Uid: 1000 1000 1000 1000\nstatus Gid: 0 0 0 0\n", attest.No},
		{attest.User, "status Uid: 1001 1001 1001 1001\nstatus Gid: 1000 1000 1000 1000\n", attest.No},
		{attest.NoHostMounts, mounts +
			"mount 2 1 8:1 /srv /srv ro - ext4 x rw\nmount 3 1 8:1 /home/me /workspace rw - ext4 x rw\n", attest.Yes},
		{attest.NoHostMounts, mounts +
			"mount 2 1 8:1 /srv /srv rw - ext4 x rw\nmount 3 1 8:1 /home/me /workspace rw - ext4 x rw\n", attest.No},
		{attest.NoHostMounts, mounts + "mount 3 1 8:1 /home/me /workspace rw - ext4 x rw\n", attest.No},
		{attest.ReadOnlyRoot, mounts + "mount 3 1 8:1 /home/me /workspace rw - ext4 x rw\nwritable /workspace\n",
			attest.Yes},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nosuid,nodev - tmpfs tmpfs rw,size=1m\n" + scratch,
			attest.Yes},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nosuid - tmpfs tmpfs rw,size=1m\n" + scratch,
			attest.No},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nodev - tmpfs tmpfs rw,size=1m\n" + scratch,
			attest.No},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nosuid,nodev - tmpfs tmpfs rw,size=2m\n" + scratch,
			attest.No},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nosuid,nodev - tmpfs tmpfs rw\n" + scratch,
			attest.No},
		{attest.TmpfsFlags, mounts + "mount 2 1 0:9 / /var/cache rw,nosuid,nodev - ext4 tmpfs rw,size=1m\n" + scratch,
			attest.No},
	} {
		got := attest.Inside(p, spec, c.about, c.seen)
		assert.Check(t, got == c.want, "%s: %q: it is %s, not %s", c.about, c.seen, got, c.want)
	}
}

// What is mounted below a source is the host's too, and what may not be written to is not
// to be so there.
func TestInsideBelowMounts(t *testing.T) {
	p := execpolicy.DockerPolicy{
		Mounts: []dockercli.Mount{{Target: "/srv"}, {Target: "/srv/rw", Writable: true}, {Target: "/workspace/ro"},
			{Target: "/etc"}},
		Tmpfs: map[string]int64{"/srv/tmp": 1 << 20},
	}
	shown := mounts + "mount 2 1 8:1 / /workspace rw - ext4 x rw\n"
	for _, target := range []string{"/srv", "/srv/rw", "/workspace/ro", "/etc"} {
		mode := "ro"
		if target == "/srv/rw" {
			mode = "rw"
		}
		shown += "mount 3 2 8:1 / " + target + " " + mode + " - ext4 x rw\n"
	}
	for line, want := range map[string]attest.State{
		"mount 4 2 0:9 / /srv/disk ro - tmpfs x rw\n":                                           attest.Yes,
		"mount 4 2 0:9 / /srv/disk rw - tmpfs x rw\n":                                           attest.No,
		"mount 4 2 0:9 / /srv/a/b rw - ext4 x rw\n":                                             attest.No,
		"mount 4 2 0:9 / /srv/rw/disk rw - ext4 x rw\n":                                         attest.Yes,
		"mount 4 2 0:9 / /workspace/disk rw - ext4 x rw\n":                                      attest.Yes,
		"mount 4 2 0:9 / /workspace/ro/disk rw - ext4 x rw\n":                                   attest.No,
		"mount 4 2 0:9 / /srv/tmp rw - tmpfs x rw\n":                                            attest.Yes,
		"mount 4 2 8:1 /run/" + strings.Repeat("0a", 32) + "/hosts /etc/hosts rw - ext4 x rw\n": attest.Yes,
	} {
		got := attest.Inside(p, execpolicy.Spec{Workspace: "/home/me"}, attest.NoHostMounts, shown+line)
		assert.Check(t, got == want, "%q: it is %s, not %s", line, got, want)
	}
}

// What another filter allows is told, and not judged: it is what was asked for.
func TestSeccompAsAsked(t *testing.T) {
	const own = `{"defaultAction": "SCMP_ACT_ALLOW", "comment": "a \" b"}`
	const colon = `{"defaultAction":"SCMP_ACT_ALLOW","comment":"seccomp: mine"}`
	for _, c := range []struct {
		policy execpolicy.DockerPolicy
		asked  string
		option string
		want   attest.State // of the engine's word
	}{
		{execpolicy.DockerPolicy{}, "the library's", "seccomp=" + compactDefault, attest.Yes},
		{execpolicy.DockerPolicy{SeccompProfile: colon}, "the caller's", "seccomp=" + colon, attest.Yes},
		{execpolicy.DockerPolicy{SeccompProfile: colon}, "the caller's", "seccomp:" + colon, attest.Yes},
		{execpolicy.DockerPolicy{EngineSeccomp: true}, "the engine's", "", attest.Yes},
		{execpolicy.DockerPolicy{EngineSeccomp: true}, "the engine's", "seccomp=unconfined", attest.No},
		{execpolicy.Compat(), "the engine's", "", attest.Yes},
		{execpolicy.DockerPolicy{SeccompProfile: own}, "the caller's",
			`seccomp={"defaultAction":"SCMP_ACT_ALLOW","comment":"a \" b"}`, attest.Yes},
		{execpolicy.DockerPolicy{SeccompProfile: own}, "the caller's",
			`seccomp={"defaultAction":"SCMP_ACT_ALLOW","comment":"a \"b"}`, attest.No},
		{execpolicy.DockerPolicy{SeccompProfile: own}, "the caller's", "", attest.No},
	} {
		s := &dockercli.Settings{SecurityOpt: []string{c.option}}
		assert.Check(t, cmp.Equal(attest.Outside(c.policy, execpolicy.Spec{}, attest.Seccomp, s), c.want), "%s %s",
			c.asked, c.option)
		answer := "status Seccomp:\t2\ncall allowed priorities\nend\n"
		for _, f := range attest.Classify(c.policy, execpolicy.Spec{}, answer, s) {
			if f.Protection == attest.Seccomp {
				assert.Check(t, cmp.Equal(f.Asked, c.asked))
				assert.Check(t, strings.Contains(f.Inside, "allowed: priorities"), f.Inside)
				assert.Check(t, (f.InForce == attest.Yes) == (c.want == attest.Yes && c.asked != "the library's"), "%+v", f)
			}
		}
	}
}

// GVisor reads no filter.
func TestSeccompUnderGVisor(t *testing.T) {
	const refused, allowed = "status Seccomp:\t0\ncall refused priorities\nend\n",
		"status Seccomp:\t0\ncall allowed priorities\nend\n"
	for _, c := range []struct {
		policy execpolicy.DockerPolicy
		option string
		answer string
		want   attest.State
	}{
		{execpolicy.DockerPolicy{}, "seccomp=" + compactDefault, refused, attest.Unknown},
		{execpolicy.DockerPolicy{}, "seccomp=" + compactDefault, allowed, attest.No},
		{execpolicy.DockerPolicy{EngineSeccomp: true}, "", allowed, attest.Yes},
	} {
		c.policy.Runtime = "runsc"
		s := &dockercli.Settings{Runtime: "runsc"}
		if c.option != "" {
			s.SecurityOpt = []string{c.option}
		}
		for _, f := range attest.Classify(c.policy, execpolicy.Spec{}, c.answer, s) {
			if f.Protection == attest.Seccomp {
				assert.Check(t, cmp.Equal(f.InForce, c.want), "%+v", f)
			}
		}
	}
}

// Root, and root's group, are no user's that the policy does not name them for.
func TestUserIsNotRoot(t *testing.T) {
	workspace, mount := execpolicy.Spec{Workspace: "/home/me"}, []dockercli.Mount{{Source: "/srv", Target: "/srv"}}
	for _, c := range []struct {
		policy           execpolicy.DockerPolicy
		spec             execpolicy.Spec
		uid, gid, groups string
		want             attest.State
		noted            bool
	}{
		{execpolicy.DockerPolicy{}, execpolicy.Spec{}, "65534", "65534", "65534", attest.Yes, false},
		{execpolicy.DockerPolicy{}, execpolicy.Spec{}, "65534", "65534", "0 65534", attest.No, true},
		{execpolicy.DockerPolicy{}, workspace, "1000", "1000", "", attest.Yes, false},
		{execpolicy.DockerPolicy{}, workspace, "0", "0", "0", attest.No, true},
		{execpolicy.DockerPolicy{}, workspace, "1000", "0", "", attest.No, true},
		{execpolicy.DockerPolicy{}, workspace, "1000", "1000", "10 0", attest.No, true},
		{execpolicy.DockerPolicy{Mounts: mount}, execpolicy.Spec{}, "1000", "1000", "1000", attest.Yes, false},
		{execpolicy.DockerPolicy{Mounts: mount}, execpolicy.Spec{}, "0", "1000", "", attest.No, true},
		// A name may be root's in the image.
		{execpolicy.DockerPolicy{User: "nobody"}, execpolicy.Spec{}, "65534", "65534", "", attest.Yes, false},
		{execpolicy.DockerPolicy{User: "nobody"}, execpolicy.Spec{}, "0", "65534", "", attest.No, true},
		{execpolicy.DockerPolicy{User: "nobody"}, execpolicy.Spec{}, "65534", "0", "", attest.No, true},
		{execpolicy.DockerPolicy{User: "1000"}, execpolicy.Spec{}, "1000", "0", "", attest.No, true},
		// Who names it has it, and the report says so.
		{execpolicy.DockerPolicy{User: "1000:0"}, execpolicy.Spec{}, "1000", "0", "0", attest.Yes, true},
		{execpolicy.DockerPolicy{User: "1000:0"}, execpolicy.Spec{}, "0", "0", "0", attest.No, true},
		{execpolicy.DockerPolicy{User: "1000:root"}, workspace, "1000", "0", "0", attest.Yes, true},
		{execpolicy.DockerPolicy{User: "0:0"}, execpolicy.Spec{}, "0", "0", "0", attest.No, true},
		{execpolicy.DockerPolicy{User: "root"}, execpolicy.Spec{}, "0", "0", "0", attest.No, true},
	} {
		answer := "status Uid:" + strings.Repeat(" "+c.uid, 4) + "\nstatus Gid:" + strings.Repeat(" "+c.gid, 4) +
			"\nstatus Groups: " + c.groups + "\nend\n"
		r := attest.Report{Findings: attest.Classify(c.policy, c.spec, answer, &dockercli.Settings{User: "1"})}
		f := r.Finding(attest.User)
		assert.Check(t, cmp.Equal(attest.Inside(c.policy, c.spec, attest.User, answer), c.want), "%q %s",
			c.policy.User, answer)
		assert.Check(t, cmp.Equal(strings.Contains(f.Note, "a weakness: what runs inside is root"), c.noted),
			"%q %s: %+v", c.policy.User, answer, f)
		root := c.policy.User == "0:0" || c.policy.User == "root"
		assert.Check(t, cmp.Equal(f.Asked == "", root), "%+v", f)
	}
}

// Root that can make user namespaces can freeze its container, where that has the first
// version of control groups, and the host's users.
func TestFreezingIsNamed(t *testing.T) {
	const initial, mapped = "uidmap          0          0 4294967295\n", "uidmap          0     100000      65536\n"
	p := execpolicy.DockerPolicy{EngineSeccomp: true, User: "0:0"}
	for answer, noted := range map[string]bool{
		initial + "status Uid: 0 0 0 0\ncall allowed user namespaces\n":             true,
		initial + "status Uid: 1000 1000 1000 1000\ncall allowed user namespaces\n": false,
		initial + "status Uid: 0 0 0 0\ncall refused user namespaces\n":             false,
		initial + "status Uid: 0 0 0 0\ncall allowed user namespaces\ncgroup2\n":    false,
		mapped + "status Uid: 0 0 0 0\ncall allowed user namespaces\n":              false,
	} {
		r := attest.Report{Findings: attest.Classify(p, execpolicy.Spec{}, answer+"end\n", &dockercli.Settings{})}
		f := r.Finding(attest.Seccomp)
		assert.Check(t, cmp.Equal(strings.Contains(f.Note, "freeze the container"), noted), "%s%+v", answer, f)
	}
}

// An answer that is cut off says nothing, whatever it had said until then.
func TestAnswerIsWhole(t *testing.T) {
	good := "status NoNewPrivs:\t1\n"
	for answer, want := range map[string]attest.State{good + "end\n": attest.Yes, good: attest.Unknown,
		good + "end": attest.Unknown, "": attest.Unknown} {
		findings := attest.Classify(execpolicy.DockerPolicy{}, execpolicy.Spec{}, answer,
			&dockercli.Settings{SecurityOpt: []string{"no-new-privileges"}})
		for _, f := range findings {
			if f.Protection == attest.NoNewPrivileges {
				assert.Equal(t, f.InForce, want, "%q", answer)
			}
		}
	}
}

// compactDefault is the library's filter as docker tells it.
var compactDefault = func() string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(execpolicy.DefaultSeccompProfile())); err != nil {
		panic(err)
	}
	return b.String()
}()

// settings returns what an engine says of a session of the zero policy, changed.
func settings(change func(s *dockercli.Settings)) *dockercli.Settings {
	s := &dockercli.Settings{
		ReadOnly: true, Network: "none", IPC: "private", User: "65534:65534", Runtime: "runc", CapDrop: []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges", "seccomp=" + compactDefault}, MaskedPaths: []string{"/proc/kcore"},
		Tmpfs:  map[string]string{},
		Memory: 512 << 20, MemorySwap: 512 << 20, NanoCPUs: 1e9, PidsLimit: 256,
	}
	for dir, size := range attest.ZeroTmpfs() {
		s.Tmpfs[dir] = fmt.Sprintf("exec,nosuid,nodev,size=%d", size)
	}
	change(s)
	return s
}

func TestOutside(t *testing.T) {
	for _, p := range attest.Protections() {
		got := attest.Outside(execpolicy.DockerPolicy{}, execpolicy.Spec{}, p, settings(func(*dockercli.Settings) {}))
		want := attest.Yes
		if p == attest.Lifeline || p == attest.NoUnsafeArgs {
			want = attest.Unknown
		}
		assert.Check(t, got == want, "%s: it is %s", p, got)
	}
	seen := map[attest.Protection]bool{attest.Lifeline: true}
	for _, c := range []struct {
		about  attest.Protection
		change func(s *dockercli.Settings)
		want   attest.State
	}{
		{attest.NoNetwork, func(s *dockercli.Settings) { s.Network = "bridge" }, attest.No},
		{attest.ReadOnlyRoot, func(s *dockercli.Settings) { s.ReadOnly = false }, attest.No},
		{attest.NoCapabilities, func(s *dockercli.Settings) { s.CapAdd = []string{"CAP_CHOWN"} }, attest.No},
		{attest.NoCapabilities, func(s *dockercli.Settings) { s.CapDrop = nil }, attest.No},
		{attest.NoCapabilities, func(s *dockercli.Settings) { s.Privileged = true }, attest.No},
		{attest.NoCapabilities, func(s *dockercli.Settings) { s.CapDrop = []string{"CAP_CHOWN"} }, attest.Unknown},
		{attest.NoNewPrivileges, func(s *dockercli.Settings) { s.SecurityOpt = nil }, attest.No},
		{attest.NoNewPrivileges, func(s *dockercli.Settings) {
			s.SecurityOpt = []string{"no-new-privileges", "no-new-privileges=false"}
		}, attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.SecurityOpt = []string{"seccomp=unconfined"} }, attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.Privileged = true }, attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.SecurityOpt = nil }, attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.SecurityOpt = append(s.SecurityOpt, "seccomp=unconfined") },
			attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) {
			s.SecurityOpt = append(s.SecurityOpt, `seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`)
		}, attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.SecurityOpt = append(s.SecurityOpt, "seccomp=/tmp/x.json") },
			attest.No},
		{attest.Seccomp, func(s *dockercli.Settings) { s.SecurityOpt = []string{"seccomp=/dev/fd/3"} }, attest.Unknown},
		{attest.User, func(s *dockercli.Settings) { s.User = "" }, attest.No},
		{attest.MemoryLimit, func(s *dockercli.Settings) { s.Memory = 0 }, attest.No},
		{attest.MemoryLimit, func(s *dockercli.Settings) { s.Memory++ }, attest.No},
		{attest.NoSwap, func(s *dockercli.Settings) { s.MemorySwap = -1 }, attest.No},
		{attest.NoSwap, func(s *dockercli.Settings) { s.MemorySwap *= 2 }, attest.No},
		{attest.CPULimit, func(s *dockercli.Settings) { s.NanoCPUs = 0 }, attest.No},
		{attest.CPULimit, func(s *dockercli.Settings) { s.NanoCPUs = 2e9 }, attest.No},
		{attest.CPULimit, func(s *dockercli.Settings) { s.NanoCPUs, s.CPUQuota, s.CPUPeriod = 0, 50_000, 50_000 },
			attest.Yes},
		{attest.PidsLimit, func(s *dockercli.Settings) { s.PidsLimit = -1 }, attest.No},
		{attest.PIDNamespace, func(s *dockercli.Settings) { s.PID = "host" }, attest.No},
		{attest.PIDNamespace, func(s *dockercli.Settings) { s.PID = "container:0123" }, attest.No},
		{attest.PrivateIPC, func(s *dockercli.Settings) { s.IPC = "host" }, attest.No},
		{attest.TmpfsFlags, func(s *dockercli.Settings) { delete(s.Tmpfs, "/tmp") }, attest.No},
		{attest.TmpfsFlags, func(s *dockercli.Settings) { s.Tmpfs["/tmp"] = "nosuid,nodev" }, attest.No},
		{attest.TmpfsFlags, func(s *dockercli.Settings) { s.Tmpfs["/tmp"] += ",suid" }, attest.No},
		{attest.MaskedProc, func(s *dockercli.Settings) {
			s.SecurityOpt = append(s.SecurityOpt, "systempaths=unconfined")
		}, attest.No},
		{attest.MaskedProc, func(s *dockercli.Settings) {
			s.SecurityOpt = append(s.SecurityOpt, "unmask=ALL")
		}, attest.No},
		{attest.MaskedProc, func(s *dockercli.Settings) { s.Privileged = true }, attest.No},
		{attest.NoDevices, func(s *dockercli.Settings) { s.Devices = []string{"/dev/kmsg"} }, attest.No},
		{attest.NoDevices, func(s *dockercli.Settings) { s.Privileged = true }, attest.No},
		{attest.NoHostMounts, func(s *dockercli.Settings) {
			s.Mounts = []dockercli.MountPoint{{Type: "bind", Source: "/etc", Target: "/x"}}
		}, attest.No},
		{attest.NoHostMounts, func(s *dockercli.Settings) {
			s.Mounts = []dockercli.MountPoint{{Type: "volume", Target: "/data"}}
		}, attest.No},
		{attest.NoUnsafeArgs, func(s *dockercli.Settings) { s.UserNS = "host" }, attest.No},
		{attest.NoUnsafeArgs, func(s *dockercli.Settings) {
			s.SecurityOpt = append(s.SecurityOpt, "apparmor:unconfined")
		}, attest.No},
		{attest.NoUnsafeArgs, func(s *dockercli.Settings) { s.SecurityOpt = append(s.SecurityOpt, "label=disable") },
			attest.No},
		{attest.NoUnsafeArgs, func(s *dockercli.Settings) {
			s.SecurityOpt = append(s.SecurityOpt, "label=type:x", "apparmor=mine")
		}, attest.Unknown},
	} {
		got := attest.Outside(execpolicy.DockerPolicy{}, execpolicy.Spec{}, c.about, settings(c.change))
		assert.Check(t, got == c.want, "%s: it is %s, not %s", c.about, got, c.want)
		seen[c.about] = true
	}
	for _, p := range attest.Protections() {
		assert.Check(t, seen[p], p)
	}
}

// Where the kernel is gVisor's, the report says what holds in place of the lifeline.
func TestLifelineOfGVisor(t *testing.T) {
	answer := "open /proc/1/environ\nstatus Seccomp:\t0\nend\n"
	for _, f := range attest.Classify(execpolicy.DockerPolicy{Runtime: "runsc"}, execpolicy.Spec{}, answer,
		settings(func(*dockercli.Settings) {})) {
		switch f.Protection {
		case attest.Lifeline:
			assert.Equal(t, f.InForce, attest.No)
			assert.Assert(t, strings.Contains(f.Note, "the second line is the guard process on the host"), f.Note)
			assert.Assert(t, strings.Contains(f.Note, "gVisor"), f.Note)
		case attest.MemoryLimit:
			assert.Equal(t, f.InForce, attest.Unknown)
		}
	}
}

// The engine is not believed, but it can give the container away.
func TestEngineContradicts(t *testing.T) {
	answer := "status NoNewPrivs:\t1\nstatus Seccomp:\t2\nend\n"
	for _, s := range []*dockercli.Settings{
		{}, {SecurityOpt: []string{"no-new-privileges:false"}}, {SecurityOpt: []string{"no-new-privileges=false"}},
		{SecurityOpt: []string{"seccomp=unconfined"}},
	} {
		findings := attest.Classify(execpolicy.DockerPolicy{}, execpolicy.Spec{}, answer, s)
		for _, f := range findings {
			if f.Protection == attest.NoNewPrivileges ||
				f.Protection == attest.Seccomp && slices.Contains(s.SecurityOpt, "seccomp=unconfined") {
				assert.Equal(t, f.InForce, attest.No, "%s of %v", f.Protection, s.SecurityOpt)
			}
		}
	}
}

func FuzzFacts(f *testing.F) {
	f.Add(v1Memory + "536870912\nend\n")
	f.Add(mounts + "mount 2 1 8:1 /a\\040b /mnt rw master:1 - ext4 /dev/sda rw,size=99999999999g\n" +
		"writable relative\nend\n")
	f.Add(caps("0", "ffffffffffffffff", "", "x", "0") + "route6 a\nnet \nvalue cpu.max\nuidmap\nend\n")
	f.Fuzz(func(t *testing.T, answer string) {
		findings := attest.Classify(execpolicy.DockerPolicy{}, execpolicy.Spec{}, answer, &dockercli.Settings{})
		assert.Equal(t, len(findings), len(attest.Protections()))
		whole := strings.Contains("\n"+answer, "\nend\n") || strings.Contains("\n"+answer, "\nend ")
		for _, finding := range findings {
			states := []attest.State{attest.Yes, attest.No, attest.Unknown}
			assert.Assert(t, slices.Contains(states, finding.InForce), finding.InForce)
			assert.Assert(t, whole || finding.InForce != attest.Yes)
			assert.Assert(t, !strings.ContainsAny(finding.Inside+finding.Outside, "\n\x1b\x00"))
		}
	})
}

// The defaults that attest measures by are the policy's own.
func TestDefaultsAreThePolicys(t *testing.T) {
	line, err := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "/bin/sh"}}.Explain(t.Context(),
		execpolicy.Spec{})
	assert.NilError(t, err)
	line, _, _ = strings.Cut(line, "\n") // the filter follows
	words := strings.Fields(line)
	for _, flag := range attest.ZeroFlags() {
		assert.Check(t, slices.Contains(words, flag), "%s is not in %s", flag, line)
	}
	for dir, size := range attest.ZeroTmpfs() {
		assert.Check(t, slices.ContainsFunc(words, func(word string) bool {
			options, ok := strings.CutPrefix(word, "--tmpfs="+dir+":")
			return ok && slices.Contains(strings.Split(options, ","), fmt.Sprintf("size=%d", size))
		}), "%s of %d bytes is not in %s", dir, size, line)
	}
}
