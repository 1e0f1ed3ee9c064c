package container

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// A container whose time is over by one of two clocks that differ is left alone.
func TestSweepGoesByBothClocks(t *testing.T) {
	for _, c := range []struct {
		its     time.Duration // how far the engine's clock is ahead
		over    time.Duration // how long the time has been over, by this machine's clock
		removes bool
	}{
		{0, time.Minute, true},
		{-24 * time.Hour, time.Hour, false},
		{-time.Hour, 2 * time.Hour, true},
		{24 * time.Hour, -time.Hour, false},
		{24 * time.Hour, time.Minute, true},
	} {
		dir := t.TempDir()
		client := filepath.Join(dir, "docker")
		script := fmt.Sprintf(`#!/bin/sh
cd %q || exit
case $* in
*SystemTime*) echo %s ;;
ps*) echo cofferdam-old ;;
*inspect*)
	[ ! -e removed ] || { echo 'Error: No such container: x' >&2; exit 1; }
	echo 'id "0123"'; echo 'name "/cofferdam-old"'; echo 'status "exited"'; echo 'pids ""'
	echo 'label "cofferdam.name" "cofferdam-old"'; echo 'label "cofferdam.keep" "false"'
	echo 'label "cofferdam.expires" "%d"' ;;
rm*) echo >removed ;;
esac
`, dir, time.Now().Add(c.its).UTC().Format(time.RFC3339Nano), time.Now().Add(-c.over).Unix())
		assert.NilError(t, os.WriteFile(client, []byte(script), 0o700))
		removed, err := Sweep(t.Context(), &dockercli.Engine{Path: client, Remote: true})
		assert.NilError(t, err)
		assert.Equal(t, len(removed) == 1, c.removes, "%+v", c)
		_, err = os.Stat(filepath.Join(dir, "removed"))
		assert.Equal(t, err == nil, c.removes, "%+v", c)
	}
}
