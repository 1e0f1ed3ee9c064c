// Package samples has arguments of an engine's run for tests.
package samples

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/runargs"
)

// Readings are arguments and what they mean, as "name=value", or "!" where they can't be
// read. No value is one that an engine refuses.
var Readings = []struct {
	Args []string
	Want string
}{
	{nil, ""},
	{[]string{"--hostname=a"}, "hostname=a"},
	{[]string{"--hostname="}, "hostname="},
	{[]string{"--hostname=a=b"}, "hostname=a=b"},
	{[]string{"--hostname", "a"}, "hostname=a"},
	{[]string{"--hostname", ""}, "hostname="},
	{[]string{"--hostname", "--privileged"}, "hostname=--privileged"},
	{[]string{"--hostname", "--"}, "hostname=--"},
	{[]string{"-h", "a"}, "hostname=a"},
	{[]string{"-ha"}, "hostname=a"},
	{[]string{"-h=a"}, "hostname=a"},
	{[]string{"-h="}, "hostname=="},
	{[]string{"-h=="}, "hostname=="},
	{[]string{"-h=-a"}, "hostname=-a"},
	{[]string{"-h-a"}, "hostname=-a"},
	{[]string{"-h", "-a"}, "hostname=-a"},
	{[]string{"-i"}, "interactive=true"},
	{[]string{"-i=0"}, "interactive=0"},
	{[]string{"-it"}, "interactive=true tty=true"},
	{[]string{"-it=false"}, "interactive=true tty=false"},
	{[]string{"-ith", "a"}, "interactive=true tty=true hostname=a"},
	{[]string{"-itha"}, "interactive=true tty=true hostname=a"},
	{[]string{"-ih=a"}, "interactive=true hostname=a"},
	{[]string{"-hit"}, "hostname=it"},
	{[]string{"-ePATH=/a", "-e=B=c", "-e", "D=e", "--env", "F"}, "env=PATH=/a env=B=c env=D=e env=F"},
	{[]string{"-v/a:/b", "-itv", "/c:/d"}, "volume=/a:/b interactive=true tty=true volume=/c:/d"},
	{[]string{"--privileged"}, "privileged=true"},
	{[]string{"--privileged=true"}, "privileged=true"},
	{[]string{"--privileged=1"}, "privileged=1"},
	{[]string{"--privileged=t"}, "privileged=t"},
	{[]string{"--privileged=T", "--privileged=TRUE", "--privileged=True"}, "privileged=T privileged=TRUE privileged=True"},
	{[]string{"--privileged=0", "--privileged=f", "--privileged=FALSE"}, "privileged=0 privileged=f privileged=FALSE"},
	{[]string{"--net", "none"}, "network=none"},
	{[]string{"--net=none", "--network", "none"}, "network=none network=none"},
	{[]string{"--dns-opt", "a", "--dns-option=b"}, "dns-option=a dns-option=b"},
	{[]string{"-m", "64m", "-c5", "-u=1:1", "-w/tmp", "-p", "80:80", "-P", "-q", "-astdin", "-lx=y"},
		"memory=64m cpu-shares=5 user=1:1 workdir=/tmp publish=80:80 publish-all=true quiet=true attach=stdin label=x=y"},

	{[]string{""}, "!"},
	{[]string{"-"}, "!"},
	{[]string{"--"}, "!"},
	{[]string{"---init"}, "!"},
	{[]string{"--=a"}, "!"},
	{[]string{"-="}, "!"},
	{[]string{"x"}, "!"},
	{[]string{"--privileged", "false"}, "privileged=true !"},
	{[]string{"-i", "t"}, "interactive=true !"},
	{[]string{"-i="}, "interactive=true !"},
	{[]string{"-iz"}, "interactive=true !"},
	{[]string{"-zi"}, "!"},
	{[]string{"-é"}, "!"},
	{[]string{"--privi"}, "!"},
	{[]string{"--Privileged"}, "!"},
	{[]string{"--h=a"}, "!"},
	{[]string{"-hostname=a"}, "hostname=ostname=a"},
	{[]string{"--nonsense", "a", "-i"}, "! interactive=true"},
	{[]string{"--nonsense=a", "b", "-i"}, "! ! interactive=true"},
	{[]string{"x", "-i"}, "! interactive=true"},
}

