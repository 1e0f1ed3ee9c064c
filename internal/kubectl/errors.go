package kubectl

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/clierr"
)

// The sentinels are those of package kube, which says what they mean.
var (
	ErrNoProgram    = errors.New("no kubectl found")
	ErrTooOld       = errors.New("kubectl is too old")
	ErrNoCluster    = errors.New("kubectl is configured for no cluster")
	ErrDown         = errors.New("the cluster does not answer")
	ErrLoggedOut    = errors.New("not logged in to the cluster")
	ErrPermission   = errors.New("no permission in the cluster")
	ErrQuota        = errors.New("a quota of the namespace is used up")
	ErrAdmission    = errors.New("the cluster refused or changed the pod")
	ErrArgument     = errors.New("the cluster found the pod invalid")
	ErrNameInUse    = errors.New("the pod's name is in use")
	ErrNotFound     = errors.New("the cluster has no such object")
	ErrNoRoom       = errors.New("no node has room for the pod")
	ErrImageMissing = errors.New("the image is missing")
	ErrPull         = errors.New("the image could not be pulled")
	ErrNoCommand    = errors.New("the command can't be executed in the image")
	ErrRuntime      = errors.New("the node could not start the container")
	ErrNetworkOpen  = errors.New("the network is not known to be kept away")
)

// ErrNotStarted means that there is a kubectl that could not be started, so that the
// cluster was asked for nothing.
var ErrNotStarted = errors.New("kubectl could not be started")

// advice says what the user can do about an error of a class.
var advice = map[error]string{
	ErrTooOld:     "install a kubectl of 1.25 or later",
	ErrNoCluster:  "set a current context, or name the configuration and the context",
	ErrDown:       "check the cluster's address and that it runs",
	ErrLoggedOut:  "log in again, as you do for kubectl",
	ErrPermission: "the documentation of package kube has the Role that is needed",
}

// classes says what messages mean. The first row counts all of whose words occur.
var classes = clierr.Table{
	// Kubectl itself.
	{ErrTooOld, []string{"unknown flag"}},
	{ErrTooOld, []string{"unknown shorthand flag"}},
	{ErrNoCluster, []string{"current-context must exist"}},
	{ErrNoCluster, []string{"cannot locate context"}},
	{ErrNoCluster, []string{"error: context", "does not exist"}},
	{ErrNoCluster, []string{"error loading config file"}},
	{ErrLoggedOut, []string{"please enter username"}},
	{ErrLoggedOut, []string{"you must be logged in"}},
	{ErrLoggedOut, []string{"getting credentials"}},

	// The API's answers. What it may say of a user comes last of what it forbids.
	{ErrQuota, []string{"(forbidden)", "exceeded quota"}},
	{ErrQuota, []string{"(forbidden)", "failed quota"}},
	{ErrPermission, []string{"(forbidden)", "is forbidden: user", "cannot"}},
	{ErrAdmission, []string{"(forbidden)"}},
	{ErrAdmission, []string{"admission webhook", "denied the request"}},
	{ErrAdmission, []string{"failed calling webhook"}},
	{ErrNameInUse, []string{"(alreadyexists)"}},
	// Something else than the API says (NotFound) too, in other words.
	{ErrNotFound, []string{"(notfound)", "\" not found"}},
	{errOther, []string{"(conflict)", "the uid in the precondition"}},
	{ErrArgument, []string{"is invalid: "}},
	{ErrArgument, []string{"(badrequest)"}},

	// On the way to it.
	{ErrDown, []string{"unable to connect to the server"}},
	{ErrDown, []string{"was refused - did you specify the right host or port"}},
	{ErrDown, []string{"error dialing backend"}},
	{ErrDown, []string{"(serviceunavailable)"}},
	{ErrDown, []string{"(internalerror)"}},
	{ErrDown, []string{"(timeout)"}},
	{ErrDown, []string{"(toomanyrequests)"}},
	{ErrDown, []string{"unexpected eof"}},
	{ErrDown, []string{"connection reset by peer"}},
}

// errOther means that what has the name is another object.
var errOther = errors.New("the object is another one")

// IsGone reports whether an error of DeletePod says that the pod of that UID is not
// there.
func IsGone(
	err error,
) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, errOther)
}

// An Error is a failed run of kubectl.
type Error struct {
	clierr.Failure
	// Command is the command line.
	Command []string

	unreached bool
}

// NewError returns the error of a run of kubectl. The exit code is -1 if it was ended,
// for that cause.
func NewError(verb string, argv []string, exit int, stderr []byte, cause error) *Error {
	own := withoutNotes(stderr)
	reason := message(own)
	e := &Error{
		clierr.Failure{
			Verb:     verb,
			Client:   "kubectl",
			ExitCode: exit,
			Words:    message(stderr),
			Cause:    cause,
		},
		argv,
		cause == nil && slices.ContainsFunc(nobodyThere,
			func(words string) bool { return strings.Contains(reason, words) }),
	}
	if cause == nil {
		e.Class = Classify(own)
	} else if errors.Is(cause, context.DeadlineExceeded) && verb != "config" {
		e.Class = ErrDown
	}
	e.Advice = advice[e.Class]
	return e
}

// Unreached reports whether kubectl could not connect to the cluster, by its own words,
// so that this was asked for nothing.
func (e *Error) Unreached() bool { return e.unreached }

// nobodyThere are what kubectl says if it could not connect.
var nobodyThere = []string{"dial tcp", "was refused - did you specify", "x509: ", "TLS handshake"}

// Classify returns the sentinel that says what kubectl's message means, or nil if that is
// not known.
func Classify(stderr []byte) error { return classes.Classify(stderr) }

// maxWords is how much of kubectl's stderr an error has.
const maxWords = 4 << 10

// message returns kubectl's words as one line, without the log lines before them.
func message(stderr []byte) string {
	var kept []string
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimSpace(line)
		if line == "" || isLog(line) || strings.HasPrefix(line, "See 'kubectl ") ||
			slices.Contains(kept, line) {
			continue
		}
		for _, prefix := range []string{"error: ", "Error from server "} {
			line = strings.TrimPrefix(line, prefix)
		}
		kept = append(kept, line)
	}
	text := strings.Join(kept, "; ")
	if len(text) > maxWords {
		text = text[:maxWords/2] + text[len(text)-maxWords/2:]
	}
	return text
}

// withoutNotes returns kubectl's stderr without the lines that say nothing of its
// failure: its log, and warnings of the cluster, which are in anybody's words.
func withoutNotes(stderr []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(stderr) {
		if text := string(line); !isLog(text) && !strings.HasPrefix(text, "Warning: ") {
			kept = append(kept, line...)
		}
	}
	return kept
}

// isLog reports whether a line is one of kubectl's log, such as
// "E1126 17:00:00.000000   12 memcache.go:265] …".
func isLog(line string) bool {
	return len(line) > 5 && strings.ContainsRune("EIWF", rune(line[0])) &&
		strings.Trim(line[1:5], "0123456789") == "" &&
		line[5] == ' '
}
