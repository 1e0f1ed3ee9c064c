package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
	"github.com/seed-64a260eb/cofferdam/internal/fakekubectl"
)

// fake returns a policy for a fake cluster.
func fake(t *testing.T, faults fakekubectl.Faults) (Policy, *fakekubectl.Cluster) {
	t.Helper()
	enginetest.Beside(t)
	c := fakekubectl.New(t, faults)
	return Policy{
		Cluster:       Cluster{Path: c.Path, Env: c.Env},
		Image:         "image",
		NetworkPolicy: fakekubectl.NetworkPolicy,
	}, c
}

func runs(t *testing.T, s *execpolicy.Session, script string) *execpolicy.Result {
	t.Helper()
	r, err := s.Run(t.Context(), execpolicy.Command{Script: script})
	assert.NilError(t, err)
	return r
}

func TestSession(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, c := fake(t, fakekubectl.Faults{})
	var mu sync.Mutex
	var states []string
	p.Progress = func(pod, state string) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, state)
	}
	s, err := execpolicy.Start(t.Context(), p,
		execpolicy.Spec{Env: map[string]string{"SECRET": "hidden"}})
	assert.NilError(t, err)
	assert.Equal(
		t,
		string(runs(t, s, `echo "$SECRET"; pwd; x=1`).Stdout),
		"hidden\n/workspace\n",
	)
	assert.Equal(t, runs(t, s, "[ $x = 1 ] && exit 3").ExitCode, 3)
	assert.NilError(t, s.WriteFile(t.Context(), "file", []byte("text"), 0o600))
	assert.Equal(t, string(runs(t, s, "cat file").Stdout), "text")
	assert.Equal(t, string(runs(t, s, "ulimit -n").Stdout), "1024\n")
	r := runs(t, s, "true")
	assert.Equal(t, r.ImageID, "sha256:fake")
	assert.NilError(t, s.Close())
	assert.Equal(t, len(c.Pods()), 0)
	assert.DeepEqual(t, states, []string{"Running"})
	var calls []string
	for _, call := range c.Calls() {
		assert.Assert(t, !strings.Contains(call, "hidden"))
		calls = append(calls, strings.ReplaceAll(call, s.Name(), "NAME"))
	}
	golden.Assert(t, strings.Join(calls, "\n")+"\n", "calls.golden")
}

func TestJob(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, _ := fake(t, fakekubectl.Faults{})
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	job, err := s.StartJob(t.Context(), execpolicy.Command{
		Script: "ulimit -n; echo $COFFERDAM_NODE; cat", Stdin: strings.NewReader("in"),
	})
	assert.NilError(t, err)
	r, err := job.Wait(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, string(r.Stdout), "1024\n\nin")
}

// Goldens are pods whose name and labels say nothing of this run.
func TestManifest(t *testing.T) {
	every := Policy{
		NetworkEnabled:     true,
		Image:              "registry.example/tools:1",
		PullPolicy:         "Always",
		PullSecrets:        []string{"registry"},
		WritableRootfs:     true,
		MemoryBytes:        1e9,
		CPUs:               "0.5",
		EphemeralBytes:     -1,
		PidsLimit:          64,
		Tmpfs:              map[string]int64{"/cache": 1 << 20},
		User:               "1000:2000",
		AddCapabilities:    []string{"cap_net_bind_service"},
		AllowNewPrivileges: true,
		UserNamespace:      true,
		ExtraHosts: []string{
			"db:10.0.0.1",
		},
		Devices:       map[string]int{"nvidia.com/gpu": 1},
		RuntimeClass:  "gvisor",
		PriorityClass: "low",
		Scheduler:     "batch",
		NodeSelector:  map[string]string{"disk": "ssd"},
		Tolerations: []Toleration{
			{Key: "dedicated", Operator: "Equal", Value: "sandbox", Effect: "NoSchedule"},
		},
		Owner:  &Owner{APIVersion: "v1", Kind: "Pod", Name: "agent-0", UID: "1b4e"},
		Limits: execpolicy.Limits{Lifetime: time.Hour},
	}
	session := execpolicy.Spec{
		Supervisor: []string{"supervisor"},
		Env:        map[string]string{"A": "not shown"},
	}
	for name, test := range map[string]struct {
		policy Policy
		spec   execpolicy.Spec
	}{
		"zero":  {Policy{NetworkPolicy: "deny-all", User: "2000000000"}, session},
		"every": {every, session},
		"command": {Policy{NetworkPolicy: "deny-all", User: "2000000000"}, execpolicy.Spec{
			Command: []string{"echo", "$(HOME) $x"},
			Env:     map[string]string{"A": "$(B)"},
			Labels:  map[string]string{"team": "x"},
		}},
	} {
		pod, err := test.policy.draft(test.spec, "cofferdam-name")
		assert.NilError(t, err)
		for key := range labelsOf(pod) {
			switch key {
			case "cofferdam.name", "cofferdam.keep", labelNetwork, "team":
			default:
				pod["metadata"].(object)["labels"].(object)[key] = "…"
			}
		}
		text, err := json.MarshalIndent(pod, "", "  ")
		assert.NilError(t, err)
		golden.Assert(t, string(text)+"\n", name+".json")
	}
	text, err := every.Manifest(execpolicy.Spec{})
	assert.NilError(t, err)
	assert.Assert(t, json.Valid(text))
}

