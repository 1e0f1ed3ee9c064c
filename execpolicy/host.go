package execpolicy

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/hostproc"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// A HostPolicy spawns commands on the host itself, in a process group of their own and
// without any isolation: they can do what the user of this program can do. Only the
// caller can choose it: nothing falls back to it. It needs Linux.
//
// The library signals the process group and nothing else. A process that leaves the
// group, as setsid does, survives.
//
// A command that is ended gets a SIGTERM. One that ignores it is killed together with the
// session's shell after a second, or after an eighth of [Limits.TerminationTimeout] if
// that is shorter. So such a command costs the session: the outcome stands, and the next
// command fails with [ErrEnded] until [Session.Restart].
type HostPolicy struct {
	Limits

	// CPUTimeSeconds is how much processor time each process may use. The kernel kills a
	// process that uses more. If zero, there is no limit. It must not be negative.
	CPUTimeSeconds int
	// MemoryBytes is how much address space each process may have, rounded down to a
	// multiple of 1024. It is at least 1024. If zero, there is no limit.
	MemoryBytes int64
}

func (p HostPolicy) validate() problems.List {
	var found problems.List
	if p.CPUTimeSeconds < 0 {
		found.Add("CPUTimeSeconds is %d: it must not be negative", p.CPUTimeSeconds)
	}
	if p.MemoryBytes < 0 || p.MemoryBytes > 0 && p.MemoryBytes < 1024 {
		found.Add("MemoryBytes is %d: it has to be at least 1024", p.MemoryBytes)
	}
	if runtime.GOOS != "linux" {
		found.Add("HostPolicy needs Linux")
	}
	return found
}

// Check returns what is wrong with the policy and the spec, or nil. Its error wraps
// [ErrInvalid]. It does not look for the program.
func (p HostPolicy) Check(_ context.Context, spec Spec) error {
	_, err := p.check(spec)
	return err
}

// check is Check, and returns the directory to work in; empty if that is to be made.
func (p HostPolicy) check(spec Spec) (dir string, err error) {
	found := append(p.validate(), environ.Check(spec.Env)...)
	if len(spec.Secrets) > 0 {
		found = append(found, policyerr.ErrSecrets)
	}
	if spec.Workspace != "" {
		dir, err = mountguard.Workspace(spec.Workspace)
		found = append(found, err)
	} else if slices.ContainsFunc([][]string{spec.Command, spec.Supervisor}, func(words []string) bool {
		return len(words) > 0 && relative(words[0])
	}) {
		found.Add("without a Workspace the directory is new and has no programs: set one, or give the program's absolute path")
	}
	return dir, problems.Join(found...)
}

// relative reports whether a program's name is relative to where it works.
func relative(name string) bool { return strings.Contains(name, "/") && !filepath.IsAbs(name) }

// Spawn starts spec.Command on the host. The command gets PATH, HOME, USER, LANG, TZ and
// TMPDIR of this program's environment, and spec.Env. An error wraps [ErrInvalid],
// [ErrAudit] or, if the program could not be started, [ErrStart].
func (p HostPolicy) Spawn(ctx context.Context, spec Spec) (*Process, error) {
	dir, err := p.check(spec)
	if err != nil {
		return nil, err
	}
	shell := spec.Command
	if len(shell) == 0 {
		shell = []string{"sh"}
		if _, err := exec.LookPath("bash"); err == nil {
			shell = []string{"bash"}
		}
	}
	worker := hostproc.Limited(shell, p.CPUTimeSeconds, p.MemoryBytes)
	argv := worker
	if len(spec.Supervisor) > 0 {
		argv = spec.Supervisor
	}
	path := argv[0]
	if relative(path) {
		path = filepath.Join(dir, path)
	}
	path, err = exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := spec.RecordSpawn(ctx, "", worker); err != nil {
		return nil, err
	}
	proc, err := hostproc.Start(path, argv, hostproc.Env(spec.Env), dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return &Process{
		Name:     "process " + strconv.Itoa(proc.PID()),
		Stdin:    proc.Stdin,
		Stdout:   proc.Stdout,
		Stderr:   proc.Stderr,
		Done:     proc.Done(),
		Kill:     proc.Kill,
		Limits:   p.Limits,
		Worker:   worker,
		Scratch:  proc.Scratch,
		ExitCode: proc.ExitCode,
	}, nil
}

// CheckWorkspace returns why a directory can't be a workspace, or nil. Its error wraps
// [ErrInvalid]. It refuses only what is not a usable directory, because the whole host is
// open to a command anyway.
func (p HostPolicy) CheckWorkspace(dir string) error {
	if _, err := mountguard.Workspace(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// SavesWorkspace reports true: the changes to a copied workspace may be saved.
func (p HostPolicy) SavesWorkspace() bool { return true }
