// Package codeblock takes the fenced code blocks out of a model's answer and runs them in
// a session, and calls code with a JSON value for another.
//
// # What is a block
//
// Parse goes by the rules of CommonMark 0.31: fences of three or more backticks or
// tildes, closed by a fence of the same kind that is at least as long, so that a longer
// one may hold shorter ones; no backticks behind an opening fence of backticks; at most
// three spaces before a fence, and as many taken from each line of the code; an open
// fence goes on to the end of what it is in. Lines end with LF, CRLF or CR. Tabs count as
// far as the next column that divides by four. Fences in block quotes and list items, at
// any depth up to 100, are found, without the marks and the indentation of what they are
// in. Four spaces more than that make no fence but indented code, which is no block, as
// inline code is none.
//
// HTML is not CommonMark's in one point: a line that is a tag hides nothing, because
// models put fences right behind tags of their own. What is in a comment, a processing
// instruction, a CDATA section, or a script, style, pre or textarea is no block: whoever
// reads the answer as it is displayed does not see a block there.
//
// Backslashes and entities in an info string are taken as they are written.
//
// # What is run
//
// The language of a block is looked up in a table, in any case of letters: python, bash,
// sh and javascript are there, and what the caller adds. Its program is then looked for
// in the container. No other program takes the place of one that is missing: a bash block
// needs bash, which images with busybox don't have, unless the table says {"bash", "sh"}.
// A block of another language is an error. So is one that names none, unless [Options]
// has a Default: most command lines are valid Python too (ls -la is a subtraction), and
// what can't be known is not guessed. Who gets answers that may be cut off looks at
// [Block.Unclosed] first: such a block is run like any other.
//
// # Where the code is
//
// A program reads its code from its stdin. Session.Run sends that in a file of a random
// name, which is unlinked as the program starts. So there is no path at which an earlier
// block could have put a link, a fifo or a directory, nothing that a kill leaves behind,
// and nothing that needs a writable directory. The alternative, a file in a new directory
// of mode 0700, would have given tracebacks with the source's lines and a __file__; but
// modules that earlier blocks stored in the workspace would not be found from there, and
// what the code writes beside itself would be lost. The program works in the session's
// directory, and finds its stdin at its end.
//
// A block whose first line is a comment such as
//
//	# filename: src/tool.py
//
// with "#", "//", "--", "/* */" or "<!-- -->", is stored under that name, below the
// directory that the blocks run in, and is run from there: it has a __file__, can be
// imported by later blocks, and its stdin is empty. A model that needs this can name its
// file. Names that are absolute, have ".." in them, lead through a link to elsewhere,
// begin with "-", hold control characters, or are those of a link or of anything but a
// regular file are refused. The file is new and takes the name when it is whole.
//
// A language whose program can't read from stdin may ask for a file: see
// [Language.Extension].
//
// All of this keeps the library and what a block is run as out of the reach of what ran
// before. It keeps no program from reading what it reads: Python imports a json.py from
// its directory, also one that an earlier block has put there. One session is one level
// of trust.
//
// # Values in and out
//
// [Call] runs code with an input value and returns its result value, both JSON, and
// [CallAs] decodes that into a type. The result comes from a file in a private directory
// and never from what the program prints, so no marker that it prints can be taken for
// one; and the input is data, never a part of the program's text, so true, null and
// quotes are what they are. The code itself may write what it likes as its result, and so
// may what ran in the session before and still runs: one session is one level of trust.
//
// # What the image needs
//
// Beside the languages' programs, cat for shells, mkdir, mktemp, cat, chmod, mv and rm
// for blocks that are stored, and for calls mkdir, rm and what files need.
package codeblock
