package setup

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

func TestPullIsBoundAndTold(t *testing.T) {
	const podman = "echo 'Trying to pull registry.example/image...' >&2; "
	for name, c := range map[string]struct {
		script          string
		answered, whole time.Duration
		err             string
	}{
		"it comes": {podman + "echo 'Copying blob' >&2; echo done", time.Hour, time.Hour, ""},
		"no registry": {podman + "exec sleep 1000", time.Millisecond, time.Hour,
			"no registry answered within 1ms"},
		"the registry is slow": {podman + "echo 'Copying blob' >&2; exec sleep 1000", time.Hour,
			time.Second, "it did not come within 1s"},
		"the registry has no such name": {"echo 'manifest unknown' >&2; exit 1", time.Hour, time.Hour, "manifest unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "client")
			assert.NilError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
			// What another test starts while the file is written holds it open for a
			// moment, and it could not be run.
			t.Parallel()
			var progress bytes.Buffer
			err := pull(t.Context(), &dockercli.Engine{Path: program, Kind: dockercli.Docker}, "image", &progress,
				c.answered, c.whole)
			assert.Check(t, cmp.Contains(progress.String(), "pulling image into client\n"))
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			assert.Check(t, cmp.Contains(progress.String(), "Trying to pull"))
			assert.Check(t, cmp.Contains(progress.String(), "done\n"))
		})
	}
}

func TestRegistrysAnswerIsKnown(t *testing.T) {
	for said, answered := range map[string]bool{
		"Trying to pull docker.io/library/python...\n":  false,
		"Getting image source signatures\nCopying blob": true,
		"3.12: Pulling from library/python\n":           true,
	} {
		timer := time.AfterFunc(time.Hour, func() {})
		_, err := (&answer{io.Discard, timer}).Write([]byte(said))
		assert.NilError(t, err)
		assert.Equal(t, timer.Stop(), !answered, said)
	}
}
