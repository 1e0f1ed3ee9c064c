package render

// Signal returns the name of one of Linux's signals, in parentheses, if it says more
// than the number.
func Signal(n int) string {
	names := [...]string{
		1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 5: "trap", 6: "aborted", 7: "bus error",
		8: "floating point exception", 9: "killed", 11: "segmentation fault", 13: "broken pipe", 14: "alarm clock",
		15: "terminated", 24: "CPU time limit exceeded", 25: "file size limit exceeded", 31: "bad system call",
	}
	if n < 0 || n >= len(names) || names[n] == "" {
		return ""
	}
	return " (" + names[n] + ")"
}
