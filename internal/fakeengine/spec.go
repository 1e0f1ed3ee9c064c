package fakeengine

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// A spec is what a container is made of.
type spec struct {
	ID, Name, Image string
	Labels          map[string]string
	Remove          bool
	Interactive     bool
	Argv            []string
	Env             []string
	Workdir         string
	Hostname        string
	OwnNetwork      bool // of which it has only the loopback
	ReadOnly        bool
	Mounts          []mount // those of shorter paths come first
	User            string
	Capabilities    []string
	NoNewPrivileges bool

	// What is only told again: security options, capabilities as they were named, and
	// flags that are taken and not enforced.
	SecurityOpt, Added, Dropped []string
	Limits                      map[string]string
}

// A mount is a bind of Source, or a tmpfs if that is empty.
type mount struct {
	Source, Target string
	ReadOnly       bool
	Flags          []string // of a tmpfs: noexec, nosuid, nodev
	Data           string   // of a tmpfs: size and mode
}

// imageCommand is the image's.
var imageCommand = []string{"sh"}

// containerPath is where a container's commands are.
const containerPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// defaultCapabilities are those that the engines give. MKNOD is not: here no rule would
// keep the host's devices away from it.
var defaultCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
	"SETPCAP", "NET_BIND_SERVICE", "NET_RAW",
	"SYS_CHROOT", "AUDIT_WRITE", "SETFCAP"}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)

// spec reads a run's command line.
func (c *client) spec() (spec, *refusal) {
	l := c.line
	s := spec{
		ID:          newID(),
		Name:        l.value("name"),
		Labels:      map[string]string{},
		Remove:      l.set("rm"),
		Interactive: l.set("interactive"),
		Workdir:     cmp.Or(l.value("workdir"), "/"),
		Hostname:    l.value("hostname"),
		OwnNetwork:  l.value("network") == "none",
		ReadOnly:    l.set("read-only"),
		User:        l.value("user"),
	}
	if len(l.operands) == 0 {
		return s, refuseFlag(c.kind, "run", "'%s run' requires at least 1 argument", c.kind)
	}
	s.Image = l.operands[0]
	if s.Name == "" {
		s.Name = "fake_" + s.ID[:12]
	}
	if s.Hostname == "" {
		s.Hostname = s.ID[:12]
	}
	if !goodName.MatchString(s.Name) {
		return s, refuseRun(c.kind,
			refusal{125, fmt.Sprintf("Invalid container name (%s), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed", s.Name)},
			refusal{125, "running container create option: names must match [a-zA-Z0-9][a-zA-Z0-9_.-]*: invalid argument"})
	}
	for _, label := range l.flags["label"] {
		key, value, _ := strings.Cut(label, "=")
		s.Labels[key] = value
	}
	if !strings.HasPrefix(s.Workdir, "/") {
		return s, refuseRun(c.kind,
			refusal{125, fmt.Sprintf("the working directory '%s' is invalid, it needs to be an absolute path", s.Workdir)},
			refusal{126, fmt.Sprintf("workdir %q does not exist on container %s", s.Workdir, s.ID)})
	}
	s.Env = c.environment([]string{"PATH=" + containerPath, "HOSTNAME=" + s.Hostname})
	s.Argv = l.operands[1:]
	if _, given := l.flags["entrypoint"]; !given && len(s.Argv) == 0 {
		s.Argv = imageCommand
	}
	if entrypoint := l.value("entrypoint"); entrypoint != "" {
		s.Argv = append([]string{entrypoint}, s.Argv...)
	}
	if len(s.Argv) == 0 {
		return s, refuseRun(c.kind, refusal{125, "No command specified"},
			refusal{125, "no command or entrypoint provided, and no CMD or ENTRYPOINT from image"})
	}
	if r := c.capabilities(&s); r != nil {
		return s, r
	}
	s.SecurityOpt, s.Added, s.Dropped = l.flags["security-opt"], l.flags["cap-add"], l.flags["cap-drop"]
	s.Limits = map[string]string{}
	for _, flag := range []string{"network", "ipc", "memory", "memory-swap", "shm-size", "cpus", "pids-limit"} {
		s.Limits[flag] = l.value(flag)
	}
	for _, option := range s.SecurityOpt {
		s.NoNewPrivileges = s.NoNewPrivileges || strings.HasPrefix(option, "no-new-privileges")
		if path, ok := strings.CutPrefix(option, "seccomp="); ok && path != "unconfined" {
			if r := c.readProfile(path); r != nil {
				return s, r
			}
		}
	}
	return s, c.mounts(&s)
}

