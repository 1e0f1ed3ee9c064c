package kube

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/fakekubectl"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		text  string
		parts uint64
		want  int64
	}{
		{"512Mi", 1, 512 << 20}, {"1", 1e9, 1e9}, {"500m", 1e9, 5e8}, {"0.5", 1e9, 5e8},
		{"1.5Gi", 1, 3 << 29}, {"67108864", 1, 64 << 20}, {"128k", 1, 128_000}, {"1E", 1, 1e18},
		{"", 1, 0}, {"x", 1, 0}, {"1x", 1, 0}, {"-1", 1, 0}, {"1mi", 1, 0}, {"9E", 10, 0},
		{"1e3", 1, 0}, {"9223372036854775807", 1, math.MaxInt64}, {"18446744073709551615", 1, 0},
	} {
		assert.Check(t, cmp.Equal(amount(c.text, c.parts), c.want), "%q", c.text)
	}
}

func FuzzAmount(f *testing.F) {
	for _, text := range []string{"1.5Gi", "500m", "9E", "0.00000000000000000001", "mi"} {
		f.Add(text, uint64(1e9))
	}
	f.Fuzz(func(t *testing.T, text string, parts uint64) {
		assert.Assert(t, amount(text, parts) >= 0)
	})
}

// edited returns the settings of a pod as the zero policy sends it, after a change that
// somebody made to its spec and its container.
func edited(t *testing.T, change func(spec, container object)) *outside.Settings {
	t.Helper()
	p := Policy{NetworkPolicy: "nothing"}
	sent, err := p.draft(execpolicy.Spec{}, "cofferdam-x")
	assert.NilError(t, err)
	spec := sent["spec"].(object)
	change(spec, spec["containers"].([]any)[0].(object))
	sent["status"] = object{"qosClass": "Guaranteed", "hostIP": "192.0.2.1",
		"containerStatuses": []any{object{"name": containerName, "imageID": "sha256:1"}}}
	text, err := json.Marshal(sent)
	assert.NilError(t, err)
	pod, err := readAdmitted(text)
	assert.NilError(t, err)
	s, err := pod.settings("none")
	assert.NilError(t, err)
	return s
}

// What is sent says what the policy wants, in the words of attest.
func TestSettings(t *testing.T) {
	s := edited(t, func(_, _ object) {})
	p := Policy{NetworkPolicy: "nothing"}
	w := p.wanted()
	assert.Equal(t, s.ImageID, "sha256:1")
	assert.Equal(t, s.Memory, w.Memory)
	assert.Equal(t, s.MemorySwap, w.Memory)
	assert.Equal(t, s.NanoCPUs, int64(1e9))
	assert.Equal(t, len(s.Tmpfs), len(w.Tmpfs)+1) // /dev/shm has a row of its own
	for dir := range w.Tmpfs {
		assert.Check(t, s.Tmpfs[dir] != "", dir)
	}
	assert.DeepEqual(t, s.CapDrop, []string{"ALL"})
	assert.DeepEqual(t, s.SecurityOpt, []string{"no-new-privileges"})
	assert.Equal(t, len(s.Mounts)+len(s.Devices)+len(s.Pod.Injected), 0)
	assert.Assert(t, s.ReadOnly && !s.Privileged && !s.Pod.Token && s.User != "")
	assert.DeepEqual(t, []string{s.Network, s.PID, s.IPC}, []string{"none", "private", "private"})
	assert.Equal(t, s.Pod.TerminationLog, "/dev/termination-log")
}

// The user is wanted as the numbers that a pod has.
func TestWantedUser(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		want   string
	}{
		{Policy{}, ""}, {Policy{UserNamespace: true}, "65534:65534"}, {Policy{User: "1000"}, "1000:1000"},
		{Policy{User: "01000"}, "1000:1000"}, {Policy{User: "007:010"}, "7:10"},
	} {
		w := c.policy.wanted()
		assert.Check(t, cmp.Equal(w.User, c.want), "%+v", c.policy)
		assert.Check(t, (w.AnyUser == "") == (c.want != ""), "%+v", c.policy)
	}
}

