package kubectl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/internal/clierr"
	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

// recorded says what the messages in testdata/recorded mean, which are those of kubectl
// and Kubernetes 1.33.
var recorded = map[string]error{
	"attach-flag-unknown":     kubectl.ErrTooOld,
	"attach-forbidden":        kubectl.ErrPermission,
	"attach-missing":          kubectl.ErrNotFound,
	"attach-pending":          nil,
	"config-broken":           kubectl.ErrNoCluster,
	"config-context-unknown":  kubectl.ErrNoCluster,
	"config-no-context":       kubectl.ErrNoCluster,
	"config-no-file":          kubectl.ErrNoCluster,
	"create-exists":           kubectl.ErrNameInUse,
	"create-forbidden":        kubectl.ErrPermission,
	"create-invalid":          kubectl.ErrArgument,
	"create-limitrange":       kubectl.ErrAdmission,
	"create-not-json":         kubectl.ErrArgument,
	"create-podsecurity":      kubectl.ErrAdmission,
	"create-quota":            kubectl.ErrQuota,
	"create-quota-unnamed":    kubectl.ErrQuota,
	"create-runtime-class":    kubectl.ErrAdmission,
	"delete-conflict":         kubectl.ErrOther,
	"delete-missing":          kubectl.ErrNotFound,
	"get-bad-certificate":     kubectl.ErrDown,
	"get-context-unknown":     kubectl.ErrNoCluster,
	"get-forbidden":           kubectl.ErrPermission,
	"get-missing":             kubectl.ErrNotFound,
	"get-namespace-missing":   kubectl.ErrNotFound,
	"get-no-credentials":      kubectl.ErrLoggedOut,
	"get-no-host":             kubectl.ErrDown,
	"get-no-server":           kubectl.ErrDown,
	"get-plugin-failed":       kubectl.ErrLoggedOut,
	"get-plugin-missing":      kubectl.ErrLoggedOut,
	"get-refused":             kubectl.ErrDown,
	"get-unauthorized":        kubectl.ErrLoggedOut,
	"list-policies-forbidden": kubectl.ErrPermission,
}

// described are messages that the sources of kubectl have, and that were not recorded.
var described = map[string]error{
	"error: unknown shorthand flag: 'q' in -q":                                                                     kubectl.ErrTooOld,
	`Error from server: admission webhook "policy.example" denied the request: no pods today`:                      kubectl.ErrAdmission,
	`Error from server (InternalError): Internal error occurred: failed calling webhook "policy.example"`:          kubectl.ErrAdmission,
	"Error from server (ServiceUnavailable): the server is currently unable to handle the request":                 kubectl.ErrDown,
	"Error from server (InternalError): etcdserver: leader changed":                                                kubectl.ErrDown,
	"Error from server (Timeout): the server was unable to return a response in the time allotted":                 kubectl.ErrDown,
	"Error from server (TooManyRequests): the server has received too many requests and has asked us to try later": kubectl.ErrDown,
	"Error from server: error dialing backend: dial tcp 10.0.0.1:10250: connect: no route to host":                 kubectl.ErrDown,
	"error: unexpected EOF": kubectl.ErrDown,
	"error: read tcp 10.0.0.1:1->10.0.0.2:443: read: connection reset by peer": kubectl.ErrDown,
	// A proxy on the way says this, of a pod that may be there.
	"Error from server (NotFound): the server could not find the requested resource":                        nil,
	`Error from server (Conflict): Operation cannot be fulfilled on pods "a": the object has been modified`: nil,
	"":      nil,
	"hello": nil,
}

func read(t *testing.T, name string) (exit int, stderr []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded/" + name + ".txt")
	assert.NilError(t, err)
	first, rest, _ := strings.Cut(string(text), "\n")
	exit, err = strconv.Atoi(strings.TrimPrefix(first, "exit "))
	assert.NilError(t, err)
	return exit, []byte(rest)
}

func TestClassify(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txt")
	assert.NilError(t, err)
	assert.Equal(t, len(files), len(recorded))
	var texts []string
	for name, want := range recorded {
		_, stderr := read(t, name)
		assert.Check(t, kubectl.Classify(stderr) == want, "%s: %v", name,
			kubectl.Classify(stderr))
		texts = append(texts, strings.ToLower(string(stderr)))
	}
	for text, want := range described {
		assert.Check(t, kubectl.Classify([]byte(text)) == want, "%s: %v", text,
			kubectl.Classify([]byte(text)))
		texts = append(texts, strings.ToLower(text))
	}
	for _, row := range kubectl.Classes {
		needed := slices.ContainsFunc(texts,
			func(text string) bool { return clierr.SaysAll(text, row.Words) })
		assert.Check(t, needed, "no message has %q", row.Words)
	}
}

