package clientfile

import (
	"errors"
	"os"
)

// New gives the client a text as a file of the user's, because no descriptor can be
// passed on here. It is removed when the client has ended.
func New(text string) (*File, error) {
	f, err := os.CreateTemp("", "cofferdam-seccomp-*.json")
	if err != nil {
		return nil, err
	}
	remove := func() { os.Remove(f.Name()) }
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return nil, err
	}
	return &File{
		Path: f.Name(),
		started: func(done <-chan struct{}) {
			go func() {
				<-done
				remove()
			}()
		},
		abandon: remove,
	}, nil
}
