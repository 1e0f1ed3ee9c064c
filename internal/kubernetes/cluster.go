//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
)

// The addresses exist in the cluster's own network namespaces only.
const (
	controlIP  = "10.99.77.1" // of the machine with the control plane
	apiPort    = "6443"
	apiHost    = controlIP + ":" + apiPort
	serviceIP  = "10.96.0.1" // by which pods know the API server
	serviceNet = "10.96.0.0/24"
	outsideIP  = "198.51.100.1" // what is outside of the cluster
	etcdURL    = "http://127.0.0.1:2379"
	peerURL    = "http://127.0.0.1:2380"
)

const (
	namespace     = "cofferdam"
	networkPolicy = "no-network"
	pauseImage    = "localhost/pause:1"
)

// A cluster is where one cluster has its files. All of its roles have the same, since
// namespaces change nothing of the file system but /run, /var/lib and /var/log.
type cluster struct {
	dir   string // of this cluster
	cache string // what all clusters use
}

func (c cluster) path(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

func (c cluster) cert(name string) string { return c.path("pki", name+".crt") }
func (c cluster) key(name string) string  { return c.path("pki", name+".key") }
func (c cluster) log(name string) string  { return c.path("log", name) }

// kubeconfig returns the file by which a part of the cluster reaches the API server.
func (c cluster) kubeconfig(name string) string {
	return c.path("pki", name+".kubeconfig")
}

// images returns the archives of the images that each node holds.
func (c cluster) images() []string {
	return []string{
		filepath.Join(c.cache, "pause.tar"), filepath.Join(c.cache, testImageFile()),
	}
}

// kube returns a program of Kubernetes.
func (c cluster) kube(name string) string { return filepath.Join(c.cache, "bin", name) }

// debian returns a program of the distribution's packages.
func (c cluster) debian(path string) string {
	return filepath.Join(c.cache, "debian", path)
}

// cgroup returns the name of the cgroup of a node, or of the cluster's, which holds it.
func (c cluster) cgroup(node string) string {
	return filepath.Join("cofferdam-kubernetes-"+filepath.Base(c.dir), node)
}

// machineSocket is the name of the socket of the machine's process 1.
const machineSocket = "machine.sock"

// socket returns the socket on which a process 1 takes orders for a part.
func (c cluster) socket(part string) string {
	kind, number, found := strings.Cut(part, "-")
	if found && (kind == "kubelet" || kind == "containerd") {
		return c.path("node-" + number + ".sock")
	}
	return c.path(machineSocket)
}

// A node has a number, from 1.
type node int

func nodes() (all []node) {
	for i := range kubeplug.Nodes() {
		all = append(all, node(i+1))
	}
	return all
}

// nodeOf returns the node of that name.
func nodeOf(name string) (node, bool) {
	i := slices.Index(kubeplug.Nodes(), name)
	return node(i + 1), i >= 0
}

func (n node) String() string  { return "node-" + strconv.Itoa(int(n)) }
func (n node) address() string { return fmt.Sprintf("10.99.77.%d", 10+int(n)) }
func (n node) podNet() string  { return fmt.Sprintf("10.244.%d.0/24", int(n)) }

// part returns the name of a part of the node.
func (n node) part(kind string) string { return fmt.Sprintf("%s-%d", kind, int(n)) }

// argv returns the command line of a part.
func (c cluster) argv(part string) []string {
	as := func(user string) []string {
		file := c.kubeconfig(user)
		return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file,
			"--authorization-kubeconfig=" + file, "--bind-address=127.0.0.1",
			"--leader-elect=false"}
	}
	kind, number, _ := strings.Cut(part, "-")
	switch kind {
	case "etcd":
		// Its data are in memory, of which it needs 100 MB, so that it waits for no disk.
		return []string{c.debian("usr/bin/etcd"), "--name=etcd", "--data-dir=/run/etcd",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=etcd=" + peerURL}
	case "apiserver":
		return []string{c.kube("kube-apiserver"), "--etcd-servers=" + etcdURL,
			"--bind-address=" + controlIP, "--advertise-address=" + controlIP,
			"--secure-port=" + apiPort, "--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + serviceNet,
			"--tls-cert-file=" + c.cert("apiserver"),
			"--tls-private-key-file=" + c.key("apiserver"),
			"--client-ca-file=" + c.cert("ca"),
			"--kubelet-client-certificate=" + c.cert("kubelet-client"),
			"--kubelet-client-key=" + c.key("kubelet-client"),
			"--kubelet-certificate-authority=" + c.cert("ca"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.path("pki", "tokens.pub"),
			"--service-account-signing-key-file=" + c.key("tokens"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction", "--allow-privileged"}
	case "controller":
		// A node that says nothing is lost after 20 s, and not after 50.
		return slices.Concat([]string{c.kube("kube-controller-manager")},
			as("controller-manager"), []string{
				"--service-account-private-key-file=" + c.key("tokens"),
				"--root-ca-file=" + c.cert("ca"), "--use-service-account-credentials",
				"--node-monitor-grace-period=20s", "--node-monitor-period=2s"})
	case "scheduler":
		return slices.Concat([]string{c.kube("kube-scheduler")}, as("scheduler"))
	case "containerd":
		return []string{c.debian("usr/bin/containerd"),
			"--config=" + c.path("node-"+number, "containerd.toml")}
	case "kubelet":
		name := "node-" + number
		n, _ := nodeOf(name)
		return []string{c.kube("kubelet"), "--config=" + c.path(name, "kubelet.yaml"),
			"--kubeconfig=" + c.kubeconfig(name), "--root-dir=" + c.path(name, "kubelet"),
			"--hostname-override=" + name, "--node-ip=" + n.address(), "--v=2"}
	}
	return nil
}

// files returns the contents of the cluster's files, by their names in its directory.
// The API server is at host:port for programs outside of the cluster.
func (c cluster) files(host string) map[string]string {
	files := map[string]string{
		"kubeconfig":   c.kubeconfigText("admin", host),
		"objects.yaml": objects,
	}
	for _, user := range []string{"admin", "controller-manager", "scheduler"} {
		files["pki/"+user+".kubeconfig"] = c.kubeconfigText(user, apiHost)
	}
	for _, n := range nodes() {
		name := n.String()
		files["pki/"+name+".kubeconfig"] = c.kubeconfigText(name, apiHost)
		files[name+"/containerd.toml"] = c.containerdText(n)
		files[name+"/kubelet.yaml"] = c.kubeletText(n)
		files[name+"/cni/10-pods.conflist"] = c.networkText(n)
	}
	return files
}

// objects are what the cluster has before the tests run.
//
//go:embed objects.yaml
var objects string

func (c cluster) write(host string) error {
	for name, text := range c.files(host) {
		if err := c.writeFile(name, text); err != nil {
			return err
		}
	}
	return nil
}

func (c cluster) writeFile(name, text string) error {
	file := c.path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// certificates makes all of them.
func (c cluster) certificates() error {
	if err := os.MkdirAll(c.path("pki"), 0o700); err != nil {
		return err
	}
	a, err := newAuthority(c.path("pki"))
	if err != nil {
		return err
	}
	type user struct {
		file, name, group string
		addresses, names  []string
	}
	const masters = "system:masters"
	users := []user{
		{file: "admin", name: "admin", group: masters},
		{file: "kubelet-client", name: "apiserver-kubelet-client", group: masters},
		{file: "controller-manager", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "apiserver", name: "kube-apiserver",
			addresses: []string{"127.0.0.1", controlIP, serviceIP},
			names:     []string{"kubernetes", "kubernetes.default.svc"}},
	}
	for _, n := range nodes() {
		users = append(users, user{file: n.String(), name: "system:node:" + n.String(),
			group: "system:nodes", addresses: []string{n.address()}})
	}
	for _, u := range users {
		if err := a.issue(u.file, u.name, u.group, u.addresses, u.names); err != nil {
			return err
		}
	}
	return nil
}

func (c cluster) kubeconfigText(user, host string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: %s, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: test, context: {cluster: test, user: %[3]s, namespace: %[6]s}}]
current-context: test
`, host, c.cert("ca"), user, c.cert(user), c.key(user), namespace)
}

// restrict_oom_score_adj is for machines without CAP_SYS_RESOURCE.
func (c cluster) containerdText(n node) string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
oom_score = 0

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = %q
`, c.path(n.String(), "containerd"), pauseImage, c.path("cni"), c.path(n.String(), "cni"),
		c.debian("usr/sbin/runc"))
}

// The numbers of processes and of pods are bounded for the machine's sake.
func (c cluster) kubeletText(n node) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
healthzPort: 0
tlsCertFile: %q
tlsPrivateKeyFile: %q
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: %q}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
volumePluginDir: /run/volume-plugins
oomScoreAdj: 0
evictionHard: {memory.available: "100Mi"}
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
podPidsLimit: 1024
maxPods: 110
nodeStatusUpdateFrequency: 4s
`, n.address(), c.cert(n.String()), c.key(n.String()), c.cert("ca"), c.cgroup(n.String()))
}

// Each pod has a link of its own to its node, so that all that it sends passes the node's
// filter, also what is for a pod of the same node.
func (c cluster) networkText(n node) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": "%s"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "%s", "dir": %q}
  ]
}
`, n.podNet(), policyName, c.dir)
}
