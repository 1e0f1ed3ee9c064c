package fifo

import (
	"sync"
	"sync/atomic"
)

// A Doubt is why an engine's FIFOs are not used: they did not carry where they were
// tried. It is kept only if a start without them has then answered, because whatever
// kept that from it may have been the cause. A nil Doubt is none.
type Doubt struct {
	engine    string
	why       string
	confirmed atomic.Bool
}

// doubts has the *Doubt of each engine for which there is one.
var doubts sync.Map

// Suspect keeps why the FIFOs of an engine did not carry. The engine is named by any text
// that no other engine has.
func Suspect(engine string, why error) {
	doubts.Store(engine, &Doubt{engine: engine, why: why.Error()})
}

// DoubtOf returns that of an engine, or nil.
func DoubtOf(engine string) *Doubt {
	found, _ := doubts.Load(engine)
	d, _ := found.(*Doubt)
	return d
}

// Why returns the text of what Suspect was given, or the empty text if there is no doubt.
func (d *Doubt) Why() string {
	if d == nil {
		return ""
	}
	return d.why
}

// Confirm keeps the doubt for good. It is called when a start without FIFOs has answered.
func (d *Doubt) Confirm() {
	if d != nil {
		d.confirmed.Store(true)
	}
}

// Drop forgets the doubt, unless it was confirmed.
func (d *Doubt) Drop() {
	if d != nil && !d.confirmed.Load() {
		doubts.CompareAndDelete(d.engine, d)
	}
}
