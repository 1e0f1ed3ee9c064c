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

// CloseInside closes the ends that the program gets.
func (p *Pipes) CloseInside() { closeAll(p.Inside[:]) }

// CloseOutside closes our ends.
func (p *Pipes) CloseOutside() { closeAll(p.Outside[:]) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
