package doctor_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
)

// -record NAME=PATH records what the clients on a PATH answer, as testdata/machines/NAME.
// There has to be a machine.txt.
var recordFlag = flag.String("record", "", "a machine, \"=\", and the PATH of the clients to record")

// Each directory is a machine: what its clients answer, and the report. README.md there
// says which are real.
func TestMachines(t *testing.T) {
	dirs, err := filepath.Glob("testdata/machines/*/machine.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(dirs) > 0)
	readme, err := os.ReadFile("testdata/machines/README.md")
	assert.NilError(t, err)
	toRecord, path, _ := strings.Cut(*recordFlag, "=")
	for _, file := range dirs {
		dir := filepath.Dir(file)
		machine := filepath.Base(dir)
		t.Run(machine, func(t *testing.T) {
			assert.Assert(t, strings.Contains(string(readme), "`"+machine+"`"), "README.md does not say where it is from")
			settings := readSettings(t, file)
			clients := strings.Fields(settings["CLIENTS"])
			bin := onPath(t, dir, clients...)
			for key, value := range settings {
				if name, ok := strings.CutPrefix(key, "ENV_"); ok {
					t.Setenv(name, value)
				}
			}
			try, transport := replayed(dir)
			if machine == toRecord {
				for _, name := range clients {
					assert.NilError(t, os.RemoveAll(filepath.Join(dir, name+".txt")))
				}
				t.Setenv(recordVar, path)
				try, transport = recorded(t, dir)
			}
			r, err := doctor.ExamineMachine(t.Context(), doctor.Options{}, cmp.Or(settings["GOOS"], "linux"), settings["text"],
				settings["ROOT"] != "", settings["SYSTEMD"] != "", try, transport)
			assert.NilError(t, err)
			for i := range r.Engines {
				for j := range r.Engines[i].Steps {
					r.Engines[i].Steps[j].Took = 0
				}
			}
			golden.Assert(t, strings.ReplaceAll(r.String(), bin, "/usr/bin"), "machines/"+machine+"/report.golden")
		})
	}
}

// readSettings reads a machine.txt, which is an os-release with more in it.
func readSettings(t *testing.T, file string) map[string]string {
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	settings := map[string]string{"text": string(text)}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[key] = strings.Trim(value, `"`)
		}
	}
	return settings
}

func section(e *dockercli.Engine, what string) string {
	return strings.Join(append(e.Global, what), " ")
}

// replayed returns what stands in for containers: the recorded steps, each a line of its
// name and maybe its error, and the recorded streams.
func replayed(dir string) (
	func(context.Context, *dockercli.Engine, string) ([]doctor.Step, error),
	func(context.Context, *dockercli.Engine) (string, string),
) {
	read := func(e *dockercli.Engine, what string) string {
		r, err := readRecording(filepath.Join(dir, filepath.Base(e.Path)+".txt"))
		if err != nil {
			return err.Error()
		}
		body, _, ok := r.find(section(e, what))
		if !ok {
			return what + ": not recorded"
		}
		return strings.TrimSpace(body)
	}
	try := func(_ context.Context, e *dockercli.Engine, _ string) (steps []doctor.Step, err error) {
		for line := range strings.Lines(read(e, "steps")) {
			name, failed, _ := strings.Cut(strings.TrimSpace(line), ": ")
			steps = append(steps, doctor.Step{Name: doctor.StepName(name), Error: failed})
			if failed != "" {
				err = errors.Join(err, errors.New(failed))
			}
		}
		return steps, err
	}
	transport := func(_ context.Context, e *dockercli.Engine) (name, why string) {
		name, why, _ = strings.Cut(read(e, "streams"), ": ")
		return name, why
	}
	return try, transport
}

// recorded returns what tries the real engine, and keeps that.
func recorded(t *testing.T, dir string) (
	func(context.Context, *dockercli.Engine, string) ([]doctor.Step, error),
	func(context.Context, *dockercli.Engine) (string, string),
) {
	_, path, _ := strings.Cut(*recordFlag, "=")
	add := func(e *dockercli.Engine, what, body string) {
		f, err := os.OpenFile(filepath.Join(dir, filepath.Base(e.Path)+".txt"), os.O_APPEND|os.O_WRONLY, 0)
		if assert.Check(t, err) {
			_, err = f.WriteString("== " + section(e, what) + "\n" + body + "\n")
			assert.Check(t, errors.Join(err, f.Close()))
		}
	}
	try := func(ctx context.Context, e *dockercli.Engine, image string) (steps []doctor.Step, err error) {
		var lines []string
		real := *e
		// The guard and the rest are no answers of a client.
		real.Path = clientOn(t, path, filepath.Base(e.Path))
		if real.Env == nil {
			real.Env = os.Environ()
		}
		real.Env = append(slices.Clone(real.Env), "PATH="+path, recordVar+"=", replayVar+"=")
		steps, err = doctor.Try(ctx, &real, image)
		for _, s := range steps {
			line := string(s.Name)
			if s.Error != "" {
				line += ": " + strings.Join(strings.Fields(s.Error), " ")
			}
			lines = append(lines, line)
		}
		add(e, "steps", strings.Join(lines, "\n"))
		return steps, err
	}
	transport := func(ctx context.Context, e *dockercli.Engine) (name, why string) {
		name, why = doctor.Transport(ctx, e)
		add(e, "streams", name+": "+why)
		return name, why
	}
	return try, transport
}

// clientOn returns a client's program on a PATH that is not this process's.
func clientOn(t *testing.T, path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Errorf("there is no %s on %s", name, path)
	return name
}
