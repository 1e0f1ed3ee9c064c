package execpolicy

import (
	"context"
	"io"
	"time"
)

// A Policy knows how to spawn a command in isolation, and nothing else. Sessions,
// deadlines, outcomes and the rest are built on the [Process] that it returns, so they
// work the same over every policy.
type Policy interface {
	// Spawn starts spec.Command in isolation. ctx bounds the start only. A policy that
	// can't give the isolation it promises must fail: it never falls back to less. Spawn
	// calls spec.RecordSpawn before it starts anything; an error of that is its own, and
	// nothing is started.
	Spawn(ctx context.Context, spec Spec) (*Process, error)
}

// A Checker is a [Policy] that can say beforehand what Spawn would refuse. [Start] asks
// it, so that what is wrong with the policy is reported together with what is wrong with
// the spec and the command. A policy that is none is as good: what it refuses is reported
// alone.
type Checker interface {
	// Check returns what Spawn would refuse, without starting anything; nil if that is
	// nothing. Its error wraps [ErrInvalid] and says all that is wrong, or is another one
	// that Spawn would return at once, such as that there is no engine. ctx bounds the
	// check.
	Check(ctx context.Context, spec Spec) error
}

// A WorkspacePolicy is a [Policy] that is asked about a workspace which is copied into a
// session, of which its Spawn does not hear. Package execpolicy/workspace copies nothing
// for a policy that is none. So one that wraps another has to pass these on: a struct
// that embeds [DockerPolicy] does so by itself, and one that embeds a Policy does not.
type WorkspacePolicy interface {
	Policy
	// CheckWorkspace returns why a directory of this machine is not to be shown to a
	// session, or nil.
	CheckWorkspace(dir string) error
	// SavesWorkspace reports whether what a session makes of its copy may be saved to the
	// directory.
	SavesWorkspace() bool
}

