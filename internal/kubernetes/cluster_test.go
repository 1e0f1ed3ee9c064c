//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
)

var example = cluster{dir: "/cache/clusters/1", cache: "/cache"}

func TestFiles(t *testing.T) {
	files := example.files("127.0.0.1:12345")
	for name, text := range files {
		if name == "objects.yaml" {
			continue // it is in a file already
		}
		t.Run(name, func(t *testing.T) {
			golden.Assert(t, text, filepath.Join("files", name))
		})
	}
	assert.Assert(t, json.Valid([]byte(files["node-1/cni/10-pods.conflist"])))
	assert.Assert(t, strings.Contains(objects, "name: "+namespace+"\n"))
	assert.Assert(t, strings.Contains(objects, "name: "+networkPolicy+"\n"))
}

func TestArgv(t *testing.T) {
	for _, part := range kubeplug.Parts() {
		if _, isNode := nodeOf(part); isNode {
			assert.Assert(t, example.argv(part) == nil)
			continue
		}
		t.Run(part, func(t *testing.T) {
			argv := strings.Join(example.argv(part), "\n") + "\n"
			golden.Assert(t, argv, "argv/"+part+".txt")
		})
	}
}

func TestSocket(t *testing.T) {
	for part, socket := range map[string]string{
		"etcd": "machine.sock", "controller-manager": "machine.sock",
		"node-2":    "machine.sock",
		"kubelet-1": "node-1.sock", "containerd-2": "node-2.sock",
	} {
		assert.Equal(t, example.socket(part), "/cache/clusters/1/"+socket)
	}
}

func TestProbePod(t *testing.T) {
	pod := probePod("denied", 2, true, []string{"192.0.2.1:80"})
	container := pod["spec"].(object)["containers"].([]object)[0]
	container["image"] = "IMAGE"
	text, err := json.MarshalIndent(pod, "", "  ")
	assert.NilError(t, err)
	golden.Assert(t, string(text)+"\n", "probe.json")
}

// Every server and client has a certificate that the others believe.
func TestCertificates(t *testing.T) {
	c := cluster{dir: t.TempDir()}
	assert.NilError(t, c.certificates())
	ca, err := os.ReadFile(c.cert("ca"))
	assert.NilError(t, err)
	roots := x509.NewCertPool()
	assert.Assert(t, roots.AppendCertsFromPEM(ca))
	for file, hosts := range map[string][]string{
		"admin": nil, "kubelet-client": nil, "controller-manager": nil, "scheduler": nil,
		"apiserver": {"127.0.0.1", controlIP, serviceIP, "kubernetes.default.svc"},
		"node-1":    {node(1).address()},
		"node-2":    {node(2).address()},
	} {
		t.Run(file, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(c.cert(file), c.key(file))
			assert.NilError(t, err)
			cert, err := x509.ParseCertificate(pair.Certificate[0])
			assert.NilError(t, err)
			for _, usage := range usages {
				_, err = cert.Verify(x509.VerifyOptions{
					Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage},
				})
				assert.NilError(t, err)
			}
			for _, host := range hosts {
				assert.NilError(t, cert.VerifyHostname(host))
			}
			info, err := os.Stat(c.key(file))
			assert.NilError(t, err)
			assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
		})
	}
}

func TestEnviron(t *testing.T) {
	h := &harness{cluster: example}
	var names []string
	for _, variable := range h.environ() {
		name, value, _ := strings.Cut(variable, "=")
		names = append(names, name)
		assert.Assert(t, value != "")
	}
	for _, name := range []string{"PATH", "KUBECONFIG", kubeplug.DirVar,
		kubeplug.NamespaceVar, kubeplug.ImageVar, kubeplug.NetworkPolicyVar,
		kubeplug.OutsideVar} {
		assert.Assert(t, slices.Contains(names, name), name)
	}
}
