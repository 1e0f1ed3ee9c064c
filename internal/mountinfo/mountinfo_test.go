package mountinfo_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
)

func ExampleParse() {
	m, ok := mountinfo.Parse(`36 35 8:1 /home/me /mnt/my\040files ro,nosuid shared:7 - ext4 /dev/sda1 rw`)
	fmt.Println(ok)
	fmt.Printf("%s of the %s on device %s is at %q\n", m.Root, m.Type, m.Device, m.Target)
	fmt.Println("read-only:", m.Has("ro"))
	// Output:
	// true
	// /home/me of the ext4 on device 8:1 is at "/mnt/my files"
	// read-only: true
}

func TestParse(t *testing.T) {
	want := mountinfo.Mount{
		Device: "0:40", Root: "/a", Target: "/b", Options: "rw,noatime",
		Type: "tmpfs", SuperOptions: "ro,size=64k",
	}
	for _, optional := range []string{"", "shared:1 ", "shared:1 master:2 unbindable "} {
		line := "3 1 0:40 /a /b rw,noatime " + optional + "- tmpfs none ro,size=64k"
		for _, source := range []string{"none", ""} {
			got, ok := mountinfo.Parse(strings.Replace(line, "none", source, 1))
			assert.Assert(t, ok, line)
			assert.DeepEqual(t, got, want)
		}
	}
	assert.Assert(t, want.Has("noatime") && !want.Has("ro"))
	for _, line := range []string{
		"", " ", "3 1 0:40 /a /b rw", "3 1 0:40 /a /b - tmpfs none rw",
		"3 1 0:40 /a /b rw - tmpfs none", strings.Repeat("x ", 20),
	} {
		got, ok := mountinfo.Parse(line)
		assert.Assert(t, !ok, line)
		assert.DeepEqual(t, got, mountinfo.Mount{})
	}
}

// Every line that the kernel of this machine writes is known.
func TestParseTableOfThisMachine(t *testing.T) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		leftout.Skip(t, "only Linux has a table of mounts")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(table)), "\n") {
		_, ok := mountinfo.Parse(line)
		assert.Check(t, ok, line)
	}
}

func TestUnescape(t *testing.T) {
	for escaped, want := range map[string]string{
		"":             "",
		"/a/b":         "/a/b",
		`/a\040b`:      "/a b",
		`\011\012\043`: "\t\n#",
		`\134040`:      `\040`,
		`\134`:         `\`,
		`/\303\244`:    "/ä",
		`\`:            `\`,
		`\04`:          `\04`,
		`\048\777\+12`: `\048\777\+12`,
	} {
		assert.Equal(t, mountinfo.Unescape(escaped), want, "%q", escaped)
	}
}

// Whatever a mount is called, its names are read back from what the kernel writes.
func FuzzParse(f *testing.F) {
	f.Add("a b", `/\040`+"\r\u00a0", "3 1 0:40 /a /b rw - tmpfs none rw")
	f.Add("\t\n#", "ä", `1 2 3:4 \04 \777 6 - 7 8 9`)
	kernel := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, root, target, line string) {
		mountinfo.Parse(line) // anything does no harm
		root, target = "/"+root, "/"+target
		names := kernel.Replace(root) + " " + kernel.Replace(target)
		m, ok := mountinfo.Parse("3 1 0:40 " + names + " rw - ext4 x rw")
		assert.Assert(t, ok)
		assert.Equal(t, m.Root, root)
		assert.Equal(t, m.Target, target)
	})
}
