package kubectl

var (
	Classes  = classes
	ErrOther = errOther
	Message  = message
)

// NewEvents returns what takes the lines of a watch.
func NewEvents(each func([]byte) bool) interface{ Write([]byte) (int, error) } {
	return &events{each: each, enough: func() {}}
}
