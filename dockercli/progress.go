package dockercli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A PullEvent is the progress of one layer of an image that is pulled. A client without a
// terminal learns of layers only, and not of bytes.
type PullEvent struct {
	// Layer is the layer's ID as the engine prints it. Docker's has 12 hexadecimal
	// digits. Podman's is the whole digest, such as "sha256:c5bd8755…".
	Layer string
	// State is how far the layer has come. It never goes back.
	State LayerState
	// Done is how many of the Layers known so far are LayerDone. Layers grows while they
	// become known.
	Done, Layers int
}

// A LayerState is how far a layer has come.
type LayerState int

const (
	// LayerPulling is a layer that is still to come.
	LayerPulling LayerState = iota
	// LayerDownloaded is a layer that has come, and is still to be unpacked. Podman does
	// not report it.
	LayerDownloaded
	// LayerDone is a layer that the engine has. Podman reports all layers at once, at the
	// end.
	LayerDone
)

var layerStates = [...]string{LayerPulling: "pulling", LayerDownloaded: "downloaded", LayerDone: "done"}

// String returns "pulling", "downloaded" or "done".
func (s LayerState) String() string {
	if s < 0 || int(s) >= len(layerStates) {
		return fmt.Sprintf("LayerState(%d)", int(s))
	}
	return layerStates[s]
}

const (
	// maxPullLine bounds how much is kept of a line. The longest that matters has a
	// digest.
	maxPullLine = 256
	// maxLayers bounds how many layers are told apart. Docker takes 127 of an image.
	maxLayers = 1024
)

// PullEvents returns a Writer for [PullOptions.Progress] that calls f for each change. It
// reads what docker and podman print, and ignores what it does not know: a pull without
// events says nothing. It reports up to 1024 layers. Calls of f come one after the other,
// and the pull waits for each.
//
// The Writer may be used for several pulls in turn. Each counts its own layers.
func PullEvents(f func(PullEvent)) io.Writer {
	return &pullParser{emit: f, layers: map[string]LayerState{}}
}

// A pullParser finds events in what is written to it.
type pullParser struct {
	emit func(PullEvent)

	mu     sync.Mutex
	line   []byte // the line that has begun, as much as is kept of it
	layers map[string]LayerState
	order  []string // the keys of layers, as they came
	done   int
}

func (p *pullParser) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	for {
		part, rest, ended := bytes.Cut(b, []byte("\n"))
		p.line = append(p.line, part[:min(len(part), maxPullLine-len(p.line))]...)
		if !ended {
			return n, nil
		}
		p.parse(strings.TrimSuffix(string(p.line), "\r"))
		p.line, b = p.line[:0], rest
	}
}

// parse takes a line of either engine, whose words differ.
func (p *pullParser) parse(line string) {
	name, state, ok := strings.Cut(line, ": ")
	blob, isBlob := strings.CutPrefix(line, "Copying blob ")
	switch {
	case strings.HasPrefix(line, "Trying to pull "), ok && strings.HasPrefix(state, "Pulling from "):
		clear(p.layers)
		p.order, p.done = nil, 0
	case isBlob:
		blob, _, _ = strings.Cut(blob, " ")
		p.layer(blob, LayerPulling)
	case strings.HasPrefix(line, "Copying config "):
		for _, name := range p.order {
			p.layer(name, LayerDone)
		}
	case ok:
		switch state {
		case "Pulling fs layer", "Waiting":
			p.layer(name, LayerPulling)
		case "Verifying Checksum", "Download complete":
			p.layer(name, LayerDownloaded)
		case "Pull complete", "Already exists":
			p.layer(name, LayerDone)
		}
	}
}

// layer tells of a layer whose state is news.
func (p *pullParser) layer(name string, state LayerState) {
	if !isLayer(name) {
		return
	}
	known, ok := p.layers[name]
	switch {
	case ok && state <= known:
		return
	case !ok && len(p.order) == maxLayers:
		return
	case !ok:
		p.order = append(p.order, name)
	}
	p.layers[name] = state
	if state == LayerDone {
		p.done++
	}
	p.emit(PullEvent{Layer: name, State: state, Done: p.done, Layers: len(p.order)})
}

// isLayer reports whether a name is a digest, or the first digits of one.
func isLayer(name string) bool {
	digits := strings.TrimPrefix(name, "sha256:")
	return len(digits) >= 12 && len(digits) <= 64 && strings.Trim(digits, "0123456789abcdef") == ""
}
