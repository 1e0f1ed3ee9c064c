package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// Outside is for package attest: it returns what the policy asks for, and how the cluster
// is asked what it has admitted.
func (p Policy) Outside(ctx context.Context, _ execpolicy.Spec) (*outside.View, error) {
	k, err := p.Cluster.client(ctx)
	if err != nil {
		return nil, err
	}
	return &outside.View{
		Engine: "kubernetes",
		Image:  cmp.Or(p.Image, execpolicy.DefaultImage),
		Wanted: p.wanted(),
		Inside: func(ctx context.Context, name string) (string, error) {
			return p.attempts(ctx, k, name)
		},
		Versions: func(ctx context.Context) ([]outside.Component, error) {
			return versions(ctx, k)
		},
		Settings: func(ctx context.Context, name string) (*outside.Settings, error) {
			return p.settings(ctx, k, name)
		},
	}, nil
}

func (p *Policy) wanted() outside.Wanted {
	w := outside.Wanted{
		Network:       p.NetworkEnabled,
		WritableRoot:  p.WritableRootfs,
		NewPrivileges: p.AllowNewPrivileges,
		Devices:       len(p.Devices) > 0,
		Memory:        cmp.Or(p.MemoryBytes, limits.Memory),
		Pids:          cmp.Or(p.PidsLimit, limits.Pids),
		CPUs:          cmp.Or(p.CPUs, limits.CPUs),
		Tmpfs:         p.tmpfs(),
		Shm:           limits.Shm,
		Filter:        "the node's",
		Pod: &outside.WantedPod{
			NetworkPolicy: p.NetworkPolicy, Injected: p.AllowAdmitted,
		},
	}
	w.GVisor = p.gVisor()
	w.Tmpfs[scratchDir] = scratchBytes
	for _, name := range p.AddCapabilities {
		w.Caps = append(w.Caps, capability(name))
	}
	slices.Sort(w.Caps)
	if p.User == "" && !p.UserNamespace {
		w.AnyUser = "one that no other pod has"
	} else {
		user, group := (&validation{Policy: p}).user()
		w.User = userText(&user, &group)
	}
	return w
}

// attempts returns a script that tries the network as the pod did before its command ran.
func (p *Policy) attempts(ctx context.Context, k *kubectl.Client, name string) (string, error) {
	if p.NetworkEnabled {
		return "", nil
	}
	pod, err := admittedPod(ctx, k, name)
	if err != nil {
		return "", err
	}
	addresses := []string{
		"$KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT", "169.254.169.254 80",
	}
	if pod.Status.HostIP != "" {
		addresses = append(addresses, pod.Status.HostIP+" 10250")
	}
	return reach.Attempts(addresses...), nil
}

