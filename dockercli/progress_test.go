package dockercli_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// pullEvents are the events of what an engine has printed, a line each.
func pullEvents(t testing.TB, r io.Reader) string {
	t.Helper()
	var told strings.Builder
	_, err := io.Copy(dockercli.PullEvents(func(e dockercli.PullEvent) {
		name := strings.TrimPrefix(e.Layer, "sha256:")
		fmt.Fprintf(&told, "%.4s %v %d/%d\n", name, e.State, e.Done, e.Layers)
	}), r)
	assert.NilError(t, err)
	return told.String()
}

// The texts are what docker 20.10 and podman 4.3 have printed without a terminal, both
// streams in one.
func TestPullEvents(t *testing.T) {
	for name, want := range map[string]string{
		"docker": "c5bd pulling 0/1\nc274 pulling 0/2\n47e9 pulling 0/3\n47e9 downloaded 0/3\nc274 downloaded 0/3\n" +
			"c5bd downloaded 0/3\nc5bd done 1/3\nc274 done 2/3\n47e9 done 3/3\n",
		"docker-exists":  "c5bd done 1/1\nc274 done 2/2\n47e9 done 3/3\n",
		"docker-current": "",
		"podman": "4cff pulling 0/1\n47e9 pulling 0/2\na73d pulling 0/3\n" +
			"4cff done 1/3\n47e9 done 2/3\na73d done 3/3\n",
		"podman-missing": "",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/pull/" + name + ".txt")
			assert.NilError(t, err)
			assert.Equal(t, pullEvents(t, strings.NewReader(string(text))), want)
			assert.Equal(t, pullEvents(t, iotest.OneByteReader(strings.NewReader(string(text)))), want)
			crlf := strings.ReplaceAll(string(text), "\n", "\r\n")
			assert.Equal(t, pullEvents(t, strings.NewReader(crlf)), want)
			// A pull that follows counts anew.
			assert.Equal(t, pullEvents(t, strings.NewReader(string(text)+string(text))), want+want)
		})
	}
}

// Whatever is printed, what is kept of it and told is bounded.
func TestPullEventsAreBounded(t *testing.T) {
	const tells = "0123456789ab: Pull complete\n"
	assert.Equal(t, pullEvents(t, strings.NewReader(strings.Repeat("x", 1<<20)+"\n"+tells)), "0123 done 1/1\n")
	assert.Equal(t, pullEvents(t, strings.NewReader(strings.Repeat(tells, 1000))), "0123 done 1/1\n")
	for _, name := range []string{"0123456789a", strings.Repeat("0", 65), "0123456789aB", "latest", "sha256:", ""} {
		assert.Equal(t, pullEvents(t, strings.NewReader(name+": Pull complete\n")), "", name)
	}
	var flood strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&flood, "%012x: Pull complete\n", i)
	}
	last := ""
	n := 0
	_, err := io.WriteString(dockercli.PullEvents(func(e dockercli.PullEvent) {
		n++
		last = fmt.Sprint(e)
	}), flood.String())
	assert.NilError(t, err)
	assert.Equal(t, n, 1024)
	assert.Equal(t, last, "{0000000003ff done 1024 1024}")
}

func FuzzPullEvents(f *testing.F) {
	for _, name := range []string{"docker", "docker-exists", "docker-current", "podman", "podman-missing"} {
		text, err := os.ReadFile("testdata/pull/" + name + ".txt")
		assert.NilError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var events []dockercli.PullEvent
		_, err := io.WriteString(dockercli.PullEvents(func(e dockercli.PullEvent) { events = append(events, e) }), text)
		assert.NilError(t, err)
		for _, e := range events {
			assert.Assert(t, e.Done >= 0 && e.Done <= e.Layers && e.Layers <= 1024, "%+v", e)
			assert.Assert(t, e.State == dockercli.LayerDone || e.Done < e.Layers, "%+v", e)
			assert.Assert(t, len(e.Layer) >= 12 && len(e.Layer) <= 71 && strings.Contains(text, e.Layer), "%+v", e)
		}
		// However the text comes in pieces, it is the same text.
		var again []dockercli.PullEvent
		_, err = io.Copy(dockercli.PullEvents(func(e dockercli.PullEvent) { again = append(again, e) }),
			iotest.OneByteReader(strings.NewReader(text)))
		assert.NilError(t, err)
		assert.DeepEqual(t, again, events)
	})
}

func ExamplePullEvents() {
	w := dockercli.PullEvents(func(e dockercli.PullEvent) {
		fmt.Printf("%s is %v: %d of %d\n", e.Layer, e.State, e.Done, e.Layers)
	})
	fmt.Fprint(w, "1: Pulling from test\nc5bd87551ed1: Pulling fs layer\nc27465cd115b: Pulling fs layer\n",
		"c5bd87551ed1: Pull complete\n")
	// Output:
	// c5bd87551ed1 is pulling: 0 of 1
	// c27465cd115b is pulling: 0 of 2
	// c5bd87551ed1 is done: 1 of 2
}

func ExamplePullEvent() {
	bar := dockercli.PullEvents(func(e dockercli.PullEvent) {
		fmt.Fprintf(os.Stderr, "\r%d of %d layers", e.Done, e.Layers)
	})
	_ = dockercli.PullOptions{Image: "alpine:3.19", Progress: bar}
}

func ExampleLayerState() {
	fmt.Println(dockercli.LayerPulling, dockercli.LayerDownloaded, dockercli.LayerDone)
	// Output: pulling downloaded done
}
