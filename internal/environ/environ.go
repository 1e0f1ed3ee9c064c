// Package environ says which variables a command can be given.
package environ

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// Check returns what is wrong with variables that a shell is to set.
func Check(env map[string]string) problems.List {
	var found problems.List
	for _, name := range Names(env) {
		if !shellquote.IsName(name) {
			found.Add("%q is not the name of an environment variable: letters, digits and \"_\", not beginning with a digit", name)
		}
		switch name {
		case "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO":
			found.Add("%s can't be set: bash has it read-only", name)
		case "PWD", "BASHPID":
			found.Add("%s can't be set: the shell tells the library by it where it is, or who", name)
		}
		if strings.HasPrefix(name, "cf_") {
			found.Add("%s can't be set: names that begin with \"cf_\" are the library's", name)
		}
		if strings.Contains(env[name], "\x00") {
			found.Add("the value of %s holds a NUL byte", name)
		}
	}
	return found
}

// CheckText returns which variables have values that an engine would change.
func CheckText(env map[string]string) problems.List {
	var found problems.List
	for _, name := range Names(env) {
		if !utf8.ValidString(env[name]) {
			found.Add("the value of %s is not valid UTF-8, and the engine would change it; set it in a session", name)
		}
	}
	return found
}

// Names returns the names of variables in order. Most commands set none, and take no
// memory for that.
func Names(env map[string]string) []string {
	if len(env) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(env))
}
