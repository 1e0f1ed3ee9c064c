package fakeengine

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// print answers with the --format that was asked for, each answer on a line of its own.
func (c *client) print(answers ...any) *refusal {
	format := c.line.value("format")
	if format == "" {
		format = "{{json .}}"
	}
	t, err := template.New("").Funcs(template.FuncMap{"json": toJSON}).Option("missingkey=error").Parse(format)
	if err != nil {
		return &refusal{64, fmt.Sprintf("template parsing error: %v\n", err)}
	}
	for _, answer := range answers {
		var b bytes.Buffer
		if err := t.Execute(&b, answer); err != nil {
			return &refusal{1, fmt.Sprintf("template parsing error: %v\n", err)}
		}
		fmt.Fprintf(c.stdout, "%s\n", b.Bytes())
	}
	return nil
}

func toJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

type object = map[string]any

func (c *client) version() *refusal {
	v := versions[c.kind]
	answer := object{"Client": object{"Version": v.client, "Context": "default"}}
	if c.kind == dockercli.Docker {
		answer["Server"] = object{"Version": v.server, "KernelVersion": "", "Platform": object{"Name": ""},
			"Components": []object{{"Name": "Engine", "Version": v.server}}}
	}
	return c.print(answer)
}

func (c *client) contextInspect() *refusal {
	return c.print(object{"Name": "default", "Endpoints": object{"docker": object{"Host": "unix://" + sockets[c.kind]}}})
}

func (c *client) info() *refusal {
	v := versions[c.kind]
	able := !c.state.control().DropLimits
	if c.kind == dockercli.Podman {
		controllers := []string{"cpuset"}
		if able {
			controllers = []string{"cpu", "memory", "pids"}
		}
		return c.print(object{
			"Version": object{"Version": v.server},
			"Host": object{
				"ServiceIsRemote":   false,
				"Kernel":            "",
				"CgroupsVersion":    "v2",
				"CgroupControllers": controllers,
				"OCIRuntime":        object{"Name": "runc", "Version": "runc version 1.1.5+ds1\nspec: 1.0.2-dev"},
				"Conmon":            object{"Version": "conmon version 2.1.6, commit: unknown"},
				"Security": object{
					"Rootless": false, "SECCOMPEnabled": false, "AppArmorEnabled": false, "SELinuxEnabled": false,
				},
			},
		})
	}
	return c.print(object{
		"ServerVersion": v.server, "CgroupVersion": "2", "Runtimes": object{"runc": object{}}, "DefaultRuntime": "runc",
		"SecurityOptions": []string{}, "MemoryLimit": able, "SwapLimit": able, "CPUCfsQuota": able, "PidsLimit": able,
	})
}

// imageID is that of the one image.
var imageID = "sha256:" + strings.Repeat("fa4e", 16)

func (c *client) imageInspect() *refusal {
	if len(c.line.operands) == 0 {
		return refuseFlag(c.kind, c.verb, "%s requires at least 1 argument", c.verb)
	}
	image := c.line.operands[0]
	if !c.hasImage(image) {
		return noImage(c.kind, image)
	}
	return c.print(object{"ID": imageID, "Os": "linux", "Architecture": runtime.GOARCH,
		"Config": object{"User": "", "Entrypoint": []string{}, "Cmd": imageCommand}})
}

func (c *client) images() *refusal {
	if !c.hasImage("image:latest") {
		return nil
	}
	return c.print(object{"Repository": "image", "Tag": "latest"})
}

