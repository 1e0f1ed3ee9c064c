// Package tool gives a model tools that work in a session: a shell, Python, files and
// background jobs.
//
// [Start] opens a session and returns a [Set] of tools over it. [Set.Close] closes the
// session, and its tools end with it. A [Tool] has a name, a description for the model, a
// JSON Schema of its input, and a function to call with that input:
//
//	shell   runs a command in the session's shell, or restarts the session
//	python  runs code in an interpreter that stays
//	read    reads a text file, or a part of it
//	write   makes or replaces a file
//	edit    replaces a text in a file by another
//	list    lists a directory
//	job     runs commands in the background, and talks to them
//
// [Set.Declare] and [Set.Answer] speak the JSON of three APIs: see [API].
//
//	set, err := tool.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{}, tool.Options{})
//	message := askModel(set.Declare(tool.Anthropic), messages) // yours
//	answers, err := set.Answer(ctx, tool.Anthropic, message)
//
// # Replies
//
// A [Reply] has a text for the model. Of a long output it has the head and the tail
// within the bounds of [Options], with a line that counts what was left out; then it says
// how the command ended, and what was lost. What commands print is shown without escape
// sequences; what a file holds keeps its own. What a model does wrong gets a reply that
// says what is wrong and what would be right, and is never an error in Go. An error is
// the host's to deal with: its context ended, the session was closed, or the engine does
// not answer.
//
// The tools write and edit do not change a file through a link, and refuse its name. In a
// directory that can't be listed they can't tell, and put a file in its place.
//
// The name of the tool shell, its description, its input and what it says of a restart
// and of wrong input are those of LangChain's shell tool, to the letter, but for a word
// on a workspace that is a copy. What it says of a command is not:
// [execpolicy.Result.Render] shows a model more than [execpolicy.Result.Text], which is
// LangChain's and can be had from [Reply].
//
// # Secrets, filters and approval
//
// In replies the values of the session's secrets are redacted, also in what a file holds,
// as far as package execpolicy says that it finds them. [execpolicy.Spec.Filter] filters
// what the tools read out of files and the values of Python too, and not only what
// commands print. Of a value it is also shown the text without escapes, in which a
// newline ends a line. Output from which escape sequences were taken for a reply passes
// through it once more. [execpolicy.Spec.Approve] is asked about each command, job and
// snippet, about each file that write and edit are to change, in a request of the kind
// [RequestWrite], and about what is to be written to a job, in one of the kind
// [RequestInput]. It is not asked about a restart, about a signal to a job or its kill,
// nor about read and list, which change nothing.
//
// # One level of trust
//
// All tools of a set share one session, and a session is one level of trust: what the
// model ran in it before can fake, delay and read what the model runs in it later, the
// content of files included. So a set serves one conversation of one user.
//
// The image needs what package execpolicy says that sessions and their methods for files
// need, and Python for the tool python. Without Python, the others work.
package tool
