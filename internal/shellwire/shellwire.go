// Package shellwire holds both ends of the session protocol: the supervisor, a POSIX
// shell text that runs as process 1 of a container and keeps a worker shell, and the
// encoder and the parser that talk to it. It does no input or output of its own.
//
// The host writes lines, one operation a line, to the supervisor's stdin. What commands
// print comes back unchanged on stdout and stderr, with marks in between, which begin
// with a prefix that is drawn anew for every session.
package shellwire

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// What is sent has no comments and no indentation. It is made of the scripts beside this
// file by "go test ./internal/shellwire -run TestSent -update".
var (
	//go:embed sent/supervisor.sh
	supervisor string
	//go:embed sent/namespace.sh
	namespace string
	//go:embed sent/group.sh
	group string
	//go:embed sent/alive.sh
	alive string
)

// Boot is the command that a policy is asked to spawn. It prints nothing and does nothing
// until the first line of a Setup arrives.
func Boot() []string {
	return []string{"sh", "-c", `IFS= read -r cf_line && eval "$cf_line"`}
}

// A Setup is what a session's host says first.
type Setup struct {
	// Prefix begins every mark. It must be fresh and unpredictable, of letters and digits
	// only.
	Prefix string
	// Lead is what each line begins with that has an operation, other than in a block. It
	// must be unpredictable, of letters and digits only. If empty, lines are not checked.
	Lead string
	// Dir is a directory inside, writable and meant for the supervisor alone. In a
	// namespace programs must be able to run from it.
	Dir string
	// Namespace says that the supervisor is process 1 of a process namespace that was
	// made for it, so that it may signal all it sees.
	Namespace bool
	// Readable says that the kernel runs no program that is unreadable, as gVisor's does
	// not. Then the supervisor's program is readable, and so is its process.
	Readable bool
	// Worker is the worker shell; if empty, bash where there is one, else sh.
	Worker []string
	// Name is the last word of the supervisor's command line in a namespace, by which it
	// is found from outside. Everybody can see it.
	Name string
	// KeepAlive is how long the supervisor waits for anything from the host before it
	// ends, in whole seconds; if zero, for ever. It is only for a namespace, for a
	// supervisor that [Boot] began, and for one without blocks.
	KeepAlive time.Duration
}

// Text returns what turns a command that Boot started into a supervisor.
func (s Setup) Text() []byte {
	var b strings.Builder
	b.WriteString("cf_prefix=" + s.Prefix + "\ncf_lead=" + s.Lead + "\ncf_dd=${1-dd}\ncf_dir=" + shellquote.Quote(s.Dir) +
		"\ncf_script=" + shellquote.Quote(shellquote.Quote(s.Dir+"/script")) +
		"\ncf_died=" + shellquote.Quote(shellquote.Quote(s.Dir+"/died")) + "\ncf_alive=\nset --")
	for _, w := range s.Worker {
		b.WriteString(" " + shellquote.Quote(w))
	}
	b.WriteString("\n")
	if s.Namespace {
		b.WriteString(namespace)
		if s.KeepAlive > 0 {
			b.WriteString("cf_alive=" + strconv.Itoa(int(s.KeepAlive/time.Second)) + "\n" + alive)
		}
	} else {
		b.WriteString(group)
	}
	b.WriteString(supervisor)
	text := b.String()
	// A shell reads a byte at a time, and this is long.
	first := `eval "$(dd bs=` + strconv.Itoa(len(text)) + ` count=1 iflag=fullblock 2>/dev/null)"`
	if s.Namespace {
		// The kernel lets nobody of the same user read, trace or open the descriptors of
		// a process whose program is unreadable. So the shell goes on as an unreadable
		// copy of itself, and nothing inside can hold its stdin open.
		mask, mode := "666", "111"
		if s.Readable {
			mask, mode = "222", "555"
		}
		first = s.shell() + "[ $$ = 1 ] || exit 96; cf_dir=" + shellquote.Quote(s.Dir) +
			`; (umask 177; : >"$cf_dir/script"; : >"$cf_dir/died"; umask ` + mask + `; ` +
			`cp /proc/$$/exe "$cf_dir/sh") || exit 95; ` + reader + `chmod ` + mode + readerEnd + noExec +
			`exec "$cf_dir/sh" -c ` + shellquote.Quote(first) + ` "$cf_dir/sh" "$cf_dd" ` +
			shellquote.Quote(s.Name) + "; exit 94"
	}
	return []byte(first + "\n" + text)
}

