package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// one examines one engine.
func one(t *testing.T, e *dockercli.Engine, o doctor.Options) *doctor.Engine {
	t.Helper()
	o.Engines = []*dockercli.Engine{e}
	r, err := doctor.Examine(t.Context(), o)
	assert.NilError(t, err)
	assert.Equal(t, len(r.Engines), 1)
	t.Logf("\n%s", r)
	return &r.Engines[0]
}

// problem returns the first problem whose name has the word.
func problem(t *testing.T, all []doctor.Problem, word string) doctor.Problem {
	t.Helper()
	for _, p := range all {
		if strings.Contains(p.Missing, word) {
			return p
		}
	}
	t.Fatalf("no problem names %q: %+v", word, all)
	return doctor.Problem{}
}

func TestEngineWorks(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		got := one(t, e.Engine, doctor.Options{Image: e.Image})
		assert.Assert(t, got.Works())
		var names []string
		for _, s := range got.Steps {
			names = append(names, string(s.Name))
		}
		assert.DeepEqual(t, names, []string{"answer", "info", "image", "start", "command", "deadline", "removal"})
		assert.Equal(t, got.Kind, e.Kind.String())
		assert.Equal(t, got.ServerVersion, e.ServerVersion)
		assert.Equal(t, got.Image, e.Image)
		assert.Assert(t, got.Info != nil && got.Info.CgroupVersion != "")
		assert.Assert(t, len(got.Versions) > 1, "%+v", got.Versions)
		for _, p := range got.Problems {
			assert.Check(t, !p.Blocks, "%+v", p)
		}
		// The image that is there is tried if the default one is not.
		assert.Assert(t, one(t, e.Engine, doctor.Options{}).Works())
	})
}

func TestEngineWithoutImage(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		const name = "localhost/cofferdam-nothing:1"
		got := one(t, e.Engine, doctor.Options{Image: name})
		assert.Assert(t, !got.Works())
		last := got.Steps[len(got.Steps)-1]
		assert.Equal(t, last.Name, doctor.StepImage)
		assert.Assert(t, last.Error != "")
		assert.Assert(t, cmp.Contains(problem(t, got.Problems, "image").Fix, " pull "+name))
	})
}

func TestFaults(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Beside(t)
	for name, c := range map[string]struct {
		faults  fakeengine.Faults
		step    doctor.StepName
		missing string
		blocks  bool
	}{
		"no image":         {fakeengine.Faults{ImageMissing: true}, doctor.StepImage, "an image", false},
		"a hanging info":   {fakeengine.Faults{Hang: []string{"info"}}, doctor.StepInfo, "in time", true},
		"a hanging client": {fakeengine.Faults{Hang: []string{fakeengine.Every}, IgnoreTerm: true}, doctor.StepAnswer, "in time", true},
		"a hanging run":    {fakeengine.Faults{Hang: []string{"run"}}, doctor.StepStart, "a session that starts", true},
		"a runtime that fails": {fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": {Exit: 125, Stderr: "docker: Error response from daemon: OCI runtime create failed"}}},
			doctor.StepStart, "a session that starts", true},
		"a removal that can't be seen": {fakeengine.Faults{Fail: map[string]fakeengine.Failure{"container inspect": {Exit: 1, Stderr: "sorry"}}},
			doctor.StepRemoval, "the removal", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fakeengine.New(t, dockercli.Docker, c.faults)
			begun := time.Now()
			o := doctor.Options{Timeout: 2 * time.Minute}
			if c.faults.Hang != nil {
				o.Timeout = 12 * time.Second
			}
			got := one(t, e.Engine, o)
			if c.faults.Hang != nil {
				// What was started may take 10 s more to be removed, and clients to be
				// killed.
				assert.Assert(t, time.Since(begun) < time.Minute)
			}
			assert.Assert(t, !got.Works())
			p := problem(t, got.Problems, c.missing)
			assert.Equal(t, p.Blocks, c.blocks)
			assert.Equal(t, got.Problems[0].Blocks, c.blocks)
			assert.Assert(t, p.Means != "" && p.Fix != "", "%+v", p)
			for _, s := range got.Steps {
				assert.Equal(t, s.Error != "", s.Name == c.step, "%+v", s)
			}
			// Where nothing hangs on, fakeengine fails the test if anything is left.
			e.Set(fakeengine.Faults{})
		})
	}
}

