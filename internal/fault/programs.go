//go:build linux

package main

import (
	"slices"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A program is shell text that a session's worker runs. It goes on until it is ended,
// unless it says otherwise.
type program struct {
	name   string
	script string
	needs  string // a program that the image must have; empty is none

	job    bool // runs as a job, beside what the worker runs
	ends   bool // by itself and at once: what it has done to the shell stays
	obeys  bool // ends at a SIGTERM
	floods bool // prints without end
	stuck  bool // the caller's writer takes nothing
	// lies says that what the shell reports of this command and of later ones may be the
	// program's own word.
	lies bool
	// traps says that the shell may print something of the program's in later commands.
	traps bool
	// starves says that process 1 gets next to no time: what ends it from outside may
	// take longer than it may.
	starves bool
	// idles says that, where the filter of system calls allows it, process 1 gets time
	// only when nobody else on the machine wants any: a transfer may then cost the
	// session.
	idles bool
	// hinders says that it may keep a transfer from its end, which then costs the
	// session.
	hinders bool
	// keeperless says that, as a job, it kills the shell that sees to it. The job then
	// counts as killed by a signal.
	keeperless bool
	// own are the outcomes to which it may come without anybody's help; it may also cost
	// the shell its life then.
	own []execpolicy.Outcome
	// exit is the status that it must end with, and says the end of what it must have
	// printed, if it ends by itself. If says is empty nothing is known of either.
	exit int
	says string
}

// Outcomes that a program brings about itself.
var (
	exits = []execpolicy.Outcome{execpolicy.OutcomeExited}
	// kills its shell, or the process that is waited for.
	kills = []execpolicy.Outcome{execpolicy.OutcomeExited, execpolicy.OutcomeSignaled}
	// starves is of memory: whom the kernel kills is the kernel's choice, process 1
	// included.
	starves = []execpolicy.Outcome{execpolicy.OutcomeExited, execpolicy.OutcomeSignaled,
		execpolicy.OutcomeOOMKilled, execpolicy.OutcomeSessionLost}
	// crowds out the command, which can't fork then, or gets no time while the kernel
	// looks for memory.
	crowds = append([]execpolicy.Outcome{execpolicy.OutcomeTimedOut}, starves...)
	// loses the container.
	loses = []execpolicy.Outcome{execpolicy.OutcomeExited, execpolicy.OutcomeSignaled,
		execpolicy.OutcomeTimedOut, execpolicy.OutcomeSessionLost}
	// hangs means that nobody says how the command ended, so that it goes on to its
	// deadline.
	hangs = []execpolicy.Outcome{execpolicy.OutcomeExited, execpolicy.OutcomeSignaled, execpolicy.OutcomeTimedOut}
)

// limit sets resource limits of process 1, by their numbers, to nothing.
func limit(numbers string) string {
	return python(`
import resource
deaf()
for r in ` + numbers + `,:
    try: resource.prlimit(1, r, (0, 0))
    except (OSError, ValueError): pass
forever()`)
}

func (p *program) mayLose() bool { return slices.Contains(p.own, execpolicy.OutcomeSessionLost) }

// held is printed by a program that got hold of process 1: then nothing of what is
// promised is certain.
const held = "HELD"

// tools stands at the begin of Python programs.
const tools = `
import ctypes, os, re, signal, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def deaf():
    for s in range(1, 65):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
def forever():
    while True: time.sleep(1000)
def files():
    for p in os.listdir("/proc"):
        if p.isdigit():
            try: names = os.listdir("/proc/%s/fd" % p)
            except OSError: continue
            for n in names: yield "/proc/%s/fd/%s" % (p, n)
`

// unstoppable lets a Python program go on whenever it was stopped: timers send it
// SIGCONT, one every 200 µs, and so does each change to a directory that files go to.
// The handler is one of C and costs next to nothing. A SIGSTOP takes what is pending, and
// the timers that sent it with it: whoever runs has to call rearm.
const unstoppable = `
import fcntl
timers = []
def rearm():
    for i, t in enumerate(timers): libc.timer_settime(t, 0, (ctypes.c_long * 4)(0, 24 * 200000, 0, (i + 1) * 200000), None)
def unstoppable():
    deaf()
    libc.signal(signal.SIGCONT, ctypes.cast(libc.abs, ctypes.c_void_p)) # what is ignored is not sent
    for i in range(24):
        event, timer = (ctypes.c_int * 16)(0, 0, signal.SIGCONT), ctypes.c_void_p() # sigevent: SIGEV_SIGNAL is 0
        if libc.timer_create(1, event, ctypes.byref(timer)) == 0: timers.append(timer)
    for d in "/.cofferdam", ".", "/tmp":
        try:
            watched = os.open(d, os.O_RDONLY)
            fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGCONT)
            fcntl.fcntl(watched, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MODIFY | fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)
        except OSError: pass
    rearm()
`

// readers tells a Python program that can't be stopped what reads process 1's stdin, over
// and over.
const readers = unstoppable + `
def readers():
    unstoppable()
    load, last, young = os.open("/proc/loadavg", os.O_RDONLY), 0, set()
    while True:
        newest = int(os.pread(load, 99, 0).split()[-1]) # process
        young.update(range(last + 1, newest + 1))
        last = newest
        for p in list(young):
            try:
                with open("/proc/%d/stat" % p) as f: name, _, rest = f.read().partition("(")[2].rpartition(")")
            except OSError: rest = "X 0"
            if rest.split()[1] != "1": young.discard(p)
            elif name == "dd": yield p
        rearm()
`

// deaf is a process that obeys nothing.
const deaf = `sh -c 'trap "" HUP INT QUIT TERM USR1 USR2 ALRM; while :; do sleep 1000; done'`

func python(text string) string { return "python3 -c '" + tools + text + "'" }

// programs are what hostile code is known to try.
var programs = []*program{
	{name: "sleeper", script: `sleep 1000`, obeys: true},
	{name: "sleepers", script: `for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait`, obeys: true},
	{name: "TERM-ignorer", script: deaf},
	{name: "setsid daemon", script: `(setsid ` + deaf + ` </dev/null >/dev/null 2>&1 &); sleep 1000`},
	{name: "double-fork daemon", needs: "python3", script: python(`
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        deaf()
        os.chdir("/")
        for fd in range(3): os.close(fd)
        while True: time.sleep(0.01)
    os._exit(0)
forever()`)},
	{name: "shell's own loop", script: `while :; do :; done`},
	{name: "spinners", script: `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (trap '' TERM; while :; do ` +
		`:; done) & done; wait`},

	{name: "fork bomb", script: `b='while :; do sh -c "$b" & done'; export b; sh -c "$b"; sleep 1000`, own: starves},
	{name: "fork bomb of one program", needs: "python3", script: python(`
deaf()
while True:
    try: os.fork()
    except OSError: pass`), own: crowds},
	{name: "fork bomb that goes on", needs: "python3", script: python(unstoppable + `
unstoppable()
while True:
    try:
        if os.fork() == 0: unstoppable()
    except OSError: pass`), own: crowds},
	{name: "job that floods", job: true, script: `yes >&2 & yes`},
	{name: "deaf job", job: true, script: deaf},
	{name: "job that is stopped", job: true, script: `trap '' TERM; while :; do kill -STOP $$; done`},
	{name: "job without a keeper", job: true, keeperless: true, script: `trap '' TERM; kill -9 $PPID; while :; do sleep 1000; done`},
	{name: "fork bomb in a job", job: true, script: `trap '' TERM; f() { f & f & sleep 1000; }; f`, own: crowds},
	{name: "fork bomb of one program in a job", job: true, needs: "python3", script: python(`
deaf()
os.setpgid(0, 0)
while True:
    try: os.fork()
    except OSError: pass`), own: crowds},
	{name: "fork and exit", script: `while :; do (: &); done`, own: hangs},
	{name: "threads", needs: "python3", script: python(`
import threading
def spin():
    while True: pass
while True:
    try: threading.Thread(target=spin, daemon=True).start()
    except (RuntimeError, MemoryError): time.sleep(0.01)`), own: starves},
	// Among what they read is the pipe that the end marks come through.
	{name: "rogue shells", script: `
		for i in 1 2 3 4 5 6 7 8; do
			( for f in /proc/$$/fd/*; do (\. "$f") & done; (return 0); break 9; continue 9 ) 2>/dev/null &
			( until 7</proc/self/fd/8; do :; done; \. /proc/self/fd/6 ) 2>/dev/null &
		done
		sleep 1000`, own: hangs, lies: true},

	{name: "memory bomb", needs: "python3", script: python(`
hoard = []
while True: hoard.append(bytearray(1 << 20))`), own: starves},
	{name: "memory bomb of the shell", script: `x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`, own: starves},
	{name: "memory bomb of a grandchild", needs: "python3", script: `(` + python(`
hoard = []
while True: hoard.append(bytearray(1 << 20))`) + ` & wait) ; sleep 1000`, own: starves},
	{name: "filler", script: `
		for d in /tmp /workspace /dev/shm /.cofferdam /var/tmp /run /dev /; do
			(i=0; while dd if=/dev/zero of=$d/fill$i bs=65536 2>/dev/null && [ $i -lt 20 ]; do i=$((i + 1)); done) 2>/dev/null
		done
		sleep 1000`, own: starves},
	{name: "filler with names", script: `
		for d in /tmp /workspace /dev/shm /.cofferdam; do
			(i=0; while : >$d/$i && [ $i -lt 20000 ]; do i=$((i + 1)); done) 2>/dev/null
		done
		sleep 1000`, own: starves},

	{name: "kill of everything", script: `sh -c 'kill -9 -1'; sleep 1000`, own: kills},
	{name: "kill of everything by the shell", script: `kill -9 -1; sleep 1000`, own: kills},
	{name: "kill of everything, over and over", needs: "python3", script: python(`
deaf()
while True:
    try: os.kill(-1, 9)
    except OSError: pass`), own: kills},
	{name: "every signal to everything", script: `
		s=1; while [ $s -lt 65 ]; do [ $s = 9 ] || [ $s = 19 ] || kill -$s -1 1 $PPID 2>/dev/null; s=$((s + 1)); done; sleep 1000`, own: hangs},
	{name: "stop of everything", script: `sh -c 'kill -STOP -1'; sleep 1000`, own: hangs},
	{name: "stop of everything, over and over", script: `sh -c 'trap "" TERM CONT; while :; do kill -STOP -1; done'`,
		own: hangs},
	{name: "stop of the shell", script: `kill -STOP $$; sleep 1000`, own: hangs},
	{name: "stop of the shell's parent", script: `kill -STOP $PPID; sleep 1000`},
	{name: "kill of the shell", script: `kill -9 $$; sleep 1000`, own: kills},
	{name: "kill of the shell's parent", script: `kill -9 $PPID; sleep 1000`, own: kills},

	{name: "stop of process 1", script: `
		for s in STOP TSTP TTIN KILL INT TERM HUP QUIT USR1 CHLD; do kill -$s 1 2>/dev/null; done; sleep 1000`},
	{name: "ptrace of process 1", needs: "python3", script: python(`
for request in 16, 0x4206: # PTRACE_ATTACH and PTRACE_SEIZE
    if libc.ptrace(request, 1, 0, 0) == 0: print("` + held + ` by ptrace", request)
for number, args in (310, (1, 0, 0, 0, 0, 0)), (438, (libc.syscall(434, 1, 0), 0, 0)): # process_vm_readv and pidfd_getfd
    if libc.syscall(number, *args) > 0: print("` + held + ` by call", number)
sys.stdout.flush()
forever()`)},
	{name: "stdin of process 1 held open", needs: "python3", script: python(`
deaf()
kept = []
for name in "fd/0", "fd/1", "fd/2", "mem", "environ", "root/tmp", "cwd", "exe", "map_files":
    for flags in os.O_RDONLY, os.O_WRONLY | os.O_NONBLOCK, os.O_RDWR:
        try: kept.append(os.open("/proc/1/" + name, flags))
        except OSError: continue
        print("` + held + `", name)
for name in "oom_score_adj", "oom_adj", "coredump_filter", "autogroup", "timerslack_ns", "comm":
    try: open("/proc/1/" + name, "w").write("1000")
    except OSError: continue
    if name.startswith("oom"): print("` + held + `", name)
sys.stdout.flush()
forever()`)},
	// Whoever has the same user may set these. It costs the session, and nothing else.
	{name: "no files for process 1", needs: "python3", script: limit("7"), own: loses},
	{name: "no writing for process 1", needs: "python3", script: limit("1"), own: loses},
	{name: "no forks for process 1", needs: "python3", script: limit("6"), own: loses},
	{name: "no memory for process 1", needs: "python3", script: limit("2, 3, 9"), own: loses},
	{name: "nothing for process 1", needs: "python3", script: limit("*range(16)"), own: loses},
	{name: "process 1 at the lowest priority", needs: "python3", script: python(`
deaf()
for call in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.sched_setscheduler(1, 5 | 0x40000000, os.sched_param(0)), # SCHED_IDLE, SCHED_RESET_ON_FORK
             lambda: os.sched_setaffinity(1, [0])):
    try: call()
    except OSError: pass
for i in range(20):
    if os.fork() == 0: break
while True: pass`), own: hangs, idles: true},
	{name: "process 1 starved", needs: "python3", script: python(`
deaf()
processor = min(os.sched_getaffinity(0))
for p in 1, 0: os.sched_setaffinity(p, [processor])
wait, go = os.pipe()
for i in range(min(200, int(open("/sys/fs/cgroup/pids/pids.max" if os.path.exists("/sys/fs/cgroup/pids") else "/sys/fs/cgroup/pids.max").read()) - 24)):
    try: child = os.fork()
    except OSError: break
    if child == 0:
        os.close(go)
        os.read(wait, 1)
        while True: pass
try: os.sched_setscheduler(1, 5 | 0x40000000, os.sched_param(0)) # SCHED_IDLE, SCHED_RESET_ON_FORK
except OSError: pass
os.close(go)
while True: pass`), own: loses, starves: true},
	// What fills the limit stays when the shell is gone that began it.
	{name: "no process for another shell", needs: "python3", script: `(shell=$$ ` + python(`
deaf()
while True:
    try:
        if os.fork() == 0: forever()
    except OSError: break
os.kill(int(os.environ["shell"]), signal.SIGKILL)
while True:
    try:
        if os.fork() == 0: forever()
    except OSError: pass`) + `) & sleep 1000`, own: starves},
	{name: "transfers stopped", needs: "python3", script: python(readers + `
for reader in readers():
    try: os.kill(reader, signal.SIGSTOP)
    except OSError: pass`), hinders: true},
	{name: "transfers traced", needs: "python3", script: python(readers + `
for reader in readers():
    if libc.ptrace(0x4206, reader, 0, 0) == 0: libc.ptrace(0x4207, reader, 0, 0) # PTRACE_SEIZE, PTRACE_INTERRUPT
    else: libc.ptrace(16, reader, 0, 0) # PTRACE_ATTACH`), hinders: true},
	{name: "stdin of transfers held open", needs: "python3", script: python(readers + `
kept = {}
for reader in readers():
    try: pipe = os.readlink("/proc/%d/fd/0" % reader)
    except OSError: continue
    if pipe.startswith("pipe:") and pipe not in kept:
        try: kept[pipe] = os.open("/proc/%d/fd/0" % reader, os.O_RDWR | os.O_NONBLOCK)
        except OSError: pass`), hinders: true},
	// To open a file for writing waits for most of a minute if another has a lease on it.
	{name: "leases on files", needs: "python3", script: `(shell=$$ ` + python(unstoppable+`
unstoppable()
shell, kept = os.environ["shell"], {}
while True:
    rearm()
    paths = [d + "/" + n for d in ("/proc/self/fd", "/proc/%s/fd" % shell) if os.path.exists(d) for n in os.listdir(d)]
    for d in "/.cofferdam", "/workspace", "/tmp":
        try: paths += [d + "/" + n for n in os.listdir(d)]
        except OSError: pass
    for path in paths:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode): continue
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            name = os.readlink("/proc/self/fd/%d" % file)
            if name in kept: os.close(kept.pop(name))
            kept[name] = file
        except OSError: continue
        for lease in fcntl.F_RDLCK, fcntl.F_WRLCK:
            try: fcntl.fcntl(file, fcntl.F_SETLEASE, lease)
            except OSError: continue
            if name.startswith("/.cofferdam/script"): print("`+held+`", name, flush=True)`) + `) & sleep 1000`, hinders: true},
	// Whoever writes to a file waits for the kernel's lock of it, behind all of these.
	{name: "lock of the script", needs: "python3", script: `(` + python(`
deaf()
script = os.open("/.cofferdam/script", os.O_RDWR)
text = b":\n" * (4 << 20)
os.close(os.open("/tmp/queued", os.O_CREAT | os.O_WRONLY))
for i in range(150):
    try:
        if os.fork() == 0: break
    except OSError: break
while i % 2 == 0:
    try: os.pwrite(script, text, 1 << 20)
    except OSError: pass
while True: pass`) + `) & until [ -e /tmp/queued ]; do sleep 0.1; done`, ends: true, own: loses},
	{name: "pipes of others held and filled", needs: "python3", script: python(`
deaf()
kept = []
def fill(path):
    try: kept.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError: return
    try:
        for i in range(1000): os.write(kept[-1], b"n" * 4096)
    except OSError: pass
mine = "/proc/%d/" % os.getpid()
for path in files():
    try: target = os.readlink(path)
    except OSError: continue
    if (target.startswith("pipe:") or target.startswith("/.cofferdam/")) and not path.startswith(mine): fill(path)
forever()`), own: hangs, lies: true},
	{name: "text of others", needs: "python3", script: python(`
deaf()
while True:
    for path in files():
        try:
            if "/.cofferdam/" in os.readlink(path): open(path, "r+b", 0).write(b":\n" * 64)
        except OSError: pass`), own: loses, lies: true},
	{name: "x) S 9 ", needs: "python3", script: python(`
deaf()
for i in range(8):
    if os.fork() == 0:
        os.setsid()
        libc.prctl(15, b"x) S 9 \n", 0, 0, 0)
        forever()
forever()`)},

	{name: "no descriptors", script: `for f in /proc/$$/fd/*; do f=${f##*/}; eval "exec $f>&-"; done 2>/dev/null; :`,
		ends: true, own: hangs},
	{name: "no descriptors allowed", script: `ulimit -n 3; ulimit -u 1; ulimit -f 0; ulimit -s 8; :`, ends: true,
		own: hangs},
	{name: "no descriptors in a child", needs: "python3", script: python(`
os.closerange(0, 1024)
forever()`), obeys: true},
	{name: "output elsewhere", script: `exec >/dev/null 2>&1 </dev/null; echo unseen`, ends: true, obeys: true,
		own: hangs},
	{name: "no directory", script: `
		mkdir -p /tmp/gone && cd /tmp/gone && rmdir /tmp/gone; rm -rf /.cofferdam/* /workspace/* /dev/shm/*; echo said`,
		ends: true, obeys: true, says: "said\n"},
	{name: "deaf shell", script: `s=1; while [ $s -lt 65 ]; do trap '' $s; s=$((s + 1)); done 2>/dev/null; echo said`,
		ends: true, says: "said\n"},
	{name: "traps of the shell", script: `
		s=0; while [ $s -lt 65 ]; do trap 'echo caught; sleep 1000' $s; s=$((s + 1)); done 2>/dev/null
		echo said`, ends: true, own: hangs, traps: true},
	{name: "traced shell", script: `set -x; set -v; PS4='$(echo traced)'; echo said`, ends: true, own: hangs},
	{name: "strict shell", script: `set -eu; echo said; false; echo unsaid`, ends: true, own: exits, exit: 1,
		says: "said\n"},
	{name: "silent shell", script: `set -n`, ends: true, own: hangs},
	{name: "new names for everything", script: `
		for f in printf command eval exit return . cd echo test [ : set unset trap exec \
			read kill export local readonly true false builtin source; do
			eval "alias $f='echo alias of $f'" 2>/dev/null
			(eval "$f() { /bin/sleep 0.01; }") 2>/dev/null && eval "$f() { /usr/bin/sleep 0.01; }"
		done 2>/dev/null`, ends: true, own: hangs, lies: true},
	{name: "other names for variables", script: `
		IFS=0123456789; PATH=/nowhere; ENV=/tmp/env; BASH_ENV=/tmp/env; PS1=; PWD=x; OLDPWD=y; LC_ALL=xx; cf_status=+7; cf_tag=x
		unset HOME; :`, ends: true, obeys: true, own: exits},
	{name: "other program", script: `exec ` + deaf},
	{name: "other program that ends", script: `exec sh -c 'echo said; exit 137'`, ends: true, own: exits,
		exit: 137, says: "said\n"},
	{name: "other shell's exit", script: `echo said; exit 143`, ends: true, own: exits, exit: 143, says: "said\n"},
	{name: "status of an engine",
		script: `echo 'docker: Error response from daemon: No such container' >&2; echo said; (exit 125)`,
		ends:   true, obeys: true, exit: 125, says: "said\n"},
	{name: "status of a timeout", script: `echo said; (exit 124)`, ends: true, obeys: true, exit: 124, says: "said\n"},
	{name: "status of a kill", script: `echo said; (exit 137)`, ends: true, obeys: true, exit: 137, says: "said\n"},

	{name: "flood", script: `yes`, floods: true, obeys: true},
	{name: "flood that nobody reads", script: `yes`, floods: true, stuck: true,
		own: []execpolicy.Outcome{execpolicy.OutcomeTimedOut}},
	{name: "flood on both", script: `yes >&2 & yes | cat`, floods: true, obeys: true},
	{name: "line without an end", script: `tr '\0' x </dev/zero`, floods: true, obeys: true},
	{name: "NUL and broken UTF-8", script: `while :; do printf '\000\377\376\355\240\200\360\237\n\r\b'; done`,
		floods: true},
	{name: "noise", script: `cat /dev/urandom`, floods: true, obeys: true},
	{name: "plausible marks", needs: "python3", script: python(`
import random
signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
def word(n): return "".join(random.choices(signs, k=n))
while True:
    p = word(26)
    for mark in "%se%s 0 /tmp%s\n" % (p, word(13), p), "%sb%s\n" % (p, word(13)), "%sx1 0\n" % p, "%se" % p:
        for fd in 1, 2: os.write(fd, mark.encode())`), floods: true},
	{name: "plausible marks once", script: `
		p=ABCDEFGHIJKLMNOPQRSTUVWXYZ t=ZYXWVUTSRQPON
		printf '%se%s 0 /%s\n%sx1 0\n%sb%s\n' $p $t $p $p $p $t; printf '%se%s\n%sx1\n' $p $t $p >&2
		echo said; (exit 7)`, ends: true, obeys: true, exit: 7, says: "said\n"},
	{name: "marks of its own command", needs: "python3", script: python(marks + `
replay()
forever()`), own: exits, lies: true},
	{name: "marks in the background", needs: "python3", script: `(` + python(marks+`
deaf()
while True: replay()`) + ` &); sleep 1000`, own: hangs, lies: true},
	// These want the processor beside process 1, which has to fork for the next command,
	// or to look at each of them.
	{name: "no process but spinners", needs: "python3", script: `(` + python(crowd+`
crowd(1000)
ready()
while True: pass`) + `) & until [ -e /tmp/crowd ]; do :; done`, ends: true, own: loses, starves: true},
	{name: "spinners without a watch", needs: "python3", script: `shell=$$ watch=$PPID ` + python(crowd+`
crowd(200)
for p in "watch", "shell": os.kill(int(os.environ[p]), signal.SIGKILL)
while True: pass`), own: loses, starves: true},
	// What it starts has lower numbers than what was there before, if it comes so far.
	{name: "numbers that begin anew", needs: "python3", script: python(`
import _thread, threading
threading.stack_size(65536)
last = os.open("/proc/sys/kernel/ns_last_pid", os.O_RDONLY)
begun = int(os.pread(last, 99, 0))
while int(os.pread(last, 99, 0)) >= begun:
    try: _thread.start_new_thread(int, ())
    except RuntimeError: time.sleep(0.001)
for i in range(8):
    if os.fork() == 0: break
deaf()
forever()`), own: starves},
}

// crowd makes processes that begin at once to do nothing but take the processor.
const crowd = `
deaf()
def crowd(count):
    wait, go = os.pipe()
    for i in range(count):
        try: child = os.fork()
        except OSError: break
        if child == 0:
            os.close(go)
            os.read(wait, 1)
            while True: pass
    os.close(go)
def ready(): os.close(os.open("/tmp/crowd", os.O_CREAT | os.O_WRONLY))
`

// marks looks for what could be a mark's words, wherever it may read, and prints marks
// made of it.
const marks = `
def replay():
    words, paths = set(), list(files())
    for p in os.listdir("/proc"):
        if p.isdigit(): paths += ["/proc/%s/%s" % (p, n) for n in ("cmdline", "environ")]
    for path in paths:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode): continue
            with open(path, "rb") as f: words.update(re.findall(rb"(?<![A-Z2-7])(?:[A-Z2-7]{13}){1,2}(?![A-Z2-7])", f.read(1 << 16)))
        except OSError: pass
    for p in words:
        for t in words:
            for mark in b"%se%s 0 /tmp%s\n" % (p, t, p), b"%sx1 0\n%sx2 0\n" % (p, p), b"%sb%s\n" % (p, t):
                try: os.write(1, mark)
                except OSError: pass
            for mark in b"%se%s\n" % (p, t), b"%sx1\n%sx2\n" % (p, p), b"%sb%s\n" % (p, t):
                try: os.write(2, mark)
                except OSError: pass
`
