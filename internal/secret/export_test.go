package secret

// Hidden reports of each byte of a text whether something else takes its place.
func Hidden(text []byte, values ...Value) []bool {
	var none *Values
	w := writer{values: none.With(values...)}
	w.read(text, true)
	hidden := make([]bool, len(text))
	for _, f := range w.found {
		for i := f.start; i < f.end; i++ {
			hidden[i] = true
		}
	}
	return hidden
}