// A client may hang, or print without end, wherever it is asked.
func TestClientsThatHang(t *testing.T) {
	enginetest.Beside(t)
	answers := "== --version\nDocker version 28.2.2, build e6534b4\n== probe\n28.2.2 6.1.0\n== context inspect\nunix:///var/run/docker.sock\n"
	for name, c := range map[string]struct {
		answers string
		missing string
	}{
		"context ls hangs":  {answers + "== context ls hang\n== info 1\nno\n", "docker context ls"},
		"context ls floods": {answers + "== context ls flood\ncontext \"a\" true \"b\"\n== info 1\nno\n", "docker context ls"},
		"info floods":       {answers + "== context ls\n== info flood\nversion \"1\"\n", "in time"},
		"a context hangs": {answers + "== context ls\ncontext \"far\" false \"tcp://192.0.2.1:2376\"\n== --context far --version hang\n== info 1\nno\n",
			"in time"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker.txt"), []byte(c.answers), 0o600))
			onPath(t, dir, "docker")
			begun := time.Now()
			r, err := doctor.Examine(t.Context(), doctor.Options{Timeout: 7 * time.Second})
			assert.NilError(t, err)
			assert.Assert(t, time.Since(begun) < 40*time.Second)
			all := r.Problems
			for _, e := range r.Engines {
				all = append(all, e.Problems...)
			}
			p := problem(t, all, c.missing)
			assert.Assert(t, p.Fix != "")
			text, err := json.Marshal(r)
			assert.NilError(t, err)
			assert.Assert(t, len(text) < 64<<10, "%d bytes", len(text))
		})
	}
}

// The report is given up with the context, and what it had started is gone.
func TestContextEnds(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Beside(t)
	e := fakeengine.New(t, dockercli.Podman, fakeengine.Faults{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for len(e.Containers()) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel(why)
	}()
	r, err := doctor.Examine(ctx, doctor.Options{Engines: []*dockercli.Engine{e.Engine}})
	assert.ErrorIs(t, err, why)
	// What may be left is known.
	assert.Assert(t, len(r.Engines) == 1)
	assert.DeepEqual(t, e.Containers(), []string(nil))
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := doctor.Examine(t.Context(), doctor.Options{Timeout: -1})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
}

// COFFERDAM_ENGINE is looked at first, and one that can't be is named.
func TestEngineOfTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker.txt"), []byte("== --version 1\nno\n== context ls 1\nno\n"), 0o600))
	onPath(t, dir, "docker")
	t.Setenv(dockercli.EngineVar, "docker --context ci")
	r, err := doctor.Examine(t.Context(), doctor.Options{})
	assert.NilError(t, err)
	assert.Equal(t, len(r.Engines), 2)
	assert.Assert(t, cmp.Contains(r.Engines[0].Client, "--context ci"))
	assert.Assert(t, cmp.Contains(r.FindError, dockercli.EngineVar))

	t.Setenv(dockercli.EngineVar, "nosuchclient")
	r, err = doctor.Examine(t.Context(), doctor.Options{})
	assert.NilError(t, err)
	assert.Assert(t, problem(t, r.Problems, dockercli.EngineVar).Blocks)
	assert.Equal(t, len(r.Engines), 1)
}

// No more engines are looked at than there may be, however many contexts there are.
func TestManyContexts(t *testing.T) {
	dir := t.TempDir()
	answers := "== --version 1\nno\n== context ls\n"
	for i := range 100 {
		answers += fmt.Sprintf("context \"c%d\" false \"unix:///x\"\n", i)
	}
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker.txt"), []byte(answers), 0o600))
	onPath(t, dir, "docker")
	r, err := doctor.Examine(t.Context(), doctor.Options{})
	assert.NilError(t, err)
	assert.Equal(t, len(r.Engines), 16)
	problem(t, r.Problems, "85 more contexts or connections")
}

// That a client does not list its contexts is a problem, unless it is a podman.
func TestContextsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ answer, means string }{
		"refused":  {" 1\nno permission", "no permission"},
		"nonsense": {"\ncontext nonsense", "its files: "},
		"podman":   {" 125\nError: unrecognized command `podman context ls`", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			answers := "== --version 1\nno\n== context ls" + c.answer + "\n"
			assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker.txt"), []byte(answers), 0o600))
			onPath(t, dir, "docker")
			r, err := doctor.Examine(t.Context(), doctor.Options{})
			assert.NilError(t, err)
			assert.Equal(t, len(r.Engines), 1)
			if c.means == "" {
				assert.Equal(t, len(r.Problems), 0, "%+v", r.Problems)
				return
			}
			p := problem(t, r.Problems, "docker context ls")
			assert.Assert(t, cmp.Contains(p.Means, c.means))
			assert.Assert(t, !p.Blocks && p.Fix != "")
		})
	}
}

