// Package ordered goes through maps in order.
package ordered

// Keys returns a map's keys in order. The standard library's sort would add 16 KB to a
// binary, and these maps are small. It is kept from being inlined, which would add 4 KB.
//
//go:noinline
func Keys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
		for i := len(keys) - 1; i > 0 && keys[i] < keys[i-1]; i-- {
			keys[i], keys[i-1] = keys[i-1], keys[i]
		}
	}
	return keys
}
