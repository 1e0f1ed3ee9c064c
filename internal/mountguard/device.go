package mountguard

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A number is that of a character device. A negative minor is any.
type number struct{ major, minor int }

// harmless are the character devices that are made for programs to use, and give nothing
// of the host away but what they are for. What is not here is refused: the kernel gives
// most drivers a number of its own choice, and so a list of the others would have gaps.
var harmless = []number{
	{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, // null, zero, full, random, urandom
	{81, -1},  // video
	{116, -1}, // sound
	{166, -1}, // modems on USB
	{188, -1}, // serial lines on USB
	{195, -1}, // NVIDIA's
}

// A render node of a graphics processor has a minor number from 128 to 191. Those below
// can take over the screen, and newer kernels give those above to either.
const (
	graphics    = 226
	renderNode  = 128
	renderNodes = 64
)

// modeset is what takes over the screen of NVIDIA's.
var modeset = number{195, 254}

// names are those of the same devices, where the number is not known; "#" stands for one
// digit or more.
var names = strings.Fields("/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/video# /dev/ttyACM# " +
	"/dev/ttyUSB# /dev/nvidia# /dev/dri/renderD# " +
	"/dev/snd/seq /dev/snd/timer /dev/snd/controlC# /dev/snd/pcmC#D#c /dev/snd/pcmC#D#p")

// CheckDevice returns where the links in a device's path lead, if the host is this
// machine. That is what to give to the container. Its error is why a container must not
// have it.
func (g *Guard) CheckDevice(source string) (resolved string, err error) {
	why := "that of a device which is not known to be harmless"
	resolved = source
	numbered := false
	if !g.Remote {
		var info fs.FileInfo
		resolved, err = filepath.EvalSymlinks(source)
		if err == nil {
			info, err = os.Stat(resolved)
		}
		switch {
		case err != nil:
			return source, fmt.Errorf("the device %q can't be looked at: %w", source, err)
		case info.Mode()&fs.ModeDevice == 0:
			return source, fmt.Errorf("%q is not a device", source)
		case info.Mode()&fs.ModeCharDevice == 0:
			why = "that of a disk, or of what holds files as one does"
			numbered = true
		default:
			var n number
			if n, numbered = deviceNumber(info); numbered && n.isHarmless() {
				return resolved, nil
			}
		}
	}
	if !numbered && slices.ContainsFunc(names, func(pattern string) bool { return fits(plain(resolved), pattern) }) {
		return resolved, nil
	}
	if g.allows(resolved) {
		return resolved, nil
	}
	return resolved, fmt.Errorf("the device %q: its %s is %s, with which a container may reach the host; add %q to "+
		"AllowUnsafeDevices if you mean it", source, map[bool]string{true: "number", false: "name"}[numbered], why, resolved)
}

func (n number) isHarmless() bool {
	return slices.Contains(harmless, n) || slices.Contains(harmless, number{n.major, -1}) && n != modeset ||
		n.major == graphics && n.minor >= renderNode && n.minor < renderNode+renderNodes
}

// fits reports whether a name is what a pattern says, of which "#" is one digit or more.
func fits(name, pattern string) bool {
	begin, end, any := strings.Cut(pattern, "#")
	if !any {
		return name == pattern
	}
	rest, ok := strings.CutPrefix(name, begin)
	after := strings.TrimLeft(rest, "0123456789")
	return ok && after != rest && fits(after, end)
}