// An image in which no session starts, for whatever reason, is followed by the next.
func TestImagesOfWhichOneStarts(t *testing.T) {
	answers := "== --version\nDocker version 28.2.2, build e6534b4\n== probe\n28.2.2 6.1.0\n== context ls\n" +
		"== context inspect\nunix:///var/run/docker.sock\n== info\nversion \"28.2.2\"\n" +
		"== components\ncomponent \"Engine\" \"28.2.2\"\n" +
		"== image inspect 1\nError response from daemon: No such image\n" +
		"== images\nimage \"a\" \"1\"\nimage \"b\" \"1\"\nimage \"c\" \"1\"\nimage \"d\" \"1\"\n"
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "docker.txt"), []byte(answers), 0o600))
	onPath(t, dir, "docker")
	plain := errors.New("cp: not found")
	for name, c := range map[string]struct {
		failed map[string]error // by the image
		step   doctor.StepName  // that fails
		tried  int
		works  bool
		over   string // the image with which the time is over
	}{
		"the first":        {nil, doctor.StepStart, 1, true, ""},
		"the second":       {map[string]error{"a:1": plain}, doctor.StepStart, 2, true, ""},
		"none":             {map[string]error{"a:1": plain, "b:1": plain, "c:1": plain}, doctor.StepStart, 3, false, ""},
		"one that is left": {map[string]error{"a:1": execpolicy.ErrStillThere}, doctor.StepStart, 1, false, ""},
		"a command":        {map[string]error{"a:1": plain}, doctor.StepCommand, 1, false, ""},
		"no time":          {map[string]error{"a:1": plain, "b:1": context.Canceled}, doctor.StepStart, 2, false, "b:1"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var tried []string
			try := func(_ context.Context, _ *dockercli.Engine, image string) ([]doctor.Step, error) {
				tried = append(tried, image)
				if image == c.over {
					cancel()
				}
				start, end := doctor.Step{Name: doctor.StepStart}, doctor.Step{Name: doctor.StepRemoval}
				failed := c.failed[image]
				switch {
				case failed == nil:
					return []doctor.Step{start, end}, nil
				case c.step == doctor.StepStart:
					start.Error = failed.Error()
					return []doctor.Step{start}, failed
				}
				return []doctor.Step{start, {Name: c.step, Error: failed.Error()}, end}, failed
			}
			transport := func(context.Context, *dockercli.Engine) (name, why string) { return "fifo", "" }
			r, err := doctor.ExamineMachine(ctx, doctor.Options{}, "linux", "", false, false, try, transport)
			assert.Assert(t, err == nil || c.over != "", "%v", err)
			assert.Equal(t, len(r.Engines), 1)
			e := r.Engines[0]
			t.Logf("\n%s", r)
			assert.Equal(t, e.Works(), c.works)
			assert.Equal(t, len(tried), c.tried, "%q", tried)
			told := tried[len(tried)-1]
			if told == c.over {
				told = tried[len(tried)-2]
				assert.Equal(t, e.Steps[len(e.Steps)-1].Error, plain.Error())
			}
			assert.Equal(t, e.Image, told)
			for _, s := range e.Steps {
				assert.Equal(t, s.Error != "", !c.works && s.Name == c.step, "%+v", s)
			}
		})
	}
}

// A connection that podman's client uses anyway is looked at once, and each other one
// too.
func TestConnectionsInUse(t *testing.T) {
	dir := t.TempDir()
	answers := "== --version 1\nno\n== system connection list\ncontext \"far\" true \"ssh://x\"\ncontext \"near\" false \"unix:///x\"\n"
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "podman.txt"), []byte(answers), 0o600))
	onPath(t, dir, "podman")
	const far, near = "podman --connection far", "podman --connection near"
	for _, c := range []struct {
		goos, variables string
		want            []string
	}{
		{"linux", "", []string{"podman", far, near}},
		{"darwin", "", []string{"podman", near}},
		{"linux", "CONTAINER_CONNECTION", []string{"podman", far}},
		{"darwin", "CONTAINER_HOST", []string{"podman", far, near}},
		{"linux", "CONTAINER_HOST CONTAINER_CONNECTION", []string{"podman", far, near}},
	} {
		t.Run(c.goos+" "+c.variables, func(t *testing.T) {
			for _, name := range strings.Fields(c.variables) {
				t.Setenv(name, "near")
			}
			r, err := doctor.ExamineMachine(t.Context(), doctor.Options{}, c.goos, "", false, false, nil, nil)
			assert.NilError(t, err)
			var names []string
			for _, e := range r.Engines {
				names = append(names, e.Name)
			}
			assert.DeepEqual(t, names, c.want)
		})
	}
}