// The cluster leaves out a value that is empty, and that is no change.
func TestEmptyVariableIsAdmitted(t *testing.T) {
	p := Policy{NetworkEnabled: true}
	pod, err := p.draft(execpolicy.Spec{Env: map[string]string{"FOO": ""}}, "name")
	assert.NilError(t, err)
	sent, err := json.Marshal(pod)
	assert.NilError(t, err)
	var admitted object
	assert.NilError(t, json.Unmarshal(sent, &admitted))
	env := admitted["spec"].(object)["containers"].([]any)[0].(object)["env"].([]any)
	assert.Equal(t, env[0].(object)["name"], "FOO")
	for _, one := range env {
		maps.DeleteFunc(one.(object), func(key string, value any) bool { return key == "value" && value == "" })
	}
	got, err := json.Marshal(admitted)
	assert.NilError(t, err)
	assert.NilError(t, p.checkAdmitted(pod, got, false))
}

// An amount is written as the cluster writes it, which would else have changed it.
func TestAmountsAsTheClusterWritesThem(t *testing.T) {
	p := Policy{
		NetworkEnabled: true, Devices: map[string]int{"a.example/b": 2000}, MemoryBytes: 6e9,
		CPUs: "4000",
	}
	pod, err := p.draft(execpolicy.Spec{}, "name")
	assert.NilError(t, err)
	one := pod["spec"].(object)["containers"].([]any)[0].(object)
	limits := one["resources"].(object)["limits"].(object)
	assert.Equal(t, limits["a.example/b"], "2k")
	assert.Equal(t, limits["memory"], "6G")
	assert.Equal(t, limits["cpu"], "4k")
}

func TestAUserIsDrawnForEachPod(t *testing.T) {
	seen := map[int64]bool{}
	for range 100 {
		v := validation{Policy: &Policy{}}
		user, group := v.user()
		assert.Assert(t, account.FirstRandom <= user && user <= account.LastRandom && user == group && !seen[user])
		seen[user] = true
	}
}

func TestNamesOfLabels(t *testing.T) {
	for key, ok := range map[string]bool{
		"team": true, "example.com/team": true, "": false, "/": false, "/team": false, "example.com/": false,
		"a/b/c": false, "a b": false, "example.com/a b": false,
	} {
		err := Policy{NetworkEnabled: true}.Check(t.Context(), execpolicy.Spec{Labels: map[string]string{key: "x"}})
		assert.Check(t, (err == nil) == ok, "%q: %v", key, err)
		assert.Check(t, err == nil || errors.Is(err, execpolicy.ErrInvalid), "%q: %v", key, err)
	}
}

