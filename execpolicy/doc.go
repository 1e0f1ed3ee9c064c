// Package execpolicy runs commands that nobody trusts.
//
// A [Policy] spawns a command in isolation: [DockerPolicy] in a locked-down container of
// docker or podman, [HostPolicy] on the host with no isolation at all. [Start] opens a
// [Session] on it, a persistent shell whose commands have deadlines, bounded output and
// honest outcomes; [Run] runs a single command.
//
// # Sessions
//
// What one command leaves behind, the next one finds: variables, functions, the
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
// A command that is ended costs the session nothing but the command. If the shell itself
// had to be ended, because it looped or the command was "exit 3", a new one takes its
// place in the same container, and [Result.StateLost] says so.
//
// [Result.Render] makes a text for a model: the output on every outcome, head and tail
// within a budget, without escape sequences, and last how the command ended and what was
// lost. [Result.Text] is what LangChain's shell tool returns, to the byte.
//
// The zero [DockerPolicy] is the hardened one. [Notebook], [BuildPolicies] and [Compat]
// are others; presets.md, beside this file, has the command line of each and what was
// seen to be in force. [DockerPolicy.Explain] returns the command line of any.
//
// # Outcomes
//
// An [Outcome] rests on what the library and the kernel know. Of those that fit, the
// first in this list stands. Beside each is the evidence for it, in fields of [Result].
//
//	OutcomeTimedOut     Cause, Timeout, Escalation, Gone
//	OutcomeOutputLimit  Cause, the streams' counts, Escalation, Gone
//	OutcomeCanceled     Cause (whose cancel), Escalation, Gone
//	OutcomeOOMKilled    OOMBefore, OOMAfter, or docker's events
//	OutcomeSessionLost  the client's exit status in the error, Gone
//	OutcomeSignaled     Signal, OOMBefore, OOMAfter
//	OutcomeRefused      Cause (the reason)
//	OutcomeExited       ExitCode, OOMBefore, OOMAfter
//
// What can't be known is -1 or false. A shell does not tell a program of a script that
// was killed by signal 9 from one that exits with 137, and the kernel does not say which
// process it killed for memory.
//
// # What the image needs
//
// An image needs sh, mkfifo, cp, chmod, rm and dd. The methods for files also need mv and
// wc; those for trees tar, mkdir, rmdir and touch; ReadDir and Stat need stat, and
// ReadDir needs find. HOME is /tmp.
//
// # What is promised
//
// These hold under a policy that isolates, while the engine answers:
//
//  1. Nothing that was started survives Close, a deadline, a cancel, a panic or a SIGKILL
//     of this program. Process 1 of the container reads its stdin, and when that ends,
//     all ends. Nobody inside can stop it, trace it or hold its stdin open.
//  2. Every call returns by its deadline plus [Limits.TerminationTimeout].
//  3. Memory is bounded by the limits, whatever is printed. No output goes to the
//     engine's disk.
//  4. Streams are exact and apart, and are kept on every outcome.
//  5. What ended a command is told from evidence and never from an exit code or a text.
//  6. Nothing falls back to the host, or to less isolation.
//  7. No secret is in an argument list, in what the engine knows, in an error, a record
//     or a result; but see [Compat] for [Spec.Env].
//
// Gone means that the kernel says so where the engine runs on this machine: process 1 of
// a container is found in /proc when its shell has answered, and a container is not said
// to be gone while that process lives, whatever the engine says. What lives on is killed
// from inside before the engine is asked to remove it. Where the engine has forgotten a
// container that lives, its process 1 is killed directly, if this program may do that.
// The engine's word alone counts where process 1 can't be seen: on macOS and Windows,
// with a remote engine, under gVisor or Kata, in another process namespace, where /proc
// hides the processes of others, and with an allowed --pid=host.
//
// A program that is killed is survived by a guard process on this machine. It goes on for
// eight seconds to remove what was left, and for a minute to kill what it sees to live
// on. What is left all the same, because the engine did not answer or somebody killed the
// guard too, [Sweep] removes.
//
// # What is not
//
//   - A container shares the host's kernel: it is no boundary against a bug in that.
//   - Code inside can lie about itself: it can print what it likes and fake its own exit
//     status. The library stays correct, bounded and on time.
//   - One session is one level of trust: whatever ran in it can read, delay and fake what
//     runs in it later, secrets included. Work whose status or secrets matter gets a
//     session of its own.
//   - The library's filter of system calls refuses what changes priorities, makes user
//     namespaces or makes a file set-uid (set-gid is allowed), io_uring, and more, and
//     kills 32-bit programs on a 64-bit machine. Podman's service, and podman --remote,
//     can't be given it: there the start fails unless [DockerPolicy.EngineSeccomp] is
//     set.
//   - "docker exec NAME" is a person's way into a session's container. It has the
//     container's limits, and goes past Approve, Filter and Audit.
//   - With Compat, or with capabilities added, code that runs as root can hold process
//     1's stdin open. Then the guard removes the container.
//   - While a file or a command's stdin goes in, everything else inside is stopped, but
//     for what a timer of its own lets go on. Such code can end the transfer, and the
//     session with it. Where the image's sh is dash and its dd one of several names of a
//     program, it can also hold process 1's stdin open by way of dd. If this program is
//     killed then, the guard removes the container.
//   - Sessions with one user number share what the kernel counts for it, such as 128
//     inotify instances: see [DockerPolicy.User].
//   - Limits that an engine drops in silence, as without root's rights on cgroup v1, are
//     not in force. Package attest finds them.
//   - What is read out of files is not searched for secrets: [Session.Redact] does that.
//   - A container whose client was cut off while it started, or whose engine does not
//     answer, may come into being later. The library looks on in the background, and its
//     guard does when this program ends.
//   - Commands see SIGINT and SIGQUIT ignored where the image's sh is dash or busybox:
//     nothing there interrupts them.
//   - A command that kills everything it can ("kill -9 -1") costs the session its shell.
//   - The programs of a command that is ended get the signals, and the session's shell
//     goes on with the rest of a Script for half a second. An Argv, as in {"sh", "-c",
//     "make; git push"}, has no rest.
//   - Under a [HostPolicy] nothing of this holds: what leaves its process group survives,
//     a command that ignores SIGTERM costs the session, and a SIGKILL of this program
//     leaves its directory.
//   - A workspace that is mounted can be filled: the library does not limit the host's
//     disk. So can a volume that an image declares, and the root of a container with
//     [DockerPolicy.WritableRootfs].
//   - A mount's source is looked at before the engine follows it: nobody untrusted may be
//     able to change a directory on the way to it.
//
// # Secrets
//
// A [Secret] goes to the session's shell through its stdin, and from there into the
// environment of its programs, or into a file that they read. It is in no argument list,
// neither in what the engine knows of the container, nor in its log, nor on its disk,
// unless a program writes it there. In what commands print, and in results and errors,
// "[secret NAME]" takes its place, wherever the output was cut in pieces, and before a
// [Spec.Filter], a caller's writer or a result has any of it. That holds for as long as
// the session is used, Restart included, for the secrets of its commands too.
//
// What is found is the value, less the white space around it. Of a value of more than one
// line each line of at least 8 bytes is found too. Both are found as they are, and in
// these quotings:
//
//   - a shell's single quotation marks, which are left for each such mark in the value,
//     with a backslash or in double ones, and for $'...' by those who write what can't be
//     printed so;
//   - a backslash before each character that has a meaning, as in "..." and words of a
//     shell, or before each character at all, as bash prints a pattern;
//   - the escapes of $'...', JSON, Go, Python and JavaScript: \n and the like, \e, \NNN,
//     \xNN, \uNNNN, \UNNNNNNNN, and pairs of \u. \xNN is a byte or a character, one of
//     them throughout a value. \udcNN is a byte, as Python has it.
//
// If a value is not UTF-8, it is also found with U+FFFD in place of each byte that is
// not, unless that leaves less than 4 bytes of it. A quoting within another is not
// undone.
//
// A program that encodes a value, reverses it or prints a part of it shows it. So this is
// for what is printed in good faith, and no guard against a program that means to get a
// value out: that must have no way out, or no secret.
//
// A secret that is given to a command is given to its session: what ran before may wait
// for it, in a background job or in a shell function, it stands in /proc/PID/environ, and
// what a command leaves in files stays there. What is in files that are read, and what
// they and those in an archive are named, is not redacted: it is the caller's, who has
// [Session.Redact]. So are the errors of the caller's functions. What packages codeblock
// and python return as a value is redacted.
//
// # Files
//
// Files are sent and fetched through the session's own pipes, so whatever its commands
// see is seen: tmpfs, a read-only root, another machine's engine. The methods that do it
// take their turn as commands do. All of them:
//
//   - run as the session's user, beside its shell: neither its variables, functions,
//     aliases nor limits matter;
//   - end at the latest [Limits.TerminationTimeout] after [Limits.CommandTimeout],
//     counted from when the turn has come, or after ctx ends;
//   - take a name that is not absolute from the directory where the session began,
//     wherever its shell is now, while a [Command.Dir] that is not absolute is taken from
//     where the shell is;
//   - stop everything else inside while they work there, so that what they read or
//     replace is of one moment, but not under a [HostPolicy], where what background jobs
//     print meanwhile makes a ReadFile fail;
//   - leave no half file under its final name, and nothing else behind, if they fail or
//     are cut off while the container lives. If the container itself ends meanwhile, what
//     was begun in a mounted directory stays there, under a name that begins with
//     ".cofferdam-".
//
// # Errors of files
//
// An error of these methods is a [*fs.PathError]. Where the kernel refused something
// inside, it wraps the kernel's reason as a [syscall.Errno], so that [fs.ErrPermission],
// [fs.ErrNotExist] and [fs.ErrExist] match what they match of package os. The reason is
// what the attempt itself was told, and not a guess from the user's number or the
// permissions. CopyIn stands for CopyFS too, and CopyOut for CopyOutTo and Walk; "done"
// says that it works.
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
// EISDIR is beside [ErrNotRegular], which is also the error for a FIFO or a device that
// is to be read as a file. The errors of a tree name the file in it that failed. What the
// kernel says besides is told by other values of [syscall.Errno], and where a program
// inside gave no reason that is known, the error wraps [ErrTransfer] and has its words. A
// program that the image does not have is named.
package execpolicy
