package execpolicy

import (
	"errors"
	"fmt"

	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/spool"
)

var (
	// ErrClosed is wrapped by the errors of a session that was closed.
	ErrClosed = errors.New("the session is closed")
	// ErrEnded is wrapped by the error of a session whose container has ended although
	// nobody closed the session. The error also has what is known of the reason: the exit
	// status of what the policy started, whether memory ran out, and the end of stderr.
	// [Session.Restart] begins the session anew.
	ErrEnded = errors.New("the session has ended; call Restart, or start another")
	// ErrExpired is the cause of a command that was ended because its session's
	// [Limits.Lifetime] was over, and is wrapped, along with ErrEnded, by the errors of
	// later commands.
	ErrExpired = errors.New("the session's lifetime is over")
	// ErrSilent is wrapped, along with ErrEnded, by the error of a session that has ended
	// because nothing came over the link with its container, or the container heard
	// nothing from the session, for the time that [DockerPolicy.KeepAlive] says. A
	// suspended computer loses its sessions that way.
	ErrSilent = shell.ErrSilent
	// ErrTimeout is the cause of a command that was ended at its deadline. It is wrapped
	// by the error of a command that did not run because its Stdin was not read, or its
	// secrets were not looked up, by then. It matches [context.DeadlineExceeded] too.
	ErrTimeout = shell.ErrTimeout
	// ErrOutputLimit is the cause of a command that was ended because it had printed more
	// than [Command.OutputLimit].
	ErrOutputLimit = errors.New("the output limit was passed")
	// ErrBlocked is wrapped by the error of a command whose output [Spec.Filter] did not
	// let pass. The command ran. Its result has none of the output.
	ErrBlocked = errors.New("output blocked")
	// ErrRefused is wrapped, along with the reason, by the cause of a command that
	// [Spec.Approve] refused. The command did not run. The cause's text names the kind of
	// [Request] and quotes its code if that is at most 100 bytes long.
	ErrRefused = errors.New("the command was refused")
	// ErrInvalid is wrapped by every error that says what is wrong with a policy, a spec,
	// a command or another argument. The error says all that is wrong. Nothing was
	// started.
	ErrInvalid = problems.Err
	// ErrStart is wrapped by the error of a session that did not come up, or whose shell
	// could not be replaced. [Start] says which errors do not wrap it.
	ErrStart = policyerr.ErrStart
	// ErrScript is wrapped by the error of a startup or shutdown script that failed.
	ErrScript = errors.New("script failed")
	// ErrNoDir is wrapped by the error of a command whose Dir can't be entered. The
	// command did not run.
	ErrNoDir = errors.New("the directory can't be entered")
	// ErrStdinTooLong is wrapped by the error of a command whose Stdin has more than
	// [MaxStdin] bytes. The command did not run.
	ErrStdinTooLong = spool.ErrTooLong
	// ErrNoMount is wrapped, along with ErrInvalid, by the error of a Spec.Workspace that
	// can't be mounted but can be copied, with package execpolicy/workspace: the engine
	// may run on another machine, or the user that the command would run as can't use the
	// directory, for example because it is root's (see [DockerPolicy.User]).
	//
	// An engine may only look as if it were on this machine: its socket was forwarded by
	// ssh, for example. On Linux a session checks that the container shows the directory
	// itself, before anything of the caller's runs inside. If not, ErrNoMount is wrapped
	// along with ErrStart.
	ErrNoMount = policyerr.ErrNoMount
	// ErrNoJobs is returned by [Session.StartJob] if the session's policy has no jobs, as
	// [HostPolicy], or gives its commands no PID namespace of their own.
	ErrNoJobs = errors.New("the policy has no jobs")
	// ErrTooManyJobs is returned by [Session.StartJob] if [MaxJobs] run.
	ErrTooManyJobs = fmt.Errorf("the session has %d jobs already; wait for one to end, or kill one", MaxJobs)
	// ErrKilled is the cause of a job that [Job.Kill] has ended.
	ErrKilled = errors.New("the job was killed")
	// ErrJobEnded is returned by [Job.Signal] if the job has ended or is being ended.
	ErrJobEnded = errors.New("the job has ended")
	// ErrStillThere is wrapped by an error if the library could not make sure that
	// nothing is left: of a session, of a command, or of a container for [Sweep].
	ErrStillThere = policyerr.ErrStillThere
)

// MaxJobs is how many jobs a session may have at once.
const MaxJobs = 32

// errRestart is why what runs in a session that is restarted is ended.
var errRestart = errors.New("the session was restarted")
