package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

// real returns a policy for the tests' cluster, and what asks it.
func real(t *testing.T) (Policy, *kubectl.Client) {
	t.Helper()
	p := Policy{
		Cluster:       Cluster{Namespace: os.Getenv("COFFERDAM_KUBERNETES_NAMESPACE")},
		Image:         os.Getenv("COFFERDAM_KUBERNETES_IMAGE"),
		PullPolicy:    "Never",
		NetworkPolicy: os.Getenv("COFFERDAM_KUBERNETES_NETWORK_POLICY"),
		// Its nodes can't count it.
		EphemeralBytes: -1,
		MemoryBytes:    128 << 20, CPUs: "0.2",
	}
	k, err := p.Cluster.client(t.Context())
	assert.NilError(t, err)
	return p, k
}

// gone fails the test unless the cluster has no such pod.
func gone(t *testing.T, k *kubectl.Client, name string) {
	t.Helper()
	_, err := k.Get(t.Context(), k.Pods()+"/"+name)
	assert.ErrorIs(t, err, kubectl.ErrNotFound)
}

func TestClusterSession(t *testing.T) {
	p, k := real(t)
	s, err := execpolicy.Start(t.Context(), p,
		execpolicy.Spec{Labels: map[string]string{"team": "x"}})
	assert.NilError(t, err)
	defer s.Close()
	assert.Equal(t, string(runs(t, s, "echo hi").Stdout), "hi\n")
	r := runs(
		t,
		s,
		`ulimit -u; ulimit -c; ulimit -n; [ -w / ] || echo read-only; env | grep COFFERDAM`,
	)
	assert.Equal(t, string(r.Stdout), "256\n0\n1024\nread-only\n")
	assert.Assert(t, r.ImageID != "")
	job, err := s.StartJob(t.Context(),
		execpolicy.Command{Script: "ulimit -u; cat", Stdin: strings.NewReader("in")})
	assert.NilError(t, err)
	r, err = job.Wait(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, string(r.Stdout), "256\nin")
	// What is to end ends, and costs the session nothing.
	r, err = s.Run(t.Context(),
		execpolicy.Command{Script: "sleep 100", Timeout: 300 * time.Millisecond})
	assert.NilError(t, err)
	assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
	assert.NilError(t, s.Close())
	gone(t, k, s.Name())
}

// A pod whose stdin nobody reads any more is ended by its node.
func TestClusterForcedEnd(t *testing.T) {
	p, k := real(t)
	proc, err := p.Spawn(t.Context(), execpolicy.Spec{Command: []string{"sleep", "1000"}})
	assert.NilError(t, err)
	assert.NilError(t, proc.Ready(t.Context()))
	proc.Stdin.Close()
	ctx, cancel := context.WithTimeout(t.Context(), defaultTerminationTimeout)
	defer cancel()
	assert.NilError(t, proc.Kill(ctx))
	gone(t, k, proc.Name)
	<-proc.Done
	proc.Stdout.Close()
	proc.Stderr.Close()
}

// The network that is open is noticed, whatever a NetworkPolicy says: this one's pods are
// of another label than those that the cluster's rule is for.
func TestClusterOpenNetwork(t *testing.T) {
	p, k := real(t)
	p.NetworkPolicy, p.NetworkEnabled = "", true
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	assert.NilError(t, s.Close())
	gone(t, k, s.Name())
	p.NetworkPolicy, p.NetworkEnabled = "no-such-policy", false
	_, err = execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, ErrNetworkOpen)
	// The trial, in a pod that no policy selects.
	p, _ = real(t)
	sent, err := p.draft(execpolicy.Spec{Supervisor: []string{"cat"}}, container.NewName())
	assert.NilError(t, err)
	sent["metadata"].(object)["labels"].(object)[labelNetwork] = networkOpen
	body, err := json.Marshal(sent)
	assert.NilError(t, err)
	made, err := k.Create(t.Context(), k.Pods(), body)
	assert.NilError(t, err)
	pod, err := readPod(made)
	assert.NilError(t, err)
	r := &run{policy: &p, Client: *k, name: pod.Metadata.Name, uid: pod.Metadata.UID}
	defer r.delete(context.Background(), r.uid)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	over := r.awaitEnd(ctx)
	assert.Assert(t, over != nil)
	assert.ErrorIs(t, over.end(), ErrNetworkOpen)
}