func TestSettingsOfChangedPods(t *testing.T) {
	security := func(c object) object { return c["securityContext"].(object) }
	add := func(in object, field string, value any) {
		list, _ := in[field].([]any)
		in[field] = append(list, value)
	}
	for name, c := range map[string]struct {
		change func(spec, container object)
		seen   func(s *outside.Settings) bool
	}{
		"host's network": {func(s, _ object) { s["hostNetwork"] = true },
			func(s *outside.Settings) bool { return s.Network == "host" }},
		"host's processes": {func(s, _ object) { s["hostPID"] = true },
			func(s *outside.Settings) bool { return s.PID == "host" }},
		"shared processes": {func(s, _ object) { s["shareProcessNamespace"] = true },
			func(s *outside.Settings) bool { return s.PID != "private" }},
		"host's memory": {func(s, _ object) { s["hostIPC"] = true },
			func(s *outside.Settings) bool { return s.IPC == "host" }},
		"privileged": {func(_, c object) { security(c)["privileged"] = true },
			func(s *outside.Settings) bool { return s.Privileged }},
		"new privileges": {func(_, c object) { delete(security(c), "allowPrivilegeEscalation") },
			func(s *outside.Settings) bool { return len(s.SecurityOpt) == 0 }},
		"capability": {func(_, c object) { security(c)["capabilities"].(object)["add"] = []any{"SYS_ADMIN"} },
			func(s *outside.Settings) bool { return len(s.CapAdd) == 1 }},
		"no filter": {func(s, _ object) { delete(s["securityContext"].(object), "seccompProfile") },
			func(s *outside.Settings) bool { return s.SecurityOpt[1] == "seccomp=unconfined" }},
		"another filter": {func(_, c object) {
			security(c)["seccompProfile"] = object{"type": "Localhost", "localhostProfile": "x"}
		}, func(s *outside.Settings) bool { return s.SecurityOpt[1] == "seccomp=x" }},
		"unmasked": {func(_, c object) { security(c)["procMount"] = "Unmasked" },
			func(s *outside.Settings) bool { return s.SecurityOpt[1] == "systempaths=Unmasked" }},
		"no AppArmor": {func(_, c object) { security(c)["appArmorProfile"] = object{"type": "Unconfined"} },
			func(s *outside.Settings) bool { return s.SecurityOpt[1] == "apparmor=unconfined" }},
		"another user": {func(_, c object) { security(c)["runAsUser"], security(c)["runAsGroup"] = 0, 7 },
			func(s *outside.Settings) bool { return s.User == "0:7" }},
		"sidecar": {func(s, _ object) { add(s, "containers", object{"name": "proxy"}) },
			func(s *outside.Settings) bool {
				return s.Pod.Injected[0] == "spec.containers.1=proxy" && s.IPC != "private"
			}},
		"debugger": {func(s, _ object) { add(s, "ephemeralContainers", object{"name": "debug"}) },
			func(s *outside.Settings) bool { return s.Pod.Injected[0] == "spec.ephemeralContainers" }},
		"init container": {func(s, _ object) { add(s, "initContainers", object{"name": "init"}) },
			func(s *outside.Settings) bool { return s.Pod.Injected[0] == "spec.initContainers" }},
		"token": {func(s, c object) {
			sources := []any{object{"serviceAccountToken": object{}}}
			add(s, "volumes", object{"name": "t", "projected": object{"sources": sources}})
			add(c, "volumeMounts", object{"name": "t", "mountPath": "/t", "readOnly": true})
		}, func(s *outside.Settings) bool {
			m := outside.MountPoint{Type: "volume", Source: "projected", Target: "/t"}
			return s.Pod.Token && s.Mounts[0] == m && len(s.Pod.Injected) == 1
		}},
		"secret": {func(s, c object) {
			add(s, "volumes", object{"name": "t", "secret": object{"secretName": "x"}})
			add(c, "volumeMounts", object{"name": "t", "mountPath": "/t", "readOnly": true})
		}, func(s *outside.Settings) bool { return s.Pod.MayHaveToken }},
		"env": {func(_, c object) {
			from := object{"secretKeyRef": object{"name": "x", "key": "y"}}
			add(c, "env", object{"name": "T", "valueFrom": from})
		}, func(s *outside.Settings) bool { return s.Pod.MayHaveToken }},
		"envFrom": {func(_, c object) { add(c, "envFrom", object{"secretRef": object{"name": "x"}}) },
			func(s *outside.Settings) bool { return s.Pod.MayHaveToken }},
		"env without a secret": {func(_, c object) {
			add(c, "env", object{"name": "T", "value": "secretKeyRef"})
			field := object{"fieldRef": object{"fieldPath": "spec.nodeName"}}
			add(c, "env", object{"name": "N", "valueFrom": field})
			add(c, "envFrom", object{"configMapRef": object{"name": "secretRef"}})
		}, func(s *outside.Settings) bool { return !s.Pod.MayHaveToken }},
		"memory": {func(s, _ object) { add(s, "volumes", object{"name": "m", "emptyDir": object{"medium": "Memory"}}) },
			func(s *outside.Settings) bool { return len(s.Pod.Injected) == 1 }},
		"disk": {func(s, c object) {
			add(s, "volumes", object{"name": "d", "hostPath": object{"path": "/"}})
			add(c, "volumeMounts", object{"name": "d", "mountPath": "/d"})
		}, func(s *outside.Settings) bool { return s.Mounts[0].Source == "hostPath" && s.Mounts[0].Writable }},
		"device": {func(_, c object) { c["resources"] = object{"limits": object{"x.example/gpu": "1"}} },
			func(s *outside.Settings) bool { return len(s.Devices) == 1 && s.Memory == 0 }},
	} {
		assert.Check(t, c.seen(edited(t, c.change)), name)
	}
}

