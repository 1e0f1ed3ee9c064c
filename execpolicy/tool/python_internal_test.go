package tool

import (
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestUnescaped(t *testing.T) {
	for text, want := range map[string]string{
		``: "", `x`: "x", `a\nb\tc\rd`: "a\nb\tc\rd", `\\n\'\"`: `\n'"`, `\`: `\`, `x\`: `x\`, `\z\`: `\z\`,
		`\x41\u00e9\U0001f6a2`: "Aé🚢", `J\xc3\xbcrgen`: "Jürgen", `é\xa0\xff`: "é\u00a0ÿ",
		`\ud83d\udea2!`: "🚢!", `\ud83d`: `\ud83d`, `\ud83dx\udea2`: `\ud83dx\udea2`, `\ud83d\u`: `\ud83d\u`, `\u12`: `\u12`,
		`\ud83d\udzzz`: `\ud83d\udzzz`, `\x4`: `\x4`,
	} {
		assert.Check(t, cmp.Equal(unescaped(text), want))
	}
}
