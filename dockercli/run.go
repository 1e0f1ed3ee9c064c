package dockercli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RunOptions are the arguments of run. A field that is zero gives no flag, so that the
// engine's default counts, unless its comment says otherwise. On podman a run also gets
// the flags that make it do what docker does.
type RunOptions struct {
	// Name is the container's, of at least two letters, digits, "_", "." and "-". The
	// first is a letter or a digit.
	Name string
	// Labels are the container's labels. A key has no "=" and no white space; a value may
	// have any text.
	Labels map[string]string
	// Remove removes the container, and the volumes made for it, when it ends.
	Remove bool
	// Interactive connects the client's stdin to the container.
	Interactive bool
	// Detach lets the client end as soon as the container runs.
	Detach bool
	// Pull is "always", "missing" or "never".
	Pull string
	// Platform is the image's, such as "linux/arm64".
	Platform string

	// Network is the network's name or "none".
	Network string
	// Hostname is the container's own.
	Hostname string
	// ExtraHosts are lines of /etc/hosts, each "name:address". If there are any, podman
	// adds the lines of the host's own /etc/hosts.
	ExtraHosts []string
	// HostsFile lets podman show the container the lines of the host's own /etc/hosts. It
	// is needed for an --add-host in Extra. If false, podman shows them only with
	// ExtraHosts. Docker never does.
	HostsFile bool
	// DNS are addresses of name servers. A docker container without a network sees the
	// host's name servers unless DNS names others. Podman shows it none, and DNS is left
	// out.
	DNS []string
	// HTTPProxy lets the client's proxy settings, and the credentials in them, into the
	// container. If false, they are kept out.
	HTTPProxy bool

	// ReadOnly makes the root file system read-only.
	ReadOnly bool
	// Tmpfs are directories in memory.
	Tmpfs []Tmpfs
	// Mounts are paths of the engine's host, and volumes.
	Mounts []Mount
	// Workdir is where the command starts, an absolute path. Podman wants it to exist,
	// docker creates it.
	Workdir string
	// ShmSize is the size of /dev/shm, such as "16m".
	ShmSize string

	// Env are names of variables whose values the client takes from its own environment,
	// so that they show in no list of processes. A name that means something to the
	// client itself, such as PATH or DOCKER_HOST, would direct the client as well.
	Env []string
	// User is a name or number, or "user:group".
	User string
	// Entrypoint is put before Command. If empty, the command is executed as it is,
	// without the image's entry point, unless ImageEntrypoint is set.
	Entrypoint string
	// ImageEntrypoint leaves the image's entry point in place.
	ImageEntrypoint bool
	// Init puts a small init process in front of the command.
	Init bool
	// StopTimeout is how long a later stop waits before it kills, rounded up to a second.
	StopTimeout time.Duration
	// NoHealthcheck disables the health check of the image, a command that runs now and
	// then.
	NoHealthcheck bool

	// Memory and MemorySwap are sizes such as "512m". MemorySwap counts memory and swap
	// together: if it equals Memory, there is no swap.
	Memory, MemorySwap string
	// CPUs is a number of processors such as "1.5".
	CPUs string
	// CPUShares is a weight against other containers, 1024 being the default.
	CPUShares int64
	// PidsLimit is how many processes and threads the container may have at once.
	PidsLimit int64
	// Ulimits are limits such as "nofile=1024:1024".
	Ulimits []string

	// CapDrop and CapAdd are names of capabilities, or "ALL".
	CapDrop, CapAdd []string
	// SecurityOpt are options such as "no-new-privileges".
	SecurityOpt []string
	// IPC, UserNS and CgroupNS say which namespaces the container gets, such as
	// "private".
	IPC, UserNS, CgroupNS string
	// Runtime is the name of the engine's runtime, such as "runsc".
	Runtime string
	// GPUs is "all", or what docker's --gpus takes. Podman knows only "all" and "device="
	// with names or numbers.
	GPUs string
	// Devices are devices of the engine's host.
	Devices []Device
	// LogDriver is where the engine stores the output. "none" keeps it from the host's
	// disk.
	LogDriver string

	// Extra are further words, after the flags of the other fields. So they win where a
	// flag counts once. The client takes the first word that is neither a flag nor the
	// value of one for the image: check words that come from others.
	Extra []string

	// Image is the image's reference or ID.
	Image string
	// Command is the argument vector in the container. If empty, it is the image's
	// command, for which docker needs ImageEntrypoint.
	Command []string
}

