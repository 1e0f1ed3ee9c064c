package codeblock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/seed-64a260eb/cofferdam/execpolicy/codeblock"
)

type blocks = []codeblock.Block

// block returns the blocks that a case expects, if that is a single one.
func block(language, code string) blocks { return blocks{{Language: language, Code: code}} }

func unclosed(language, code string) blocks {
	return blocks{{Language: language, Code: code, Unclosed: true}}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       blocks
	}{
		{"no text", "", nil},
		{"no fence", "some text\n\n    indented\n\n`inline`\n", nil},
		{"backticks", "```py\n1\n```\n", block("py", "1\n")},
		{"tildes", "~~~py\n1\n~~~\n", block("py", "1\n")},
		{"no newline at the end", "```py\n1\n```", block("py", "1\n")},
		{"untagged", "```\n1\n```\n", block("", "1\n")},
		{"empty", "```py\n```\n", block("py", "")},
		{"blank lines", "```py\n\n  \n```\n", block("py", "\n  \n")},
		{"two backticks", "``\n1\n``\n", nil},
		{"other kind inside", "```py\n~~~\n```\n~~~py\n```\n~~~\n",
			blocks{{Language: "py", Code: "~~~\n"}, {Language: "py", Code: "```\n"}}},
		{"longer outside", "````md\n```py\n1\n```\n````\n", block("md", "```py\n1\n```\n")},
		{"longer closing", "```py\n1\n``````\n2\n", block("py", "1\n")},
		{"closing with spaces", "```py\n1\n``` \t\n2\n", block("py", "1\n")},
		{"closing with more", "```py\n1\n``` py\n2\n```\n", block("py", "1\n``` py\n2\n")},
		{"closing that is split", "~~~~\n1\n~~~ ~~\n", unclosed("", "1\n~~~ ~~\n")},
		{"unclosed", "```py\n1\n\n2", unclosed("py", "1\n\n2\n")},
		{"only a fence", "```", unclosed("", "")},
		{"info", "```  Python3.12   title=\"a b\" x \n1\n```\n",
			blocks{{Language: "Python3.12", Info: `title="a b" x`, Code: "1\n"}}},
		{"info with a tab", "```py\tx\n```\n", blocks{{Language: "py", Info: "x"}}},
		{"info with backticks", "``` a`b\n1\n", nil},
		{"info with backticks behind tildes", "~~~ a`b ~~~\n1\n~~~\n", blocks{{Language: "a`b", Info: "~~~", Code: "1\n"}}},
		{"info that begins with tildes", "~~~ ~`\n1\n~~~\n", block("~`", "1\n")},
		{"language on the next line", "```\npython\nprint(1)\n```\n", block("", "python\nprint(1)\n")},
		{"inline fence", "```py 1```\n2\n", nil},
		{"indented by three", "   ```py\n   1\n     2\n 3\n   ```\n", block("py", "1\n  2\n3\n")},
		{"indented by four", "    ```py\n    1\n    ```\n", nil},
		{"closing indented by three", "```py\n1\n   ```\n", block("py", "1\n")},
		{"closing indented by four", "```py\n1\n    ```\n```\n", block("py", "1\n    ```\n")},
		{"in the middle of a paragraph", "text\n```py\n1\n```\ntext\n", block("py", "1\n")},
		{"CRLF", "text\r\n```py \r\n1\r\n\r\n```\r\ntext\r\n", block("py", "1\n\n")},
		{"CR", "```py\r1\r\r2\r```\r", block("py", "1\n\n2\n")},
		{"mixed line ends", "```py\r\n1\n2\r3\r\n```", block("py", "1\n2\n3\n")},
		{"other separators are no line ends", "```py\n1\v2\f3\u20284\u0085\n```\n", block("py", "1\v2\f3\u20284\u0085\n")},
		{"bytes are kept", "```py\n\x00\xff\xfe\n```\n", block("py", "\x00\xff\xfe\n")},
		{"tabs in the code", "```py\n\tx\n```\n", block("py", "\tx\n")},
		{"a tab before a fence", "\t```py\n\tx\n\t```\n", nil},
		{"part of a tab is removed", "  ```py\n\tx\n  ```\n", block("py", "  x\n")},
		{"quoted", "> ```py\n> 1\n>\n>  2\n> ```\n", block("py", "1\n\n 2\n")},
		{"quoted without spaces", ">```py\n>1\n>```\n", block("py", "1\n")},
		{"quoted twice", "> > ```py\n>> 1\n> > ```\n", block("py", "1\n")},
		{"the quote ends", "> ```py\n> 1\n2\n", unclosed("py", "1\n")},
		{"a quote in the code", "```md\n> 1\n```\n", block("md", "> 1\n")},
		{"a tab behind the quote", ">\t```py\n>\t1\n>\t```\n", block("py", "1\n")},
		{"in an item", "- text\n\n  ```py\n  if x:\n      1\n  ```\n- more\n", block("py", "if x:\n    1\n")},
		{"in a numbered item", "1. text:\n   ```py\n   1\n   ```\n2. text:\n   ```sh\n   2\n   ```\n",
			blocks{{Language: "py", Code: "1\n"}, {Language: "sh", Code: "2\n"}}},
		{"in item ten", "10. text:\n\n    ```py\n    1\n    ```\n", block("py", "1\n")},
		{"indented by four in an item", "- text\n    ```py\n    1\n    ```\n", block("py", "1\n")},
		{"indented by four in a numbered item", "1. text\n\n    ```py\n    1\n\n      2\n    ```\n",
			block("py", "1\n\n  2\n")},
		{"indented too far in an item", "- text\n\n      ```py\n      1\n      ```\n", nil},
		{"first thing in an item", "* ```py\n  1\n  ```\n", block("py", "1\n")},
		{"in an item of an item", "- a\n  1) b\n     ```py\n     1\n     ```\n", block("py", "1\n")},
		{"in an item of a quote", "> - ```py\n>   1\n>   ```\n", block("py", "1\n")},
		{"the item ends", "- ```py\n  1\n2\n", unclosed("py", "1\n")},
		{"outside of the item", "1. text\n\n```py\n1\n```\n", block("py", "1\n")},
		{"less indented than the item", "1. text\n ```py\n 1\n ```\n", block("py", "1\n")},
		{"a dash that is no item", "-text\n    ```py\n", nil},
		{"a rule is no item", "- - -\n  ```py\n  1\n  ```\n", block("py", "1\n")},
		{"a blank item ends", "-\n\n      ```py\n", nil},
		{"a number that does not interrupt", "text\n14. text\n    ```py\n    1\n", nil},
		{"a comment", "<!--\n```py\n1\n```\n-->\n```py\n2\n```\n", block("py", "2\n")},
		{"a comment in one line", "<!-- x -->\n```py\n2\n```\n", block("py", "2\n")},
		{"a comment in the code", "```html\n<!-- filename: a.html -->\n```\n", block("html", "<!-- filename: a.html -->\n")},
		{"a declaration", "<!x\n```sh\n1\n```\n>\n```py\n2\n```\n", block("py", "2\n")},
		{"a declaration in one line", "<!DOCTYPE html>\n```py\n2\n```\n", block("py", "2\n")},
		{"no declaration", "<!1\n```py\n2\n```\n", block("py", "2\n")},
		{"pre", "<pre>\n```py\n1\n```\n</PRE>\n", nil},
		{"tags of models", "<execute>\n```py\n1\n```\n</execute>\n<details><summary>x</summary>\n```py\n2\n```\n</details>\n",
			blocks{{Language: "py", Code: "1\n"}, {Language: "py", Code: "2\n"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := codeblock.Parse(c.text)
			assert.DeepEqual(t, got, c.want)
			for _, b := range got {
				assert.DeepEqual(t, codeblock.Parse(b.String()), blocks{b})
			}
		})
	}
}

