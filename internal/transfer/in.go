package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/tarball"
)

// CopyIn makes the tree of a tar archive below dir.
func (t *Transfer) CopyIn(dir string, archive io.Reader) error {
	return t.copyIn(dir, func(p *packer) error {
		r := tarball.Reader{R: archive, Checker: p.check}
		for {
			h, err := r.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = p.add(h, &r)
			}
			if err != nil {
				return err
			}
		}
	})
}

// CopyFS makes the tree of a file system below dir.
func (t *Transfer) CopyFS(dir string, fsys fs.FS) error {
	return t.copyIn(dir, func(p *packer) error {
		return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			h := tarball.Header{Name: name, Dir: d.IsDir(), Perm: info.Mode().Perm(), ModTime: info.ModTime()}
			switch {
			case h.Dir:
				h.Perm |= 0o700
				err := p.check.Check(&h)
				if err == nil {
					err = p.add(h, nil)
				}
				return err
			case !info.Mode().IsRegular():
				return fmt.Errorf("%w: %q", tarball.ErrType, name)
			}
			return p.addFile(h, fsys)
		})
	})
}

// atEnd returns the error that a file has in place of an end. A file that has grown since
// it told its size has none.
func atEnd(f io.Reader) error {
	if _, err := io.ReadFull(f, make([]byte, 1)); err != io.EOF {
		return err
	}
	return nil
}

// A part is what goes inside in one step.
type part struct {
	data []byte
	// command takes the data, which are at "%s", and then after is run, both in the
	// directory that is prepared.
	command, after string
	late           bool // it belongs into the final directory, when that is in place
}

// A packer turns a tree into parts: archives of small entries, and pieces of large files.
type packer struct {
	check tarball.Checker
	size  func() int64
	send  func(part) error

	batch []byte
	after string // the script that follows it
	dirs  []tarball.Header
	made  map[string]bool
}

// addFile adds a regular file of a file system, whose size h does not have yet.
func (p *packer) addFile(h tarball.Header, fsys fs.FS) error {
	f, err := fsys.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// It may be another than was seen in the directory.
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %q", tarball.ErrType, h.Name)
	}
	h.Size = info.Size()
	if err := p.check.Check(&h); err != nil {
		return err
	}
	if err := p.add(h, f); err != nil {
		return err
	}
	return atEnd(f)
}

// The image's tar reads an archive that was written here, as root too in the name of its
// user, and with the permissions that stand in it.
const untar = "umask 0; tar -xof %s"

// add adds an entry that was checked, with its content.
func (p *packer) add(h tarball.Header, content io.Reader) error {
	if h.Name == "." {
		return nil
	}
	if h.Dir {
		p.dirs = append(p.dirs, h)
		// What is in it has to be made first.
		h.Perm |= 0o700
		return p.dir(h)
	}
	if parent := path.Dir(h.Name); parent != "." {
		if err := p.parents(parent); err != nil {
			return err
		}
	}
	if h.Size > min(p.size(), maxPiece/4) {
		return p.large(h, content)
	}
	if err := p.room(h.Size); err != nil {
		return err
	}
	p.batch = tarball.Append(p.batch, h)
	begin := len(p.batch)
	p.batch = append(p.batch, make([]byte, h.Size)...)
	if err := readFull(content, p.batch[begin:], h.Name); err != nil {
		return err
	}
	p.batch = append(p.batch, tarball.Pad(h.Size)...)
	return nil
}

// parents makes the directories that only show in the names of others.
func (p *packer) parents(name string) error {
	if p.made[name] || name == "." {
		return nil
	}
	if err := p.parents(path.Dir(name)); err != nil {
		return err
	}
	return p.dir(tarball.Header{Name: name, Dir: true, Perm: 0o755, ModTime: time.Now()})
}

func (p *packer) dir(h tarball.Header) error {
	if p.made == nil {
		p.made = map[string]bool{}
	}
	p.made[h.Name] = true
	if err := p.room(0); err != nil {
		return err
	}
	p.batch = tarball.Append(p.batch, h)
	return nil
}

// room sends the batch if there is no room for another entry of that size.
func (p *packer) room(size int64) error {
	if len(p.batch) > 0 && int64(len(p.batch))+size+MaxPath > p.size() {
		return p.flush(false)
	}
	return nil
}

func (p *packer) flush(late bool) error {
	if len(p.batch) == 0 {
		return nil
	}
	data := append(p.batch, tarball.End()...)
	after := p.after
	p.batch, p.after = nil, ""
	return p.send(part{data: data, command: untar, after: after, late: late})
}