// readProfile reads a filter of system calls, and does no more with it.
func (c *client) readProfile(path string) *refusal {
	text, err := os.ReadFile(path)
	if err == nil && !json.Valid(text) {
		err = errors.New("unexpected end of JSON input")
	}
	if err == nil {
		return nil
	}
	if c.kind == dockercli.Podman {
		return &refusal{125, fmt.Sprintf("Error: opening seccomp profile failed: %v\n", err)}
	}
	return &refusal{125, fmt.Sprintf("docker: opening seccomp profile (%s) failed: %v\n\nRun 'docker run "+
		"--help' for more information\n", path, err)}
}

// environment adds the variables of the command line to env. One that is named without a
// value has the client's, if any.
func (c *client) environment(env []string) []string {
	for _, entry := range c.line.flags["env"] {
		name, _, hasValue := strings.Cut(entry, "=")
		if !hasValue {
			value, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			entry = name + "=" + value
		}
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, entry)
	}
	return env
}

func (c *client) capabilities(s *spec) *refusal {
	normal := func(flag string) ([]string, *refusal) {
		var names []string
		for _, value := range c.line.flags[flag] {
			name := strings.TrimPrefix(strings.ToUpper(value), "CAP_")
			if name != "ALL" && !slices.Contains(capabilities, name) {
				return nil, refuseRun(c.kind, refusal{125, fmt.Sprintf("invalid CapAdd: unknown capability: %q", "CAP_"+name)},
					refusal{125, fmt.Sprintf("%q: unknown capability", "CAP_"+name)})
			}
			names = append(names, name)
		}
		return names, nil
	}
	drop, r := normal("cap-drop")
	if r != nil {
		return r
	}
	add, r := normal("cap-add")
	if r != nil {
		return r
	}
	for _, name := range defaultCapabilities {
		added := slices.Contains(add, name) || slices.Contains(add, "ALL") && !slices.Contains(drop, name)
		dropped := slices.Contains(drop, name) || slices.Contains(drop, "ALL")
		if added || !dropped {
			s.Capabilities = append(s.Capabilities, name)
		}
	}
	return nil
}

// mounts reads --mount, --volume and --tmpfs.
func (c *client) mounts(s *spec) *refusal {
	bind := func(m mount) *refusal {
		if !strings.HasPrefix(m.Target, "/") {
			return refuseRun(c.kind,
				refusal{125, fmt.Sprintf("invalid mount config for type \"bind\": invalid mount path: '%s' mount path "+
					"must be absolute", m.Target)},
				refusal{125, fmt.Sprintf("invalid container path %q, must be an absolute path", m.Target)})
		}
		if _, err := os.Stat(m.Source); err != nil {
			return refuseRun(c.kind,
				refusal{125, "invalid mount config for type \"bind\": bind source path does not exist: " + m.Source},
				refusal{125, fmt.Sprintf("statfs %s: no such file or directory", m.Source)})
		}
		s.Mounts = append(s.Mounts, m)
		return nil
	}
	for _, value := range c.line.flags["volume"] {
		parts := strings.Split(value, ":")
		if len(parts) < 2 || len(parts) > 3 {
			return refuseRun(c.kind, refusal{125, fmt.Sprintf("invalid volume specification: '%s'", value)},
				refusal{125, fmt.Sprintf("%s: incorrect volume format, should be [host-dir:]ctr-dir[:option]", value)})
		}
		if r := bind(mount{Source: parts[0], Target: parts[1], ReadOnly: len(parts) == 3 &&
			slices.Contains(strings.Split(parts[2], ","), "ro")}); r != nil {
			return r
		}
	}
	for _, value := range c.line.flags["mount"] {
		m, r := c.bindMount(value)
		if r != nil {
			return r
		}
		if r := bind(m); r != nil {
			return r
		}
	}
	for _, value := range c.line.flags["tmpfs"] {
		m, r := c.tmpfs(value)
		if r != nil {
			return r
		}
		s.Mounts = append(s.Mounts, m)
	}
	slices.SortStableFunc(s.Mounts, func(a, b mount) int { return cmp.Compare(len(a.Target), len(b.Target)) })
	return nil
}