func TestParseAnswers(t *testing.T) {
	answers, err := filepath.Glob("testdata/*.md")
	assert.NilError(t, err)
	assert.Assert(t, len(answers) > 0)
	for _, name := range answers {
		text, err := os.ReadFile(name)
		assert.NilError(t, err)
		var got strings.Builder
		for _, b := range codeblock.Parse(string(text)) {
			file, named := b.Filename()
			fmt.Fprintf(&got, "language %q, info %q, unclosed %v, file %q %v\n%s----\n", b.Language, b.Info,
				b.Unclosed, file, named, b.Code)
		}
		golden.Assert(t, got.String(), strings.TrimSuffix(filepath.Base(name), ".md")+".golden")
		// Where lines end makes no difference.
		assert.DeepEqual(t, codeblock.Parse(strings.ReplaceAll(string(text), "\n", "\r\n")), codeblock.Parse(string(text)))
	}
}

func TestStringOfABlockMadeByHand(t *testing.T) {
	b := codeblock.Block{Language: "py", Code: "print('```')"}
	assert.Equal(t, b.String(), "````py\nprint('```')\n````\n")
}

// The time may grow with the length of a text, not with its square.
func TestParseOfHostileTextIsQuick(t *testing.T) {
	for _, part := range []string{">", "> ", "- ", "1. ", "-\n", "```\n", "`", "~", "\t", "<!--", "<pre>\n",
		"* * ", "#", "_ ", ">\n```\n"} {
		text := strings.Repeat(part, 1<<18/len(part))
		done := make(chan struct{})
		go func() {
			defer close(done)
			codeblock.Parse(text)
			codeblock.Parse(text + "\n" + text)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("256 KiB of %q take too long", part)
		}
	}
}

