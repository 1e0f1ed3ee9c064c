package deps

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// remove removes a directory that untrusted code may have filled, with directories of any
// depth and without any rights. Each one is moved to the top and emptied there: so no
// name is long, nothing is held open that deep, and there is no way back up. No link is
// followed.
func remove(root *os.Root, name string) error {
	top, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer top.Close()
	dirs, n, err := begun(top)
	for err == nil && len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		var moved []string
		if moved, err = empty(top, dir, &n); err == nil {
			err = top.Remove(dir)
		}
		dirs = append(dirs, moved...)
	}
	if err != nil {
		return err
	}
	return root.Remove(name)
}

// begun returns the directories at the top, and the last number among them: somebody may
// have begun to remove them.
func begun(top *os.Root) (dirs []string, n int, err error) {
	f, err := top.Open(".")
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	dirs, err = f.Readdirnames(-1)
	for _, dir := range dirs {
		if i, err := strconv.Atoi(dir); err == nil {
			n = max(n, i)
		}
	}
	return dirs, n, err
}

// empty removes what is in a directory, and moves the directories that are in it to the
// top, under new numbers. It returns their names.
func empty(top *os.Root, dir string, n *int) (moved []string, err error) {
	info, err := top.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, nil
	}
	if err := top.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	for {
		entries, err := list(top, dir)
		if err == io.EOF {
			return moved, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			at := filepath.Join(dir, e.Name())
			if !e.IsDir() {
				err = top.Remove(at)
			} else if err = top.Chmod(at, 0o700); err == nil {
				// To move a directory is to write to it.
				*n++
				moved = append(moved, strconv.Itoa(*n))
				err = top.Rename(at, strconv.Itoa(*n))
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

// list returns some of the entries of a directory, or io.EOF if it has none.
func list(top *os.Root, dir string) ([]os.DirEntry, error) {
	// Nothing but a directory: to open a FIFO would wait for who writes to it.
	f, err := top.Open(dir + "/.")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(1000)
}