// RunArgs returns the argument vector of a run, the client's program included. It depends
// on nothing but o and e's Path, Remote, Global and Kind. Its error names everything that
// is wrong, and matches [ErrArgument].
func (e *Engine) RunArgs(o RunOptions) ([]string, error) {
	var c checker
	d := e.Kind.dialect()
	var global []string
	if o.Runtime != "" && d.runtimeIsGlobal {
		global = []string{"--runtime=" + o.Runtime}
	}
	argv := e.argv(slices.Concat(global, []string{"run"}, e.noDetach(), o.words(&c, d))...)
	c.words(argv)
	if err := c.err(); err != nil {
		return nil, err
	}
	return argv, nil
}

// words returns what follows the verb.
func (o RunOptions) words(c *checker, d *dialect) []string {
	f := &flags{words: slices.Clone(d.run)}
	o.addDefaults(f, d)
	o.addIdentity(f, c, d)
	o.addNetwork(f, c, d)
	o.addFiles(f, c, d)
	o.addProcess(f, c, d)
	o.addLimits(f, c)
	o.addIsolation(f, c, d)
	o.addLog(f, c, d)
	if slices.Contains(o.Extra, "--") {
		c.refuse("extra arguments %q: \"--\" would end the flags", o.Extra)
	}
	f.words = append(f.words, o.Extra...)
	c.image(o.Image)
	f.words = append(f.words, "--", o.Image)
	return append(f.words, o.Command...)
}

// addDefaults adds what takes back what the client or its configuration would give.
func (o RunOptions) addDefaults(f *flags, d *dialect) {
	if len(o.ExtraHosts) == 0 && !o.HostsFile {
		f.words = append(f.words, d.noHosts...)
	}
	if !o.HTTPProxy {
		for _, flag := range d.noProxy {
			name := strings.TrimSuffix(strings.TrimPrefix(flag, "--env="), "=")
			if !slices.Contains(o.Env, name) {
				f.words = append(f.words, flag)
			}
		}
	}
}