func TestFilename(t *testing.T) {
	for code, want := range map[string]string{
		"# filename: a.py\nx":                 "a.py",
		"# filename:a.py":                     "a.py",
		"#filename: a.py\n":                   "a.py",
		"# Filename:  a b.py  \n":             "a b.py",
		"# filename: a:b.py\n":                "a:b.py",
		"# filename:\n":                       "",
		"# filename: -c\n":                    "-c",
		"// filename: a.js\n":                 "a.js",
		"/* filename: a.css */\n":             "a.css",
		"<!-- filename: a.html -->\n":         "a.html",
		"-- filename: a.sql\n":                "a.sql",
		"# a.py\n":                            "none",
		"// a.js\n":                           "none",
		"<!-- a.html -->\n":                   "none",
		"\n# filename: a.py\n":                "none",
		"x\n# filename: a.py\n":               "none",
		"# the filename: a.py\n":              "none",
		"<!-- filename: a.html\n":             "none",
		"filename: a.py\n":                    "none",
		"# filename\n":                        "none",
		"":                                    "none",
		"print('# filename: a.py')\n# f: x\n": "none",
	} {
		name, ok := codeblock.Block{Code: code}.Filename()
		if !ok {
			name = "none"
		}
		assert.Equal(t, name, want, "%q", code)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"```py\n1\n```\n", "> - ~~~ x\n> \t1\r\n", "1. a\n   ```\n\t\tx\n", "<!--\n```\n-->\n", "````\n```\n````",
		"- \n\n ```\n \t",
		"```\r\r\n`", "~~~ ~`0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' })
		for _, b := range codeblock.Parse(text) {
			if b.Code != "" && !strings.HasSuffix(b.Code, "\n") {
				t.Fatalf("%q has no newline at its end", b.Code)
			}
			if !strings.Contains(text, b.Language) || !strings.Contains(text, b.Info) {
				t.Fatalf("%q, %q: no part of the text", b.Language, b.Info)
			}
			// Each line of the code is the end of one of the text, and they come in the
			// same order. What is left of a tab is spaces.
			for line := range strings.Lines(b.Code) {
				line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t")
				for line != "" {
					if len(lines) == 0 {
						t.Fatalf("%q is no line of the text", line)
					}
					found := strings.HasSuffix(lines[0], line)
					lines = lines[1:]
					if found {
						break
					}
				}
			}
			if again := codeblock.Parse(b.String()); len(again) != 1 || again[0] != b {
				t.Fatalf("%+v became %+v", b, again)
			}
			b.Filename()
		}
	})
}
