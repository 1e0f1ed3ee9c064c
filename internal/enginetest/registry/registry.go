// Package registry is a registry of images on this machine's loopback, for tests of
// pulls. Docker takes one there without TLS, and podman if a file tells it to.
package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

const (
	indexType    = "application/vnd.docker.distribution.manifest.list.v2+json"
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// A Registry serves the images that were added to it.
type Registry struct {
	host string

	mu    sync.Mutex
	blobs map[string]blob // by digest and, for a manifest, by "repository:tag"
	asked []string
	ids   []string // of all images
	gate  chan struct{}
}

type blob struct {
	mediaType string
	data      []byte
}

// An Image is one that was added.
type Image struct {
	// Ref names it by its tag, and Digest by its digest.
	Ref, Digest string
	// IDs are those of its configurations, by platform.
	IDs map[string]string
	// Layers are the digests of its layers, the first one lowest.
	Layers []string
}

// Start starts a registry that ends with the test.
func Start(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{blobs: map[string]blob{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Cleanup(r.Open)
	r.host = server.Listener.Addr().String()
	return r
}

// Engine returns the engine with the settings that it needs for this registry. What it
// has pulled is removed with the test.
func (r *Registry) Engine(t testing.TB, e enginetest.Engine) enginetest.Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registries.conf")
	text := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", r.host)
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
	engine := *e.Engine
	if engine.Env == nil {
		engine.Env = os.Environ()
	}
	engine.Env = append(slices.Clip(engine.Env), "CONTAINERS_REGISTRIES_CONF="+path)
	e.Engine = &engine
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, id := range r.ids {
			// Most have not been pulled, or are gone.
			remove := exec.Command(e.Path, slices.Concat(e.Global, []string{"rmi", "--force", id})...)
			remove.Env = e.Env
			_ = remove.Run()
		}
	})
	return e
}

// Add adds an image of that name and tag, such as "test:1", for each of the platforms. If
// there are none, it is this machine's. Each layer has one file with the text.
func (r *Registry) Add(t testing.TB, name string, platforms []string, layers ...string) Image {
	t.Helper()
	if platforms == nil {
		platforms = []string{"linux/" + runtime.GOARCH}
	}
	image := Image{Ref: r.host + "/" + name, IDs: map[string]string{}}
	var ids []string
	var stored []object
	for i, text := range layers {
		data := archive(t, fmt.Sprintf("layer%d", i), text)
		zipped := compress(t, data)
		ids = append(ids, digest(data))
		stored = append(stored, r.put(layerType, zipped))
		image.Layers = append(image.Layers, digest(zipped))
	}
	var manifests []object
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "/")
		config := r.put(configType, encode(t, object{"os": system, "architecture": arch,
			"config": object{"Cmd": []string{"/layer0"}}, "rootfs": object{"type": "layers", "diff_ids": ids}}))
		image.IDs[platform] = config["digest"].(string)
		manifest := r.put(manifestType, encode(t, object{"schemaVersion": 2, "mediaType": manifestType, "config": config,
			"layers": stored}))
		manifest["platform"] = object{"os": system, "architecture": arch}
		manifests = append(manifests, manifest)
	}
	index := encode(t, object{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests})
	r.put(indexType, index)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[name] = blob{indexType, index}
	r.ids = slices.AppendSeq(r.ids, maps.Values(image.IDs))
	repository, _, _ := strings.Cut(name, ":")
	image.Digest = r.host + "/" + repository + "@" + digest(index)
	return image
}

// Asked returns the requests so far for a manifest by its tag, as "repository:tag".
func (r *Registry) Asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// Shut lets what is in layers wait until Open.
func (r *Registry) Shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

// Open ends what Shut began.
func (r *Registry) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		close(r.gate)
		r.gate = nil
	}
}

// ServeHTTP answers as the specification of OCI's distribution has it, for pulls.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	r.mu.Lock()
	gate := r.gate
	var b blob
	var found bool
	if repository, ref, ok := strings.Cut(path, "/manifests/"); ok {
		if !strings.Contains(ref, ":") {
			ref = repository + ":" + ref
			r.asked = append(r.asked, ref)
		}
		b, found = r.blobs[ref]
	} else if _, ref, ok := strings.Cut(path, "/blobs/"); ok {
		b, found = r.blobs[ref]
	}
	r.mu.Unlock()
	switch {
	case path == "":
		w.WriteHeader(http.StatusOK)
		return
	case !found:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}`))
		return
	}
	w.Header().Set("Content-Type", b.mediaType)
	w.Header().Set("Content-Length", fmt.Sprint(len(b.data)))
	w.Header().Set("Docker-Content-Digest", digest(b.data))
	if q.Method == http.MethodHead {
		return
	}
	if gate != nil && b.mediaType == layerType {
		w.(http.Flusher).Flush() // podman tells of a layer then
		select {
		case <-gate:
		case <-q.Context().Done():
			return
		}
	}
	_, _ = w.Write(b.data)
}

type object map[string]any

// put stores data and returns how a manifest names it.
func (r *Registry) put(mediaType string, data []byte) object {
	d := digest(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[d] = blob{mediaType, data}
	return object{"mediaType": mediaType, "size": len(data), "digest": d}
}

func digest(data []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	assert.NilError(t, err)
	return data
}

func archive(t testing.TB, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	assert.NilError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, w.Close())
	return b.Bytes()
}

func compress(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	assert.NilError(t, err)
	assert.NilError(t, w.Close())
	return b.Bytes()
}