// Values has a value for each flag that takes one. Engines take it, and it would show.
var Values = flagValues(`
	add-host evil:10.0.0.1|annotation a=b|arch amd64|attach stdin|authfile /tmp/x|blkio-weight 300|blkio-weight-device /dev/vda:300|cap-add SYS_ADMIN
	cap-drop CHOWN|cert-dir /tmp|cgroup-conf memory.high=1|cgroup-parent /evil|cgroupns host|cgroups disabled|chrootdirs /tmp|cidfile /tmp/cofferdam-no-such-file
	conmon-pidfile /tmp/cofferdam-no-such-file|cpu-count 1|cpu-percent 50|cpu-period 50000|cpu-quota 1000000|cpu-rt-period 1000|cpu-rt-runtime 1000|cpu-shares 4096
	cpus 2|cpuset-cpus 0|cpuset-mems 0|creds a:b|decryption-key x|detach-keys ctrl-a|device /dev/null:/dev/evil|device-cgroup-rule "a *:* rwm"
	device-read-bps /dev/vda:1mb|device-read-iops /dev/vda:1000|device-write-bps /dev/vda:1mb|device-write-iops /dev/vda:1000|dns 192.0.2.2|dns-option ndots:2
	dns-search example.org|domainname example.org|entrypoint /bin/evil|env EVIL=1|env-file /etc/os-release|env-merge PATH=${PATH}:/evil|expose 81|gidmap 0:1:1000
	gpus all|group-add 0|group-entry evil:x:0:|health-cmd true|health-interval 1s|health-log-destination local|health-max-log-count 5|health-max-log-size 500
	health-on-failure kill|health-retries 2|health-start-interval 1s|health-start-period 1s|health-startup-cmd true|health-startup-interval 1s
	health-startup-retries 2|health-startup-success 2|health-startup-timeout 1s|health-timeout 1s|hostname box|hosts-file /etc/hosts|hostuser root
	image-volume ignore|init-path /bin/evil|io-maxbandwidth 1000|io-maxiops 1000|ip 10.0.0.1|ip6 fd00::1|ipc host|isolation hyperv|kernel-memory 64m
	label team=a|label-file /etc/os-release|link evil|link-local-ip 169.254.0.1|log-driver json-file|log-opt max-size=1|mac-address 02:00:00:00:00:01
	memory 1g|memory-reservation 64m|memory-swap -1|memory-swappiness 50|mount type=bind,source=/usr,target=/evil|name evil|network host|network-alias evil
	oom-score-adj 500|os linux|passwd-entry evil:x:0:0::/:/bin/sh|personality LINUX32|pid host|pidfile /tmp/cofferdam-no-such-file|pids-limit -1|platform linux/amd64
	pod new:evil|pod-id-file /tmp/x|preserve-fd 3|preserve-fds 1|publish 8080:80|pull always|rdt-class evil|requires evil|restart always|retry 1|retry-delay 1s
	runtime runc|sdnotify container|seccomp-policy image|secret evil|security-opt seccomp=unconfined|shm-size 1g|shm-size-systemd 1g|signature-policy /tmp/x
	stop-signal 9|stop-timeout 7|storage-opt size=1g|subgidname evil|subuidname evil|sysctl net.ipv4.ip_forward=1|systemd always|timeout 60|tmpfs /evil|tz local
	uidmap 0:1:1000|ulimit fsize=1000000|umask 077|unsetenv PATH|user 0:0|userns host|uts host|variant v8|volume /usr:/evil|volume-driver evil
	volumes-from evil|workdir /evil`)

func flagValues(table string) map[string]string {
	all := map[string]string{}
	for _, entry := range strings.FieldsFunc(table, func(r rune) bool { return r == '|' || r == '\n' }) {
		if name, value, ok := strings.Cut(strings.TrimSpace(entry), " "); ok {
			all[name] = strings.Trim(value, `"`)
		}
	}
	return all
}

