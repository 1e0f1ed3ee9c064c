package main

import (
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// steps is the tour. One session serves all of them, except where it says otherwise.
var steps []step

func init() {
	steps = []step{
		{"a session of the zero policy", open, "started in * ms"},

		// A program's output, apart and exact.
		{"Python that greets and adds", run(python3(`print("Hello from sandbox!"); print(2 + 2)`)),
			`exit 0, stdout "Hello from sandbox!\n4\n"`},
		{"two streams, no text", run(script(`printf '\0\377\r\n'; printf '\1\376' >&2`)),
			`exit 0, stdout "\x00\xff\r\n", stderr "\x01\xfe"`},
		{"no newline at the end", run(script(`printf 'no newline'`)), `exit 0, stdout "no newline"`},
		{"an argument is no script", run(execpolicy.Command{Argv: []string{"echo", "$(id); >/x"}}),
			`exit 0, stdout "$(id); >/x\n"`},
		{"stdin", run(execpolicy.Command{Script: "tr a-z A-Z", Stdin: strings.NewReader("quiet\n")}),
			`exit 0, stdout "QUIET\n"`},
		{"1 MiB of random bytes in and out", roundTrip, "1048576 bytes, equal"},
		{"256 MiB of output", flood, "268435456 bytes, 134217728 lines, 1048576 kept, memory +* MiB (10 allowed)"},

		// What a command leaves behind, the next one finds.
		{"set a variable, a function, a directory", run(script(`name=world; greet() { echo "hello $name"; }; cd /tmp`)),
			"exit 0"},
		{"use them in the next command", run(script(`greet; pwd`)), `exit 0, stdout "hello world\n/tmp\n"`},

		// What a model writes.
		{"the code blocks of a Markdown answer", blocks, `2 blocks, exit 0, "2 3 5 7 11 13 17 19 23 29\n"`},
		{"a value in, a value out", call, `result {"sum":15,"none":null}, stdout "{\"sum\": -1}\n"`},
		{"snippets of a Python that stays", notebook, "13, ZeroDivisionError: division by zero"},
		{"collect files by patterns", artifacts, `[deep plot.svg], "a,b\n", a link: true`},

		// Nothing that a command does to its own shell makes the session hang.
		{"cat, which waits for input", run(script(`cat`)), "exit 0"},
		{"read x, too", run(script(`read x`)), "exit 1"},
		{"an open quote", run(script(`echo "open`)), `exit *, stderr "*"`},
		{"exit 3, by the shell itself", run(script(`exit 3`)), "exit 3, shell replaced"},

		// No way out.
		{"connect to the network", run(python3(`import socket; socket.create_connection(("1.1.1.1", 53), 5)`)),
			`exit 1, stderr "*Network is unreachable*"`},
		{"write to /etc/passwd", run(python3(`open("/etc/passwd", "w")`)), `exit 1, stderr "*Error: *'/etc/passwd'\n"`},
		{"the same as root inside", runAsRoot(python3(`open("/etc/passwd", "w")`)),
			`exit 1, stderr "*Read-only file system: '/etc/passwd'\n"`},
		{"secrets, seen by the program alone", secrets,
			`program: true, ps: false, inspect: false, printed: "[secret TOKEN]\n"`},
		{"mount what has the host's secrets", sensitive, "refused: the mount source \"/etc\" would show /etc*"},
		{"a file made in a mounted workspace", mounted, `"made inside\n", owned by the workspace's owner (*)`},

		// Deadlines and limits. What ended a command is known, and not guessed from its
		// exit code.
		{"set a variable", run(toKeep), "exit 0"},
		{"an infinite loop in Python, 0.5 s", run(pythonLoop), "ended at its deadline (*)*"},
		{"the session's variables are there", kept, `exit 0, stdout "yes\n"`},
		{"output before a deadline, 0.5 s", run(within(500*time.Millisecond, script(`echo half; sleep 4866`))),
			`ended at its deadline (*), stdout "half\n"*`},
		{"a cancel by the caller", cancelOnceHeard(script(`echo half; sleep 4867`)),
			`canceled (*), stdout "half\n"*`},
		{"one in the shell itself, 0.5 s", run(within(500*time.Millisecond, script(`while :; do :; done`))),
			"ended at its deadline (*), shell replaced"},
		{"now they are gone, as it said", run(script(`echo "${kept-unset}"`)), `exit 0, stdout "unset\n"`},
		{"a fork bomb, 1 s", limited(within(time.Second, script(`bomb() { bomb | bomb; }; bomb`))),
			"ended at its deadline (*)*"},
		{"the session is of use again", run(script(`echo usable`)), `exit 0, stdout "usable\n"`},
		{"nothing of the bomb is left", limited(script(`set -- /proc/[0-9]*; [ $# -lt 10 ] || echo "$# processes"`)),
			"exit 0"},
		{"1 GiB of memory, of 512 MiB allowed", limited(python3(`b"x" * (1 << 30)`)), "out of memory*"},
		{"the session is of use again", run(script(`echo usable`)), `exit 0, stdout "usable\n"`},
		{"exit 124 is no timeout", run(script(`sh -c 'exit 124'`)), "exit 124"},
		{"exit 137 is no kill for memory", run(script(`sh -c 'exit 137'`)), "exit 137"},

		// Nothing survives.
		{"SIGKILL of a program with 3 busy sessions", killProgram, "3 containers, 0 left 2s later (* ms)"},
		{"the session is closed", closeSession, "0 containers left"},
	}
}

var (
	toKeep     = script(`kept=yes`)
	pythonLoop = within(500*time.Millisecond, python3(`while True: pass`))
)

func script(s string) execpolicy.Command { return execpolicy.Command{Script: s} }

func python3(code string) execpolicy.Command {
	return execpolicy.Command{Argv: []string{"python3", "-c", code}}
}

func within(d time.Duration, c execpolicy.Command) execpolicy.Command {
	c.Timeout = d
	return c
}
