package audit

import "io"

// NewLog returns a Log that writes to w.
func NewLog(w io.WriteCloser) *Log { return &Log{w: w} }

// OpenFlags are those by which a file is opened.
const OpenFlags = openFlags

var (
	Digest = digest
	Cut    = cut
)