// JSON would have other words in their place.
func TestWordsAreUTF8(t *testing.T) {
	const word = "a\xff"
	for want, test := range map[string]struct {
		policy Policy
		spec   execpolicy.Spec
	}{
		"Command[1] is not":                  {spec: execpolicy.Spec{Command: []string{"echo", word}}},
		"the value of the variable A is not": {spec: execpolicy.Spec{Env: map[string]string{"A": word}}},
		`the tmpfs "/a\xff" is not`:          {policy: Policy{Tmpfs: map[string]int64{"/" + word: 1}}},
	} {
		test.policy.NetworkEnabled = true
		err := test.policy.Check(t.Context(), test.spec)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, want)
	}
	// A session sends its own over stdin.
	assert.NilError(t, Policy{NetworkEnabled: true}.Check(t.Context(), execpolicy.Spec{
		Supervisor: []string{"supervisor"}, Command: []string{word}, Env: map[string]string{"A": word},
	}))
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	p := Policy{
		PullPolicy:   "Sometimes",
		MemoryBytes:  1,
		PidsLimit:    1,
		ReadyTimeout: -1,
		KeepAlive:    1,
		CPUs:         "many",
		User:         "root",
		Tmpfs:        map[string]int64{"tmp": 1, "/.cofferdam/x": 1, "/a": 0},
		ExtraHosts: []string{
			"name",
		},
		AddCapabilities: []string{"", "NET RAW", "cap_all"},
		Devices:         map[string]int{"gpu": 1},
		Owner:           &Owner{Name: "x"},
	}
	err := p.Check(t.Context(), execpolicy.Spec{
		Workspace: t.TempDir(),
		Labels: map[string]string{
			"cofferdam.network": "open",
			"a b":               "1",
			"ok":                "not ok",
			"x/y":               "fine",
		},
		Env: map[string]string{"A B": ""},
	})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorIs(t, err, execpolicy.ErrNoMount)
	golden.Assert(t, strings.ReplaceAll(err.Error(), "; ", "\n")+"\n", "invalid.golden")
	_, err = execpolicy.Start(t.Context(), Policy{}, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, "NetworkPolicy is empty")
	_, err = execpolicy.Start(t.Context(), Policy{NetworkPolicy: "x", NetworkEnabled: true},
		execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}

// Whatever the cluster changes in a pod fails the start, and nothing is left.
func TestWhatAdmissionChanges(t *testing.T) {
	for _, c := range []struct{ change, field string }{
		{`{"spec":{"containers":[{"name":"main"},{"name":"sidecar"}]}}`, "spec.containers.1 was added"},
		{`{"spec":{"initContainers":[{"name":"init"}]}}`, "spec.initContainers was added"},
		{`{"spec":{"hostNetwork":true}}`, "spec.hostNetwork was added"},
		{`{"spec":{"shareProcessNamespace":true}}`, "spec.shareProcessNamespace was added"},
		{`{"spec":{"automountServiceAccountToken":true}}`, "spec.automountServiceAccountToken was changed"},
		{`{"spec":{"securityContext":{"seccompProfile":null}}}`, "spec.securityContext.seccompProfile was dropped"},
		{`{"spec":{"volumes":[]}}`, "spec.volumes.0 was dropped"},
		{`{"metadata":{"labels":{"cofferdam.network":"open"}}}`, "metadata.labels.cofferdam.network was changed"},
		{`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"open"}}}`, "metadata.annotations was added"},
		{`{"spec":{"ephemeralContainers":[{"name":"debugger"}]}}`, "spec.ephemeralContainers was added"},
		{`{"metadata":{"ownerReferences":[{"name":"x"}]}}`, "metadata.ownerReferences was added"},
		{`{"spec":{"securityContext":{"runAsUser":0}}}`, "spec.securityContext.runAsUser was changed"},
		{`{"spec":{"nodeSelector":{"a":"b"}}}`, "spec.nodeSelector was added"},
		{`{"spec":{"restartPolicy":"Always","activeDeadlineSeconds":1000000000}}`, "spec.restartPolicy was changed"},
	} {
		for name, faults := range map[string]fakekubectl.Faults{
			"created": {Admit: []byte(c.change)},
			"running": {AdmitLater: []byte(c.change)},
		} {
			if name == "running" && strings.Contains(c.change, "annotations") {
				continue
			}
			t.Run(c.field+" "+name, func(t *testing.T) {
				t.Parallel()
				p, k := fake(t, faults)
				_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
				assert.ErrorIs(t, err, ErrAdmission)
				assert.ErrorIs(t, err, execpolicy.ErrStart)
				assert.ErrorContains(t, err, c.field)
				assert.Equal(t, len(k.Pods()), 0)
				assert.Assert(t, !strings.Contains(strings.Join(k.Calls(), "\n"), " attach "))
			})
		}
	}
}

