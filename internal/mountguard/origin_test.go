package mountguard

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestOrigins(t *testing.T) {
	const here = `22 1 254:0 / / rw - ext4 /dev/root rw
30 22 254:1 /data/sub /mnt rw - ext4 /dev/vdb rw
31 22 0:40 / /tmp\040dir rw - tmpfs none rw
x`
	for _, c := range []struct{ id, name, want string }{
		{"22", "/home/user", "254:0/home/user"},
		{"22", "/", "254:0/"},
		{"30", "/mnt", "254:1/data/sub"},
		{"30", "/mnt/x y", "254:1/data/sub/x y"},
		{"31", "/tmp dir/a", "0:40/a"},
		{"31", "/other", ""}, // not in the mount
		{"99", "/home", ""},
		{"x", "/home", ""},
	} {
		assert.Equal(t, originIn(here, c.id, c.name), c.want, "%v", c)
	}
	const inside = `50 49 0:60 / / ro - overlay overlay rw
51 50 254:0 /etc /workspace rw - ext4 /dev/root rw
52 50 254:1 /data/sub/x\040y /workspace rw - ext4 /dev/vdb rw
53 50 254:0 /home/user //deleted/place rw - ext4 /dev/root rw`
	assert.Equal(t, OriginInside(inside, "/workspace"), "254:1/data/sub/x y") // the upper one
	assert.Equal(t, OriginInside(inside, "/work"), "")
}

func FuzzOrigins(f *testing.F) {
	f.Add("22 1 254:0 / / rw - ext4 /dev/root rw\n", "22", "/home")
	f.Add("51 50 254:0 /a /workspace rw - ext4 /dev/root rw", "", "/workspace")
	f.Fuzz(func(t *testing.T, table, id, name string) {
		if originIn(table, id, name) != originIn(table+"\nx\n", id, name) {
			t.Error("a line that is none matters")
		}
	})
}
