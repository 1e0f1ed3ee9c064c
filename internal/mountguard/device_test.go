package mountguard

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// On another machine the name is all there is.
func TestDevicesByName(t *testing.T) {
	g := &Guard{Remote: true}
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/video0",
		"/dev/ttyUSB12", "/dev/ttyACM0", "/dev/nvidia0", "/dev/dri/renderD128", "/dev/snd/pcmC0D10p", "/dev/../dev/null"} {
		resolved, err := g.CheckDevice(name)
		assert.Check(t, err, name)
		assert.Equal(t, resolved, name)
	}
	refused := strings.Fields("/dev/sda /dev/sda1 /dev/vda /dev/xvda /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/loop0 " +
		"/dev/loop-control /dev/dm-0 /dev/mapper/control /dev/mapper/root /dev/disk/by-id/x /dev/nvme0 /dev/nvme0n1 /dev/ng0n1 " +
		"/dev/mtd0 /dev/mtdblock0 /dev/ipmi0 /dev/ipmi/0 /dev/watchdog /dev/watchdog0 /dev/tty /dev/tty0 /dev/ttyS0 /dev/console " +
		"/dev/ptmx /dev/uinput /dev/input/event0 /dev/hidraw0 /dev/vfio/vfio /dev/vfio/1 /dev/kvm /dev/vhost-net /dev/net/tun " +
		"/dev/fuse /dev/sg0 /dev/bsg/0:0:0:0 /dev/st0 /dev/raw/raw1 /dev/md0 /dev/zd0 /dev/nbd0 /dev/rbd0 /dev/drbd0 /dev/mmcblk0 " +
		"/dev/fb0 /dev/dri/card0 /dev/dri /dev/snd /dev/cpu/0/msr /dev/mei0 /dev/tpm0 /dev/gpiochip0 /dev/i2c-0 /dev/spidev0.0 " +
		"/dev/uio0 /dev/userfaultfd /dev/btrfs-control /dev/vcs /dev/video /dev/video0x /dev/nvidia /dev/dri/renderD /dev/null/x " +
		"/dev/nullx /tmp/null dev/null /")
	for _, name := range refused {
		_, err := g.CheckDevice(name)
		assert.Check(t, err != nil, name)
		assert.ErrorContains(t, err, "AllowUnsafeDevices")
		allows := &Guard{Remote: true, Allowed: []string{name}}
		_, err = allows.CheckDevice(name)
		assert.Check(t, err, name)
	}
}

func TestDevicesByNumber(t *testing.T) {
	for n, want := range map[number]bool{
		{1, 3}: true, {1, 9}: true, {81, 0}: true, {116, 33}: true, {188, 255}: true, {195, 0}: true, {226, 128}: true, {226, 191}: true,
		{1, 1}: false, {1, 2}: false, {1, 4}: false, {1, 11}: false, // mem, kmem, port, kmsg
		{226, 0}: false, {226, 127}: false, {226, 192}: false, {195, 254}: false, // screens
		{195, 255}: true,
		{4, 64}:    false, {5, 1}: false, {5, 2}: false, {7, 0}: false, {10, 130}: false, {10, 223}: false, {10, 232}: false, {10, 237}: false,
		{13, 64}: false, {21, 0}: false, {29, 0}: false, {90, 0}: false, {136, 0}: false, {202, 0}: false, {240, 0}: false, {511, 0}: false,
	} {
		assert.Check(t, n.isHarmless() == want, "%+v", n)
	}
}

func FuzzDeviceName(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Add("/dev/snd/pcmC0D0p")
	f.Add("/dev/sda")
	f.Fuzz(func(t *testing.T, name string) {
		for _, pattern := range names {
			if !fits(name, pattern) {
				continue
			}
			// Nothing but digits differs.
			shape := strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return '#'
				}
				return r
			}, name)
			for strings.Contains(shape, "##") {
				shape = strings.ReplaceAll(shape, "##", "#")
			}
			assert.Equal(t, shape, pattern)
		}
	})
}