// evil are values that would be worth something to whoever got one through.
var evil = []string{
	"", "=", "host", "true", "false", "0", "1", "t", "F", "ALL", "--", "-", "-v", "-v/:/host", "--privileged",
	"--privileged=true", "/:/host", "none", "--network=host",
	"seccomp=unconfined", "no-new-privileges=false", "label=disable", "a=b", "cofferdam.pid=1",
	" cofferdam.pid=1", "\tcofferdam.keep=true", "\u00a0cofferdam.pid=1",
	"\ufeffcofferdam.pid=1", "cofferdam.pid", "a,b", `"a"`, "a\nb", "\n", "\r\n", "é", "\u2003", "--name=x",
	"--pid=host", "fsize=1,nofile=9", "core=0", "nofile=9:9",
	"cpu=1:2", "as=unlimited", "-1", "0x10", "1e3", "NET_ADMIN,SYS_ADMIN", "all", "10.0.0.1,10.0.0.2",
	"type=bind,src=/,dst=/host", "65534", "0:0", "image", "sh",
}

// Generate makes plausible spellings of flags out of bytes.
func Generate(kind dockercli.Kind, plan []byte) []string {
	known := runargs.Flags(kind)
	spellings := slices.Sorted(maps.Keys(known))
	gentle := slices.DeleteFunc(slices.Clone(spellings), func(s string) bool { return !known[s].Harmless() })
	gentle = append(gentle, "-l", "--label", "--ulimit", "--oom-score-adj", "--no-healthcheck")
	next := func(n int) int {
		if len(plan) == 0 {
			return 0
		}
		b := int(plan[0])
		plan = plan[1:]
		return b % n
	}
	pick := func(from []string) string { return from[next(len(from))] }
	var args []string
	for len(plan) > 0 && len(args) < 20 {
		from := gentle
		if next(4) == 3 {
			from = spellings
		}
		spelling := pick(from)
		f := known[spelling]
		value := Values[f.Name]
		if !f.TakesValue {
			value = pick([]string{"true", "false", "1", "0", "T", "f"})
		}
		if next(4) == 3 {
			value = pick(evil)
		}
		name := strings.TrimLeft(spelling, "-")
		switch style := next(24); style {
		default:
			if style%2 == 0 || !f.TakesValue {
				args = append(args, spelling+"="+value)
			} else {
				args = append(args, spelling, value)
			}
		case 12, 13:
			args = append(args, spelling)
		case 14:
			args = append(args, spelling+value)
		case 15, 16:
			args = append(args, "-"+pick([]string{"q", "qq", "q=true", "i", "it", "P", "l", "h"})+name+value)
		case 17:
			args = append(args, "-q"+name, value)
		case 18:
			args = append(args, strings.ToUpper(spelling)+"="+value)
		case 19:
			args = append(args, pick([]string{"-", "---", "–", "—", " --", "\n--", "\u00ad--"})+name+"="+value)
		case 20:
			args = append(args, spelling+pick([]string{"==", " =", "\n=", "= ", ":"})+value)
		case 21:
			args = append(args, spelling+"="+value, spelling+"="+pick(evil))
		case 22:
			args = append(args, value)
		case 23:
			args = append(args, spelling, pick(evil), spelling, value)
		}
	}
	return args
}

// A Seed is a list of arguments to begin with.
type Seed struct {
	Args   []string
	Plan   []byte // for Generate
	Compat bool   // under the policy of Compat
}