func TestWhatAdmissionMayChange(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, _ := fake(t, fakekubectl.Faults{
		Admit: []byte(
			`{"metadata":{"annotations":{"openshift.io/scc":"restricted"}},"spec":{` +
				`"tolerations":[{"key":"node.kubernetes.io/not-ready"}],"priority":1000,` +
				`"priorityClassName":"usual","preemptionPolicy":"Never"}}`,
		),
	})
	p.AllowAdmitted = []string{"metadata.annotations.openshift.io/scc"}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorContains(t, err, "metadata.annotations was added")
	p.AllowAdmitted = []string{"metadata.annotations"}
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
}

// A session kills all that it sees, whatever a caller allows the cluster.
func TestSharedProcessesAreNeverAllowed(t *testing.T) {
	for field, change := range map[string]string{
		"spec.hostPID":               `{"spec":{"hostPID":true}}`,
		"spec.shareProcessNamespace": `{"spec":{"shareProcessNamespace":true}}`,
	} {
		p, _ := fake(t, fakekubectl.Faults{Admit: []byte(change)})
		p.AllowAdmitted = []string{"spec", field}
		_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.ErrorIs(t, err, ErrAdmission)
		assert.ErrorContains(t, err, field+" was added;")
		assert.Assert(t, !strings.Contains(err.Error(), "AllowAdmitted can"), "%v", err)
	}
	change := `{"metadata":{"labels":{"cofferdam.network":"open"}}}`
	p, _ := fake(t, fakekubectl.Faults{Admit: []byte(change)})
	p.AllowAdmitted = []string{"metadata.labels"}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, ErrNetworkOpen)
}

// A pod has labels of its node once it is bound to one. A policy that selects it by them
// is one of those that select it.
func TestLabelsOfTheNode(t *testing.T) {
	p, c := fake(t, fakekubectl.Faults{
		AdmitLater: []byte(`{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}}}`),
		NetworkPolicies: []byte(`[
			{"metadata":{"name":"deny-all"},"spec":{"podSelector":{},"policyTypes":["Ingress","Egress"]}},
			{"metadata":{"name":"zone"},"spec":{"egress":[{}],
				"podSelector":{"matchLabels":{"topology.kubernetes.io/zone":"a"}}}}]`),
	})
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, ErrNetworkOpen)
	assert.ErrorContains(t, err, "NetworkPolicy zone selects the pod")
	assert.Equal(t, len(c.Pods()), 0)
}

func waiting(reason, message string) json.RawMessage {
	return fmt.Appendf(
		nil,
		`{"phase":"Waiting","containerStatuses":[{"name":"main","state":{"waiting":{"reason":%q,"message":%q}}}]}`,
		reason,
		message,
	)
}

func terminatedStatus(code int, reason, message string) json.RawMessage {
	return fmt.Appendf(
		nil,
		`{"phase":"Failed","containerStatuses":[{"name":"main","state":{"terminated":{`+
			`"exitCode":%d,"reason":%q,"message":%q}}}]}`,
		code,
		reason,
		message,
	)
}

const unschedulable = `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",` +
	`"reason":"Unschedulable","message":"0/2 nodes are available: 2 Insufficient memory."}]}`