// A Spec says what to run.
type Spec struct {
	// Command is the program and its arguments. In a session it is the worker shell,
	// which must read a POSIX shell script from its stdin: sh, bash, dash or busybox sh.
	// If empty, a session takes bash where the image has it, else sh, and Spawn starts
	// the same.
	Command []string
	// Workspace is a directory of the host, which the command sees as its working
	// directory and may change. If empty, the session is ephemeral: it works in a
	// directory of its own that is gone with it, and nothing of the host is mounted.
	// [DockerPolicy.Mounts] says which directories are refused, and [DockerPolicy.User]
	// as whom the command runs.
	Workspace string
	// Env is the environment, on top of the image's. A session sends it over its stdin,
	// so that no value is in an argument list or in what the engine knows of the
	// container. Names must be those of shell variables. HOME is /tmp in a container,
	// whatever the user's is in the image, unless it stands here.
	Env map[string]string
	// Secrets are values for the session's programs that nothing
	// shows: not the argument list, the engine, an error, or what commands print. Only a
	// session can have them: [Start] does not show them to the policy, and Spawn fails if
	// there are any. Those of all its commands can use them, Prepare, Finish and the
	// scripts included; and a shell that replaces another gets them anew.
	Secrets []Secret
	// Labels are put on the container beside the library's own, whose names begin with
	// "cofferdam.".
	Labels map[string]string
	// Startup holds scripts that run, each within [Limits.StartupTimeout], before a
	// session's first command, and again whenever its shell had to be replaced. One that
	// fails fails the start.
	Startup []string
	// Shutdown holds scripts that run, each within [Limits.CommandTimeout] (30 s if that
	// is none), when a session is closed while its container lives. All of them run, also
	// if one fails.
	Shutdown []string
	// Prepare is called with a session when its shell answers, before its startup
	// scripts, at Start and again at Restart: what it does in there is done before
	// anything else. Its context ends after [Limits.StartupTimeout], and then it must
	// return. An error fails the start. The session is lent: it can be neither closed nor
	// restarted, and can't be used when Prepare has returned. If nil, nothing is called.
	Prepare func(ctx context.Context, s *Session) error
	// Finish is called with a session that is closed, after its shutdown scripts and
	// before its container ends. Its context ends after [Limits.CommandTimeout] (30 s if
	// that is none), and then it must return. An error is part of that of Close. The
	// session is lent, as Prepare's is. If the container has ended by itself Finish is
	// called all the same, and what it asks of the session fails. Restart does not call
	// it. If nil, nothing is called.
	Finish func(ctx context.Context, s *Session) error
	// Filter, if not nil, makes the writer through which each stream of each command
	// passes, on its way to w, behind the secrets and before any of it is kept, passed on
	// to [Command.Stdout] and Stderr, or rendered; redact.Redactor.Writer is one. It is
	// called anew for each stream of each command, closed when the command has ended, and
	// what it holds until then counts as that command's. So does what is printed on
	// stderr by scripts whose errors quote it, or while no command runs, which the error
	// of a session that has ended quotes. It takes what comes from one goroutine, must
	// not wait for anything but w, and must not use w once it is closed: one that hangs
	// or panics takes the program with it.
	//
	// Where it returns an error, the result has none of the command's output, and the
	// error of Run wraps [ErrBlocked] and its own; what passed before has gone to the
	// command's writers. What is not output is not filtered: files, [Result.Dir], what
	// the engine says of a container that does not start, and what the library runs by
	// itself, as package attest does to look.
	Filter func(w io.Writer) io.WriteCloser
	// Approve, if not nil, is asked before anything runs: once about each command of
	// [Session.Run] when its turn has come, and once about each block, call and snippet
	// of packages codeblock and python. A nil error lets it run. Any other error refuses
	// it: it does not run, and the outcome is [OutcomeRefused], with a cause that quotes
	// r. The command's time begins when Approve has returned.
	//
	// Approve is not asked about startup and shutdown scripts, Prepare, Finish and the
	// session's own methods for files, which are the caller's, nor about what the library
	// runs by itself to look, to prepare or to clear up.
	//
	// Approve runs on a goroutine of its own; a panic there ends the program. It must not
	// call a method of the same session that waits for its turn: that would wait for
	// Approve. It may call Close, and may use other sessions. ctx ends with that of Run,
	// and when the session is closed or its lifetime is over; an Approve that does not
	// return then is left behind.
	Approve func(ctx context.Context, r Request) error
	// Audit takes a record of all that happens in the session. Package execpolicy/audit
	// writes it down. If nil, there are no records.
	Audit Auditor

	// Supervisor is set by [Start]. A policy that finds it set must run it in place of
	// Command, and tell in [Process.Worker] how the shell is to be started.
	Supervisor []string
	// auditor makes the records of the session. It is nil if there are none, and outside
	// of one.
	auditor *auditor
}

// Limits bound the time and the memory that commands take. Negative means none; zero is
// the default.
type Limits struct {
	// CommandTimeout is how long a command may run before it is ended. If zero, 30 s.
	CommandTimeout time.Duration
	// StartupTimeout is how long a session may take to answer, not counting a pull of the
	// image, and each of its startup scripts to run. If zero, 30 s.
	StartupTimeout time.Duration
	// TerminationTimeout is how long it may take to end a command or a session, on top of
	// every other deadline. If zero or negative, 10 s: without a bound a call could hang.
	TerminationTimeout time.Duration
	// Lifetime is how long a session may live from the start of its container; then the
	// library ends it. If zero, 24 h. [Sweep] removes a container one hour past its
	// Lifetime, wherever it was started.
	Lifetime time.Duration
	// MaxOutputLines is the number of lines in [Result.Text]. If zero, 100.
	MaxOutputLines int
	// MaxOutputBytes is the number of bytes kept of each stream: the first half and the
	// last. If zero or negative, 1 MiB: memory is always bounded. [Result.Text] has at
	// most as many bytes.
	MaxOutputBytes int
	// MaxTreeEntries is the number of files and directories that one copy of a tree may
	// have. If zero, 100,000.
	MaxTreeEntries int64
	// MaxTreeBytes is the number of bytes that their contents may have together. If zero,
	// 1 GiB.
	MaxTreeBytes int64
}

