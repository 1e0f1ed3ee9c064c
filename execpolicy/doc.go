// Package execpolicy runs commands that nobody trusts.
//
// A [Policy] starts a command: [DockerPolicy] in a locked-down container of docker or
// podman, package kube's in a pod, and [HostPolicy] on the host, with no isolation at
// all. [Start] opens a [Session] on a policy, a persistent shell whose commands have
// deadlines, bounded output and honest outcomes. [Run] runs a single command.
//
// # Sessions
//
// A command finds what the commands before it left behind: variables, functions, the
// directory, files and background jobs.
//
//	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	_, err = s.Run(ctx, execpolicy.Command{Script: "cd /tmp; x=$(python3 -c 'print(2 + 2)')"})
//	r, err := s.Run(ctx, execpolicy.Command{Script: `echo "Hello from $x in $PWD!"`})
//
// A command that reaches its deadline is ended, and the session goes on. If the shell
// itself has ended, because it had to be killed in a loop of its own or the command was
// "exit 3", a new one takes its place in the same container, and [Result.StateLost] says
// so. If only the end of the container could end the command, [Result.Escalation] says
// so, and later calls fail with [ErrEnded] until [Session.Restart].
//
// [Result.Render] makes a text for a model. It has the head and the tail of the output
// within a budget, on every outcome and without escape sequences. It ends with how the
// command ended and what was lost. [Result.Text] is what LangChain's shell tool returns,
// to the byte.
//
// The zero [DockerPolicy] is the hardened one. [Notebook], [BuildPolicies] and [Compat]
// return others. The file presets.md in this directory has the command line of each, and
// what package attest saw to be in force. [DockerPolicy.Explain] returns the command line
// of any DockerPolicy.
//
// Inside means in the container. Process 1 is the container's first process, which the
// library starts. It starts the session's shell, and ends when its stdin does. A call
// takes its turn: it waits until the calls before it are over. The guard is a small
// process on this machine that removes what a killed program has left.
//
// # Jobs
//
// A job is a command that runs beside the others of its session, with live stdin: a
// server, a build, an interpreter. [Session.StartJob] says what it shares with them.
//
//	serve := execpolicy.Command{Argv: []string{"python3", "-m", "http.server"}}
//	server, err := s.StartJob(ctx, serve)
//	fetch := execpolicy.Command{Script: "until wget -q -O - localhost:8000; do sleep 0.1; done"}
//	r, err := s.Run(ctx, fetch)
//	err = server.Kill(ctx)
//
// [Job.Kill] ends a job with all that is known to belong to it, and [Job.Wait] says what
// is known. Jobs end with the session. They are not isolated from each other. A
// [HostPolicy] has no jobs: nothing would end a job's process group when this program is
// killed.
//
// # Outcomes
//
// An [Outcome] rests on what the library and the kernel know. If more than one fits, the
// outcome is the first of them in this list. Among the first three it is the one that
// happened first. Beside each outcome are the fields of [Result] that are the evidence
// for it.
//
//	OutcomeTimedOut     Cause, Timeout, Escalation, Gone
//	OutcomeOutputLimit  Cause, the streams' counts, Escalation, Gone
//	OutcomeCanceled     Cause (whose cancel), Escalation, Gone
//	OutcomeOOMKilled    OOMBefore, OOMAfter, or docker's events
//	OutcomeSessionLost  the container's exit status in the error, Gone
//	OutcomeSignaled     Signal, OOMBefore, OOMAfter
//	OutcomeRefused      Cause (the reason)
//	OutcomeExited       ExitCode, OOMBefore, OOMAfter
//
// A number in the evidence that is not known is -1, and a boolean then is false. A shell
// reports the same status for a program of a script that signal 9 killed and for one that
// exits with 137. The kernel does not say which process it killed for memory.
//
// [Command.Usage] asks for what a command uses of the processor and of memory: see
// [Usage].
//
// # Transports
//
// A session's streams pass through the engine's client, which stays connected ("docker
// run --interactive"), or through four FIFOs of this machine, with nothing in between.
// Over FIFOs a command takes about half as long as through the client, output comes
// several times as fast, and no client stays. The session then works without its engine:
// an engine that hangs, or that is killed, holds no command up. The session still asks
// the engine for one thing, [Result.ImageID]. The first result waits for the answer or,
// with a [Spec.Audit], the start does. [TransportFIFO] says what FIFOs need, and
// [DockerPolicy.FindTransport] what is used and why.
//
// A link over a network can break unnoticed. With a [DockerPolicy.KeepAlive], either side
// ends the session when it has heard nothing from the other for that time. Sessions on a
// remote engine have one unless it is negative.
//
// The FIFOs are in a directory of their own below that for temporary files. Nobody else
// may enter it, and it is mounted read-only in the container. The names of the FIFOs are
// removed when process 1 has opened them, before anything untrusted runs. The directory
// stays for the FIFOs of jobs: nobody inside can list it, or make anything in it. It is
// removed with the session or, if this program is killed, by its guard. If the guard is
// killed too, the directory stays, without data.
//
// # Nerdctl
//
// A [DockerPolicy] also drives nerdctl, containerd's client, if Engine or the variable
// COFFERDAM_ENGINE names it. The suites of sessions and of SIGKILL were run with nerdctl
// 1.7 on containerd 1.6, as root and without a network. Apart from what package dockercli
// says of it, nerdctl differs in this:
//
//   - Streams pass through the client. A path with a colon is not mounted.
//   - An OutcomeOOMKilled needs the kernel's counters: there are no events of the engine.
//   - The client removes the container. If the client is killed together with this
//     program and its guard, the container ends, and is left for [Sweep].
//   - A capability that containerd does not know is left out without an error.
//   - The container has no /etc/hosts without a network, so localhost has no name.
//   - Package attest fails with [errors.ErrUnsupported]: it can't look from outside.
//
// # What the image needs
//
// An image needs sh, mkfifo, cp, chmod, rm and dd. The methods for files also need mv and
// wc. MkdirAll needs mkdir, and Remove rmdir. CopyIn, CopyFS and WriteFiles need tar,
// touch, mkdir, rmdir and mv, and CopyOut, CopyOutTo and Walk need tar. ReadDir and Stat
// need stat, and ReadDir needs find. A session with a KeepAlive needs bash, if sh is
// dash. HOME is /tmp, whatever the image says.
//
// # What is promised
//
// These promises hold under a policy that isolates, while the engine answers:
//
//  1. Nothing that a command started survives its deadline or its cancel. Nothing of a
//     session survives Close, a panic or a SIGKILL of this program. Process 1 of the
//     container reads its stdin, and ends when its stdin does. Then the kernel ends the
//     rest. Nobody inside can stop process 1, trace it or hold its stdin open.
//  2. Every call returns by its deadline plus [Limits.TerminationTimeout], provided that
//     the functions which the caller has given return when [Spec] says that they must.
//  3. Memory is bounded by the limits, whatever is printed. No output goes to the
//     engine's disk. Package kube makes an exception: a node logs what is printed.
//  4. Streams are exact and apart, and are kept on every outcome.
//  5. What ended a command is told from evidence, and never from an exit code alone or
//     from a text.
//  6. Nothing falls back to the host, or to less isolation.
//  7. No secret is in an argument list, in what the engine knows, in an error, a record
//     or a result. [Compat] makes an exception for [Spec.Env], and package kube for what
//     is printed.
//
// If the engine runs on this machine, "gone" means that the kernel no longer has the
// processes. The library finds process 1 of a container in /proc when its shell has
// answered. While that process lives, the library does not say that the container is
// gone, whatever the engine says. Before it asks the engine to remove the container, it
// kills from inside what still lives there. If the engine has forgotten a container that
// lives, the library kills process 1 directly, if this program may do that.
//
// The engine's word alone counts where process 1 can't be seen: on macOS and Windows,
// with a remote engine, under gVisor or Kata, in another PID namespace, where /proc hides
// the processes of others, with an allowed --pid=host, and if this program is out of
// descriptors when the shell first answers.
//
// If this program is killed, its guard takes over: a process on this machine that removes
// what was left. It tries for eight seconds, and for a minute it kills what it sees
// alive. If something is still left, because the engine did not answer or somebody killed
// the guard too, [Sweep] removes it.
//
// # macOS and Windows
//
// Engines have a virtual machine there, such as that of Docker Desktop, Colima or podman
// machine. The library compiles, and what depends on no engine is tested; no session has
// been run there. This follows from the code:
//
//	                         macOS                  Windows
//	a session's streams      by the client          by the client
//	"gone" is                the engine's word      the engine's word
//	this program is killed   stdin ends, and the    stdin ends; there is a guard
//	                         guard removes          only if sh is on PATH
//	a client is ended        with its group         alone: there is no job object,
//	                                                and a helper of it may stay
//	the filter is given      by a descriptor        in a temporary file
//	a source of a mount      /Users/me/work         C:\Users\me\work
//	who may use a mount      is not checked         is not checked
//	HostPolicy               is refused             is refused
//
// Docker Desktop shows a container only the directories that its settings share: on macOS
// /Users, /Volumes, /private, /tmp and /var/folders. A mount of another makes the start
// fail with [dockercli.ErrArgument]. Paths of this machine are protected, by their names,
// links and identity; those inside the virtual machine are not.
//
// # What is not promised
//
//   - A container shares the host's kernel. Code that exploits a bug in the kernel
//     escapes.
//   - Code inside can lie about itself: it can print what it likes and fake its own exit
//     status. The library still keeps its bounds of time and memory.
//   - One session is one level of trust: whatever ran in it can read, delay and fake what
//     runs in it later, secrets included. Give work whose status or secrets matter a
//     session of its own.
//   - The library's seccomp filter refuses more than docker's: [DefaultSeccompProfile]
//     has the list. It kills 32-bit programs on a 64-bit machine. Podman's service, and
//     podman --remote, can't be given a filter: there the start fails unless
//     [DockerPolicy.EngineSeccomp] is set.
//   - What a person runs by "docker exec NAME" in a session's container has the
//     container's limits, but Approve, Filter and Audit do not see it.
//   - With Compat, or with capabilities added, code that runs as root can hold process
//     1's stdin open. Then the guard removes the container.
//   - While a file or a command's stdin is copied in, everything else inside is stopped.
//     Code that a timer of its own wakes can end the copying, and the session with it. If
//     the image's sh is dash, and its dd is one of several names of a program, such code
//     can also hold process 1's stdin open by way of dd. If this program is killed then,
//     the guard removes the container.
//   - A container ends within two seconds of this program, if its guard is killed too.
//     This is not a hard limit, as the next three items say.
//   - If hundreds of processes want the processor, process 1 waits for its turn, for five
//     seconds and more on a busy machine. If this program is root, and on the engine's
//     machine, process 1 has a higher priority than they, and waits less.
//   - Where hundreds of processes are at the container's limit of memory, what the kernel
//     does for them uses up the container's share of the processors, and nothing in it
//     runs for ten seconds and more. If this program is root, it lifts that limit of the
//     processors when it kills a container, as its guard does.
//   - The kernel takes more than two seconds to free the page tables of a file of 32 MB
//     that each of a few processes has mapped 1300 times, and no process is gone before
//     that. The opening of a file for an upload waits for the lock of its directory: with
//     100,000 files in it, and 200 processes that list them, for 5 to 15 seconds.
//   - Sessions whose users have the same ID share what the kernel counts for each ID,
//     such as 128 inotify instances: see [DockerPolicy.User].
//   - Engines ignore some limits, with a warning or none. [Start] refuses a rootless
//     engine that says it can't set them, unless [DockerPolicy.AllowMissingLimits] is
//     set. It asks no other engine. Package attest finds what is not in force.
//   - The library does not search files that it reads for secrets: [Session.Redact] does
//     that.
//   - If a client was cut off while it started a container, or its engine does not
//     answer, the container may come into being later. The library goes on looking for it
//     in the background, and its guard does when this program ends.
//   - Where the image's sh is dash or busybox, commands start with SIGINT and SIGQUIT
//     ignored.
//   - A command that kills everything it can ("kill -9 -1") costs the session its shell.
//   - With a [DockerPolicy.KeepAlive], code inside can end its own session: by taking all
//     of the process limit for that time without a word or, where process 1 is bash, by a
//     signal to that. Where it is busybox's sh, code that floods it with signals is
//     stopped, with everything else inside, for a second at a time. What a timer of its
//     own wakes then may go on, and the container may outlive its link.
//   - When a command is ended, the session's shell goes on with the rest of a Script for
//     half a second: see [Command.Timeout].
//   - Under a [HostPolicy] no promise holds that needs isolation: a process that leaves
//     its process group survives, a command that ignores SIGTERM costs the session, and a
//     SIGKILL of this program leaves the session's directory.
//   - The library does not limit what commands write to the host's disk: into a mounted
//     workspace, into a volume that an image declares, and into the root of a container
//     with [DockerPolicy.WritableRootfs]. Nor does it limit what an Audit writes: each
//     connection through an Egress is a record.
//   - The library checks a mount's source before the engine mounts it. So nobody
//     untrusted may be able to change a directory on the way to the source, or on the way
//     to the engine's directory for temporary files, if that differs from this program's.
//
// # What it touches on this machine
//
// The library itself writes these and nothing else. Engines, and the caller's own
// functions, write what they like. TMPDIR has to be on a disk of this machine: a file
// server that does not answer holds up starts and ends, even beyond their deadlines.
//
//	what                                  for                       until
//	TMPDIR/cofferdam-NAME, for FIFOs      a session on FIFOs        it ends, or its guard saw to it
//	TMPDIR/cofferdam-NUMBER               a HostPolicy's session    it ends
//	TMPDIR/cofferdam-seccomp-NUMBER.json  a client, on Windows      the client ends
//	/tmp/.cofferdam-NAME                  python, codeblock         see below
//	.cofferdam-NUMBER in a mount          a start                   the container has seen it
//	.cofferdam-NAME in a directory        CopyOutTo, Save, ...      the files have their names
//	the caller's files, and an audit log  CopyOutTo, Save, audit    -
//	a directory of layers                 package deps              -
//	the control group of a container      a kill, by root           the container is gone
//
// If commands have mounted something in the directory of a HostPolicy's session, nothing
// in the mount is removed. That directory stays, and the error of [Session.Close] names
// the mount.
//
// What packages python and codeblock keep in the /tmp of a session, or in the TMPDIR of
// their Env, is on this machine under a [HostPolicy], and if that directory is mounted. A
// call removes its own before it returns. An interpreter's directory, in which its last
// long reply is, is there until the interpreter is closed, which the Close of a set of
// package tool does. It stays if the session ends or restarts first, or is busy for the
// second after.
//
// It signals the clients that it starts, each in a process group of its own, and process
// 1 of a container, which it knows by its number and the time of its start. As root it
// raises the priority of that process. The guard, a shell, does the same for a program
// that has ended. It removes containers by names that were drawn for them, and those of
// [Sweep] by their labels. It reads /proc and the control groups, and the names and
// identity of what is mounted.
//
// # Secrets
//
// A [Secret] goes to the session's shell through its stdin, and from there into the
// environment of its programs, or into a file that they read. It is in no argument list,
// and the engine does not have it: neither in what it knows of the container, nor in its
// log, nor on its disk, unless a program writes it there.
//
// In what commands print, and in results and errors, "[secret NAME]" takes the place of
// the value, however the output was cut into pieces. This is done before a [Spec.Filter],
// a caller's writer or a result gets the output, for as long as the session is used,
// Restart included. The secrets of single commands are included. Where a value was taken
// out of an error's text, [errors.Is] still matches what the error wraps, and [errors.As]
// does not.
//
// The library looks for the value without the white space around it. If the value has
// more than one line, it also looks for each line of at least 8 bytes. It finds both as
// they are, and in these quotings:
//
//   - In a shell's single quotation marks. A mark in the value itself may be written with
//     a backslash or in double quotation marks, and what can't be printed as $'...'.
//   - With a backslash before each character that has a meaning, as in "..." and in words
//     of a shell, or before each character at all, as bash prints a pattern.
//   - With the escapes of $'...', JSON, Go, Python and JavaScript: \n and the like, \e,
//     \NNN, \xNN, \uNNNN, \UNNNNNNNN, and pairs of \u. \xNN may be a byte or a
//     character, but the same throughout a value. \udcNN is a byte, as Python writes it.
//
// If a value is not UTF-8, the library also finds it with U+FFFD in place of each byte
// that is not, unless that leaves less than 4 bytes of the value. It does not undo a
// quoting within another.
//
// A program that encodes a value, reverses it or prints a part of it shows the value. So
// redaction protects against what is printed in good faith. It does not stop a program
// that means to get a value out: give such a program no way out, or no secret.
//
// A secret that is given to a command is given to its session. What ran before may wait
// for it, in a background job or in a shell function. It is in /proc/PID/environ. What
// the command writes into files stays there.
//
// The contents and the names of files that are read, and the names in archives, are not
// searched. The caller has [Session.Redact] for them. Errors of the caller's own
// functions are searched if they fail a start or refuse a command, and not otherwise.
// What packages codeblock and python return as a value is searched.
//
// # Files
//
// The methods for files use the session's own pipes. So they see what commands see, even
// in a tmpfs, under a read-only root and with an engine on another machine. They take
// their turn as commands do. All of them:
//
//   - Run as the session's user and beside its shell: its variables, functions, aliases
//     and limits do not matter.
//   - Return at the latest [Limits.TerminationTimeout] after ctx has ended or
//     [Limits.CommandTimeout] has passed, which begins when their turn has come.
//   - Take a relative name as relative to the directory in which the session began. A
//     relative [Command.Dir] is relative to the directory where the shell is.
//   - Stop everything else inside while a step of theirs is done. While a call of one
//     step works, such as a ReadFile or a small WriteFile, nothing changes what it reads
//     or replaces. Between the steps of a larger one, background jobs go on. Under a
//     [HostPolicy] nothing is stopped, and a ReadFile fails if a background job prints
//     meanwhile.
//   - Leave no half file under its final name, and nothing else behind, if they fail
//     while the container lives. If the container itself ends, unfinished files stay in a
//     mounted directory, under names that begin with ".cofferdam-".
//
// # Errors of files
//
// An error of these methods is a [*fs.PathError]. If the kernel refused something inside,
// the error wraps the kernel's reason as a [syscall.Errno], so that [fs.ErrPermission],
// [fs.ErrNotExist] and [fs.ErrExist] match as they do for errors of package os. The
// reason is the one that the attempt itself got, and not a guess from the user's number
// or the permissions. A name that is empty, has a NUL byte or has more than 3,996 bytes
// is refused with [ErrInvalid] before that; "." is where the session began. In these
// tables CopyIn stands for CopyFS too, and CopyOut for CopyOutTo and Walk. "done" means
// that there is no error, and "-" that it was not tried.
//
//	                              ReadFile      ReadDir       Stat          CopyOut
//	nothing of that name          ENOENT        ENOENT        ENOENT        ENOENT
//	no parent                     ENOENT        ENOENT        ENOENT        ENOENT
//	a file as its parent          ENOTDIR       ENOTDIR       ENOTDIR       ENOTDIR
//	a parent one may not enter    EACCES        EACCES        EACCES        EACCES
//	links in a circle             ELOOP         ELOOP         ELOOP         ELOOP
//	a name that is too long       ENAMETOOLONG  ENAMETOOLONG  ENAMETOOLONG  ENAMETOOLONG
//	a file                        done          ENOTDIR       done          done
//	a directory with a file       EISDIR        done          done          done
//	a file one may not read       EACCES        ENOTDIR       done          EACCES
//	a directory one may not read  EISDIR        EACCES        done          EACCES
//
//	                             WriteFile     WriteFiles    CopyIn        MkdirAll      Remove
//	nothing of that name         done          done          done          done          ENOENT
//	no parent                    ENOENT        done          ENOENT        done          ENOENT
//	a file as its parent         ENOTDIR       ENOTDIR       ENOTDIR       ENOTDIR       ENOTDIR
//	a parent one may not enter   EACCES        EACCES        EACCES        EACCES        EACCES
//	links in a circle            done          EEXIST        EEXIST        EEXIST        done
//	a name that is too long      ENAMETOOLONG  ENAMETOOLONG  ENAMETOOLONG  ENAMETOOLONG  ENAMETOOLONG
//	a file                       done          EEXIST        EEXIST        EEXIST        done
//	a directory with a file      EISDIR        done          done          done          ENOTEMPTY
//	a parent one may not change  EACCES        EACCES        EACCES        EACCES        EACCES
//	a read-only file system      EROFS         EROFS         EROFS         EROFS         EROFS
//	a disk that is full          ENOSPC        ENOSPC        ENOSPC        -             done
//
// An error with EISDIR also wraps [ErrNotRegular], as does that of a FIFO or a device
// that is to be read as a file. The error of a tree names the file in it that failed.
// Other reasons of the kernel are other values of [syscall.Errno]. If a program inside
// failed for a reason that is not known, the error wraps [ErrTransfer] and quotes the
// program. If the image lacks a program, the error names it.
package execpolicy