// A state that does not pass fails at once, in the cluster's words.
func TestHopelessStates(t *testing.T) {
	for _, test := range []struct {
		status json.RawMessage
		class  error
		words  string
	}{
		{[]byte(unschedulable), ErrNoRoom, "0/2 nodes are available: 2 Insufficient memory."},
		{waiting("ErrImagePull", "not found"), ErrPull, "not found"},
		{waiting("ImagePullBackOff", "Back-off pulling image"), ErrPull, "Back-off pulling image"},
		{waiting("ErrImageNeverPull", "not present with pull policy of Never"), ErrImageMissing, "not present"},
		{waiting("InvalidImageName", "couldn't parse"), ErrArgument, "couldn't parse"},
		{waiting("CreateContainerError", "no space"), ErrRuntime, "no space"},
		{terminatedStatus(128, "StartError", `exec: "sh": executable file not found in $PATH`),
			ErrNoCommand, "executable file"},
		{terminatedStatus(128, "StartError", "cgroup"), ErrRuntime, "cgroup"},
		{terminatedStatus(82, "Error", "from inside of the pod a connection was made with: the API"), ErrNetworkOpen, "the API"},
		{terminatedStatus(83, "Error", "from inside of the pod nothing was tried: the image has no bash"), ErrNetworkOpen, "the image has no bash"},
		{[]byte(`{"phase":"Failed","reason":"Evicted","message":"the node was low on memory"}`),
			execpolicy.ErrStart, "Evicted: the node was low on memory"},
	} {
		t.Run(test.words, func(t *testing.T) {
			t.Parallel()
			p, c := fake(t, fakekubectl.Faults{Status: test.status})
			_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
			assert.ErrorIs(t, err, test.class)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorContains(t, err, test.words)
			assert.Equal(t, len(c.Pods()), 0)
		})
	}
}

// What the kernel has killed inside of a container stays the reason of its end, whatever
// that is.
func TestOOMKilled(t *testing.T) {
	const deleted = `"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"},`
	for _, c := range []struct {
		name, pod     string
		killed, known bool
	}{
		{"killed", string(terminatedStatus(137, "OOMKilled", "")), true, true},
		{"something in it was", string(terminatedStatus(93, "OOMKilled", "")), false, true},
		{"it exited", string(terminatedStatus(0, "Completed", "")), false, true},
		{"something else has killed it", string(terminatedStatus(137, "Error", "")), false, true},
		{"it was evicted", strings.Replace(string(terminatedStatus(137, "OOMKilled", "")), `"Failed"`, `"Failed","reason":"Evicted"`, 1), false, false},
		{"it was deleted", string(terminatedStatus(137, "OOMKilled", "")), false, false},
	} {
		prefix := ""
		if c.name == "it was deleted" {
			prefix = deleted
		}
		p, err := readPod([]byte("{" + prefix + `"status":` + c.pod + "}"))
		assert.NilError(t, err)
		killed, known := p.oomKilled()
		assert.Equal(t, killed, c.killed, c.name)
		assert.Equal(t, known, c.known, c.name)
	}
}

// What something between this program and the API says is not taken for the pod's end.
func TestAnswerThatIsNoPod(t *testing.T) {
	r := &run{name: "cofferdam-1", uid: "u1"}
	for text, there := range map[string]bool{
		`{"metadata":{"name":"cofferdam-1","uid":"u1"}}`: true,
		`{"metadata":{"name":"cofferdam-1","uid":"u2"}}`: false,
	} {
		p, err := r.read([]byte(text))
		assert.NilError(t, err)
		assert.Equal(t, p != nil, there)
	}
	for _, text := range []string{`{}`, `{"message":"session expired"}`, `{"metadata":{"name":"cofferdam-1"}}`, `{"metadata":{"uid":"u1"}}`} {
		_, err := r.read([]byte(text))
		assert.ErrorContains(t, err, "is not the pod cofferdam-1")
	}
}

func TestWaitingIsBounded(t *testing.T) {
	p, _ := fake(t, fakekubectl.Faults{Status: waiting("ContainerCreating", "")})
	p.ReadyTimeout = 3 * time.Second
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorContains(t, err, "the pod does not run after 3s: ContainerCreating")
	p, _ = fake(t, fakekubectl.Faults{Status: []byte(unschedulable)})
	p.RoomTimeout = 300 * time.Millisecond
	begin := time.Now()
	_, err = execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, ErrNoRoom)
	assert.Assert(t, time.Since(begin) >= p.RoomTimeout)
}

func TestRoomThatComesIsTaken(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, c := fake(t, fakekubectl.Faults{Status: []byte(unschedulable)})
	p.RoomTimeout = time.Minute
	p.Progress = func(_, state string) {
		if strings.HasPrefix(state, "Unschedulable") {
			c.Set(fakekubectl.Faults{})
		}
	}
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
}

