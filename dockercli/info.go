package dockercli

import (
	"context"
	"slices"
	"strings"
)

// Info is what an engine says it can do. What is in force in a container can only be seen
// there: package execpolicy/attest looks.
type Info struct {
	// ServerVersion is the engine's.
	ServerVersion string
	// CgroupVersion is "1" or "2".
	CgroupVersion string
	// Rootless says that the engine runs without root's rights.
	Rootless bool
	// Runtimes are the names of its runtimes, sorted. Podman tells only the default one.
	Runtimes []string
	// DefaultRuntime is the runtime of a run that names none. Nerdctl tells neither.
	DefaultRuntime string
	// Seccomp, AppArmor and SELinux say which of the three the engine uses.
	Seccomp, AppArmor, SELinux bool
	// MemoryLimit, SwapLimit, CPULimit and PidsLimit say which limits the engine can set.
	// Podman is not asked for swap: SwapLimit is false there.
	MemoryLimit, SwapLimit, CPULimit, PidsLimit bool
}

const dockerInfoTemplate = "version {{json .ServerVersion}}{{println}}" +
	"cgroup {{json .CgroupVersion}}{{println}}" +
	"{{range $name, $runtime := .Runtimes}}runtime {{json $name}}{{println}}{{end}}" +
	"default {{json .DefaultRuntime}}{{println}}" +
	"{{range .SecurityOptions}}security {{json .}}{{println}}{{end}}" +
	"memory {{json .MemoryLimit}}{{println}}" +
	"swap {{json .SwapLimit}}{{println}}" +
	"cpu {{json .CPUCfsQuota}}{{println}}" +
	"pids {{json .PidsLimit}}{{println}}"

const podmanInfoTemplate = "version {{json .Version.Version}}{{println}}" +
	"{{with .Host}}" +
	"cgroup {{json .CgroupsVersion}}{{println}}" +
	"runtime {{json .OCIRuntime.Name}}{{println}}" +
	"default {{json .OCIRuntime.Name}}{{println}}" +
	"{{range .CgroupControllers}}controller {{json .}}{{println}}{{end}}" +
	"{{with .Security}}" +
	"rootless {{json .Rootless}}{{println}}" +
	"seccomp {{json .SECCOMPEnabled}}{{println}}" +
	"apparmor {{json .AppArmorEnabled}}{{println}}" +
	"selinux {{json .SELinuxEnabled}}{{println}}" +
	"{{end}}{{end}}"

// Nerdctl tells of no runtimes.
const nerdctlInfoTemplate = "version {{json .ServerVersion}}{{println}}" +
	"cgroup {{json .CgroupVersion}}{{println}}" +
	"{{range .SecurityOptions}}security {{json .}}{{println}}{{end}}" +
	"memory {{json .MemoryLimit}}{{println}}" +
	"swap {{json .SwapLimit}}{{println}}" +
	"cpu {{json .CPUCfsQuota}}{{println}}" +
	"pids {{json .PidsLimit}}{{println}}"

// Info asks the engine what it is able to do.
func (e *Engine) Info(ctx context.Context) (*Info, error) {
	out, err := e.do(ctx, call{verb: "info", argv: e.infoArgs()})
	if err != nil {
		return nil, err
	}
	return parseInfo(string(out))
}

func (e *Engine) infoArgs() []string {
	return e.argv("info", "--format="+e.Kind.dialect().info)
}

func parseInfo(text string) (*Info, error) {
	info := new(Info)
	var security, controllers []string
	err := parseFacts(text, map[string]func([]string) error{
		"version":    setString(&info.ServerVersion),
		"cgroup":     setString(&info.CgroupVersion),
		"rootless":   setBool(&info.Rootless),
		"runtime":    addString(&info.Runtimes),
		"default":    setString(&info.DefaultRuntime),
		"security":   addString(&security),
		"seccomp":    setBool(&info.Seccomp),
		"apparmor":   setBool(&info.AppArmor),
		"selinux":    setBool(&info.SELinux),
		"memory":     setBool(&info.MemoryLimit),
		"swap":       setBool(&info.SwapLimit),
		"cpu":        setBool(&info.CPULimit),
		"pids":       setBool(&info.PidsLimit),
		"controller": addString(&controllers),
	})
	if err != nil {
		return nil, err
	}
	info.CgroupVersion = strings.TrimPrefix(info.CgroupVersion, "v")
	slices.Sort(info.Runtimes)
	for _, option := range security {
		name, _, _ := strings.Cut(option, ",")
		switch name {
		case "name=rootless":
			info.Rootless = true
		case "name=seccomp":
			info.Seccomp = !strings.Contains(option, "profile=unconfined")
		case "name=apparmor":
			info.AppArmor = true
		case "name=selinux":
			info.SELinux = true
		}
	}
	info.setControllers(controllers)
	return info, nil
}

// setControllers says which limits podman can set with those controllers of cgroups.
func (i *Info) setControllers(names []string) {
	for _, name := range names {
		switch name {
		case "memory":
			i.MemoryLimit = true
		case "cpu":
			i.CPULimit = true
		case "pids":
			i.PidsLimit = true
		}
	}
	// Without root's rights it ignores every limit on the first version, whatever the
	// controllers.
	if len(names) > 0 && i.Rootless && i.CgroupVersion == "1" {
		i.MemoryLimit, i.CPULimit, i.PidsLimit = false, false, false
	}
}

// missingLimits is [Engine.MissingLimits].
func (i *Info) missingLimits() []string {
	missing := []string{}
	if !i.MemoryLimit {
		missing = append(missing, LimitMemory)
	}
	if !i.CPULimit {
		missing = append(missing, LimitProcessors)
	}
	if !i.PidsLimit {
		missing = append(missing, LimitProcesses)
	}
	return missing
}
