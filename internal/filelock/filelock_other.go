//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filelock

import (
	"errors"
	"os"
)

const exclusive, exclusiveNow, shared = 0, 0, 0

func lock(*os.File, int) error { return errors.ErrUnsupported }

func unlock(*os.File) error { return errors.ErrUnsupported }