// Errors of kubectl come before anything is started, or leave nothing.
func TestErrorsOfKubectl(t *testing.T) {
	const forbidden = "Error from server (Forbidden): "
	for _, c := range []struct {
		verb, message string
		class         error
	}{
		{"config", "error: current-context must exist in order to minify", ErrNoCluster},
		{"config", "Error: unknown flag: --output", ErrTooOld},
		{"get", "error: You must be logged in to the server (Unauthorized)", ErrLoggedOut},
		{"get", "Unable to connect to the server: dial tcp 192.0.2.1:443: i/o timeout", ErrDown},
		{"get", forbidden + `networkpolicies.networking.k8s.io is forbidden: User "u" cannot list resource`,
			ErrPermission},
		{"create", forbidden + `pods "x" is forbidden: exceeded quota: q, ` +
			`requested: pods=1, used: pods=1, limited: pods=1`, ErrQuota},
		{"create", forbidden + `pods "x" is forbidden: violates PodSecurity "restricted:latest": seccompProfile`,
			ErrAdmission},
		{"attach", forbidden + `pods "x" is forbidden: User "u" cannot create resource "pods/attach"`,
			ErrPermission},
	} {
		t.Run(c.verb+" "+c.class.Error(), func(t *testing.T) {
			t.Parallel()
			p, k := fake(t, fakekubectl.Faults{
				Fail: map[string]fakekubectl.Failure{c.verb: {Stderr: c.message}},
			})
			_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
			assert.ErrorIs(t, err, c.class)
			assert.Equal(t, len(k.Pods()), 0)
		})
	}
	p := Policy{Cluster: Cluster{Path: "/no/kubectl"}, NetworkEnabled: true}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, ErrNoKubectl)
}

// A create that was cut off may have created the pod.
func TestCreateThatIsCutOff(t *testing.T) {
	for _, done := range []bool{true, false} {
		p, c := fake(
			t,
			fakekubectl.Faults{
				Fail: map[string]fakekubectl.Failure{
					"create": {Stderr: "error: unexpected EOF", Done: done},
				},
			},
		)
		_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.ErrorIs(t, err, ErrDown)
		assert.Equal(t, len(c.Pods()), 0)
	}
	p, c := fake(t, fakekubectl.Faults{Hang: []string{"create"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := execpolicy.Start(ctx, p, execpolicy.Spec{})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, len(c.Pods()), 0)
}

// A credential plugin that takes two seconds makes a session slow, and breaks none.
func TestSlowKubectl(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, _ := fake(t, fakekubectl.Faults{Delay: 2 * time.Second})
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	assert.Equal(t, runs(t, s, "exit 3").ExitCode, 3)
	assert.NilError(t, s.Close())
}

func TestWatchThatGoesSilent(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, _ := fake(t, fakekubectl.Faults{SilentWatch: true})
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
}

// Without the word of the node nothing is known to be gone.
func TestNodeThatIsDown(t *testing.T) {
	fakeengine.NeedIsolation(t)
	for condition, words := range map[string]string{
		`"lastTransitionTime":"2026-01-02T03:04:05Z"`: "for lost since 2026-01-02T03:04:05Z",
		`"reason":"ContainersNotReady"`:               "if the node or its kubelet is down",
	} {
		p, c := fake(t, fakekubectl.Faults{NodeDown: true, Status: fmt.Appendf(nil,
			`{"phase":"Running","containerStatuses":[{"name":"main","state":{"running":{}}}],`+
				`"conditions":[{"type":"Ready","status":"False",%s}]}`, condition)})
		p.TerminationTimeout = 10 * time.Second
		s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.NilError(t, err)
		err = s.Close()
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		assert.ErrorContains(t, err, "its node node-1 has not said that it has ended")
		assert.ErrorContains(t, err, words)
		assert.Equal(t, len(c.Pods()), 1)
		c.Set(fakekubectl.Faults{}) // it goes without anybody who waits
	}
}

// Only so many pods are removed when nobody waits any more, and a second try is none
// more.
func TestPodsThatAreRemovedLaterAreBounded(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, c := fake(t, fakekubectl.Faults{NodeDown: true})
	none := func() bool { return len(pending) == 0 }
	assert.Assert(t, leftover.Patient.Until(none)) // those of other tests
	for pending.TryTake() {
	}
	proc, err := p.Spawn(t.Context(), execpolicy.Spec{})
	assert.NilError(t, err)
	kill := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, proc.Kill(ctx), execpolicy.ErrStillThere)
	}
	kill()
	for range cap(pending) {
		pending.Give()
	}
	assert.Assert(t, none())
	kill()
	kill()
	assert.Equal(t, len(pending), 1)
	c.Set(fakekubectl.Faults{}) // it goes without anybody who waits
	assert.Assert(t, leftover.Patient.Until(none))
	assert.Equal(t, len(c.Pods()), 0)
}