func (c *client) bindMount(value string) (mount, *refusal) {
	var m mount
	fields, err := csv.NewReader(strings.NewReader(value)).Read()
	if err != nil {
		return m, refuseFlag(c.kind, "run", "invalid argument %q for \"--mount\" flag: %v", value, err)
	}
	for _, field := range fields {
		key, v, _ := strings.Cut(field, "=")
		switch key {
		case "type":
			if v != "bind" {
				return m, refuseFlag(c.kind, "run",
					"invalid argument %q for \"--mount\" flag: the fake engine has only binds", value)
			}
		case "source", "src":
			m.Source = v
		case "target", "dst", "destination":
			m.Target = v
		case "readonly", "ro":
			m.ReadOnly = v != "false"
		case "bind-propagation", "bind-recursive", "relabel":
		default:
			if c.kind == dockercli.Podman {
				return m, &refusal{125, fmt.Sprintf("Error: %s: invalid mount option\n", key)}
			}
			return m, refuseFlag(c.kind, "run", "invalid argument %q for \"--mount\" flag: unexpected key '%s' in '%s'",
				value, key, field)
		}
	}
	return m, nil
}

// tmpfs reads a tmpfs and its options, of which the engines have different defaults.
func (c *client) tmpfs(value string) (mount, *refusal) {
	target, options, _ := strings.Cut(value, ":")
	m := mount{Target: target}
	on := map[string]bool{"noexec": c.kind == dockercli.Docker, "nosuid": true, "nodev": true}
	var data []string
	for _, option := range strings.FieldsFunc(options, func(r rune) bool { return r == ',' }) {
		key, v, hasValue := strings.Cut(option, "=")
		switch {
		case key == "noexec" || key == "nosuid" || key == "nodev":
			on[key] = true
		case key == "exec" || key == "suid" || key == "dev":
			on["no"+key] = false
		case key == "size" && hasValue || key == "mode" && hasValue:
			data = append(data, option)
		case (key == "uid" || key == "gid") && c.kind == dockercli.Docker && v != "":
			data = append(data, option)
		case option == "U" && c.kind == dockercli.Podman:
			u, _ := lookUser(c.line.value("user")) // process 1 says if there is none
			data = append(data, fmt.Sprintf("uid=%d,gid=%d", u.UID, u.GID))
		case key == "rw" || key == "notmpcopyup" || key == "tmpcopyup":
		case key == "ro":
			m.ReadOnly = true
		default:
			return m, refuseRun(c.kind, refusal{125, fmt.Sprintf("invalid tmpfs option %q", option)},
				refusal{125, fmt.Sprintf("unknown mount option %q: invalid mount option", option)})
		}
	}
	if !strings.HasPrefix(target, "/") {
		return m, refuseRun(c.kind, refusal{125, fmt.Sprintf("invalid mount path: '%s' mount path must be absolute", target)},
			refusal{125, fmt.Sprintf("invalid container path %q, must be an absolute path", target)})
	}
	on["nodev"] = true
	for _, flag := range []string{"noexec", "nosuid", "nodev"} {
		if on[flag] {
			m.Flags = append(m.Flags, flag)
		}
	}
	m.Data = strings.Join(data, ",")
	return m, nil
}

// capabilities are the kernel's, by their numbers.
var capabilities = strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID " +
	"SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE " +
	"NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT " +
	"SYS_ADMIN SYS_BOOT SYS_NICE " +
	"SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN " +
	"SYSLOG WAKE_ALARM " +
	"BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE")

// A user is whom a container's command runs as.
type user struct {
	UID, GID int
	Home     string
}

// lookUser reads "user[:group]" with the image's passwd and group.
func lookUser(text string) (user, error) {
	name, group, hasGroup := strings.Cut(text, ":")
	u := user{Home: "/"}
	if name == "" || name == "0" {
		u.Home = "/root"
	}
	if n, err := strconv.Atoi(cmp.Or(name, "0")); err == nil && n >= 0 {
		u.UID = n
		if entry := lookEntry("/etc/passwd", 2, strconv.Itoa(n)); len(entry) > 5 {
			u.GID, _ = strconv.Atoi(entry[3])
			u.Home = entry[5]
		}
	} else {
		entry := lookEntry("/etc/passwd", 0, name)
		if len(entry) < 6 {
			return u, fmt.Errorf("unable to find user %s: no matching entries in passwd file", name)
		}
		u.UID, _ = strconv.Atoi(entry[2])
		u.GID, _ = strconv.Atoi(entry[3])
		u.Home = entry[5]
	}
	if !hasGroup {
		return u, nil
	}
	if n, err := strconv.Atoi(group); err == nil && n >= 0 {
		u.GID = n
		return u, nil
	}
	entry := lookEntry("/etc/group", 0, group)
	if len(entry) < 3 {
		return u, fmt.Errorf("unable to find group %s: no matching entries in group file", group)
	}
	u.GID, _ = strconv.Atoi(entry[2])
	return u, nil
}

// lookEntry returns the first line of colon-separated fields one of which is value.
func lookEntry(file string, field int, value string) []string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > field && fields[field] == value {
			return fields
		}
	}
	return nil
}
