package procgroup

import "os"

// Pipes are the stdin, the stdout and the stderr of a program: the ends that it gets, and
// ours.
type Pipes struct{ Inside, Outside [3]*os.File }

// NewPipes returns three pipes.
func NewPipes() (*Pipes, error) {
	p := &Pipes{}
	for i := range p.Inside {
		r, w, err := os.Pipe()
		if err != nil {
			p.CloseInside()
			p.CloseOutside()
			return nil, err
		}
		if i == 0 {
			p.Inside[i], p.Outside[i] = r, w
		} else {
			p.Inside[i], p.Outside[i] = w, r
		}
	}
	return p, nil
}

// StartPiped is [Start] with a pipe for each of the program's streams. ours are our ends
// of its stdin, its stdout and its stderr.
func StartPiped(c Cmd) (p *Process, ours [3]*os.File, err error) {
	pipes, err := NewPipes()
	if err != nil {
		return nil, ours, err
	}
	c.Stdin, c.Stdout, c.Stderr = pipes.Inside[0], pipes.Inside[1], pipes.Inside[2]
	p, err = Start(c)
	pipes.CloseInside()
	if err != nil {
		pipes.CloseOutside()
		return nil, ours, err
	}
	return p, pipes.Outside, nil
}

// CloseInside closes the ends that the program gets.
func (p *Pipes) CloseInside() { closeAll(p.Inside[:]) }

// CloseOutside closes our ends.
func (p *Pipes) CloseOutside() { closeAll(p.Outside[:]) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