func TestClusterHopeless(t *testing.T) {
	p, k := real(t)
	for class, change := range map[error]func(*Policy){
		ErrNoRoom:       func(p *Policy) { p.MemoryBytes = 1 << 50 },
		ErrImageMissing: func(p *Policy) { p.Image = "localhost/no-such-image:1" },
		ErrArgument:     func(p *Policy) { p.Image = "no image" },
		ErrAdmission:    func(p *Policy) { p.RuntimeClass = "no-such-class" },
	} {
		q := p
		change(&q)
		begin := time.Now()
		_, err := execpolicy.Start(t.Context(), q, execpolicy.Spec{})
		assert.ErrorIs(t, err, class)
		assert.Assert(t, time.Since(begin) < 20*time.Second, err)
		t.Log(err)
	}
	var list struct{ Items []pod }
	text, err := k.Get(t.Context(), k.Pods())
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(text, &list))
	for _, p := range list.Items {
		assert.Check(t, p.Status.Phase != "Pending", p.Metadata.Name)
	}
}

// The pod is gone when the program that started it was killed.
func TestClusterKilledProgram(t *testing.T) {
	if os.Getenv("COFFERDAM_KUBE_CHILD") != "" {
		p, _ := real(t)
		s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
		assert.NilError(t, err)
		os.Stdout.WriteString("NAME=" + s.Name() + "\n")
		select {}
	}
	_, k := real(t)
	program, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.Command(program, "-test.run=^TestClusterKilledProgram$")
	cmd.Env = append(os.Environ(), "COFFERDAM_KUBE_CHILD=1")
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	var said []byte
	for !bytes.Contains(said, []byte("NAME=")) || !bytes.HasSuffix(said, []byte("\n")) {
		buf := make([]byte, 100)
		n, err := out.Read(buf)
		assert.NilError(t, err, "%s", said)
		said = append(said, buf[:n]...)
	}
	_, name, _ := strings.Cut(strings.TrimSpace(string(said)), "NAME=")
	assert.NilError(t, cmd.Process.Kill())
	cmd.Wait()
	begin := time.Now()
	for {
		_, err := k.Get(t.Context(), k.Pods()+"/"+name)
		if errors.Is(err, kubectl.ErrNotFound) {
			break
		}
		assert.Assert(t, time.Since(begin) < time.Minute, "the pod is still there")
	}
	t.Log(time.Since(begin))
}