// A connection's engine is the one that is asked, whatever the environment names.
func TestConnectionsAreAsked(t *testing.T) {
	dir := t.TempDir()
	answers := "== system connection list\ncontext \"far\" false \"ssh://x\"\ncontext \"near\" false \"unix:///x\"\n"
	for version, flag := range []string{"", "--connection far ", "--connection near "} {
		answers += fmt.Sprintf("== %s--version\npodman version 4.3.1\n== %[1]sprobe\n%d true false 6.1.0\nv2 \n== %[1]sinfo 1\nno\n", flag, version)
	}
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "podman.txt"), []byte(answers), 0o600))
	onPath(t, dir, "podman")
	for _, c := range []struct {
		host, connection string
		want             []string
	}{
		{"", "", []string{"0", "1", "2"}},
		{"unix:///y", "", []string{"0", "1", "2"}},
		{"", "near", []string{"0", "1"}},
		{"unix:///y", "near", []string{"0", "1", "2"}},
	} {
		t.Run(c.host+" "+c.connection, func(t *testing.T) {
			if c.host != "" {
				t.Setenv("CONTAINER_HOST", c.host)
			}
			if c.connection != "" {
				t.Setenv("CONTAINER_CONNECTION", c.connection)
			}
			r, err := doctor.Examine(t.Context(), doctor.Options{})
			assert.NilError(t, err)
			var versions []string
			for _, e := range r.Engines {
				versions = append(versions, e.ServerVersion)
			}
			assert.DeepEqual(t, versions, c.want)
		})
	}
}

// What an engine says moves no cursor, ends no line and is bounded.
func TestTextIsPrintable(t *testing.T) {
	bad := "\x1b[2J\r\nroot#\u202e" + strings.Repeat("x", 5000)
	r := doctor.Report{Found: bad, Problems: []doctor.Problem{{Missing: bad, Means: bad, Fix: bad}}, Engines: []doctor.Engine{{
		Name: bad, Kind: bad, Client: bad, Transport: bad, TransportWhy: bad, Image: bad, Info: &dockercli.Info{CgroupVersion: bad, DefaultRuntime: bad},
		Versions: []dockercli.Component{{Name: bad, Version: bad}}, Steps: []doctor.Step{{Name: doctor.StepStart, Error: bad}}}}}
	for line := range strings.Lines(r.String()) {
		assert.Check(t, !strings.HasPrefix(line, "root#"))
		line = strings.TrimSuffix(line, "\n")
		assert.Check(t, !strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%.80q", line)
		assert.Check(t, len(line) < 10_000)
	}
}

func TestReportIsJSON(t *testing.T) {
	r := &doctor.Report{Found: "docker", Engines: []doctor.Engine{{Name: "docker", Info: &dockercli.Info{Runtimes: []string{"runc"}},
		Steps: []doctor.Step{{Name: doctor.StepRemoval, Took: time.Second}}, Problems: []doctor.Problem{{Missing: "a", Blocks: true}}}}}
	text, err := json.Marshal(r)
	assert.NilError(t, err)
	back := new(doctor.Report)
	assert.NilError(t, json.Unmarshal(text, back))
	assert.DeepEqual(t, back, r)
}

func FuzzInstall(f *testing.F) {
	f.Add("ID=debian\n")
	f.Add("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n")
	f.Add("ID='")
	f.Fuzz(func(t *testing.T, release string) {
		got := doctor.Install("linux", release)
		// Nothing of the file gets into a command.
		known := []string{"# install podman", "sudo apt-get install -y podman", "sudo dnf install -y podman", "sudo apk add -u podman",
			"sudo pacman -S --noconfirm podman", "sudo zypper install -y podman"}
		for _, k := range known {
			if got == k {
				return
			}
		}
		t.Errorf("%q", got)
	})
}

func TestInstall(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\n": "sudo apt-get install -y podman",
		"NAME=x\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n": "sudo dnf install -y podman",
		"ID=alpine": "sudo apk add -u podman",
		"ID=plan9":  "# install podman",
		"":          "# install podman",
	} {
		assert.Equal(t, doctor.Install("linux", release), want, release)
	}
	assert.Equal(t, doctor.Install("darwin", ""), "brew install podman")
}