// large sends a file in pieces of its own.
func (p *packer) large(h tarball.Header, content io.Reader) error {
	if err := p.flush(false); err != nil {
		return err
	}
	name := shellwire.Word("./" + h.Name)
	// A file system inside may take the name for that of another.
	into := "(set -C; dd bs=65536 <%s >" + name + ")"
	for remaining := h.Size; remaining > 0; {
		data := make([]byte, min(remaining, p.size()))
		if err := readFull(content, data, h.Name); err != nil {
			return err
		}
		remaining -= int64(len(data))
		piece := part{data: data, command: "umask 77; " + into}
		into = "dd bs=65536 <%s >>" + name
		if remaining == 0 {
			piece.after = fmt.Sprintf("chmod %o %s && TZ=UTC0 touch -t %s %s || return 1; ", h.Perm, name,
				h.ModTime.UTC().Format("200601021504.05"), name)
		}
		if err := p.send(piece); err != nil {
			return err
		}
	}
	return nil
}

func readFull(r io.Reader, b []byte, name string) error {
	if _, err := io.ReadFull(r, b); err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%q is shorter than it was: %w", name, io.ErrUnexpectedEOF)
	} else if err != nil {
		return err
	}
	return nil
}

// finish sends what is left, and the directories once more, with what they are to have
// when all is in them.
func (p *packer) finish() error {
	if err := p.flush(false); err != nil {
		return err
	}
	// What is in a directory comes before it.
	slices.SortFunc(p.dirs, func(a, b tarball.Header) int { return strings.Compare(b.Name, a.Name) })
	for _, h := range p.dirs {
		if int64(len(p.batch))+MaxPath > p.size() || len(p.after) > MaxPath {
			if err := p.flush(true); err != nil {
				return err
			}
		}
		if h.Perm&0o700 != 0o700 {
			// Some tars leave a directory's owner all rights, and the others would close
			// it before what is in it is closed.
			p.after += fmt.Sprintf("chmod %o %s || return 1; ", h.Perm, shellwire.Word("./"+h.Name))
			h.Perm |= 0o700
		}
		p.batch = tarball.Append(p.batch, h)
	}
	return p.flush(true)
}

// merge is the part of a script that moves what is in its own directory to the directory
// $2; of what is in one below it, $1 is the name with a slash. These names are shorter
// than those at the target, so no test takes one that is too long for one that is not
// there. Nothing is moved before it is known that no directory is in the way of a file,
// nor anything else in that of a directory.
const merge = `fits() ( s=$1 d=$2; for f in "$s"* "$s".[!.]* "$s"..?*; do g=$d/${f##*/}; ` +
	`if [ ! -e "$f" ]; then continue; elif [ ! -d "$f" ]; then if [ -d "$g" ] && [ ! -L "$g" ]; then exit ` +
	isDirectory + `; fi; ` +
	`elif [ -L "$g" ]; then exit ` + isInTheWay +
	`; elif [ -d "$g" ]; then fits "$f/" "$g" || exit; elif [ -e "$g" ]; then exit ` + isInTheWay + `; fi; done ); ` +
	`merge() ( s=$1 d=$2; set --; for f in "$s"* "$s".[!.]* "$s"..?*; do g=$d/${f##*/}; ` +
	`if [ ! -e "$f" ]; then continue; elif [ -d "$f" ] && [ -d "$g" ]; then merge "$f/" "$g" || exit; else set ` +
	`-- "$@" "$f"; fi; ` +
	`[ $# -lt 100 ] || { mv -f -- "$@" "$d/" || exit 1; set --; }; done; [ $# = 0 ] || mv -f -- "$@" "$d/" || exit 1 ); `

// copyIn makes a tree inside of the entries that pack adds to a packer.
func (t *Transfer) copyIn(dir string, pack func(*packer) error) error {
	in, err := t.begin(dir)
	if err != nil {
		return err
	}
	// What comes once the tree is in its place comes to its end, too.
	outer := t.ctx
	defer func() { t.ctx = outer }()
	defer func() { in.done() }()
	ctx, stop := context.WithCancel(context.WithoutCancel(outer))
	parts, packed := t.pack(ctx, pack)
	isPacked := false
	defer func() {
		stop()
		if !isPacked {
			// The caller's reader is the caller's again, unless a Read of it hangs.
			select {
			case <-packed:
			case <-time.After(bound.Moment(t.opts.TerminationTimeout)):
			}
		}
	}()
	timeout := t.timeout()
	for {
		if in.placed {
			timeout = nil
		}
		select {
		case next := <-parts:
			if err := in.put(next); err != nil {
				return err
			}
		case err := <-packed:
			isPacked = true
			if err != nil {
				return err
			}
			return in.place()
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-timeout:
			return shell.ErrTimeout
		}
	}
}

