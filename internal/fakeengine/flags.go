package fakeengine

import (
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// A verbSpec is a verb's flags, each with its aliases, one that takes no value ending
// with "!", and what it does.
type verbSpec struct {
	flags string
	// podmanFlags are those that only podman has.
	podmanFlags string
	// interspersed says that flags may stand after operands.
	interspersed bool
	do           func(*client) *refusal
}

// verbTable is filled in by init, as the verbs themselves look at it.
var verbTable map[string]verbSpec

func init() {
	verbTable = map[string]verbSpec{
		"version":         {flags: "format,f", interspersed: true, do: (*client).version},
		"info":            {flags: "format,f", interspersed: true, do: (*client).info},
		"context inspect": {flags: "format,f", interspersed: true, do: (*client).contextInspect},
		"images":          {flags: "format", interspersed: true, do: (*client).images},
		"run": {
			flags: "interactive,i! rm! detach,d! read-only! init! no-healthcheck! name label,l pull platform " +
				"network,net hostname,h add-host dns tmpfs mount " +
				"volume,v workdir,w shm-size env,e user,u entrypoint stop-timeout memory,m memory-swap cpus " +
				"cpu-shares,c pids-limit pid ulimit cap-drop cap-add " +
				"security-opt ipc userns cgroupns runtime gpus device log-driver log-opt detach-keys",
			podmanFlags: "no-hosts! http-proxy! read-only-tmpfs! systemd sdnotify",
			do:          (*client).run,
		},
		"exec": {
			flags: "interactive,i! env,e user,u workdir,w detach-keys",
			do:    (*client).exec,
		},
		"rm":                {flags: "force,f! volumes,v!", podmanFlags: "time,t", interspersed: true, do: (*client).rm},
		"kill":              {flags: "signal,s", interspersed: true, do: (*client).kill},
		"inspect":           {flags: "format,f type", interspersed: true, do: (*client).inspect},
		"container inspect": {flags: "format,f", interspersed: true, do: (*client).inspect},
		"image inspect":     {flags: "format,f", interspersed: true, do: (*client).imageInspect},
		"pull":              {flags: "platform quiet,q!", interspersed: true, do: (*client).pull},
		"ps":                {flags: "all,a! no-trunc! quiet,q! format filter,f", interspersed: true, do: (*client).ps},
		"events":            {flags: "since until filter,f format", interspersed: true, do: (*client).events},
	}
}

// splitVerb returns the verb and what follows it. Flags of the program itself come
// before; those that are known to take a word do.
func splitVerb(words []string) (verb string, rest []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--version":
			return word, words[i+1:]
		case word == "--context" || word == "-c" || word == "--host" || word == "-H" || word == "--connection" ||
			word == "--url" || word == "--runtime":
			i++
		case !strings.HasPrefix(word, "-"):
			if i+1 < len(words) {
				if two := word + " " + words[i+1]; verbTable[two].do != nil {
					return two, words[i+2:]
				}
			}
			return word, words[i+1:]
		}
	}
	return "", nil
}

// A commandLine is what follows a verb.
type commandLine struct {
	flags    map[string][]string // by their long name
	operands []string
}

// value returns the last value of a flag.
func (l commandLine) value(name string) string {
	values := l.flags[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (l commandLine) set(name string) bool {
	switch l.value(name) {
	case "", "false", "0", "f", "F", "FALSE", "False":
		return false
	}
	return true
}

// parse reads words as the engines' clients do.
func (v verbSpec) parse(kind dockercli.Kind, verb string, words []string) (commandLine, *refusal) {
	known := v.flags
	if kind == dockercli.Podman {
		known += " " + v.podmanFlags
	}
	long, isBool := map[string]string{}, map[string]bool{}
	for _, flag := range strings.Fields(known) {
		names, noValue := strings.CutSuffix(flag, "!")
		all := strings.Split(names, ",")
		for _, name := range all {
			long[name], isBool[name] = all[0], noValue
		}
	}
	l := commandLine{flags: map[string][]string{}}
	add := func(name, value string) { l.flags[long[name]] = append(l.flags[long[name]], value) }
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			l.operands = append(l.operands, words[i+1:]...)
			return l, nil
		case !strings.HasPrefix(word, "-") || word == "-":
			if !v.interspersed {
				l.operands = append(l.operands, words[i:]...)
				return l, nil
			}
			l.operands = append(l.operands, word)
		case strings.HasPrefix(word, "--"):
			name, value, hasValue := strings.Cut(word[2:], "=")
			switch {
			case long[name] == "":
				return l, refuseFlag(kind, verb, "unknown flag: --%s", name)
			case !hasValue && isBool[name]:
				value = "true"
			case !hasValue && i+1 == len(words):
				return l, refuseFlag(kind, verb, "flag needs an argument: --%s", name)
			case !hasValue:
				i++
				value = words[i]
			}
			add(name, value)
		default:
			for letters := word[1:]; letters != ""; {
				name := letters[:1]
				letters = letters[1:]
				value, hasValue := strings.CutPrefix(letters, "=")
				switch {
				case long[name] == "":
					return l, refuseFlag(kind, verb, "unknown shorthand flag: %q in %s", name[0], word)
				case isBool[name] && !hasValue:
					add(name, "true")
					continue
				case hasValue || letters != "":
				case i+1 == len(words):
					return l, refuseFlag(kind, verb, "flag needs an argument: %q in %s", name[0], word)
				default:
					i++
					value = words[i]
				}
				add(name, value)
				letters = ""
			}
		}
	}
	return l, nil
}
