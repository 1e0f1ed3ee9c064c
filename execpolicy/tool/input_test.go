package tool

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

var forms = []form{shellForm, pythonForm, readForm, writeForm, editForm, listForm, jobForm}

// Whatever comes as input, it is read or the model is told within bounds what is wrong.
func FuzzInput(f *testing.F) {
	for i := range forms {
		for _, data := range []string{"", "null", "{}", "[]", `{"path":"f"}`, `{"command":"x","restart":null}`, `{"path":1}`,
			`{"offset":1e3}`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`, `{"path":"f","path":"g"}`, `{"code":"\ud800"}`, "{\"\xff\":1}", `{"action":"stop"}`,
			`{"action":"write","job":1,"eof":true}`} {
			f.Add(i, []byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		form := forms[uint(i)%uint(len(forms))]
		in, wrong := form.parse("t", data, short)
		if wrong != "" {
			assert.Assert(t, in == nil)
			assert.Assert(t, len(wrong) < 4000 && utf8.ValidString(wrong), "%q", wrong)
			return
		}
		for _, field := range form {
			assert.Assert(t, !field.required || in.has(field.name))
		}
		assert.Assert(t, len(in) <= len(form))
	})
}

// What a hint says of a text is true of it, and it never fails.
func FuzzEditHints(f *testing.F) {
	f.Add("a\r\nb\r\n", "a\nb")
	f.Add("  a\n\tb\n", "a\nb")
	f.Add("aaa\n\n", "\n")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, content, text string) {
		if text == "" {
			return
		}
		if !strings.Contains(content, text) {
			assert.Assert(t, len(hint(content, text)) < 200)
			return
		}
		first := strings.Split(places(content, text), ",")[0]
		var line int
		assert.NilError(t, json.Unmarshal([]byte(first), &line))
		assert.Equal(t, line, lineOf(content, strings.Index(content, text)))
	})
}

func FuzzPart(f *testing.F) {
	f.Add("a\nb\nc", 2, 1)
	f.Add(strings.Repeat("é", 300), 1, -1)
	f.Add("\n\n", 1, -1)
	f.Fuzz(func(t *testing.T, content string, offset, count int) {
		total := strings.Count(strings.TrimSuffix(content, "\n"), "\n") + 1
		if content == "" || !utf8.ValidString(content) || offset < 1 || offset > total || count == 0 {
			return
		}
		var s Set
		s.options.Render.MaxBytes = 200
		p := s.part(content, offset, count)
		assert.Assert(t, len(p.text) <= 200-noticeRoom && utf8.ValidString(p.text), "%q", p.text)
		assert.Assert(t, strings.Contains(content, p.text))
		assert.Assert(t, p.last >= offset && p.last <= total, "%d", p.last)
		if p.cut == 0 && p.text != "" {
			assert.Equal(t, strings.Count(strings.TrimSuffix(p.text, "\n"), "\n")+1, p.last-offset+1)
		}
	})
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "é": "é", "é"[:1]: "", "a€"[:3]: "a", "a€"[:2]: "a", "a😀"[:4]: "a", "a😀": "a😀"} {
		assert.Check(t, whole(text) == want, "%q", text)
	}
}