func (c *client) inspect() *refusal {
	found, r := c.container()
	if r != nil {
		if c.kind == dockercli.Podman {
			r.Words = fmt.Sprintf("Error: inspecting object: no such container %s\n", c.line.operands[0])
		}
		return r
	}
	st := found.status()
	shown := st.Status
	if shown == "starting" {
		shown = "created"
	}
	name := found.Name
	if c.kind == dockercli.Docker {
		name = "/" + name
	}
	return c.print(object{
		"ID": found.ID, "Name": name, "Image": imageID,
		"State": object{
			"Status": shown, "Running": shown == "running", "Pid": st.Process.Pid, "StartedAt": st.StartedAt,
			"FinishedAt": st.FinishedAt,
			"ExitCode":   st.ExitCode, "OOMKilled": false, "Error": st.Error,
		},
		"AppArmorProfile": "", "ProcessLabel": "",
		"HostConfig": found.hostConfig(c.kind, c.state.control().DropLimits),
		"Mounts":     found.binds(),
		"Config":     object{"Labels": found.Labels, "Env": found.Env, "Image": found.Image, "User": found.User},
	})
}

// hostConfig is what was asked for, which is what engines say they have applied.
func (s spec) hostConfig(kind dockercli.Kind, dropLimits bool) object {
	tmpfs := object{}
	for _, m := range s.Mounts {
		if m.Source == "" {
			tmpfs[m.Target] = strings.Join(append(m.Flags, m.Data), ",")
		}
	}
	h := object{
		"Privileged": false, "ReadonlyRootfs": s.ReadOnly, "NetworkMode": s.Limits["network"],
		"IpcMode": s.Limits["ipc"], "UsernsMode": "",
		"PidMode": map[dockercli.Kind]string{dockercli.Podman: "private"}[kind], "Runtime": "runc",
		"CapAdd": s.Added, "CapDrop": s.Dropped,
		"SecurityOpt": s.SecurityOpt, "Devices": []object{}, "Tmpfs": tmpfs, "CpuQuota": 0, "CpuPeriod": 0,
		"Memory": s.bytes("memory"), "MemorySwap": s.bytes("memory-swap"), "ShmSize": s.bytes("shm-size"),
		"PidsLimit": s.bytes("pids-limit"),
	}
	cpus, _ := strconv.ParseFloat(s.Limits["cpus"], 64)
	h["NanoCpus"] = int64(cpus * 1e9)
	if dropLimits {
		for _, limit := range []string{"Memory", "MemorySwap", "NanoCpus", "PidsLimit"} {
			h[limit] = 0
		}
	}
	if kind == dockercli.Docker {
		h["MaskedPaths"], h["DeviceRequests"] = []string{}, []object{}
	}
	return h
}

// bytes reads a flag's number, which may end in "m".
func (s spec) bytes(flag string) int64 {
	text, mega := strings.CutSuffix(s.Limits[flag], "m")
	n, _ := strconv.ParseInt(text, 10, 64)
	if mega {
		n <<= 20
	}
	return n
}

func (s spec) binds() []object {
	binds := []object{}
	for _, m := range s.Mounts {
		if m.Source != "" {
			binds = append(binds, object{"Type": "bind", "Source": m.Source, "Destination": m.Target, "RW": !m.ReadOnly})
		}
	}
	return binds
}

func (c *client) pull() *refusal {
	if len(c.line.operands) != 1 {
		return refuseFlag(c.kind, c.verb, "%s requires 1 argument", c.verb)
	}
	image := c.line.operands[0]
	if c.kind == dockercli.Podman {
		fmt.Fprintf(c.stderr, "Trying to pull %s...\n", image)
	} else {
		fmt.Fprintf(c.stdout, "Pulling from %s\n", image)
	}
	if err := c.state.setPulled(image); err != nil {
		return &refusal{125, err.Error() + "\n"}
	}
	fmt.Fprintln(c.stdout, imageID)
	return nil
}

// events has nothing to tell: no container has a limit of memory. It comes to an end only
// when it is told to.
func (c *client) events() *refusal {
	if c.line.value("until") == "" {
		for {
			c.nap()
		}
	}
	return nil
}