// versions returns those of the API server and of the nodes. Few users may see these.
// What can't be read of them is "unknown".
func versions(ctx context.Context, k *kubectl.Client) ([]outside.Component, error) {
	text, err := k.Get(ctx, "/version")
	if err != nil {
		return nil, err
	}
	var server struct{ GitVersion string }
	if err := json.Unmarshal(text, &server); err != nil {
		return nil, err
	}
	found := []outside.Component{{Name: "kubernetes", Version: server.GitVersion}}
	var nodes struct {
		Items []struct {
			Status struct {
				NodeInfo struct{ KubeletVersion, ContainerRuntimeVersion, KernelVersion string }
			}
		}
	}
	if text, err = k.Get(ctx, "/api/v1/nodes"); err == nil {
		err = json.Unmarshal(text, &nodes)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return append(found, ofNode("unknown", "runtime://unknown", "unknown")...), nil
	}
	for _, node := range nodes.Items {
		info := node.Status.NodeInfo
		parts := ofNode(info.KubeletVersion, info.ContainerRuntimeVersion, info.KernelVersion)
		for _, c := range parts {
			if c.Version != "" && !slices.Contains(found, c) {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// ofNode returns a node's versions. That of the runtime is like "containerd://1.6.20".
func ofNode(kubelet, runtime, kernel string) []outside.Component {
	name, version, _ := strings.Cut(runtime, "://")
	return []outside.Component{{Name: "kubelet", Version: kubelet},
		{Name: name, Version: version}, {Name: "kernel", Version: kernel}}
}

// An admitted is a pod as the API server has it.
type admitted struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		HostNetwork, HostPID, HostIPC, ShareProcessNamespace bool
		HostUsers                                            *bool
		ServiceAccountName, RuntimeClassName                 string
		SecurityContext                                      securityContext
		InitContainers, EphemeralContainers                  []json.RawMessage
		Containers                                           []admittedContainer
		Volumes                                              []admittedVolume
	}
	Status struct {
		HostIP, QOSClass  string
		ContainerStatuses []containerStatus
	}
}

type admittedContainer struct {
	Name, TerminationMessagePath string
	SecurityContext              securityContext
	Resources                    struct{ Limits map[string]string }
	VolumeMounts                 []struct {
		Name, MountPath string
		ReadOnly        bool
	}
	VolumeDevices []struct{ DevicePath string }
	Env           []struct {
		ValueFrom struct{ SecretKeyRef *struct{} }
	}
	EnvFrom []struct{ SecretRef *struct{} }
}

// A securityContext is that of a pod or of a container.
type securityContext struct {
	RunAsUser, RunAsGroup              *int64
	Privileged, ReadOnlyRootFilesystem bool
	AllowPrivilegeEscalation           *bool
	ProcMount                          string
	Capabilities                       struct{ Add, Drop []string }
	SeccompProfile, AppArmorProfile    *profile
}

type profile struct{ Type, LocalhostProfile string }

// An admittedVolume has one more field beside its name, which says what it is.
type admittedVolume map[string]json.RawMessage

func admittedPod(ctx context.Context, k *kubectl.Client, name string) (*admitted, error) {
	text, err := k.Get(ctx, k.Pods()+"/"+name)
	if err != nil {
		return nil, err
	}
	return readAdmitted(text)
}

func readAdmitted(text []byte) (*admitted, error) {
	pod := new(admitted)
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, fmt.Errorf("the pod that the cluster tells of: %w", err)
	}
	return pod, nil
}

// settings returns what the API server has admitted.
func (p *Policy) settings(ctx context.Context, k *kubectl.Client, name string) (
	*outside.Settings, error) {
	pod, err := admittedPod(ctx, k, name)
	if err != nil {
		return nil, err
	}
	network := "of the cluster"
	if !p.NetworkEnabled {
		policies, err := networkPolicies(ctx, k)
		if err != nil {
			return nil, err
		}
		network = "none"
		if err := checkNetwork(policies, p.NetworkPolicy, pod.Metadata.Labels); err != nil {
			network = err.Error()
		}
	}
	return pod.settings(network)
}

// settings returns what a pod says of itself, with the words for its network.
func (pod *admitted) settings(network string) (*outside.Settings, error) {
	i := slices.IndexFunc(pod.Spec.Containers, func(c admittedContainer) bool {
		return c.Name == containerName
	})
	if i < 0 {
		return nil, fmt.Errorf("the pod has no container %s", containerName)
	}
	c := pod.Spec.Containers[i]
	own, all := c.SecurityContext, pod.Spec.SecurityContext
	user, group := cmp.Or(own.RunAsUser, all.RunAsUser), cmp.Or(own.RunAsGroup, all.RunAsGroup)
	s := &outside.Settings{
		Container: outside.Container{
			Privileged:  own.Privileged,
			ReadOnly:    own.ReadOnlyRootFilesystem,
			Network:     network,
			PID:         "private",
			IPC:         "private",
			User:        userText(user, group),
			Runtime:     pod.Spec.RuntimeClassName,
			CapAdd:      own.Capabilities.Add,
			CapDrop:     own.Capabilities.Drop,
			SecurityOpt: securityOptions(own, all),
			Tmpfs:       map[string]string{},
		},
		Pod: &outside.Pod{
			ServiceAccount: pod.Spec.ServiceAccountName,
			TerminationLog: cmp.Or(c.TerminationMessagePath, reach.MessageFile),
			Injected:       pod.injected(),
		},
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == containerName {
			s.ImageID = status.ImageID
		}
	}
	for _, namespace := range []struct {
		is   bool
		mode *string
		name string
	}{
		{pod.Spec.HostNetwork, &s.Network, "host"},
		{pod.Spec.HostPID, &s.PID, "host"},
		{pod.Spec.HostIPC, &s.IPC, "host"},
		{pod.Spec.ShareProcessNamespace, &s.PID, "shared by the pod's containers"},
	} {
		if namespace.is {
			*namespace.mode = namespace.name
		}
	}
	others := len(pod.Spec.Containers) - 1 + len(pod.Spec.InitContainers) + len(pod.Spec.EphemeralContainers)
	if s.IPC == "private" && others > 0 {
		s.IPC = "shared by the pod's containers"
	}
	pod.limits(c, s)
	pod.volumes(c, s)
	for _, v := range c.Env {
		s.Pod.MayHaveToken = s.Pod.MayHaveToken || v.ValueFrom.SecretKeyRef != nil
	}
	for _, from := range c.EnvFrom {
		s.Pod.MayHaveToken = s.Pod.MayHaveToken || from.SecretRef != nil
	}
	return s, nil
}

// limits sets the limits and the devices.
func (pod *admitted) limits(c admittedContainer, s *outside.Settings) {
	s.Memory = amount(c.Resources.Limits["memory"], 1)
	s.NanoCPUs = amount(c.Resources.Limits["cpu"], 1e9)
	if pod.Status.QOSClass == "Guaranteed" {
		s.MemorySwap = s.Memory // a pod of this class gets no swap
	}
	for name := range c.Resources.Limits {
		if strings.Contains(name, "/") {
			s.Devices = append(s.Devices, name)
		}
	}
	slices.Sort(s.Devices)
	for _, device := range c.VolumeDevices {
		s.Devices = append(s.Devices, device.DevicePath)
	}
}

// volumes sets what is mounted.
func (pod *admitted) volumes(c admittedContainer, s *outside.Settings) {
	kinds := map[string]admittedVolume{}
	for _, v := range pod.Spec.Volumes {
		kinds[v.name()] = v
	}
	for _, m := range c.VolumeMounts {
		v := kinds[m.Name]
		if size, ok := v.memory(); ok {
			s.Tmpfs[m.MountPath] = size
			continue
		}
		projected := string(v["projected"])
		if strings.Contains(projected, `"serviceAccountToken"`) {
			s.Pod.Token = true
		}
		if v["secret"] != nil || v["csi"] != nil || strings.Contains(projected, `"secret"`) {
			s.Pod.MayHaveToken = true
		}
		s.Mounts = append(s.Mounts, outside.MountPoint{
			Type: "volume", Source: v.kind(), Target: m.MountPath, Writable: !m.ReadOnly,
		})
	}
}

func (v admittedVolume) name() string {
	var name string
	_ = json.Unmarshal(v["name"], &name) // no mount has the empty name
	return name
}

// kind says what a volume is, such as "hostPath".
func (v admittedVolume) kind() string {
	for field := range v {
		if field != "name" {
			return field
		}
	}
	return "unknown"
}

// memory returns the size of a directory in memory as an option of a tmpfs, and whether
// the volume is one.
func (v admittedVolume) memory() (option string, ok bool) {
	var dir struct{ Medium, SizeLimit string }
	if json.Unmarshal(v["emptyDir"], &dir) != nil || dir.Medium != "Memory" {
		return "", false
	}
	if size := amount(dir.SizeLimit, 1); size > 0 {
		option = "size=" + strconv.FormatInt(size, 10)
	}
	return option, true
}

// injected returns the fields with containers and volumes that no policy sends.
func (pod *admitted) injected() []string {
	var found []string
	for i, c := range pod.Spec.Containers {
		if c.Name != containerName {
			found = append(found, fmt.Sprintf("spec.containers.%d=%s", i, c.Name))
		}
	}
	if len(pod.Spec.InitContainers) > 0 {
		found = append(found, "spec.initContainers")
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		found = append(found, "spec.ephemeralContainers")
	}
	for i, v := range pod.Spec.Volumes {
		if _, ok := v.memory(); !ok || !isPlace(v.name()) {
			found = append(found, fmt.Sprintf("spec.volumes.%d=%s", i, v.name()))
		}
	}
	return found
}

// isPlace reports whether places gives a volume that name.
func isPlace(name string) bool {
	return name == "scratch" || name == "shm" || strings.HasPrefix(name, "tmpfs-")
}

func userText(user, group *int64) string {
	if user == nil {
		return ""
	}
	text := strconv.FormatInt(*user, 10)
	if group == nil {
		return text
	}
	return text + ":" + strconv.FormatInt(*group, 10)
}

// securityOptions returns what is set for the container, or for its pod, in docker's
// words.
func securityOptions(own, all securityContext) []string {
	var options []string
	if own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation {
		options = append(options, "no-new-privileges")
	}
	switch seccomp := cmp.Or(own.SeccompProfile, all.SeccompProfile); {
	case seccomp == nil || seccomp.Type == "Unconfined":
		// A node may have a default all the same, which the API does not tell.
		options = append(options, "seccomp=unconfined")
	case seccomp.Type == "Localhost":
		options = append(options, "seccomp="+seccomp.LocalhostProfile)
	}
	armor := cmp.Or(own.AppArmorProfile, all.AppArmorProfile)
	if armor != nil && armor.Type == "Unconfined" {
		options = append(options, "apparmor=unconfined")
	}
	if own.ProcMount != "" && own.ProcMount != "Default" {
		options = append(options, "systempaths="+own.ProcMount)
	}
	return options
}

// units are those of a quantity.
var units = map[string]uint64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// amount reads a quantity, and returns how many parts it is, of which one is so many. It
// is 0 for what is no quantity, or too large.
func amount(text string, parts uint64) int64 {
	number := strings.TrimRight(text, "mkKMGTPEi")
	divisor := uint64(1)
	unit := text[len(number):]
	if unit == "m" {
		divisor, unit = 1000, ""
	}
	whole, fraction, _ := strings.Cut(number, ".")
	for range fraction {
		high, low := bits.Mul64(divisor, 10)
		if divisor = low; high > 0 {
			return 0
		}
	}
	over, multiplier := bits.Mul64(units[unit], parts)
	n, err := strconv.ParseUint(whole+fraction, 10, 64)
	high, low := bits.Mul64(n, multiplier)
	if err != nil || over > 0 || high >= divisor {
		return 0
	}
	result, _ := bits.Div64(high, low, divisor)
	if result > math.MaxInt64 {
		return 0
	}
	return int64(result)
}
