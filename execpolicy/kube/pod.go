package kube

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/limits"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/reach"
)

// containerName is the name of the pod's one container.
const containerName = "main"

// The label by which a NetworkPolicy selects the pods that are to have no network.
const (
	labelNetwork = container.LabelPrefix + "network"
	networkNone  = "none"
	networkOpen  = "open"
)

// An object is a JSON object.
type object = map[string]any

// manifest returns the pod for spec as indented JSON.
func (p *Policy) manifest(spec execpolicy.Spec, name string) ([]byte, error) {
	pod, err := p.draft(spec, name)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(pod, "", "  ")
}

// draft returns the pod for spec, or all that is wrong with the policy and the spec. It
// is a pure function but for the user that is drawn.
func (p *Policy) draft(spec execpolicy.Spec, name string) (object, error) {
	v := validation{Policy: p}
	v.checkSpec(spec)
	v.checkPolicy()
	user, group := v.user()
	cpus, memory := v.cpus(), cmp.Or(p.MemoryBytes, limits.Memory)
	if err := problems.Join(v.List...); err != nil {
		return nil, err
	}
	volumes, mounts := p.places()
	body := object{
		"containers":                    []any{p.container(spec, cpus, memory, mounts)},
		"volumes":                       volumes,
		"restartPolicy":                 "Never",
		"terminationGracePeriodSeconds": 1,
		"hostname":                      "cofferdam",
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"securityContext": object{
			"runAsUser": user, "runAsGroup": group, "runAsNonRoot": user != 0,
			"seccompProfile": object{"type": "RuntimeDefault"},
		},
	}
	if p.NetworkEnabled {
		body["dnsPolicy"] = "ClusterFirst"
	} else {
		// This address is reserved for documentation (RFC 5737).
		body["dnsPolicy"], body["dnsConfig"] = "None", object{
			"nameservers": []any{"192.0.2.1"},
		}
	}
	if seconds := p.secondsInUse(spec); seconds >= 0 {
		body["activeDeadlineSeconds"] = seconds
	}
	p.place(body)
	metadata := object{"name": name, "labels": p.labels(spec, name)}
	if o := p.Owner; o != nil {
		metadata["ownerReferences"] = []any{
			object{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID},
		}
	}
	return object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   metadata,
		"spec":       body,
	}, nil
}

// container returns the pod's only container.
func (p *Policy) container(spec execpolicy.Spec, cpus string, memory int64, mounts []any) object {
	resources := object{"cpu": cpus, "memory": quantity(memory)}
	if disk := cmp.Or(p.EphemeralBytes, defaultEphemeral); disk > 0 {
		resources["ephemeral-storage"] = quantity(disk)
	}
	for device, n := range p.Devices {
		resources[device] = quantity(int64(n))
	}
	capabilities := object{"drop": []any{"ALL"}}
	if len(p.AddCapabilities) > 0 {
		names := make([]string, len(p.AddCapabilities))
		for i, name := range p.AddCapabilities {
			names[i] = capability(name)
		}
		capabilities["add"] = list(names)
	}
	argv, workdir := p.command(spec), workspaceDir
	if len(spec.Supervisor) > 0 {
		workdir = "/" // a session changes to its directory itself
	}
	return object{
		"name":            containerName,
		"image":           cmp.Or(p.Image, execpolicy.DefaultImage),
		"imagePullPolicy": cmp.Or(p.PullPolicy, "IfNotPresent"),
		"command":         list(escaped(argv)),
		"workingDir":      workdir,
		"env":             p.env(spec),
		"stdin":           true,
		"stdinOnce":       true, // it ends with the first client that was attached
		// Equal ones make the pod one of the class Guaranteed, which has no swap.
		"resources":    object{"limits": resources, "requests": resources},
		"volumeMounts": mounts,
		"securityContext": object{
			"readOnlyRootFilesystem":   !p.WritableRootfs,
			"allowPrivilegeEscalation": p.AllowNewPrivileges,
			"capabilities":             capabilities,
		},
		// What tries the network leaves its words there.
		"terminationMessagePath":   reach.MessageFile,
		"terminationMessagePolicy": "File",
	}
}

// capability returns a capability's name as Kubernetes has it.
func capability(name string) string { return strings.TrimPrefix(strings.ToUpper(name), "CAP_") }

// place says where the pod may run, and what else only the cluster knows.
func (p *Policy) place(body object) {
	if p.UserNamespace {
		body["hostUsers"] = false
	}
	for field, value := range map[string]string{
		"runtimeClassName": p.RuntimeClass, "priorityClassName": p.PriorityClass, "schedulerName": p.Scheduler,
	} {
		if value != "" {
			body[field] = value
		}
	}
	if len(p.NodeSelector) > 0 {
		body["nodeSelector"] = texts(p.NodeSelector)
	}
	var tolerations []any
	for _, t := range p.Tolerations {
		one := object{}
		for field, value := range map[string]string{"key": t.Key, "operator": t.Operator, "value": t.Value, "effect": t.Effect} {
			if value != "" {
				one[field] = value
			}
		}
		tolerations = append(tolerations, one)
	}
	if len(tolerations) > 0 {
		body["tolerations"] = tolerations
	}
	var secrets []any
	for _, name := range p.PullSecrets {
		secrets = append(secrets, object{"name": name})
	}
	if len(secrets) > 0 {
		body["imagePullSecrets"] = secrets
	}
	var aliases []any
	for _, line := range p.ExtraHosts {
		name, address, _ := strings.Cut(line, ":")
		aliases = append(aliases, object{"ip": address, "hostnames": []any{name}})
	}
	if len(aliases) > 0 {
		body["hostAliases"] = aliases
	}
}