// addIdentity adds what the container is called, and how it is run.
func (o RunOptions) addIdentity(f *flags, c *checker, d *dialect) {
	if o.Name != "" {
		c.container(o.Name)
		f.value("name", o.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		c.labelKey(key)
		f.value("label", key+"="+o.Labels[key])
	}
	f.bool("rm", o.Remove)
	f.bool("interactive", o.Interactive)
	f.bool("detach", o.Detach)
	if d.detachKeeps && o.Detach && o.Remove {
		c.refuse("%s can't detach a container that is removed at its end", d.name)
	}
	f.value("pull", o.Pull)
	f.value("platform", o.Platform)
}

func (o RunOptions) addNetwork(f *flags, c *checker, d *dialect) {
	f.value("network", o.Network)
	f.value("hostname", o.Hostname)
	c.noComma("extra host", o.ExtraHosts)
	f.list("add-host", o.ExtraHosts)
	c.noComma("name server", o.DNS)
	if o.Network != "none" || !d.dnsNeedsNetwork {
		f.list("dns", o.DNS)
	}
}

func (o RunOptions) addFiles(f *flags, c *checker, d *dialect) {
	f.bool("read-only", o.ReadOnly)
	for _, t := range o.Tmpfs {
		f.value("tmpfs", t.value(c, d))
	}
	for _, m := range o.Mounts {
		if d.noColons && strings.Contains(m.Source+m.Target, ":") {
			c.refuse("mount %q: %s can't mount a path with a colon", m.Source, d.name)
		}
		name, value := m.flag(c, d)
		f.value(name, value)
	}
	if o.Workdir != "" && !strings.HasPrefix(o.Workdir, "/") {
		c.refuse("working directory %q: it has to be an absolute path", o.Workdir)
	}
	f.value("workdir", o.Workdir)
	f.value("shm-size", o.ShmSize)
}

// addProcess adds what the container's first process is.
func (o RunOptions) addProcess(f *flags, c *checker, d *dialect) {
	for _, name := range o.Env {
		c.envName(name)
		f.value("env", name)
	}
	f.value("user", o.User)
	switch {
	case !o.ImageEntrypoint:
		if strings.HasPrefix(o.Entrypoint, "[") {
			c.refuse("entry point %q: podman would read it as a list", o.Entrypoint)
		}
		f.words = append(f.words, "--entrypoint="+o.Entrypoint)
	case o.Entrypoint != "":
		c.refuse("entry point %q: ImageEntrypoint keeps the one of the image", o.Entrypoint)
	}
	f.bool("init", o.Init)
	if o.StopTimeout > 0 {
		f.value("stop-timeout", strconv.FormatInt(int64((o.StopTimeout+time.Second-1)/time.Second), 10))
	}
	f.bool("no-healthcheck", o.NoHealthcheck && !d.noHealthchecks)
}

func (o RunOptions) addLimits(f *flags, c *checker) {
	f.value("memory", o.Memory)
	f.value("memory-swap", o.MemorySwap)
	f.value("cpus", o.CPUs)
	f.number("cpu-shares", o.CPUShares)
	f.number("pids-limit", o.PidsLimit)
	c.noComma("ulimit", o.Ulimits)
	f.list("ulimit", o.Ulimits)
}

// addIsolation adds the rights of the container's processes, and its devices.
func (o RunOptions) addIsolation(f *flags, c *checker, d *dialect) {
	c.noComma("capability", o.CapDrop)
	f.list("cap-drop", o.CapDrop)
	c.noComma("capability", o.CapAdd)
	f.list("cap-add", o.CapAdd)
	f.list("security-opt", o.SecurityOpt)
	f.value("ipc", o.IPC)
	if d.noUserNS && o.UserNS != "" {
		c.refuse("user namespace %q: %s has no flag for it", o.UserNS, d.name)
	}
	f.value("userns", o.UserNS)
	f.value("cgroupns", o.CgroupNS)
	if !d.runtimeIsGlobal {
		f.value("runtime", o.Runtime)
	}
	for _, device := range o.Devices {
		f.value("device", device.value(c))
	}
	if d.gpusAreDevices {
		f.list("device", cdiDevices(c, o.GPUs))
	} else {
		f.value("gpus", dockerGPUs(o.GPUs))
	}
}

func (o RunOptions) addLog(f *flags, c *checker, d *dialect) {
	switch {
	case d.noLogs && o.LogDriver == "none" && o.Detach:
		c.refuse("log driver %q: %s keeps the output of a container that is detached", o.LogDriver, d.name)
	case !d.noLogs || o.LogDriver != "none":
		f.value("log-driver", o.LogDriver)
	}
}

// dockerGPUs returns the value of --gpus, a record of comma-separated values, of which
// several devices are one.
func dockerGPUs(gpus string) string {
	if strings.HasPrefix(gpus, "device=") {
		return csvField(gpus)
	}
	return gpus
}

// cdiDevices returns the device names that mean what docker's --gpus does. Podman 4 takes
// that flag and ignores it.
func cdiDevices(c *checker, gpus string) []string {
	if gpus == "" {
		return nil
	}
	names, ok := strings.CutPrefix(gpus, "device=")
	if !ok && gpus != "all" {
		c.refuse("GPUs %q: podman knows only \"all\" and \"device=\"", gpus)
		return nil
	}
	if !ok {
		names = "all"
	}
	devices := strings.Split(names, ",")
	for i, name := range devices {
		devices[i] = "nvidia.com/gpu=" + name
	}
	return devices
}

// flags are words under construction, each flag in one word with its value.
type flags struct{ words []string }

func (f *flags) value(name, value string) {
	if value != "" {
		f.words = append(f.words, "--"+name+"="+value)
	}
}

func (f *flags) bool(name string, set bool) {
	if set {
		f.words = append(f.words, "--"+name)
	}
}

func (f *flags) number(name string, n int64) {
	if n != 0 {
		f.value(name, strconv.FormatInt(n, 10))
	}
}

func (f *flags) list(name string, values []string) {
	for _, value := range values {
		f.words = append(f.words, "--"+name+"="+value)
	}
}