// Only of what is known to be gone, or never to have been asked for, is that said.
func TestWhatErrorsProve(t *testing.T) {
	for name := range recorded {
		exit, stderr := read(t, name)
		err := kubectl.NewError("get", nil, exit, stderr, nil)
		assert.Check(t, kubectl.IsGone(err) == slices.Contains([]string{
			"attach-missing",
			"delete-conflict",
			"delete-missing",
			"get-missing",
			"get-namespace-missing",
		}, name), name)
		assert.Check(t, err.Unreached() == slices.Contains([]string{
			"get-bad-certificate", "get-no-host", "get-no-server", "get-refused"}, name), name)
	}
	cut := kubectl.NewError("create", nil, -1, []byte("dial tcp"), context.Canceled)
	assert.Assert(t, !cut.Unreached())
	assert.Assert(t, errors.Is(cut, context.Canceled))
	assert.Assert(
		t,
		errors.Is(kubectl.NewError("get", nil, -1, nil, context.DeadlineExceeded),
			kubectl.ErrDown),
	)
	// That asks no cluster.
	slow := kubectl.NewError("config", nil, -1, nil, context.DeadlineExceeded)
	assert.Assert(t, !errors.Is(slow, kubectl.ErrDown))
}

func TestErrorText(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"create-quota", "get-unauthorized", "get-plugin-missing", "config-no-context", "attach-pending"} {
		exit, stderr := read(t, name)
		verb, _, _ := strings.Cut(name, "-")
		all.WriteString(
			kubectl.NewError(verb, nil, exit, append([]byte("E1126 17:00:00.000000   12 memcache.go:265] noise\n"), stderr...), nil).
				Error() +
				"\n",
		)
	}
	golden.Assert(t, all.String(), "errors.golden")
}

func FuzzNewError(f *testing.F) {
	for name := range recorded {
		text, err := os.ReadFile("testdata/recorded/" + name + ".txt")
		assert.NilError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, stderr []byte) {
		err := kubectl.NewError("get", nil, 1, stderr, nil)
		assert.Assert(t, !strings.Contains(err.Words, "\n") && len(err.Words) <= 4<<10)
		assert.Assert(t, err.Error() != "")
	})
}

// What is about the watch itself is no word about a pod.
func TestWatchSaysSomethingElse(t *testing.T) {
	var objects []string
	e := kubectl.NewEvents(func(object []byte) bool {
		objects = append(objects, string(object))
		return false
	})
	for _, line := range []string{`{"type":"BOOKMARK","object":{"a":0}}`, `{"kind":"Status"}`, `{"type":"ERROR","object":{}}`,
		`{"type":"MODIFIED","object":{"a":1}}`, `{"type":"DELETED","object":{"a":1}}`} {
		_, err := e.Write([]byte(line + "\n"))
		assert.NilError(t, err)
	}
	assert.DeepEqual(t, objects, []string{`{"a":1}`, ""})
}

// A watch is read alike however its lines come apart.
func FuzzWatch(f *testing.F) {
	f.Add(
		[]byte(
			`{"type":"ADDED","object":{"a":1}}`+"\n"+`{"type":"DELETED","object":{}}`+"\n",
		),
		3,
	)
	f.Add([]byte("{}\n\n"), 1)
	f.Add([]byte(`{"type":"ERROR"}`+"\nx"), 7)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		take := func(n int) (objects []string, failed bool) {
			e := kubectl.NewEvents(func(object []byte) bool {
				objects = append(objects, string(object))
				return len(objects) == 3
			})
			for rest := text; len(rest) > 0; {
				k := min(max(n, 1), len(rest))
				if _, err := e.Write(rest[:k]); err != nil {
					return objects, true
				}
				rest = rest[k:]
			}
			return objects, false
		}
		whole, failed := take(len(text))
		parts, failedToo := take(n)
		assert.DeepEqual(t, whole, parts)
		assert.Equal(t, failed, failedToo)
	})
}
