package dockercli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Settings are what an engine says it has applied to a container. A limit that the kernel
// or the runtime dropped may still be among them.
type Settings struct {
	// ImageID is the image's ID, which stays when the image's reference moves on.
	ImageID string
	// Privileged says that the container has nearly all that the host has.
	Privileged bool
	// ReadOnly says that the container's root is read-only.
	ReadOnly bool
	// Network, PID, IPC and UserNS are the modes of its namespaces in the engine's words;
	// "host" is the host's own.
	Network, PID, IPC, UserNS string
	// User is the user that was asked for.
	User string
	// Runtime is the runtime's name. Podman says "oci" for every OCI runtime.
	Runtime string
	// CapAdd and CapDrop are capabilities in the engine's words. Podman lists those that
	// are dropped one by one.
	CapAdd, CapDrop []string
	// SecurityOpt are the security options, such as "no-new-privileges" and
	// "seccomp=unconfined".
	SecurityOpt []string
	// AppArmor is the profile by which AppArmor confines the container, and SELinux the
	// label that its processes have. Each is empty where the engine uses none.
	AppArmor, SELinux string
	// Devices are the devices of the host that it has, and requests for more, such as
	// GPUs.
	Devices []string
	// Mounts are the host's paths and the volumes that the container has, without those
	// that the engine gives every container.
	Mounts []MountPoint
	// Tmpfs maps directories in memory to their options.
	Tmpfs map[string]string
	// MaskedPaths are the paths that are hidden. Podman does not tell them.
	MaskedPaths []string
	// Memory, MemorySwap (memory and swap together) and ShmSize are in bytes. If zero,
	// there is no limit. A MemorySwap of -1 means the same.
	Memory, MemorySwap, ShmSize int64
	// NanoCPUs is how much processor time the container may use, in billionths of a
	// processor. If it is zero, the limit is CPUQuota/CPUPeriod processors, both in
	// microseconds. If all three are zero, there is no limit.
	NanoCPUs, CPUQuota, CPUPeriod int64
	// PidsLimit is how many processes the container may have. If zero or negative, there
	// is no limit.
	PidsLimit int64
}

// A MountPoint is a path of the host, or a volume, that a container has.
type MountPoint struct {
	// Type is "bind" or "volume".
	Type string
	// Source is the host's path, and Target the container's.
	Source, Target string
	// Writable says that the container may write to it.
	Writable bool
}

const settingsTemplate = "image {{json .Image}}{{println}}" +
	"user {{json .Config.User}}{{println}}" +
	"apparmor {{json .AppArmorProfile}}{{println}}" +
	"selinux {{json .ProcessLabel}}{{println}}" +
	"{{range .Mounts}}mount {{json .Type}} {{json .Source}} {{json .Destination}} {{json .RW}}{{println}}{{end}}" +
	"{{with .HostConfig}}" +
	"privileged {{json .Privileged}}{{println}}" +
	"readonly {{json .ReadonlyRootfs}}{{println}}" +
	"network {{json .NetworkMode}}{{println}}" +
	"pid {{json .PidMode}}{{println}}" +
	"ipc {{json .IpcMode}}{{println}}" +
	"userns {{json .UsernsMode}}{{println}}" +
	"runtime {{json .Runtime}}{{println}}" +
	"{{range .CapAdd}}capadd {{json .}}{{println}}{{end}}" +
	"{{range .CapDrop}}capdrop {{json .}}{{println}}{{end}}" +
	"{{range .SecurityOpt}}security {{json .}}{{println}}{{end}}" +
	"{{range .Devices}}device {{json .PathOnHost}}{{println}}{{end}}" +
	"{{range $target, $options := .Tmpfs}}tmpfs {{json $target}} {{json $options}}{{println}}{{end}}" +
	"memory {{json .Memory}}{{println}}" +
	"memoryswap {{json .MemorySwap}}{{println}}" +
	"shm {{json .ShmSize}}{{println}}" +
	"nanocpus {{json .NanoCpus}}{{println}}" +
	"quota {{json .CpuQuota}}{{println}}" +
	"period {{json .CpuPeriod}}{{println}}" +
	"pids {{json .PidsLimit}}{{println}}"

// What only docker tells.
const dockerSettingsTemplate = "{{range .MaskedPaths}}masked {{json .}}{{println}}{{end}}" +
	"{{range .DeviceRequests}}device \"a request for devices\"{{println}}{{end}}"

// InspectSettings returns what the engine says it has applied to a container. Its error
// matches [ErrNoContainer] if there is none, and [errors.ErrUnsupported] for nerdctl,
// which does not tell.
func (e *Engine) InspectSettings(ctx context.Context, container string) (*Settings, error) {
	argv, err := e.settingsArgs(container)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "container inspect", argv: argv})
	if err != nil {
		return nil, err
	}
	return parseSettings(string(out))
}

func (e *Engine) settingsArgs(container string) ([]string, error) {
	if e.Kind == Nerdctl {
		return nil, fmt.Errorf("container inspect: %s does not tell what it has applied: %w", e.Kind, errors.ErrUnsupported)
	}
	var c checker
	c.container(container)
	template := settingsTemplate
	if e.Kind == Docker && !e.PodmanService {
		template += dockerSettingsTemplate
	}
	return e.argv("container", "inspect", "--format="+template+"{{end}}", "--", container), c.err()
}

func parseSettings(text string) (*Settings, error) {
	s := &Settings{Tmpfs: map[string]string{}}
	whole := false
	err := parseFacts(text, map[string]func([]string) error{
		"image":      setString(&s.ImageID),
		"user":       setString(&s.User),
		"privileged": setBool(&s.Privileged),
		"readonly":   setBool(&s.ReadOnly),
		"network":    setString(&s.Network),
		"pid":        setString(&s.PID),
		"ipc":        setString(&s.IPC),
		"userns":     setString(&s.UserNS),
		"runtime":    setString(&s.Runtime),
		"capadd":     addString(&s.CapAdd),
		"capdrop":    addString(&s.CapDrop),
		"security":   addString(&s.SecurityOpt),
		"apparmor":   setString(&s.AppArmor),
		"selinux":    setString(&s.SELinux),
		"device":     addString(&s.Devices),
		"masked":     addString(&s.MaskedPaths),
		"memory":     setInt64(&s.Memory),
		"memoryswap": setInt64(&s.MemorySwap),
		"shm":        setInt64(&s.ShmSize),
		"nanocpus":   setInt64(&s.NanoCPUs),
		"quota":      setInt64(&s.CPUQuota),
		"period":     setInt64(&s.CPUPeriod),
		"pids": func(values []string) error {
			whole = true
			return setInt64(&s.PidsLimit)(values)
		},
		"mount": func(values []string) error {
			if len(values) != 4 {
				return errors.New("it has to be four values")
			}
			s.Mounts = append(s.Mounts, MountPoint{Type: values[0], Source: values[1], Target: values[2], Writable: values[3] == "true"})
			return nil
		},
		"tmpfs": func(values []string) error {
			if len(values) != 2 {
				return errors.New("it has to be two values")
			}
			s.Tmpfs[values[0]] = values[1]
			return nil
		},
	})
	if err == nil && !whole {
		err = fmt.Errorf("unexpected answer of the engine: it is not whole: %.200q", text)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// setInt64 sets a number; null is 0.
func setInt64(to *int64) func([]string) error {
	return func(values []string) error {
		value, err := one(values)
		if err == nil && value != "" {
			*to, err = strconv.ParseInt(value, 10, 64)
		}
		return err
	}
}
