//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/procgroup"
	"github.com/seed-64a260eb/cofferdam/testdata/image"
)

// version is that of Kubernetes, without the first number: v0.VERSION is that of the
// modules of its parts.
const version = "33.13"

// programs are those of Kubernetes.
var programs = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl",
}

// packages are the distribution's, from which programs are taken without installing
// them.
var packages = []string{
	"etcd-server", "containerd", "runc", "containernetworking-plugins",
}

// cacheDir returns the directory for all that is built and downloaded.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "cofferdam", "kubernetes-v1."+version)
	if isHidden(dir) {
		return "", fmt.Errorf("the cluster can't see %s: set XDG_CACHE_HOME", dir)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// fill builds and downloads what the cache lacks.
func fill(ctx context.Context, cache string, progress io.Writer) error {
	unlock, err := setup.Lock("kubernetes", false)
	if err != nil {
		return err
	}
	defer unlock()
	for _, thing := range []struct {
		name, title string
		make        func(ctx context.Context, to string) error
	}{
		{"bin", "Kubernetes, in five to fifteen minutes and, meanwhile, 5 GB", build},
		{"debian", "etcd, containerd, runc and CNI plugins, from packages", download},
		{"pause.tar", "the image of pods' sandboxes", makePause},
		{testImageFile(), "the tests' image, from packages", makeTestImage},
	} {
		path := filepath.Join(cache, thing.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		fmt.Fprintf(progress, "making %s\n", thing.title)
		begin := time.Now()
		if err := keep(ctx, path, thing.make); err != nil {
			return fmt.Errorf("making %s: %w", thing.name, err)
		}
		fmt.Fprintf(progress, "made within %v\n", time.Since(begin).Round(time.Second))
	}
	return nil
}

// keep has something made in a directory of its own, and moves it when it is whole.
// What is beside it there is removed.
func keep(ctx context.Context, path string,
	produce func(ctx context.Context, to string) error) error {
	temp := path + ".new"
	// The lock of fill says that nobody else makes it: it is of one who was killed.
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	made := filepath.Join(temp, "made")
	if err := produce(ctx, made); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// build builds Kubernetes from its Go module, in a module of its own with the versions of
// Kubernetes's go.mod. What is downloaded for that does not stay.
func build(ctx context.Context, to string) error {
	temp := filepath.Dir(to)
	env := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off",
		"GOFLAGS=-p=2 -mod=mod -buildvcs=false -modcacherw",
		"GOMODCACHE="+filepath.Join(temp, "modules"),
		"GOCACHE="+filepath.Join(temp, "cache"))
	source := filepath.Join(temp, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	run := func(words ...string) ([]byte, error) {
		return output(ctx, procgroup.Cmd{Dir: source, Env: env},
			slices.Concat([]string{"nice", "-n", "19", "go"}, words)...)
	}
	const module = "k8s.io/kubernetes"
	said, err := run("mod", "download", "-json", module+"@v1."+version)
	if err != nil {
		return err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(said, &downloaded); err != nil {
		return err
	}
	theirs, err := os.ReadFile(downloaded.GoMod)
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(source, "go.mod"), scratchModule(theirs), 0o600)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	const pkg = "k8s.io/component-base/version"
	minor, _, _ := strings.Cut(version, ".")
	flags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=v1.%[2]s -X %[1]s.gitMajor=1 "+
		"-X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=clean -X %[1]s.gitCommit=local",
		pkg, version, minor)
	words := []string{"build", "-trimpath", "-o", to + "/", "-ldflags", flags}
	for _, program := range programs {
		words = append(words, module+"/cmd/"+program)
	}
	_, err = run(words...)
	return err
}

// staged matches what Kubernetes replaces by a directory of its own repository. Those
// modules are published too.
var staged = regexp.MustCompile(
	`(?m)^\s*(?:replace\s+)?(k8s\.io/[a-z0-9-]+) => \./staging/`)

// scratchModule returns the go.mod of a module that can build Kubernetes, whose go.mod is
// given.
func scratchModule(theirs []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "module scratch\n\ngo 1.24.0\n\ngodebug default=go1.24\n\n"+
		"require k8s.io/kubernetes v1.%s\n\nreplace (\n", version)
	for _, match := range staged.FindAllSubmatch(theirs, -1) {
		fmt.Fprintf(&text, "\t%s => %[1]s v0.%s\n", match[1], version)
	}
	text.WriteString(")\n")
	return text.Bytes()
}

// download unpacks packages.
func download(ctx context.Context, to string) error {
	temp := filepath.Dir(to)
	get := func() error {
		// Root's downloads would otherwise run as a user who may not enter the directory.
		words := []string{"apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"}
		_, err := output(ctx, procgroup.Cmd{Dir: temp}, append(words, packages...)...)
		return err
	}
	if err := get(); err != nil {
		// The machine's package lists may be missing or out of date.
		_, err := output(ctx, procgroup.Cmd{}, "apt-get", "-qq", "update")
		if err != nil {
			return err
		}
		if err := get(); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := output(ctx, procgroup.Cmd{}, "dpkg", "-x", file, to); err != nil {
			return err
		}
	}
	return nil
}

func makePause(ctx context.Context, to string) error {
	temp := filepath.Dir(to)
	program := filepath.Join(temp, "pause")
	env := append(os.Environ(), "CGO_ENABLED=0")
	_, err := output(ctx, procgroup.Cmd{Env: env}, "go", "build", "-trimpath",
		"-ldflags=-s -w", "-o", program, module+"/internal/kubernetes/pause")
	if err != nil {
		return err
	}
	layer := filepath.Join(temp, "layer")
	_, err = output(ctx, procgroup.Cmd{}, "tar", "-cf", layer, "--owner=0", "--group=0",
		"-C", temp, "pause")
	if err != nil {
		return err
	}
	return archive(to, layer, pauseImage, imageConfig{Entrypoint: []string{"/pause"}})
}

// testImageFile holds a hash of the image's recipe.
func testImageFile() string {
	return "image-" + imageName()[strings.LastIndex(imageName(), ":")+1:] + ".tar"
}

// imageName returns the name of the tests' image.
func imageName() string { return setup.OfflineName() }

// makeTestImage follows the recipe, with a shell in the place of an engine that imports
// the root file system.
func makeTestImage(ctx context.Context, to string) error {
	layer := filepath.Join(filepath.Dir(to), "layer")
	_, err := output(ctx, procgroup.Cmd{}, "sh", "-c", image.Recipe, "build.sh",
		imageName(), "sh", "-c", `cat >"$0"`, layer)
	if err != nil {
		return err
	}
	return archive(to, layer, imageName(), imageConfig{
		Cmd: []string{"sh"},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		},
	})
}

type imageConfig struct {
	Entrypoint, Cmd, Env []string `json:",omitempty"`
}

// archive writes an image of one layer as docker save does.
func archive(to, layer, name string, config imageConfig) error {
	content, err := os.ReadFile(layer)
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	described, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config":   "config.json",
		"RepoTags": []string{name},
		"Layers":   []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"config.json", described}, {"layer.tar", content}, {"manifest.json", manifest}} {
		header := tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(file.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, all.Bytes(), 0o600)
}

// output runs a program to its end, and returns its stdout. Its stderr is in the error.
func output(ctx context.Context, c procgroup.Cmd, words ...string) ([]byte, error) {
	var err error
	if c.Path, err = exec.LookPath(words[0]); err != nil {
		return nil, err
	}
	c.Args = words
	var out, said bytes.Buffer
	state, err := procgroup.Output(ctx, c, &out, &said)
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	if err != nil {
		text := bytes.TrimSpace(said.Bytes())
		return nil, fmt.Errorf("%s: %w: %s", words[0], err, text[max(0, len(text)-2000):])
	}
	return out.Bytes(), nil
}