// An incoming is a tree on its way in. Its texts are parts of scripts.
type incoming struct {
	*Transfer
	target string // where it goes
	enter  string // goes to the directory in which it is made
	made   string // a file that is there if the target was made for it
	remove string // removes the directory in which it is made
	placed bool   // it was moved there, or that was begun
	done   func() // frees what was begun with that
}

// begin makes the directory in which a tree is made, and the target if it is not there.
func (t *Transfer) begin(dir string) (*incoming, error) {
	name := tempName()
	stage := t.word(dir + "/" + name)
	// Somebody who is not stopped, because the directory is theirs too, may put a link in
	// the stage's place.
	enter := "cd -P " + stage + " && case $PWD in */" + name + ") ;; *) false ;; esac"
	in := &incoming{
		Transfer: t, target: t.word(dir), enter: enter, done: func() {},
		// Where the first step is cut off, only a file can tell that the directory is
		// made here.
		made: `"$cf_dir"/i` + random.Token(),
		// From elsewhere, what is in it may have a longer name than a system call takes.
		remove: "rm -rf " + stage + " || { " + enter + " && rm -rf -- * .[!.]* ..?*; rm -rf " + stage + "; }",
	}
	undo := in.remove + "; if [ -e " + in.made + " ]; then rmdir " + in.target + "; rm -f " + in.made + "; fi"
	if t.Undo != "" {
		undo += "; " + t.Undo
	}
	t.Undo = undo
	parent, _ := path.Split(strings.TrimRight(dir, "/"))
	_, err := t.run("if [ ! -d " + in.target + " ]; then [ -d " + t.word(parent+".") + " ] || return " +
		isNoDir + "; >" + in.made + " && mkdir " + in.target +
		" || return 1; fi; umask 77; mkdir " + stage + " || return 1")
	switch {
	case err == errNoDir:
		return nil, t.noDir(parent)
	case err != nil:
		return nil, err
	}
	t.tree = true
	return in, nil
}

// put unpacks a part, in its place if it comes after the tree was placed.
func (in *incoming) put(next part) error {
	enter := in.enter
	if next.late {
		if err := in.place(); err != nil {
			return err
		}
		enter = "cd " + in.target
	}
	_, err := in.send(enter+" || return "+isTampered+"; "+in.take(next.command)+next.after, next.data)
	return err
}

// place moves what was unpacked so far to its place, once.
func (in *incoming) place() error {
	if in.placed {
		return nil
	}
	in.placed = true
	outer := in.ctx
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	// An end in the middle, by a cancel or at the deadline, would leave a part of the
	// tree in its place. So what follows gets the time to come to its end.
	more := in.opts.TerminationTimeout / 2
	whole, cancel := context.WithCancelCause(context.WithoutCancel(outer))
	stop := context.AfterFunc(outer, func() {
		select {
		case <-whole.Done():
		case <-time.After(more):
			cancel(context.Cause(outer))
		}
	})
	in.ctx, in.done = whole, func() {
		stop()
		cancel(nil)
	}
	if !in.Deadline.IsZero() {
		in.Deadline = in.Deadline.Add(more)
		if !in.EndBy.IsZero() {
			// What does not come to its end has to be ended by then.
			in.Deadline = bound.Earlier(in.Deadline, in.EndBy.Add(-more/2))
		}
	}
	_, err := in.run(in.enter + " || return " + isTampered + "; " + merge +
		"fits '' " + in.target + " && merge '' " + in.target + " || return; " +
		in.remove + " && rm -f " + in.made + " || return 1")
	return err
}

// pack has pack add entries to a packer, in a goroutine of its own, until ctx ends. It
// returns what has the parts that the packer makes, and what then has the error.
func (t *Transfer) pack(ctx context.Context, pack func(*packer) error) (<-chan part, <-chan error) {
	parts, packed := make(chan part), make(chan error, 1)
	p := &packer{
		check: tarball.Checker{Limits: t.opts.Limits},
		size:  t.piece.Load,
		send: func(next part) error {
			select {
			case parts <- next:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	}
	go func() {
		err := pack(p)
		if err == nil {
			err = p.finish()
		}
		packed <- tooLarge(err)
	}()
	return parts, packed
}

// timeout returns a channel that tells when the deadline has passed; nil if there is
// none.
func (t *Transfer) timeout() <-chan time.Time {
	if t.Deadline.IsZero() {
		return nil
	}
	return time.After(time.Until(t.Deadline))
}

// tooLarge makes an error over a limit one of this package's.
func tooLarge(err error) error {
	if errors.Is(err, tarball.ErrLimit) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}
