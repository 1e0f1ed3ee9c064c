package main

// owner is the same for all files: an engine in a virtual machine gives mounted files to
// whoever asks.
func owner(string) string { return "this user" }