// The defaults of [Limits]: LangChain's, and for the bytes, of which it has no limit,
// what an agent's context can't hold anyway.
const (
	defaultCommandTimeout     = 30 * time.Second
	defaultStartupTimeout     = 30 * time.Second
	defaultTerminationTimeout = 10 * time.Second
	defaultLifetime           = 24 * time.Hour
	defaultMaxOutputLines     = 100
	defaultMaxOutputBytes     = 1 << 20
	defaultMaxTreeEntries     = 100_000
	defaultMaxTreeBytes       = 1 << 30
)

func (l Limits) withDefaults() Limits {
	if l.CommandTimeout == 0 {
		l.CommandTimeout = defaultCommandTimeout
	}
	if l.StartupTimeout == 0 {
		l.StartupTimeout = defaultStartupTimeout
	}
	if l.TerminationTimeout <= 0 {
		l.TerminationTimeout = defaultTerminationTimeout
	}
	if l.Lifetime == 0 {
		l.Lifetime = defaultLifetime
	}
	if l.MaxOutputLines == 0 {
		l.MaxOutputLines = defaultMaxOutputLines
	}
	if l.MaxOutputBytes <= 0 {
		l.MaxOutputBytes = defaultMaxOutputBytes
	}
	if l.MaxTreeEntries == 0 {
		l.MaxTreeEntries = defaultMaxTreeEntries
	}
	if l.MaxTreeBytes == 0 {
		l.MaxTreeBytes = defaultMaxTreeBytes
	}
	return l
}

// A Process is a spawned command, and all that the rest needs to know of its policy.
// A policy sets Name, Stdin, Stdout, Stderr, Done, Kill, Limits and Scratch. The other
// fields may be zero.
//
// Whoever gets one from Spawn must read Stdout and Stderr to their ends, and must call
// Kill, also after a normal end.
type Process struct {
	// Name names what was started, as the engine does.
	Name string
	// Stdin, Stdout and Stderr are the command's. To close Stdin must end a Write that
	// waits.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	// Done is closed when the spawned program has ended.
	Done <-chan struct{}
	// Kill ends the command and all that it started, from outside and by force, and
	// returns when it has made sure that nothing is left, or when ctx ends, with an error
	// that says what is not known to be gone. It is called also after the program has
	// ended, and frees what the policy holds. After an error it may be called again.
	Kill func(ctx context.Context) error

	// Limits are the policy's.
	Limits Limits
	// OwnPIDNamespace says that the command is process 1 of a process namespace that was
	// made for it. Only then a session signals processes by walking over all it sees.
	OwnPIDNamespace bool
	// Worker is the shell of a session, with whatever the policy puts before it; if
	// empty, bash where there is one, else sh.
	Worker []string
	// Scratch is a directory that the command sees, writable, from which programs can be
	// run, and that nothing else uses.
	Scratch string
	// Dir is where a session works. If empty, where the command was started.
	Dir string
	// DirWritable says that Dir can be written to. A session that finds it can't be does
	// not start.
	DirWritable bool
	// Env is set in a session where Spec.Env does not set it.
	Env map[string]string
	// Answered is called when the command has answered: from then on the spawned
	// program's own end says that the command has ended.
	Answered func()
	// ExitCode returns the spawned program's exit status once Done is closed, -1 if it
	// has none.
	ExitCode func() int
	// Diagnose says why a program that ended with an exit status, and those last words on
	// its stderr, before its command ran did so. It is called before Kill.
	Diagnose func(exitCode int, stderr []byte) error
	// Recover removes the cause of a failed start, for example by pulling an image. If it
	// returns nil, another Spawn is worth it.
	Recover func(ctx context.Context, cause error) error
	// OOMKilled tells whether the kernel has ended processes of the command for memory
	// since then, at any time if that is zero; known is false if that can't be learnt.
	OOMKilled func(ctx context.Context, since time.Time) (killed, known bool)
	// ImageID returns the ID of the image in which the command runs.
	ImageID func(ctx context.Context) (string, error)
}