func (c *client) ps() *refusal {
	var shown []any
	for _, found := range c.state.containers() {
		if !c.line.set("all") && found.status().Status != "running" {
			continue
		}
		matches := true
		for _, filter := range c.line.flags["filter"] {
			ok, r := found.matches(c.kind, filter)
			if r != nil {
				return r
			}
			matches = matches && ok
		}
		if matches {
			shown = append(shown, object{"ID": found.ID, "Names": found.Name, "Image": found.Image,
				"State": found.status().Status})
		}
	}
	if c.line.set("quiet") {
		c.line.flags["format"] = []string{"{{.ID}}"}
	}
	return c.print(shown...)
}

// matches says whether the container passes a filter of ps.
func (c container) matches(kind dockercli.Kind, filter string) (bool, *refusal) {
	if kind == dockercli.Podman {
		fields, err := csv.NewReader(strings.NewReader(filter)).Read()
		if err != nil || len(fields) != 1 {
			return false, refuseFlag(kind, "ps", "invalid argument %q for \"--filter\" flag", filter)
		}
		filter = fields[0]
	}
	what, value, _ := strings.Cut(filter, "=")
	switch what {
	case "label":
		key, want, hasValue := strings.Cut(value, "=")
		have, ok := c.Labels[key]
		return ok && (!hasValue || have == want), nil
	case "name":
		return strings.Contains(c.Name, value), nil
	}
	return false, refuseFlag(kind, "ps", "invalid filter '%s'", what)
}

// podmanGrace is how long podman lets a container obey before it kills it, unless it is
// told otherwise.
const podmanGrace = 10 * time.Second

func (c *client) rm() *refusal {
	if len(c.line.operands) == 0 {
		return refuseFlag(c.kind, c.verb, "%s requires at least 1 argument", c.verb)
	}
	force := c.line.set("force")
	for _, name := range c.line.operands {
		found, ok := c.state.find(name)
		switch {
		case !ok && !force:
			r := noContainer(c.kind, name)
			r.Code = 1
			return r
		case !ok && c.kind == dockercli.Docker:
			fmt.Fprint(c.stderr, noContainer(c.kind, name).Words)
			continue
		case !ok:
			continue
		case found.running() && !force:
			return refuse(c.kind,
				refusal{1, fmt.Sprintf("You cannot remove a running container %s. Stop the container before attempting "+
					"removal or force remove", found.ID)},
				refusal{2, fmt.Sprintf("cannot remove container %s as it is running - running or paused containers "+
					"cannot be removed without force: "+
					"container state improper", found.ID)})
		}
		if c.kind == dockercli.Podman && found.running() {
			grace := podmanGrace
			if value := c.line.value("time"); value != "" {
				n, err := time.ParseDuration(value + "s")
				if err != nil {
					return refuseFlag(c.kind, c.verb, "invalid argument %q for \"-t, --time\" flag", value)
				}
				grace = n
			}
			if p := found.status().Process; grace > 0 && p.signal("TERM") == nil {
				for deadline := time.Now().Add(grace); p.alive() && time.Now().Before(deadline); {
					c.nap()
				}
			}
		}
		if err := c.state.destroy(found); err != nil {
			return refuse(c.kind, refusal{1, err.Error()}, refusal{125, err.Error()})
		}
		fmt.Fprintln(c.stdout, name)
	}
	return nil
}

func (c *client) kill() *refusal {
	found, r := c.container()
	if r != nil {
		if c.kind == dockercli.Docker && len(c.line.operands) > 0 {
			name := c.line.operands[0]
			r.Words = fmt.Sprintf("Error response from daemon: Cannot kill container: %s: No such container: %s\n", name, name)
		}
		return r
	}
	sig := c.line.value("signal")
	if sig == "" {
		sig = "KILL"
	}
	st := found.status()
	if st.Status != "running" || st.Process.signal(sig) != nil {
		return refuse(c.kind,
			refusal{1, fmt.Sprintf("Cannot kill container: %s: Container %s is not running", found.Name, found.ID)},
			refusal{125, fmt.Sprintf("can only kill running containers. %s is in state %s: container state improper",
				found.ID, st.Status)})
	}
	fmt.Fprintln(c.stdout, c.line.operands[0])
	return nil
}
