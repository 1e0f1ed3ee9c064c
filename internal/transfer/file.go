package transfer

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// WriteFile makes a file with that content and those permissions.
func (t *Transfer) WriteFile(name string, data []byte, perm fs.FileMode) error {
	dir, base := path.Split(name)
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("%w: it is not the name of a file", problems.Err)
	}
	temp := t.word(dir + tempName())
	target := t.word(name)
	t.Undo = "rm -f " + temp
	if len(data) > 0 && len(data) <= minPiece {
		if err := t.Put(target, temp, data, perm); err != errNotPut {
			return err
		}
		t.Sent -= int64(len(data)) // it goes in once more
	}
	noDirectory := "[ ! -d " + target + " ] || [ -L " + target + " ] || return " + isDirectory + "; "
	begin := "[ -d " + t.word(dir+".") + " ] || return " + isNoDir + "; " + noDirectory + "umask 77; "
	for {
		piece := data[:min(len(data), int(t.piece.Load()))]
		data = data[len(piece):]
		script := begin + t.append(temp)
		if len(data) == 0 {
			// A directory may have been made meanwhile, and mv would move the file into
			// it. A link to one would be followed, and busybox's mv takes none that
			// leads in a circle.
			script += noDirectory + fmt.Sprintf("if [ -L %s ]; then rm -f %s; fi; chmod %o %s && mv -f %s %s || return 1; ",
				target, target, perm, temp, temp, target)
		}
		if _, err := t.send(script, piece); err == errNoDir {
			return t.noDir(dir)
		} else if err != nil || len(data) == 0 {
			return err
		}
		begin = "[ -f " + temp + " ] && [ ! -L " + temp + " ] || return " + isTampered + "; "
	}
}

// Put makes a small file in one step, in which each program and each byte of a script
// counts. Where that fails it does not say why.
func (t *Transfer) Put(target, temp string, data []byte, perm fs.FileMode) error {
	script := fmt.Sprintf("put %s %s %o", target, temp, perm)
	t.Sent += int64(len(data))
	_, err := t.step(shellwire.Help(script), &shell.Sink{}, shellwire.Put(temp, random.Token(), data, perm))
	return err
}

// ReadFile returns the content of a regular file of at most limit bytes.
func (t *Transfer) ReadFile(name string, limit int64) ([]byte, error) {
	content := &content{limit: limit}
	source := t.word(name)
	// What is told is counted apart from what is copied. All dd's tell the number of
	// full blocks; most tell that of bytes in a last line. For the others what is left is
	// read once more.
	blocks := strconv.FormatInt(limit/(64<<10)+1, 10)
	answer, err := t.fetch(t.regular(source)+
		"exec 3>&1; cf_result=$(dd bs=65536 iflag=fullblock count="+blocks+" <"+source+
		` 2>&1 >&3) || { printf '%s' "$cf_result" >&2; return 1; }; `+
		`cf_bytes=${cf_result%% byte*} cf_bytes=${cf_bytes##*"$cf_nl"} cf_result=${cf_result%%+*}; `+
		`case $cf_bytes:$cf_result in *[!0-9]*:0) cf_result=$(($(wc -c <`+source+`))) ;; *[!0-9]*:*) `+
		"cf_result=$((cf_result * 65536 + $(dd bs=65536 skip=$cf_result count=1 <"+source+" | wc -c))) ;; "+
		"*) cf_result=$cf_bytes ;; esac",
		&shell.Sink{Text: content})
	switch {
	case err != nil:
		return nil, err
	case content.total > limit:
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, limit)
	case answer != strconv.FormatInt(content.total, 10):
		return nil, fmt.Errorf("%w: %d bytes came, and it said %q", ErrTransfer, content.total, answer)
	}
	return content.data, nil
}

// A content is what was read of a file, up to a limit.
type content struct {
	data  []byte
	limit int64
	total int64
}

func (c *content) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	if c.total <= c.limit {
		if c.total > int64(cap(c.data)) {
			// To append would grow it by a quarter at a time, and copy a large file five
			// times.
			c.data = slices.Grow(c.data, int(min(2*c.total, c.limit))-len(c.data))
		}
		c.data = append(c.data, p...)
	} else {
		c.data = nil
	}
	return len(p), nil
}