// The cluster tells its time, and sweeps what has expired.
func TestClusterSweep(t *testing.T) {
	p, k := real(t)
	sent, err := p.draft(execpolicy.Spec{Supervisor: []string{"cat"}}, container.NewName())
	assert.NilError(t, err)
	metadata := sent["metadata"].(object)
	metadata["labels"].(object)["cofferdam.pid"] = "4194303"
	body, err := json.Marshal(sent)
	assert.NilError(t, err)
	_, err = k.Create(t.Context(), k.Pods(), body)
	assert.NilError(t, err)
	removed, err := Sweep(t.Context(), p.Cluster)
	assert.NilError(t, err)
	name := metadata["name"].(string)
	assert.Assert(t, slices.Contains(removed, name))
	gone(t, k, name)
	text, err := k.Create(t.Context(), "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	assert.NilError(t, err)
	t.Logf("%s", text)
	assert.Assert(t, time.Since(earlier(t.Context(), k)).Abs() < time.Minute)
}

// A kubectl that points at nothing, or that the cluster does not know, fails at once.
func TestClusterErrors(t *testing.T) {
	p, k := real(t)
	text, err := exec.Command(k.Path, "config", "view", "--minify", "--output=json").Output()
	assert.NilError(t, err)
	var config struct {
		Clusters []struct{ Cluster map[string]any }
	}
	assert.NilError(t, json.Unmarshal(text, &config))
	for name, test := range map[string]struct {
		server string
		user   map[string]any
		class  error
	}{
		"nobody listens": {"https://127.0.0.1:1", map[string]any{"token": "x"}, ErrDown},
		"no such host":   {"https://none.invalid", map[string]any{"token": "x"}, ErrDown},
		"logged out":     {"", map[string]any{"token": "wrong"}, ErrLoggedOut},
		"no plugin": {"", map[string]any{"exec": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin",
			"interactiveMode": "Never",
		}}, ErrLoggedOut},
	} {
		cluster := maps.Clone(config.Clusters[0].Cluster)
		if test.server != "" {
			cluster["server"] = test.server
		}
		named := func(key string, value any) []any {
			return []any{map[string]any{"name": "x", key: value}}
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "x",
			"clusters": named("cluster", cluster), "users": named("user", test.user),
			"contexts": named("context", map[string]any{"cluster": "x", "user": "x"}),
		})
		assert.NilError(t, err)
		file := filepath.Join(t.TempDir(), "config")
		assert.NilError(t, os.WriteFile(file, text, 0o600))
		for _, enabled := range []bool{false, true} {
			q := p
			q.Cluster.Kubeconfig, q.NetworkEnabled = file, enabled
			if enabled {
				q.NetworkPolicy = ""
			}
			begin := time.Now()
			_, err := execpolicy.Start(t.Context(), q, execpolicy.Spec{})
			assert.ErrorIs(t, err, test.class, name)
			assert.Assert(t, !errors.Is(err, execpolicy.ErrStillThere), name)
			assert.Assert(t, time.Since(begin) < 20*time.Second, "%s: %v", name, time.Since(begin))
			t.Log(time.Since(begin), err)
		}
	}
}

// The Role in the package's documentation is enough for a session with jobs.
func TestClusterRole(t *testing.T) {
	p, k := real(t)
	text, err := os.ReadFile("doc.go")
	assert.NilError(t, err)
	_, rules, _ := strings.Cut(string(text), "//\trules:\n")
	rules, _, ok := strings.Cut(rules, "//\n")
	assert.Assert(t, ok)
	rules = strings.ReplaceAll(rules, "//\t", "")
	name := container.NewName()
	ask := func(stdin string, words ...string) string {
		t.Helper()
		cmd := exec.Command(k.Path, append([]string{"--namespace=" + k.Namespace}, words...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
		return string(out)
	}
	defer ask("", "delete", "serviceaccount,role,rolebinding", name)
	ask("", "create", "serviceaccount", name)
	ask("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: "+name+"}\nrules:\n"+
		rules, "create", "-f", "-")
	ask("", "create", "rolebinding", name, "--role="+name, "--serviceaccount="+k.Namespace+":"+name)
	token := strings.TrimSpace(ask("", "create", "token", name))
	// A user of its own beside the cluster that the configuration has.
	var all map[string]any
	config := ask("", "config", "view", "--minify", "--flatten", "--output=json")
	assert.NilError(t, json.Unmarshal([]byte(config), &all))
	all["users"].([]any)[0].(map[string]any)["user"] = map[string]any{"token": token}
	text, err = json.Marshal(all)
	assert.NilError(t, err)
	p.Cluster.Kubeconfig = filepath.Join(t.TempDir(), "config")
	assert.NilError(t, os.WriteFile(p.Cluster.Kubeconfig, text, 0o600))
	s, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.NilError(t, err)
	defer s.Close()
	job, err := s.StartJob(t.Context(), execpolicy.Command{Script: "echo hi"})
	assert.NilError(t, err)
	r, err := job.Wait(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, string(r.Stdout), "hi\n")
	assert.NilError(t, s.Close())
	gone(t, k, s.Name())
	_, err = Sweep(t.Context(), p.Cluster)
	assert.NilError(t, err)
}