// shell returns what makes bash read the first line again, if there is a keep-alive and
// sh can't wait for a time. Dash can't. Where sh is bash it obeys POSIX, too, and reads
// no file that BASH_ENV names.
func (s Setup) shell() string {
	if s.KeepAlive <= 0 {
		return ""
	}
	return `( IFS= read -r -t 1 cf_skip ) </dev/null 2>/dev/null; [ $? = 1 ] || ` +
		`if command -v bash >/dev/null; then exec bash --posix -c "$cf_line" sh; else ` +
		`echo "a keep-alive needs bash, or an sh whose read has the option -t" >&2; exit 97; fi; `
}

// noExec makes a shell say what it means that it can't exec the copy. Bash would end
// without its trap then.
const noExec = `[ -z "${BASH_VERSION-}" ] || shopt -s execfail; ` +
	`trap 'echo "no program can be run from $cf_dir: it must not be mounted noexec" >&2; ` +
	`exit 94' EXIT; `

// reader sets cf_dd to what the supervisor runs to read raw bytes from its stdin: a dd
// that is as unreadable as itself. Where dd is another name of the shell's own program,
// the copy of that will do. Else it is a copy behind descriptor 9, since a name can be
// taken away. A program that goes by its own name runs so only if the shell can give it
// one, and is left as it is beside dash.
const reader = `cf_dd=$(command -v dd); ` +
	`if [ "$cf_dd" -ef /proc/$$/exe ] && (exec -a true /proc/$$/exe) 2>/dev/null; then cf_dd="-a dd self/exe"; ` +
	`elif [ -f "$cf_dd" ] && cp "$cf_dd" "$cf_dir/raw" && ` +
	`(exec ${BASH_VERSION+-a dd} "$cf_dir/raw" count=0) </dev/null >/dev/null 2>&1 && ` +
	`command exec 9<"$cf_dir/raw" && `

// readerEnd follows reader and the chmod that it ends with.
const readerEnd = ` "$cf_dir/raw"; ` +
	`then cf_dd="${BASH_VERSION+-a dd }self/fd/9"; else cf_dd=dd; fi; `

// Operations without arguments.
const (
	Tick        = "t\n"     // gathers orphans and notices a worker that is lost
	Reap        = "r\n"     // gathers orphans
	Terminate   = "kTERM\n" // signals what the command started
	Kill        = "kKILL\n"
	KillWorker  = "w\n" // kills the worker too
	StartWorker = "s\n" // after a worker has ended
	Thaw        = "h\n" // lets everything run again
	Beat        = "i\n" // says that the host is there, and asks for a [Beating]
	ReadBlock   = "x\n" // reads a block, and does what it holds
)

// Heard returns the operation that says that the end of a worker has been read. Until
// then, whoever tells of such an end must be there at every second [Tick].
func Heard(generation int) string { return "l" + strconv.Itoa(generation) + "\n" }

// Next returns the operation that names the next unit. It should be sent right after the
// last one: the supervisor reads a byte at a time, and so it reads the name while that
// unit runs.
func Next(tag string) []byte { return []byte("n" + tag + "\n") }

// Operations that run a unit, or change the next one.
const (
	// BeginMark makes the next unit begin with a mark, to tell its output from what a
	// background job has printed before.
	BeginMark = "m\n"
	// Note notes what the container has used so far, for the looks that follow.
	Note = "u\n"
	// Look is a unit whose end mark has seven words in place of a directory, "-" for what
	// is not known: how many processes the kernel has killed for memory; 1 if the last
	// [Kill] or [KillWorker] left nothing of what it was to end, 0 if it did; two counts
	// as they were at the last Note, and as they are: the processor time that the
	// container has used, in nanoseconds, and its peak of memory, in bytes; and 1 if
	// process 1 had the last unit for a worker mark its begin by itself, 0 if not.
	Look = "o\n"
)

