package dockercli_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
)

// The engines read the value with this parser.
func FuzzMountValue(f *testing.F) {
	for _, seed := range []string{"/plain", "/a,b", "/a:b", `/"q"`, "/new\nline", "/cr\rx", "/cr\r\nx", "/ ",
		"/é", "relative", `C:\x`, "/a=b", "/\"", "/,,\""} {
		f.Add(seed, "/target", false)
		f.Add("/source", seed, true)
	}
	f.Fuzz(func(t *testing.T, source, target string, writable bool) {
		value, err := dockercli.MountValue(dockercli.Mount{Source: source, Target: target, Writable: writable})
		if err != nil {
			assert.ErrorIs(t, err, dockercli.ErrArgument)
			return
		}
		r := csv.NewReader(strings.NewReader(value))
		fields, err := r.Read()
		assert.NilError(t, err)
		want := []string{"type=bind", "source=" + source, "target=" + target}
		if !writable {
			want = append(want, "readonly")
		}
		assert.DeepEqual(t, fields, want)
	})
}
