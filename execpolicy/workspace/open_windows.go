package workspace

// dontWait is of Unix.
const dontWait = 0