// A Unit is one command for the worker: a script or a program.
type Unit struct {
	// Script is what the worker evaluates. Its first line is the first line of the unit.
	Script string
	// Argv is, if not empty, what runs in place of a script.
	Argv []string
	// Fork says that the first word of Argv is no program but the name of a script, with
	// a slash in it. A copy of the worker reads it, with the other words as its arguments
	// and without the worker's options e, u, v and x.
	Fork bool
	// Dir, if not empty, is where the script runs. The worker goes back to Back
	// afterwards.
	Dir, Back string
	// Env holds NAME=value, for this unit only.
	Env []string
	// Stdin is the file that the script reads, which is unlinked as it starts; if empty,
	// /dev/null.
	Stdin string
}

// maxLine bounds the text in an operation, so that one that is urgent never waits behind
// a long one.
const maxLine = 2 << 10

// maxPath bounds the name of a unit's directory. No system call takes one of that length,
// but a shell may shorten it before it asks.
const maxPath = 4 << 10

// What stands before a script's word, and before a program's. Where there is no command,
// what is set for the eval stays set.
const (
	evaluate = `${BASH_VERSION+"command"} eval `
	execute  = `\command exec <&7 `
)

// Ops returns the operations that run the unit, whose tag was named before.
func (u Unit) Ops() []byte {
	var open, word, text, remove string
	if len(u.Argv) > 0 {
		open, word = "c", "a"
		args, quote := u.Argv, shellquote.Quote
		if u.Fork {
			args, quote = args[1:], Word
		}
		var words strings.Builder
		for _, arg := range args {
			words.WriteString(" " + quote(arg))
		}
		text = strings.TrimPrefix(words.String(), " ")
	} else {
		open, word = "b", "e"
		text = shellquote.Quote(u.Script)
	}
	if !u.Fork && u.Dir == "" && u.Stdin == "" && len(u.Env) == 0 && len(text) <= maxLine && !strings.Contains(text, "\n") {
		return appendOp(make([]byte, 0, len(text)+2), word, text)
	}
	if u.Stdin != "" {
		remove = `\command rm -f -- ` + Word(u.Stdin) + "; "
	}
	var keep string
	own := len(u.Argv) == 0 && len(u.Env) > 0
	if own {
		keep = "cf_vars='" + names(u.Env) + `'; \command eval "$cf_keep" || { cf_vars=; ` +
			`\command printf 'cannot fork\n' >&4; cf_status=+2; \command return; }; `
	}
	switch env := assignments(u.Env); {
	case len(u.Argv) > 0:
		run := env + `\command exec `
		if u.Fork {
			run, text = `\command set +euv -- `+text+"; "+env+`\command . `, Word(u.Argv[0])
		}
		if u.Stdin != "" {
			text = `\command exec <` + Word(u.Stdin) + ` || \command exit; ` + remove + run + text
		} else {
			text = run + "<&7 " + text
		}
	case u.Stdin != "":
		text = keep + "{ " + remove + env + evaluate + text + "; } <" + shellquote.Quote(u.Stdin)
	default:
		text = keep + env + evaluate + text + " <&2"
	}
	ops := make([]byte, 0, len(text)+len(text)/64+64)
	if u.Dir != "" {
		enter := `\command false`
		if len(u.Dir) < maxPath {
			enter = `CDPATH= \command cd -- ` + dirWord(u.Dir) + ` >/dev/null 2>&1`
		}
		ops = appendOp(ops, "y", enter+` || { cf_status=+`+noDir+`; \command return; }`)
		ops = appendOp(ops, "z", "case $cf_status in "+noDir+") ;; "+
			`*) CDPATH= \command cd -- `+shellquote.Quote(u.Back)+" >/dev/null 2>&1 || cf_said=;; esac")
	}
	if own {
		ops = appendOp(ops, "v")
	}
	ops = appendOp(ops, open)
	for {
		line, rest, more := strings.Cut(text, "\n")
		for len(line) > maxLine {
			ops = appendOp(ops, "-", line[:maxLine])
			line = line[maxLine:]
		}
		if !more {
			return appendOp(ops, "g", line)
		}
		ops = appendOp(ops, "+", line)
		text = rest
	}
}

