package kube

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func TestCheckNetwork(t *testing.T) {
	none := map[string]string{labelNetwork: networkNone, "team": "x"}
	const (
		both  = `"policyTypes":["Ingress","Egress"]`
		named = `{"metadata":{"name":"deny"},"spec":{` + both +
			`,"podSelector":{"matchLabels":{"cofferdam.network":"none"}}}}`
		all = `{"metadata":{"name":"deny"},"spec":{` + both +
			`,"podSelector":{},"ingress":[],"egress":null}}`
		others = `{"metadata":{"name":"web"},"spec":{"policyTypes":["Egress"],` +
			`"podSelector":{"matchLabels":{"app":"web"}},"egress":[{}]}}`
	)
	for _, c := range []struct{ list, words string }{
		{named, ""},
		{all, ""},
		{named + "," + others, ""},
		{others, "has no NetworkPolicy deny"},
		{``, "has no NetworkPolicy deny"},
		{`{"metadata":{"name":"deny"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`, "not about both"},
		{`{"metadata":{"name":"deny"},"spec":{"podSelector":{}}}`, "not about both"},
		{`{"metadata":{"name":"deny"},"spec":{` + both + `,"podSelector":{"matchLabels":{"a":"b"}}}}`,
			"does not select"},
		{`{"metadata":{"name":"deny"},"spec":{` + both +
			`,"podSelector":{"matchExpressions":[{"key":"team","operator":"Gt"}]}}}`, "does not select"},
		{`{"metadata":{"name":"deny"},"spec":{` + both + `,"podSelector":{},"egress":[{}]}}`,
			"deny selects the pod and allows"},
		{named + `,{"metadata":{"name":"dns"},"spec":{"podSelector":{},"policyTypes":["Egress"],` +
			`"egress":[{"ports":[{"port":53}]}]}}`, "dns selects the pod and allows"},
		{named + `,{"metadata":{"name":"in"},"spec":{"podSelector":{"matchLabels":{"team":"x"}},` +
			`"policyTypes":["Ingress"],"ingress":[{}]}}`, "in selects the pod and allows"},
		{named + `,{"metadata":{"name":"new"},"spec":{"egress":[{}],"podSelector":` +
			`{"matchExpressions":[{"key":"team","operator":"Gt","values":["1"]}]}}}`, "new selects the pod and allows"},
	} {
		var policies []networkPolicy
		assert.NilError(t, json.Unmarshal([]byte("["+c.list+"]"), &policies), c.list)
		err := checkNetwork(policies, "deny", none)
		if c.words == "" {
			assert.NilError(t, err, c.list)
			continue
		}
		assert.ErrorIs(t, err, ErrNetworkOpen)
		assert.ErrorContains(t, err, c.words)
	}
}

func TestSelector(t *testing.T) {
	labels := map[string]string{"a": "1"}
	for text, want := range map[string]bool{
		`{}`:                        true,
		`{"matchLabels":{"a":"1"}}`: true,
		`{"matchLabels":{"a":"2"}}`: false,
		`{"matchLabels":{"b":""}}`:  false,
		`{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}]}`:          true,
		`{"matchExpressions":[{"key":"a","operator":"In","values":["2"]}]}`:              false,
		`{"matchExpressions":[{"key":"b","operator":"In","values":[""]}]}`:               false,
		`{"matchExpressions":[{"key":"a","operator":"NotIn","values":["2"]}]}`:           true,
		`{"matchExpressions":[{"key":"b","operator":"NotIn","values":["2"]}]}`:           true,
		`{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}`:           false,
		`{"matchExpressions":[{"key":"a","operator":"Exists"}]}`:                         true,
		`{"matchExpressions":[{"key":"b","operator":"Exists"}]}`:                         false,
		`{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}`:                   false,
		`{"matchExpressions":[{"key":"b","operator":"DoesNotExist"}]}`:                   true,
		`{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"Exists"}]}`: false,
	} {
		var s selector
		assert.NilError(t, json.Unmarshal([]byte(text), &s))
		assert.Check(t, s.selects(labels) == want, text)
	}
}

// Whatever the cluster says of a pod, it is judged without a panic, and a pod that is not
// what was sent is never taken for it.
func FuzzPod(f *testing.F) {
	p := Policy{NetworkPolicy: "deny"}
	for _, text := range []string{
		`{}`, `[]`, `null`, `{"spec":null}`, unschedulable, `{"status":` + string(waiting("ErrImagePull", "x")) + `}`,
		`{"status":` + string(terminatedStatus(1, "Error", "x")) + `,"spec":{"nodeName":"n"}}`,
	} {
		f.Add([]byte(text))
	}
	sent, err := p.draft(execpolicy.Spec{}, "name")
	assert.NilError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		assert.Assert(t, p.checkAdmitted(sent, text, true) != nil)
		pod, err := readPod(text)
		if err != nil {
			return
		}
		runs, _, err := pod.await()
		assert.Assert(t, !runs || err == nil)
		assert.Assert(t, pod.end() != nil)
	})
}

// Each value that is changed in a pod is found.
func FuzzAdmitted(f *testing.F) {
	p := Policy{NetworkPolicy: "deny"}
	sent, err := p.draft(execpolicy.Spec{}, "name")
	assert.NilError(f, err)
	text, err := json.Marshal(sent)
	assert.NilError(f, err)
	assert.NilError(f, p.checkAdmitted(sent, text, false))
	for i := range 40 {
		f.Add(i*31, byte('x'))
	}
	f.Fuzz(func(t *testing.T, at int, b byte) {
		changed := append([]byte{}, text...)
		changed[max(at, 0)%len(changed)] = b
		var was, is any
		assert.NilError(t, json.Unmarshal(text, &was))
		if json.Unmarshal(changed, &is) != nil {
			assert.Assert(t, p.checkAdmitted(sent, changed, false) != nil)
			return
		}
		a, err := json.Marshal(was)
		assert.NilError(t, err)
		b2, err := json.Marshal(is)
		assert.NilError(t, err)
		same := string(a) == string(b2)
		assert.Equal(t, p.checkAdmitted(sent, changed, false) == nil, same)
	})
}
