//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestDenies(t *testing.T) {
	const (
		all = `"policyTypes": ["Ingress", "Egress"]`
		one = `"podSelector": {"matchLabels": {"cofferdam.network": "none"}}, `
	)
	none := map[string]string{"cofferdam.network": "none", "other": "x"}
	for name, test := range map[string]struct {
		spec   string
		labels map[string]string
		denied bool
	}{
		"it is selected": {
			spec: one + all, labels: none, denied: true,
		},
		"it has no such label": {
			spec: one + all,
		},
		"it has another value": {
			spec: one + all, labels: map[string]string{"cofferdam.network": "some"},
		},
		"all pods are selected": {spec: `"podSelector": {}, ` + all, denied: true},
		"only what comes is denied": {
			spec: `"podSelector": {}, "policyTypes": ["Ingress"]`,
		},
		"something is allowed": {spec: `"podSelector": {}, "egress": [{}], ` + all},
		"the selector has expressions": {
			spec: `"podSelector": {"matchExpressions": [{"key": "a"}]}, ` + all,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var list policyList
			text := `{"items": [{"spec": {` + test.spec + `}}]}`
			assert.NilError(t, json.Unmarshal([]byte(text), &list))
			assert.Equal(t, list.denies(test.labels), test.denied)
		})
	}
	assert.Assert(t, !policyList{}.denies(none))
}

// What containerd gives to a plugin after ptp.
const added = `{"cniVersion": "0.4.0", "dir": "/d", "name": "pods",
	"type": "cofferdam-policy", "prevResult": {"cniVersion": "0.4.0", "dns": {},
	"interfaces": [{"mac": "aa", "name": "veth12ab"},
	{"mac": "bb", "name": "eth0", "sandbox": "/var/run/netns/cni-1"}],
	"ips": [{"address": "10.244.1.2/24", "gateway": "10.244.1.1", "version": "4"}]}}`

func TestHostSide(t *testing.T) {
	for name, test := range map[string]struct{ stdin, side, wrong string }{
		"ptp's":        {stdin: added, side: "veth12ab"},
		"no interface": {stdin: `{"prevResult": {}}`, wrong: "no link"},
		"no result":    {stdin: `{}`, wrong: "JSON"},
		"only the pod's": {
			stdin: `{"prevResult": {"interfaces": [{"name": "veth1", "sandbox": "/x"}]}}`,
			wrong: "no link",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l link
			assert.NilError(t, json.Unmarshal([]byte(test.stdin), &l))
			side, err := l.hostSide()
			if test.wrong != "" {
				assert.ErrorContains(t, err, test.wrong)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, side, test.side)
		})
	}
}

func TestPolicyPlugin(t *testing.T) {
	t.Setenv("CNI_COMMAND", "VERSION")
	var out strings.Builder
	assert.NilError(t, runPolicy(strings.NewReader(""), &out))
	assert.Assert(t, json.Valid([]byte(out.String())))

	t.Setenv("CNI_COMMAND", "ADD")
	assert.ErrorContains(t, runPolicy(strings.NewReader("{"), &out), "EOF")
	// A pod that it can't look up gets no network.
	t.Setenv("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b")
	assert.ErrorContains(t, runPolicy(strings.NewReader(added), &out), "no such file")
	t.Setenv("CNI_ARGS", "IgnoreUnknown=1")
	assert.ErrorContains(t, runPolicy(strings.NewReader(added), &out), "no pod")

	t.Setenv("CNI_COMMAND", "CHECK")
	assert.NilError(t, runPolicy(strings.NewReader(added), &out))
}

func FuzzHostSide(f *testing.F) {
	f.Add([]byte(added))
	f.Fuzz(func(t *testing.T, stdin []byte) {
		var l link
		if json.Unmarshal(stdin, &l) != nil {
			return
		}
		if side, err := l.hostSide(); err == nil && !strings.HasPrefix(side, "veth") {
			t.Errorf("%q", side)
		}
	})
}
