// Package redact removes from a command's output what must not be stored or shown, while
// the output streams.
//
// A [Redactor] applies rules. Its method Writer can be the Filter of an
// [execpolicy.Spec]:
//
//	r, err := redact.New(redact.Rule{Type: "email"}, redact.Rule{Type: "credit_card", Strategy: redact.Mask})
//	spec := execpolicy.Spec{Filter: r.Writer}
//
// Types, strategies and replacements are those of LangChain's redaction rules, with
// payment_card as one more type. Rules apply in the order given, and each sees the output
// of the one before it. No match is kept, in an error or anywhere else.
//
// # How a stream is read
//
// A detector sees one line at a time, without its newline. So it finds nothing that goes
// over the end of a line. Only [Secrets] finds that. A line is held back until it has
// ended, so a prompt without a newline comes at the end of the stream. It does not matter
// how the stream was cut into writes. What no rule finds passes unchanged, whatever bytes
// it has.
//
// A line of [MaxLine] bytes or more is read in pieces that overlap, so that memory is
// bounded: each rule but Secrets holds at most MaxLine bytes. A match of up to [MaxMatch]
// bytes is found wherever it lies, and only a part of a longer one may be found. A piece
// looks like the beginning of a line. So "^" matches there, and the rest of a word from
// the piece before counts as a whole word.
//
// # What is found, and what is found wrongly
//
// The detectors find what LangChain's detectors of the same names find, with two
// differences. Text that is not ASCII is never part of a word, so a value beside it is
// found. And HTTP:// counts as http://. payment_card is this package's own.
//
//   - email: a name of letters, digits and "._%+-", "@", and a domain that ends in a dot
//     and two letters or more. The user of an ssh address, git@github.com, and an
//     instance of a systemd unit, getty@tty1.service, are found too. A module with its
//     version, pkg@v1.2.3, is not.
//   - credit_card: 16 digits with Luhn's check digit, with at most one white space or
//     dash after each four. One in ten of all numbers of 16 digits has that check digit:
//     of times in microseconds, of fractions such as 0.8414709848078965, of four years in
//     a row, and of four words of digits in the output of xxd.
//   - payment_card: 13 to 19 digits with Luhn's check digit, in one group or in groups of
//     at least four digits, so that cards of other lengths are found. It finds one in ten
//     of all times in milliseconds, in nanoseconds and written as 20060102150405, and a
//     third of the lines of od. It is for output that is about cards.
//   - ip: four numbers up to 255 without zeros before them. A version of four small
//     numbers, 1.2.3.4, is found too. An IPv6 address is not.
//   - mac_address: six pairs of hexadecimal digits with ":" or "-" between them. Most of
//     an MD5 fingerprint is found too.
//   - url: what begins with http:// or https://, and a host of two labels or more that
//     begins with www. or has a path. The path of a Go module, github.com/x/y, is found
//     too, and so is the rest of a path from a directory whose name has a dot in it: in a
//     traceback of Python 3.12, all that follows /usr/lib/. To match only URLs that have
//     a scheme, give the rule a Find.
//
// TestFalseHits holds the rate of each in logs, tables, dumps, listings, versions,
// tracebacks and identifiers.
//
// # What it is not
//
// It is for what programs print in good faith. A program that means to get a value out
// can print it backwards, in base64, percent-encoded or one letter a line, and nothing
// here finds that. The detectors also miss some values, and report text that is not one.
package redact