// What removes a pod when nobody waits any more asks, and waits for no node: only so many
// may ask at a time.
func TestRemovalLaterWaitsForNoNode(t *testing.T) {
	p, c := fake(t, fakekubectl.Faults{NodeDown: true})
	k, err := p.Cluster.client(t.Context())
	assert.NilError(t, err)
	pod, err := p.draft(execpolicy.Spec{}, "lost")
	assert.NilError(t, err)
	pod["metadata"].(object)["uid"] = "uid-of-lost"
	pod["status"] = object{"phase": "Pending"}
	c.Add(pod)
	for _, uid := range []string{"uid-of-lost", ""} {
		r := &run{policy: &p, Client: *k, name: "lost", uid: uid}
		assert.Assert(t, !r.tryLater())
	}
	calls := strings.Join(c.Calls(), "\n")
	assert.Equal(t, strings.Count(calls, "delete "), 2, calls)
	assert.Assert(t, !strings.Contains(calls, "watch=1"), calls)
	r := &run{policy: &p, Client: *k, name: "lost"}
	c.Set(fakekubectl.Faults{Fail: map[string]fakekubectl.Failure{"get": {Stderr: "no"}}})
	assert.Assert(t, !r.tryLater()) // nobody knows
	c.Set(fakekubectl.Faults{})
	assert.Assert(t, r.tryLater())
	assert.Equal(t, len(c.Pods()), 0)
	assert.Assert(t, r.tryLater()) // there is none
}

// It is said that it was the cluster which did not answer, and when its answer comes the
// pod goes.
func TestAPIThatStopsAnswering(t *testing.T) {
	fakeengine.NeedIsolation(t)
	for _, hang := range [][]string{{"delete"}, {"get", "watch", "delete"}} {
		p, c := fake(t, fakekubectl.Faults{})
		p.TerminationTimeout = 3 * time.Second
		s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.NilError(t, err)
		c.Set(fakekubectl.Faults{Hang: hang})
		err = s.Close()
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		assert.ErrorIs(t, err, ErrDown, "%q", hang)
		c.Set(fakekubectl.Faults{})
	}
}

// What others have added to a pod may run on when its own container has ended.
func TestOthersInThePodMayRunOn(t *testing.T) {
	for _, list := range []string{
		"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses",
	} {
		status := map[string][]any{"containerStatuses": {object{
			"name": "main", "state": object{"terminated": object{"exitCode": 1}},
		}}}
		status[list] = append(status[list],
			object{"name": "other", "state": object{"running": object{}}})
		text, err := json.Marshal(status)
		assert.NilError(t, err)
		p, c := fake(t, fakekubectl.Faults{Status: text, NodeDown: true})
		p.TerminationTimeout = time.Second
		_, err = execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.ErrorIs(t, err, execpolicy.ErrStillThere)
		assert.ErrorContains(t, err, "the container exited with 1")
		assert.Equal(t, len(c.Pods()), 1)
		c.Set(fakekubectl.Faults{}) // it goes without anybody who waits
	}
}

func TestPodThatSomebodyDeletes(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, c := fake(t, fakekubectl.Faults{})
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	k, err := p.Cluster.client(t.Context())
	assert.NilError(t, err)
	assert.NilError(t, k.DeletePod(t.Context(), s.Name(), "uid-of-"+s.Name(), 1))
	<-s.Done()
	_, err = s.Run(t.Context(), execpolicy.Command{Script: "true"})
	assert.ErrorIs(t, err, execpolicy.ErrEnded)
	assert.NilError(t, s.Close())
	assert.Equal(t, len(c.Pods()), 0)
}

