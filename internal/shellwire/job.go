package shellwire

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// keeper is what is sent of job.sh.
//
//go:embed sent/job.sh
var keeper string

// A Job is a command beside the worker, on streams of its own. Its keeper is [Boot],
// which the supervisor starts on FIFOs, or the engine does. The keeper is told
// [Job.Keeper] and, after it, [Job.Line]; what comes then is the command's stdin.
//
// The marks are those of a unit. The first on stdout has, after the tag, the number of
// the keeper's process. The command begins with a mark on both streams. At its end the
// keeper marks both.
type Job struct {
	// Prefix is the session's, and Tag the job's: fresh and unpredictable, of letters and
	// digits only.
	Prefix, Tag string
	// Scratch is [Setup.Dir].
	Scratch string
	// Worker is the shell for a script; if empty, bash where there is one, else sh. It
	// has to take a script after -c.
	Worker []string
	// Script is what the worker evaluates.
	Script string
	// Argv is, if not empty, what runs in place of a script.
	Argv []string
	// Dir, if not empty, is where the command runs.
	Dir string
	// Env holds NAME=value.
	Env []string
	// Files are made, for nobody else to read, before the command begins. They are
	// removed when it has ended.
	Files []File
}

// A File is a small one for a job.
type File struct{ Name, Text string }

// Keeper returns the line for the keeper.
func (j Job) Keeper() []byte {
	worker := j.Worker
	if len(j.Argv) > 0 {
		worker = []string{"sh"}
	}
	var words, remove strings.Builder
	for _, w := range worker {
		words.WriteString(" " + Word(w))
	}
	for _, f := range j.Files {
		remove.WriteString(f.Name + " ")
	}
	return []byte(newline + "cf_prefix=" + j.Prefix + " cf_tag=" + j.Tag + " cf_boot=" + shellquote.Quote(jobBoot) +
		" cf_err=" + shellquote.Quote(j.Scratch+"/e"+j.Tag) + " cf_remove=" + shellquote.Quote(remove.String()) +
		"; set --" + words.String() + "; eval " + Word(keeper) + "\n")
}

// jobBoot is for the shell below the keeper. If its line does not come the host has given
// the job up, perhaps without a number to end the keeper by, which would stay.
const jobBoot = `IFS= read -r cf_line || { kill -9 $PPID; exit; }; eval "$cf_line"`

// newline sets cf_nl, for [Word].
const newline = `cf_nl=$(printf '\n.'); cf_nl=${cf_nl%.}; `

// Line returns the line for the shell below the keeper.
func (j Job) Line() []byte {
	var b strings.Builder
	for _, f := range j.Files {
		b.WriteString("(umask 377; printf %s " + Word(f.Text) + " >" + shellquote.Quote(f.Name) + ") 2>/dev/null || { " +
			j.end(noFile) + "; exit; }; ")
	}
	for _, kv := range j.Env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString("export " + name + "=" + Word(value) + "; ")
	}
	if j.Dir != "" {
		enter := "false"
		if len(j.Dir) < maxPath {
			enter = "CDPATH= cd -- " + dirWord(j.Dir) + " >/dev/null 2>&1"
		}
		b.WriteString(enter + " || { " + j.end(noDir) + "; exit; }; ")
	}
	begin := "printf '" + j.Prefix + "b" + j.Tag + `\n'`
	b.WriteString(begin + "; " + begin + " >&2; unset cf_line; ")
	if len(j.Argv) > 0 {
		b.WriteString("exec")
		for _, arg := range j.Argv {
			b.WriteString(" " + Word(arg))
		}
	} else {
		b.WriteString("eval " + Word(j.Script))
	}
	text := b.String()
	if strings.Contains(text, `"$cf_nl"`) {
		text = newline + text
	}
	return []byte(text + "\n")
}

// end returns what marks the end of a job that did not begin.
func (j Job) end(status string) string {
	mark := "printf '" + j.Prefix + "e" + j.Tag
	return mark + " " + status + " " + j.Prefix + `\n'; ` + mark + `\n' >&2`
}

// The operations for a job have a name for it, of letters and digits. Those with a nonce,
// which must be fresh and unpredictable, are followed by an [Answer] on the job's stdout,
// if the keeper still has that.

// StartJob returns the operation that starts a keeper with that command line, which
// begins with sh. It does nothing if the job has one. It is to be repeated, since there
// may be no room for one.
func StartJob(name string, command []string) string {
	var words strings.Builder
	for _, w := range command {
		words.WriteString(" " + shellquote.Quote(w))
	}
	return "j+" + name + words.String() + "\n"
}

// AdoptJob returns the operation that makes the process of that number the job's keeper,
// unless it has one.
func AdoptJob(name string, pid int, nonce string) string {
	return "j=" + name + " " + strconv.Itoa(pid) + " " + nonce + "\n"
}

// SignalJob returns the operation that sends a signal to all that belongs to the job, but
// to its keeper. The signal is a name without SIG, or 0.
func SignalJob(name, signal, nonce string) string {
	return "j" + signal + " " + name + " " + nonce + "\n"
}

// Ask returns the operation that process 1 answers by an [Answer] on the session's
// stdout, which tells whether the [SignalJob] before it has reached anything.
func Ask(nonce string) string { return "j!" + nonce + "\n" }

// TendJob returns the operation that ends what is left of a job whose keeper is gone.
func TendJob(name string) string { return "j?" + name + "\n" }

// EndJob returns the operation that ends the job's keeper. What is left of the job is no
// part of it any more.
func EndJob(name string) string { return "j-" + name + "\n" }