// Whatever the cluster says of a pod, it is an error or settings.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"main"}],"volumes":[{"name":1,"emptyDir":[]}]}}`))
	f.Add([]byte(`{"spec":{"containers":[{"name":"main","volumeMounts":[{"name":"x"}]}]}}`))
	f.Add([]byte(`{"spec":{"volumes":[null]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod, err := readAdmitted(text)
		if err != nil {
			return
		}
		if s, err := pod.settings("none"); err == nil {
			assert.Assert(t, s.Memory >= 0 && s.NanoCPUs >= 0 && s.Pod != nil)
		}
	})
}

// Who may not see the nodes, or can't read what the cluster says of them, is told so.
func TestVersions(t *testing.T) {
	server := outside.Component{Name: "kubernetes", Version: "v1.33.0"}
	unknown := []outside.Component{
		{Name: "kubelet", Version: "unknown"}, {Name: "runtime", Version: "unknown"},
		{Name: "kernel", Version: "unknown"},
	}
	for nodes, want := range map[string][]outside.Component{
		"": unknown,
		`[{"status":{"nodeInfo":{"kubeletVersion":"v1.32.1"}}},{"status":1}]`: unknown,
		`[{"status":{"nodeInfo":{"kubeletVersion":"v1.32.1","kernelVersion":"6.1",
		"containerRuntimeVersion":"containerd://1.7.1"}}},{"status":{"nodeInfo":{
		"kubeletVersion":"v1.32.1","containerRuntimeVersion":"cri-o://1.33"}}}]`: {
			{Name: "kubelet", Version: "v1.32.1"}, {Name: "containerd", Version: "1.7.1"},
			{Name: "kernel", Version: "6.1"}, {Name: "cri-o", Version: "1.33"},
		},
	} {
		p, _ := fake(t, fakekubectl.Faults{Nodes: json.RawMessage(nodes)})
		view, err := p.Outside(t.Context(), execpolicy.Spec{})
		assert.NilError(t, err)
		got, err := view.Versions(t.Context())
		assert.NilError(t, err)
		assert.DeepEqual(t, got, append([]outside.Component{server}, want...))
	}
}

// Whoever gives up gets no versions, and not the word that they are unknown.
func TestVersionsThatNobodyWaitsFor(t *testing.T) {
	p, c := fake(t, fakekubectl.Faults{})
	view, err := p.Outside(t.Context(), execpolicy.Spec{})
	assert.NilError(t, err)
	c.Set(fakekubectl.Faults{Hang: []string{"/api/v1/nodes"}})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	go func() {
		leftover.Patient.Until(func() bool {
			return strings.Contains(strings.Join(c.Calls(), "\n"), "/api/v1/nodes")
		})
		cancel(why)
	}()
	_, err = view.Versions(ctx)
	assert.ErrorIs(t, err, why)
	c.Set(fakekubectl.Faults{})
}
