// Package codeblock finds the fenced code blocks in a model's answer and runs them in a
// session. It can also call a block as a function, with a JSON value as its input and
// another as its result.
//
//	report, err := codeblock.Run(ctx, s, codeblock.Parse(answer), codeblock.Options{})
//	fmt.Println(report.ExitCode(), report.Output())
//
// # What a block is
//
// [Parse] follows the rules of CommonMark 0.31. A fence has three or more backticks or
// tildes. It is closed by a fence of the same kind that is at least as long, so a longer
// fence may hold shorter ones. The info string after a fence of backticks has no
// backticks. At most three spaces stand before a fence, and as many are removed from each
// line of the code. A fence that is not closed goes on to the end of its list item, block
// quote or text. Lines end with LF, CRLF or CR. A tab stands for spaces up to the next
// multiple of four columns.
//
// Fences in block quotes and list items are found, up to a depth of 100, without the
// marks and the indentation around them. Indented code and inline code are not blocks.
//
// Parse departs from CommonMark in one point, which is HTML. A line that is a tag hides
// nothing, because models put fences right after tags of their own. A fence in a comment,
// a declaration, a processing instruction, a CDATA section, or a script, style, pre or
// textarea is not a block, because whoever reads the rendered answer does not see a block
// there.
//
// Backslashes and entities in an info string are taken as they are written.
//
// # What is run
//
// [Run] looks up the language of a block in a table, whatever the case of its letters.
// The table has python, bash, sh, javascript, and what the caller adds. Then Run looks
// for the language's program in the container. If the program is missing, no other takes
// its place: a bash block needs bash, which images with busybox don't have, unless the
// caller's table says {"bash", "sh"}.
//
// A block whose language is not in the table fails with [ErrLanguage], in its [Step]. So
// does a block that names no language, unless [Options] has a Default. Run does not
// guess, because most command lines are valid Python too: "ls -la" is a subtraction. If
// an answer may be cut off, look at [Block.Unclosed] first: Run runs such a block like
// any other.
//
// # Where the code is
//
// A program reads its code from its stdin. [execpolicy.Session.Run] sends it in a file
// with a random name, which is removed as the program starts. So an earlier block could
// not have put a link, a FIFO or a directory in its place. A kill leaves nothing behind,
// and no directory has to be writable. The program works in the session's directory,
// where it finds the modules that earlier blocks have stored. Its own reads of stdin find
// the end. Python's tracebacks do not show the lines of such code, and it has no
// __file__.
//
// A comment at the beginning of Python code may name an encoding, which Python then reads
// the block by. In UTF-7, for example, what looks like a comment may hold statements. So
// whoever approves such a block may see other code than what runs. A [Call] goes by such
// a comment only if the code is not UTF-8.
//
// A block whose first line is a comment such as
//
//	# filename: src/tool.py
//
// with "#", "//", "--", "/* */" or "<!-- -->", is stored under that name, below the
// directory that the blocks run in, and is run from there. It has a __file__, later
// blocks can import it, and its stdin is empty. A name is refused if it is absolute, has
// an element "..", begins with "-", has control characters, leads through a link to
// elsewhere, or names anything but a regular file. The file is a new one, and gets the
// name when it is whole.
//
// If a language's program can't read code from its stdin, the code can be put into a
// file: see [Language.Extension].
//
// What has ended before a block can't change the block's code. If the block has a name,
// one command stores it and the next runs it: what still runs in the background can
// change the file in between. Programs still read other files: Python imports a json.py
// from its directory, even one that an earlier block has put there.
//
// # Values in and out
//
// [Call] runs code with an input value and returns its result value. Both are JSON.
// [CallAs] decodes the result into a type. The result comes from a file in a private
// directory and never from what the program prints, so no output can be taken for a
// result. The input is data and never a part of the program's text, so true, null and
// quotes stay what they are. The code itself may write anything as its result, and so may
// whatever ran in the session before and still runs: one session is one level of trust.
//
// # What the image needs
//
// The image needs the languages' programs. Blocks of shells also need cat. Blocks that
// are stored need mkdir, mktemp, cat, chmod, mv and rm. Calls need mkdir, rm, and what
// the methods of package execpolicy for files need.
package codeblock