// Seeds returns lists of which some 40 reach each engine, and the others are what the
// guard has to stop.
func Seeds() []Seed {
	var seeds []Seed
	add := func(args ...string) { seeds = append(seeds, Seed{Args: args}) }
	for _, tt := range Readings {
		if tt.Args != nil && !strings.Contains(tt.Want, "hostname=-") {
			add(tt.Args...)
		}
	}
	// The table that is tested does not say which these are.
	harmless := strings.Fields(`
		arch blkio-weight blkio-weight-device cap-drop cpu-count cpu-percent
		cpuset-cpus cpuset-mems device-read-bps device-read-iops device-write-bps
		device-write-iops dns dns-option dns-search domainname expose group-entry
		hostname image-volume io-maxbandwidth io-maxiops kernel-memory label
		memory-reservation memory-swappiness no-healthcheck no-hostname no-hosts
		oom-score-adj os passwd passwd-entry platform quiet stop-timeout timeout
		ulimit umask unsetenv unsetenv-all variant`)
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		known := runargs.Flags(kind)
		for _, spelling := range slices.Sorted(maps.Keys(known)) {
			f := known[spelling]
			switch {
			case slices.Contains(harmless, f.Name):
			case f.TakesValue:
				add(spelling + "=" + Values[f.Name])
				add(spelling, Values[f.Name])
			default:
				add(spelling)
				add(spelling + "=false")
			}
		}
	}
	add("-l=cofferdam.keep=true")
	add("--label", "cofferdam.pid=1", "-l", "cofferdam.new")
	add("--ulimit=nofile=9:9")
	add("--ulimit", "fsize=1,nofile=9")
	add("--oom-score-adj=-1")
	add("--no-healthcheck=false")
	add("--no-hosts=false")
	add("-qv/usr:/evil")
	add("-qv", "/usr:/evil")
	add("-qu0:0", "-q")
	add("-qe", "EVIL=1")
	add("-qP")
	add("-q=true", "-qq", "-qhbox", "-h", "bax")
	add("-qlteam=a", "-ql", "b=c", "-l=d")
	add("--label", "--privileged", "-l--init", "-l", "cofferdamage=1", "-l=-it")
	add("-l", " spaced=1", "-l=\u00a0n=1", "-l", "v= a = b ")
	add("-l", "two\nlines=1", "-l", "é=\"x\"", "-l", "a,b=c,d")
	add("--label", "\ufeffcofferdam.pid=1")
	add("--hostname", "-v/usr:/evil")
	add("-h", "--privileged", "-h=-it")
	add("--hostname=a", "-hb", "--hostname", "c", "-h=d", "-qhe")
	add("--cap-drop=ALL", "--cap-drop", "chown", "--cap-drop=NET_RAW")
	add("--cpuset-cpus=0", "--cpuset-mems=0", "--stop-timeout=7", "--stop-timeout", "9", "--memory-reservation=64m")
	add("--stop-timeout", "-1")
	add("--oom-score-adj=0", "--oom-score-adj", "500")
	add("--ulimit=fsize=1000000", "--ulimit", "cpu=10:20", "--ulimit=core=0")
	add("--ulimit=fsize=5", "--ulimit", "data=1000000000:1000000000")
	add("--dns=192.0.2.7", "--dns-option", "ndots:1", "--dns-opt=ndots:3", "--dns-search=example.org")
	add("--expose=81", "--expose", "82-84/udp")
	add("--no-healthcheck", "--no-healthcheck=1", "--quiet=0")
	add("--platform=linux/amd64")
	add("--blkio-weight=300")
	add("--device-read-bps=/dev/vda:1mb", "--device-write-iops", "/dev/vda:100")
	add("--memory-swappiness=50", "--domainname=example.org")
	add("--kernel-memory=64m")
	add("--timeout=60", "--umask=077", "--unsetenv=PATH", "--no-hosts")
	add("--unsetenv-all", "--image-volume=ignore")
	add("--passwd-entry=evil:x:0:0::/:/bin/sh")
	add("--arch=amd64", "--override-os=linux")
	for _, args := range [][]string{
		{"--blkio-weight=300", "-qhbox"}, {"-l", "two\nlines=1", "--label=--", "--stop-timeout=7"},
		{"--hostname", "a\xff"}, {"--ulimit=fsize=1"}, {"--cap-drop=ALL"}, {"-qu0:0", "-q"}, {"--hostname", "--"},
		{"--hostname"}, {"-l"}, {"--privileged=false"}, {"--", "x"}, {"image"},
	} {
		seeds = append(seeds, Seed{Args: args, Compat: true})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		plan := make([]byte, 24)
		for k := range plan {
			plan[k] = byte(random.Uint32())
		}
		seeds = append(seeds, Seed{Plan: plan, Compat: i%8 == 0})
	}
	return seeds
}
