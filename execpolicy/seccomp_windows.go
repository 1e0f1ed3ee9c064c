package execpolicy

import (
	"errors"
	"os"
)

// hand gives the client a text as a file of the user's, because no descriptor can be
// passed on here. It is removed when the client has ended.
func hand(text string) (*handover, error) {
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
	return &handover{
		path: f.Name(),
		begin: func(done <-chan struct{}) {
			go func() {
				<-done
				remove()
			}()
		},
		cancel: remove,
	}, nil
}