// command returns what the container runs: a shell that sets the limits and tries the
// network, and then becomes the spec's command.
func (p *Policy) command(spec execpolicy.Spec) []string {
	argv := spec.Command
	if len(spec.Supervisor) > 0 {
		argv = spec.Supervisor
	} else if len(argv) == 0 {
		argv = []string{"sh"}
	}
	script := ""
	if !p.NetworkEnabled {
		script = reach.Script
	}
	return p.limited(script, argv)
}

// limited returns argv with a shell in front of it that sets the limits for which a pod
// has no fields, runs the script and becomes argv. Shells name the limit of processes in
// two ways. If it can't be set, nothing runs.
func (p *Policy) limited(script string, argv []string) []string {
	n := strconv.FormatInt(cmp.Or(p.PidsLimit, limits.Pids), 10)
	limits := "ulimit -c 0 && ulimit -n 1024 && { ulimit -u " + n + " 2>/dev/null || ulimit -p " + n + "; } || exit\n"
	return append([]string{"sh", "-c", limits + script + `exec "$@"`, "cofferdam"}, argv...)
}

// env returns the container's environment. A session sends its own over stdin.
func (p *Policy) env(spec execpolicy.Spec) []any {
	values := map[string]string{"HOME": "/tmp"}
	if len(spec.Supervisor) == 0 {
		maps.Copy(values, spec.Env)
	}
	var env []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		one := object{"name": name}
		if values[name] != "" { // the cluster leaves out an empty one
			one["value"] = escape(values[name])
		}
		env = append(env, one)
	}
	if !p.NetworkEnabled {
		node := object{"fieldRef": object{"apiVersion": "v1", "fieldPath": "status.hostIP"}}
		env = append(env, object{"name": reach.NodeVar, "valueFrom": node})
	}
	return env
}

// places returns the directories in memory, and where they are.
func (p *Policy) places() (volumes, mounts []any) {
	add := func(name, target string, size int64) {
		volumes = append(
			volumes,
			object{
				"name":     name,
				"emptyDir": object{"medium": "Memory", "sizeLimit": quantity(size)},
			},
		)
		mounts = append(mounts, object{"name": name, "mountPath": target})
	}
	add("scratch", scratchDir, scratchBytes)
	add("shm", "/dev/shm", limits.Shm)
	tmpfs := p.tmpfs()
	for i, target := range slices.Sorted(maps.Keys(tmpfs)) {
		add("tmpfs-"+strconv.Itoa(i), target, tmpfs[target])
	}
	return volumes, mounts
}

// tmpfs returns the directories in memory that the command is to have.
func (p *Policy) tmpfs() map[string]int64 {
	tmpfs := maps.Clone(p.Tmpfs)
	if tmpfs == nil {
		tmpfs = map[string]int64{"/tmp": limits.Tmpfs}
	}
	if _, ok := tmpfs[workspaceDir]; !ok {
		tmpfs[workspaceDir] = limits.Tmpfs
	}
	return tmpfs
}

// labels returns the pod's labels: the library's own and the caller's.
func (p *Policy) labels(spec execpolicy.Spec, name string) object {
	labels := container.Labels(name, false, p.secondsInUse(spec), spec.Labels)
	for key, value := range labels {
		if !isLabel(value) {
			labels[key] = "" // a host's name may be no label, and then proves nothing
		}
	}
	labels[labelNetwork] = networkNone
	if p.NetworkEnabled {
		labels[labelNetwork] = networkOpen
	}
	return texts(labels)
}

// secondsInUse returns for how long the pod may be in use, or -1 if nobody ends it. The
// kubelet ends it then, whatever has become of this program.
func (p *Policy) secondsInUse(spec execpolicy.Spec) int64 {
	if len(spec.Supervisor) == 0 {
		return -1 // nobody ends what is no session
	}
	l := p.limits()
	seconds := container.SecondsInUse(cmp.Or(l.Lifetime, limits.Lifetime),
		p.readyTimeout(), cmp.Or(l.StartupTimeout, limits.StartupTimeout), l.TerminationTimeout)
	if seconds < 0 {
		return -1
	}
	return min(seconds+60, 1<<31-1) // a deadline may be no later
}

// escape returns a text in which the cluster replaces no $(NAME).
func escape(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func escaped(words []string) []string {
	words = slices.Clone(words)
	for i := range words {
		words[i] = escape(words[i])
	}
	return words
}

// quantity returns a number of bytes as the cluster writes it.
func quantity(n int64) string {
	unit := 0
	for ; n != 0 && n%1000 == 0 && unit < 6; unit++ {
		n /= 1000
	}
	return strconv.FormatInt(n, 10) + strings.TrimSpace(" kMGTPE"[unit:unit+1])
}

func list(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

func texts(m map[string]string) object {
	all := object{}
	for key, value := range m {
		all[key] = value
	}
	return all
}
