package attest_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

const podUID = "/var/lib/kubelet/pods/01234567-89ab-cdef-0123-456789abcdef"

// podAnswer is what a pod's shell says of what only pods have.
const podAnswer = "read /proc/self/mountinfo\n" +
	"mount 1 0 0:9 / / ro - overlay overlay rw\n" +
	"mount 2 1 8:1 " + podUID + "/etc-hosts /etc/hosts ro - ext4 x rw\n" +
	"mount 3 1 8:1 " + podUID + "/containers/main/0a1b2c3d /dev/termination-log rw - ext4 x rw\n" +
	"mount 4 1 0:7 / /dev/shm rw - tmpfs tmpfs rw,size=16384k\n" +
	"net lo: 0\nnet eth0: 0\nroute eth0 00000000\ntried silent 192.0.2.1:443\n" +
	"nproc 256 256 processes\nend\n"

func podWanted() outside.Wanted {
	return outside.Wanted{Memory: 1 << 20, Pids: 256, CPUs: "1", Shm: 16 << 20,
		AnyUser: "its own", Pod: &outside.WantedPod{NetworkPolicy: "nothing"}}
}

func podSettings() *outside.Settings {
	return &outside.Settings{Container: outside.Container{Network: "none"},
		Pod: &outside.Pod{ServiceAccount: "default", TerminationLog: "/dev/termination-log"}}
}

func podReport(answer string, w outside.Wanted, s *outside.Settings) *attest.Report {
	return &attest.Report{Engine: "kubernetes", Container: "cofferdam-1",
		Findings: attest.ClassifyPod(w, answer, s)}
}

func TestPod(t *testing.T) {
	type change func(*outside.Wanted, *outside.Settings)
	const tokenSeen = "exists /var/run/secrets/kubernetes.io/serviceaccount\n"
	const otherFile = "mount 5 1 8:1 " + podUID + "/x /x ro - ext4 x rw\n"
	without := func(text, with string) string { return strings.Replace(podAnswer, text, with, 1) }
	injects := func(seen string, allowed ...string) change {
		return func(w *outside.Wanted, s *outside.Settings) {
			w.Pod.Injected, s.Pod.Injected = allowed, []string{seen}
		}
	}
	const admitted = attest.Admitted
	const sidecar = "spec.containers.1=proxy"
	writable := without("/etc/hosts ro", "/etc/hosts rw")
	open := func(_ *outside.Wanted, s *outside.Settings) { s.Network = "some" }
	private := func(_ *outside.Wanted, s *outside.Settings) { s.IPC = "private" }
	token := func(_ *outside.Wanted, s *outside.Settings) { s.Pod.Token = true }
	secret := func(_ *outside.Wanted, s *outside.Settings) { s.Pod.MayHaveToken = true }
	noLog := func(_ *outside.Wanted, s *outside.Settings) { s.Pod.TerminationLog = "" }
	const asRoot = "status Uid:\t0\t0\t0\t0\n" + podAnswer
	const noMounts = "read /proc/self/mountinfo\nend\n"
	for _, c := range []struct {
		name   string
		about  attest.Protection
		answer string
		change change
		want   attest.State
	}{
		{"no answer", attest.NoNetwork, podAnswer, nil, attest.Yes},
		{"one answers", attest.NoNetwork, "tried reached 192.0.2.2:53\n" + podAnswer, nil, attest.No},
		{"one was killed", attest.NoNetwork, "tried untried 192.0.2.2:53\n" + podAnswer, nil, attest.Unknown},
		{"one was killed, and one answers", attest.NoNetwork,
			"tried untried itself\ntried reached 192.0.2.2:53\n" + podAnswer, nil, attest.No},
		{"nothing was tried", attest.NoNetwork, without("tried", "x"), nil, attest.Unknown},
		{"a policy lets through", attest.NoNetwork, podAnswer, open, attest.No},
		{"the user's limit", attest.PidsLimit, podAnswer, nil, attest.Yes},
		{"no limit", attest.PidsLimit, without("nproc 256", "nproc unlimited"), nil, attest.No},
		{"a limit of root's", attest.PidsLimit, asRoot, nil, attest.No},
		{"a limit of root's in a namespace of its own", attest.PidsLimit, "uidmap 0 1000 65536\n" + asRoot, nil, attest.Yes},
		{"no limit is seen", attest.PidsLimit, without("nproc", "x"), nil, attest.Unknown},
		{"no nosuid", attest.PrivateIPC, podAnswer, private, attest.Yes},
		{"the kubelet's files", attest.NoHostMounts, podAnswer, nil, attest.Yes},
		{"a writable one", attest.NoHostMounts, writable, nil, attest.Yes},
		{"not the pod's", attest.NoHostMounts, without(podUID+"/etc-hosts", "/hosts"), nil, attest.No},
		{"another file", attest.NoHostMounts, otherFile + podAnswer, nil, attest.No},
		{"no token", attest.NoToken, podAnswer, nil, attest.Yes},
		{"one that only the pod sees", attest.NoToken, tokenSeen + podAnswer, nil, attest.No},
		{"a token elsewhere", attest.NoToken, podAnswer, token, attest.No},
		{"a secret", attest.NoToken, podAnswer, secret, attest.No},
		{"the mounts can't be read", attest.NoToken, "end\n", nil, attest.Unknown},
		{"nothing injected", attest.NothingInjected, podAnswer, nil, attest.Admitted},
		{"a sidecar", attest.NothingInjected, podAnswer, injects(sidecar), attest.No},
		{"allowed", attest.NothingInjected, podAnswer, injects(sidecar, "spec.containers"), admitted},
		{"alike", attest.NothingInjected, podAnswer, injects(sidecar, "spec.container"), attest.No},
		{"the log", attest.NoContainerLog, podAnswer, nil, attest.No},
		{"the node's file", attest.NoTerminationLog, podAnswer, nil, attest.No},
		{"only its name", attest.NoTerminationLog, noMounts, nil, attest.No},
		{"no such file", attest.NoTerminationLog, noMounts, noLog, attest.Yes},
	} {
		w, s := podWanted(), podSettings()
		if c.change != nil {
			c.change(&w, s)
		}
		f := podReport(c.answer, w, s).Finding(c.about)
		assert.Check(t, cmp.Equal(f.InForce, c.want), "%s: %+v", c.name, f)
	}
}

// No start fails for what a pod always has, and the table says whose word is whose.
func TestPodReport(t *testing.T) {
	r := podReport(podAnswer, podWanted(), podSettings())
	assert.Equal(t, r.Finding(attest.NoContainerLog).Asked, "")
	assert.Equal(t, r.Finding(attest.NoTerminationLog).Asked, "")
	for _, text := range []string{"pod cofferdam-1, ", "ADMITTED", "nothing injected",
		"admitted", "none, by NetworkPolicy nothing"} {
		assert.Check(t, cmp.Contains(r.String(), text))
	}
	names := append(attest.Protections(), attest.PodProtections()...)
	assert.Equal(t, len(r.Findings), len(names))
	for i, f := range r.Findings {
		assert.Equal(t, f.Protection, names[i])
	}
}
