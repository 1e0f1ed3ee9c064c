package shell

import "io"

// writeNow returns a function that writes nothing: there is no way to write without
// waiting.
func writeNow(io.Writer) func([]byte) int { return func([]byte) int { return 0 } }
