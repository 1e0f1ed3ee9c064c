//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A link is what the node's container network has for a pod, in the terms of CNI 0.4.0.
type link struct {
	Dir        string          // of the cluster
	PrevResult json.RawMessage // of the plugin before this one
}

// hostSide returns the name of the node's end of the pod's link.
func (l link) hostSide() (string, error) {
	var result struct {
		Interfaces []struct{ Name, Sandbox string }
	}
	if err := json.Unmarshal(l.PrevResult, &result); err != nil {
		return "", err
	}
	for _, i := range result.Interfaces {
		if i.Sandbox == "" && strings.HasPrefix(i.Name, "veth") {
			return i.Name, nil
		}
	}
	return "", errors.New("the result names no link on the node")
}

// runPolicy is a CNI plugin that enforces NetworkPolicies which deny everything. Others
// are not enforced. It runs after the one that makes a pod's link, and before the pod's
// first process. A pod that such a policy selects then can send nothing to the node, to
// other pods and to what is beyond, and gets nothing from there: packets are dropped on
// the node's end of the link, so what the pod says of its address does not matter.
// A later change of policies or of the pod's labels changes nothing.
func runPolicy(stdin io.Reader, stdout io.Writer) error {
	err := plug(stdin, stdout)
	if err == nil {
		return nil
	}
	// Whoever runs a plugin reads there why it failed.
	answer := object{"cniVersion": "0.4.0", "code": 100, "msg": err.Error()}
	return errors.Join(err, json.NewEncoder(stdout).Encode(answer))
}

func plug(stdin io.Reader, stdout io.Writer) error {
	verb := os.Getenv("CNI_COMMAND")
	if verb == "VERSION" {
		_, err := io.WriteString(stdout,
			`{"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}`)
		return err
	}
	var l link
	if err := json.NewDecoder(stdin).Decode(&l); err != nil {
		return err
	}
	switch verb {
	case "ADD":
		side, err := l.hostSide()
		if err != nil {
			return err
		}
		denied, err := l.denied(os.Getenv("CNI_ARGS"))
		if err != nil {
			return err
		}
		if denied {
			if err := errors.Join(rules("-I", side)...); err != nil {
				return err
			}
		}
		_, err = stdout.Write(l.PrevResult)
		return err
	case "DEL":
		// Most links have no rules, and a node that was switched off has lost them all.
		if side, err := l.hostSide(); err == nil {
			_ = rules("-D", side)
		}
	}
	return nil
}

// rules inserts or deletes those that drop everything at a link.
func rules(verb, side string) (errs []error) {
	for _, rule := range [][]string{
		{"INPUT", "-i"}, {"OUTPUT", "-o"}, {"FORWARD", "-i"}, {"FORWARD", "-o"},
	} {
		cmd := exec.Command("iptables", "-w", verb, rule[0], rule[1], side, "-j", "DROP")
		said, err := cmd.CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("iptables: %w: %s", err, said))
		}
	}
	return errs
}

// denied reports whether a policy denies everything to the pod that the arguments of a
// CNI plugin name.
func (l link) denied(args string) (bool, error) {
	words := map[string]string{}
	for _, word := range strings.Split(args, ";") {
		name, value, _ := strings.Cut(word, "=")
		words[name] = value
	}
	in, name := words["K8S_POD_NAMESPACE"], words["K8S_POD_NAME"]
	if in == "" || name == "" {
		return false, errors.New("the arguments name no pod")
	}
	var pod struct {
		Metadata struct{ Labels map[string]string }
	}
	var list policyList
	c := cluster{dir: l.Dir}
	if err := c.get("/api/v1/namespaces/"+in+"/pods/"+name, &pod); err != nil {
		return false, err
	}
	err := c.get("/apis/networking.k8s.io/v1/namespaces/"+in+"/networkpolicies", &list)
	if err != nil {
		return false, err
	}
	return list.denies(pod.Metadata.Labels), nil
}

// A policyList is a NetworkPolicyList of the API.
type policyList struct {
	Items []struct {
		Spec struct {
			PodSelector struct {
				MatchLabels      map[string]string
				MatchExpressions []json.RawMessage
			}
			PolicyTypes     []string
			Ingress, Egress []json.RawMessage
		}
	}
}

// denies reports whether a policy that denies everything, both ways, selects a pod with
// these labels.
func (l policyList) denies(labels map[string]string) bool {
	for _, item := range l.Items {
		s := item.Spec
		selects := len(s.PodSelector.MatchExpressions) == 0
		for name, value := range s.PodSelector.MatchLabels {
			if has, ok := labels[name]; !ok || has != value {
				selects = false
			}
		}
		allows := len(s.PolicyTypes) < 2 || len(s.Ingress) > 0 || len(s.Egress) > 0
		if selects && !allows {
			return true
		}
	}
	return false
}

// get asks the API server, as the cluster's administrator.
func (c cluster) get(path string, answer any) error {
	pair, err := tls.LoadX509KeyPair(c.cert("admin"), c.key("admin"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.cert("ca"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{pair},
		}},
	}
	response, err := client.Get("https://" + apiHost + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