func TestFind(t *testing.T) {
	p, c := fake(t, fakekubectl.Faults{})
	found, err := p.Cluster.Find(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, found.Context, "fake")
	assert.Equal(t, found.Namespace, "sandboxes")
	assert.Equal(t, found.Env[len(found.Env)-1], "KUBERC=off")
	calls := len(c.Calls())
	_, err = p.Cluster.Find(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(c.Calls()), calls)
	t.Setenv("PATH", t.TempDir())
	_, err = Cluster{Env: []string{"X=1"}}.Find(t.Context())
	assert.ErrorIs(t, err, ErrNoKubectl)
}

func TestSweep(t *testing.T) {
	p, c := fake(t, fakekubectl.Faults{})
	add := func(name string, created time.Time, change map[string]any) {
		pod, err := p.draft(execpolicy.Spec{Supervisor: []string{"sh"}}, name)
		assert.NilError(t, err)
		metadata := pod["metadata"].(object)
		metadata["uid"], metadata["creationTimestamp"] = "uid-of-"+name, created
		for key, value := range change {
			metadata["labels"].(object)[key] = value
		}
		pod["status"] = object{"phase": "Pending"}
		c.Add(pod)
	}
	now := time.Now()
	add("living", now, nil)
	add("expired", now.Add(-time.Hour),
		map[string]any{"cofferdam.created": "1000", "cofferdam.expires": "2000"})
	add(
		"copied",
		now,
		map[string]any{
			"cofferdam.name":    "other",
			"cofferdam.created": "1000",
			"cofferdam.expires": "2000",
		},
	)
	add("orphan", now, map[string]any{"cofferdam.pid": "4194303"})
	// By the cluster's clock it was created just now, whatever its creator's was.
	old := fmt.Sprint(now.Add(-48 * time.Hour).Unix())
	add(
		"young",
		now,
		map[string]any{
			"cofferdam.created": old,
			"cofferdam.expires": fmt.Sprint(now.Add(-time.Hour).Unix()),
		},
	)
	removed, err := Sweep(t.Context(), p.Cluster)
	assert.NilError(t, err)
	if _, err := os.Stat("/proc/self/ns/pid"); err == nil {
		assert.DeepEqual(t, removed, []string{"expired", "orphan"})
		assert.DeepEqual(t, c.Pods(), []string{"copied", "living", "young"})
	}
	for _, name := range c.Pods() {
		k, _ := p.Cluster.client(t.Context())
		assert.NilError(t, k.DeletePod(t.Context(), name, "uid-of-"+name, 0))
	}
}

// A cluster whose clock is behind decides when a pod has expired.
func TestSweepByTheClustersClock(t *testing.T) {
	now := time.Now()
	ago := now.Add(-48 * time.Hour)
	p, c := fake(t, fakekubectl.Faults{Time: ago})
	pod, err := p.draft(execpolicy.Spec{Supervisor: []string{"sh"}}, "used")
	assert.NilError(t, err)
	metadata := pod["metadata"].(object)
	metadata["uid"], metadata["creationTimestamp"] = "uid-of-used", ago.Add(-time.Minute)
	labels := metadata["labels"].(object)
	labels["cofferdam.created"] = fmt.Sprint(ago.Add(-time.Minute).Unix())
	labels["cofferdam.expires"] = fmt.Sprint(now.Add(-3 * time.Hour).Unix())
	pod["status"] = object{"phase": "Running"}
	c.Add(pod)
	removed, err := Sweep(t.Context(), p.Cluster)
	assert.NilError(t, err)
	assert.Equal(t, len(removed), 0)
	k, err := p.Cluster.client(t.Context())
	assert.NilError(t, err)
	assert.NilError(t, k.DeletePod(t.Context(), "used", "uid-of-used", 0))
}

// A start that was given up before the cluster was asked for a pod has none to look for.
func TestSpawnAfterItsContext(t *testing.T) {
	fakeengine.NeedIsolation(t)
	p, c := fake(t, fakekubectl.Faults{})
	p.NetworkEnabled, p.NetworkPolicy = true, ""
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
	whose := errors.New("the user has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(whose)
	proc, err := p.Spawn(ctx, execpolicy.Spec{})
	assert.ErrorIs(t, err, whose)
	assert.Assert(t, proc == nil)
	assert.Equal(t, len(c.Pods()), 0)
}