// Block returns a block that holds operations: those that [Unit.Ops] makes, or one of
// [Help], and [Next] after them. It is for the supervisor's descriptor 3,
// where there is one, and must be there, with nothing else, before [ReadBlock] is sent.
// prefix is that of the [Setup]. It is nil if the operations hold its last line.
func Block(prefix string, ops []byte) []byte {
	end := "return 0 #" + prefix + "\n"
	if bytes.Contains(ops, []byte(end)) {
		return nil
	}
	b := make([]byte, 0, len(ops)+len(ops)/8+256)
	tail := ""
	for len(ops) > 0 {
		line, rest, _ := bytes.Cut(ops, []byte("\n"))
		ops = rest
		switch op, arg := line[0], line[1:]; op {
		case 'b':
			b, tail = append(b, "cf_unit=$cf_open'"...), "'$cf_close\nunit\n"
		case 'c':
			b, tail = append(b, "cf_unit=$cf_call'"...), "'$cf_called\nunit\n"
		case '+':
			b = appendQuoted(b, "", arg, "\n")
		case '-':
			b = appendQuoted(b, "", arg, "")
		case 'g':
			b = appendQuoted(b, "", arg, tail)
		case 'e':
			b = appendQuoted(b, "cf_unit=$cf_open'"+evaluate, arg, " <&2'$cf_close\nunit\n")
		case 'a':
			b = appendQuoted(b, "cf_unit=$cf_call'"+execute, arg, "'$cf_called\nunit\n")
		case 'f':
			b = appendQuoted(b, "assist '", arg, "'\n")
		case 'n':
			b = appendQuoted(b, "name '", arg, "'\n")
		default:
			b = appendQuoted(b, "shape '", line, "'\n")
		}
	}
	return append(b, end...)
}

// appendQuoted appends text as it stands between single quotes, and what stands before
// and after it.
func appendQuoted(b []byte, before string, text []byte, after string) []byte {
	b = append(b, before...)
	for i := bytes.IndexByte(text, '\''); i >= 0; i = bytes.IndexByte(text, '\'') {
		b = append(append(b, text[:i]...), `'\''`...)
		text = text[i+1:]
	}
	return append(append(b, text...), after...)
}

// names returns the names of variables, with a space after each.
func names(env []string) string {
	var b strings.Builder
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		b.WriteString(name + " ")
	}
	return b.String()
}

// assignments returns the words that set variables for one command.
func assignments(env []string) string {
	var b strings.Builder
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString(name + "=" + Word(value) + " ")
	}
	return b.String()
}

// dirWord is [Word] for a directory that cd gets, for which - is the one before.
func dirWord(dir string) string {
	if dir == "-" {
		dir = "./-"
	}
	return Word(dir)
}

func appendOp(ops []byte, parts ...string) []byte {
	for _, p := range parts {
		ops = append(ops, p...)
	}
	return append(ops, '\n')
}

// transferBlock is the size in which dd is fastest.
const transferBlock = 64 << 10

// Upload returns the operation that makes a file of that name, which must be fresh, in
// the supervisor's directory. It must be followed by as many raw bytes as size says, and
// by [Thaw]: until then nothing runs inside.
func Upload(name string, size int64) []byte {
	return []byte("d" + name + " " + strconv.FormatInt(size/transferBlock, 10) + " " +
		strconv.FormatInt(size%transferBlock, 10) + "\n")
}

// Put returns the operation that makes a small file, whose name is [Word]'s and absolute,
// and its raw bytes. Nothing must have that name. It must be followed by a [Help] whose
// script begins with "put" and three words: the name that it is to have when it is whole,
// this one and its permissions in octal digits; and by [Thaw]. It may not be there, for
// want of room or of permission: then the script's status is 107. It is made with no more
// than perm allows. end must be fresh and unpredictable, and data not be empty.
func Put(word, end string, data []byte, perm fs.FileMode) []byte {
	return fmt.Appendf(nil, "p%d %o %s %s\n%s\n%s\n", len(data), 0o666&^perm, end, word, data, end)
}

// Help returns the operation that evaluates a script beside the worker, in a shell of the
// supervisor's own, while nothing else runs inside until [Thaw]. Its begin is always
// marked, and nothing else is printed after that. Its end mark has its status and, in
// place of a directory, what it leaves in cf_result. Such a script holds no newline but
// in words that [Word] made.
func Help(script string) []byte { return []byte("f" + script + "\n") }

// Word is [shellquote.Quote] on one line, for a script of [Help] or what stands before a
// unit's first line.
func Word(s string) string { return strings.ReplaceAll(shellquote.Quote(s), "\n", `'"$cf_nl"'`) }
