package mountguard

import (
	"io/fs"
	"syscall"
)

// deviceNumber returns the number of a character device, by which the kernel knows it
// whatever its name.
func deviceNumber(info fs.FileInfo) (n number, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return n, false
	}
	dev := uint64(st.Rdev)
	return number{
		major: int(dev>>8&0xfff | dev>>32&0xfffff000),
		minor: int(dev&0xff | dev>>12&0xffffff00),
	}, true
}
