package redact

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// generated makes a line of the kind of text that commands print. None of them has
// anything that should be found.
var generated = map[string]func(r *rand.Rand) string{
	"times in milliseconds": func(r *rand.Rand) string {
		begin := 1_700_000_000_000 + r.Int64N(1e11)
		return fmt.Sprintf(`{"level":"info","begin":%d,"end":%d,"msg":"request served"}`, begin, begin+r.Int64N(5000))
	},
	"times in microseconds": func(r *rand.Rand) string {
		return fmt.Sprintf("%d job=%d took=%dus", 1_700_000_000_000_000+r.Int64N(1e14), r.IntN(1e5), r.IntN(1e6))
	},
	"times in nanoseconds": func(r *rand.Rand) string {
		return fmt.Sprintf("ts=%d worker=%d done", 1_700_000_000_000_000_000+r.Int64N(1e17), r.IntN(64))
	},
	"dates": func(r *rand.Rand) string {
		t := time.Unix(1_700_000_000+r.Int64N(1e8), r.Int64N(1e9)).UTC()
		return t.Format("2006-01-02T15:04:05.000000000Z") +
			t.Format(" 20060102150405 [02/Jan/2006:15:04:05 +0000] INFO main.go:42 request 12345 took 17ms")
	},
	"hashes":  func(r *rand.Rand) string { return fmt.Sprintf("100644 blob %s\tREADME.md", hexOf(r, 40)) },
	"digests": func(r *rand.Rand) string { return "app/web@sha256:" + hexOf(r, 64) + " " + hexOf(r, 12) },
	"UUIDs": func(r *rand.Rand) string {
		return fmt.Sprintf("id=%s-%s-4%s-a%s-%s", hexOf(r, 8), hexOf(r, 4), hexOf(r, 3), hexOf(r, 3), hexOf(r, 12))
	},
	"decimal identifiers": func(r *rand.Rand) string { return fmt.Sprintf("span %d of trace %d", r.Uint64(), r.Int64N(1e18)) },
	"files": func(r *rand.Rand) string {
		return fmt.Sprintf("-rw-r--r-- 1 1000 1000 %12d Jan %2d 12:%02d part-%05d.parquet", r.Int64N(1e10),
			1+r.IntN(31), r.IntN(60), r.IntN(1e5))
	},
	"integers as CSV": func(r *rand.Rand) string {
		return fmt.Sprintf("%d,%d,%d,%d", r.IntN(1e4), r.IntN(1e6), r.IntN(1e9), r.Int64N(1e12))
	},
	"floats as JSON": func(r *rand.Rand) string { return fmt.Sprintf(`{"loss":%v,"lr":%v}`, r.Float64(), r.Float64()/1000) },
	"a table of years": func(r *rand.Rand) string {
		y := 1900 + r.IntN(100)
		return fmt.Sprintf("total %d %d %d %d %d", y, y+1, y+2, y+3, y+4)
	},
	"a table of four digits": func(r *rand.Rand) string {
		var cells []string
		for range 8 {
			cells = append(cells, fmt.Sprint(1000+r.IntN(9000)))
		}
		return strings.Join(cells, " ")
	},
	"octal": func(r *rand.Rand) string {
		return fmt.Sprintf("%07o %06o %06o %06o %06o", r.IntN(1e6), r.IntN(1<<16), r.IntN(1<<16), r.IntN(1<<16),
			r.IntN(1<<16))
	},
	"hexadecimal words of text": func(r *rand.Rand) string {
		text := []byte("order 1234567890 of 2024: 3.14159265358979 and more")
		at := r.IntN(len(text) - 16)
		return fmt.Sprintf("%08x: %04x", at, words(text[at:at+16]))
	},
	"bytes": func(r *rand.Rand) string { return fmt.Sprintf("%08x  % x", r.IntN(1e6), bytesOf(r, 16)) },
	"versions": func(r *rand.Rand) string {
		return fmt.Sprintf("lib%d==%d.%d.%d", r.IntN(100), r.IntN(30), r.IntN(30), r.IntN(30))
	},
	"versions of four numbers": func(r *rand.Rand) string {
		return fmt.Sprintf("chrome %d.%d.%d.%d", 100+r.IntN(40), r.IntN(3), 5000+r.IntN(2000), r.IntN(200))
	},
	"versions of four small numbers": func(r *rand.Rand) string {
		return fmt.Sprintf("assembly %d.%d.%d.%d", r.IntN(30), r.IntN(30), r.IntN(30), r.IntN(30))
	},
	"npm": func(r *rand.Rand) string {
		return fmt.Sprintf("├── @scope/pkg%d@%d.%d.%d\n", r.IntN(100), r.IntN(30), r.IntN(30), r.IntN(30)) +
			fmt.Sprintf("└── left-pad@%d.%d.%d deduped", r.IntN(9), r.IntN(9), r.IntN(9))
	},
	"prompts": func(r *rand.Rand) string {
		return fmt.Sprintf("dev@host%d:~/src/app$ ls", r.IntN(100))
	},
	"decorators": func(r *rand.Rand) string { return fmt.Sprintf("@app.route('/items/%d')", r.IntN(100)) },
	"module caches": func(r *rand.Rand) string {
		return fmt.Sprintf("\t/go/pkg/mod/lib@v1.%d.%d/file.go:%d +0x%x", r.IntN(30), r.IntN(30), r.IntN(900), r.IntN(4096))
	},
	"modules": func(r *rand.Rand) string {
		return fmt.Sprintf("ok  \tgithub.com/x/y%d\t0.%03ds", r.IntN(100), r.IntN(1000))
	},
	"tracebacks": func(r *rand.Rand) string {
		return fmt.Sprintf(`  File "/app/src/tool.py", line %d, in run`, r.IntN(1000))
	},
	"tracebacks of python3.12": func(r *rand.Rand) string {
		return fmt.Sprintf(`  File "/usr/lib/python3.12/json/decoder.py", line %d, in decode`, r.IntN(1000))
	},
	"compilers": func(r *rand.Rand) string {
		return fmt.Sprintf("./src/a/b.c:%d:%d: error: and/or of a/b", r.IntN(1000), r.IntN(80))
	},
	"fingerprints": func(r *rand.Rand) string {
		return "MD5:" + strings.ReplaceAll(fmt.Sprintf("% x", bytesOf(r, 16)), " ", ":")
	},
	"clones": func(r *rand.Rand) string {
		return fmt.Sprintf("origin\tgit@github.com:team/app%d (fetch)", r.IntN(100))
	},
	"units": func(r *rand.Rand) string { return fmt.Sprintf("getty@tty%d.service loaded active running", r.IntN(9)) },
}

func bytesOf(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// hexOf returns so many hexadecimal digits.
func hexOf(r *rand.Rand, n int) string { return fmt.Sprintf("%x", bytesOf(r, n))[:n] }

// words are the two-byte words of a text.
func words(text []byte) []uint16 {
	var w []uint16
	for i := 0; i+1 < len(text); i += 2 {
		w = append(w, uint16(text[i])<<8|uint16(text[i+1]))
	}
	return w
}

// falseHits are of how many of 1,000 lines each detector may at most find something: in
// what is generated, and in the recorded samples. What is not here is never found. All of
// it is LangChain's shapes, but for payment_card.
var falseHits = map[string]map[string]int{
	"credit_card": {
		"a table of four digits": 200, "a table of years": 220, "decimal identifiers": 5, "floats as JSON": 60,
		"hexadecimal words of text": 120, "times in microseconds": 110, "od.txt": 57, "python.txt": 52,
	},
	"payment_card": {
		"a table of four digits": 420, "a table of years": 420, "decimal identifiers": 170, "floats as JSON": 160,
		"hexadecimal words of text": 300, "times in microseconds": 110, "od.txt": 240, "python.txt": 69,
		"dates": 110, "octal": 360, "times in milliseconds": 210, "times in nanoseconds": 120,
	},
	// An account of ssh, an instance of a unit, and what text is by chance.
	"email":       {"clones": 1000, "units": 1000, "od.txt": 15},
	"ip":          {"versions of four small numbers": 1000},
	"mac_address": {"fingerprints": 1000},
	// A path in which the name of a directory has a dot.
	"url": {"module caches": 1000, "modules": 1000, "tracebacks of python3.12": 1000, "go-list.txt": 783,
		"python.txt": 156},
}

// corpora returns the lines of each text.
func corpora(t *testing.T) map[string][]string {
	all := map[string][]string{}
	for name, line := range generated {
		r := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			all[name] = append(all[name], line(r))
		}
	}
	files, err := filepath.Glob("testdata/output/*.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		all[filepath.Base(file)] = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	return all
}

// Whoever turns a detector on knows how much it takes out of what commands print.
func TestFalseHits(t *testing.T) {
	all := corpora(t)
	for _, kind := range slices.Sorted(maps.Keys(detectors)) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			hits, example := 0, ""
			for _, line := range all[name] {
				if spans := detectors[kind]([]byte(line)); len(spans) > 0 {
					hits++
					example = line[spans[0][0]:spans[0][1]]
				}
			}
			rate := (hits*1000 + len(all[name]) - 1) / len(all[name])
			if rate > 0 {
				t.Logf("%s: %d of 1,000 lines of %s, such as %q", kind, rate, name, example)
			}
			assert.Check(t, rate <= falseHits[kind][name], "%s: %d of 1,000 lines of %s, such as %q", kind, rate, name, example)
		}
		for name, most := range falseHits[kind] {
			assert.Check(t, len(all[name]) > 0 && most > 0, "%s: there is no text %q", kind, name)
		}
	}
}

// genuine makes what a detector has to find.
var genuine = map[string]func(r *rand.Rand) string{
	"email": func(r *rand.Rand) string {
		return fmt.Sprintf("%s.%d@%s.%s", []string{"ada", "j_doe", "o-neil+list"}[r.IntN(3)], r.IntN(100),
			[]string{"example", "mail.example"}[r.IntN(2)], []string{"com", "co.uk", "museum"}[r.IntN(3)])
	},
	"credit_card": func(r *rand.Rand) string {
		d := withLuhn(r, 16)
		sep := []string{"", " ", "-"}[r.IntN(3)]
		return d[:4] + sep + d[4:8] + sep + d[8:12] + sep + d[12:]
	},
	"payment_card": func(r *rand.Rand) string {
		if r.IntN(2) == 0 {
			return withLuhn(r, minCard+r.IntN(maxCard-minCard+1))
		}
		d := withLuhn(r, 15)
		return d[:4] + " " + d[4:10] + " " + d[10:]
	},
	"ip": func(r *rand.Rand) string {
		return fmt.Sprintf("%d.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256))
	},
	"mac_address": func(r *rand.Rand) string { return strings.ReplaceAll(fmt.Sprintf("% x", bytesOf(r, 6)), " ", ":") },
	"url": func(r *rand.Rand) string {
		return []string{"https://example.com:8443/a?b=c#d", "http://10.0.0.1/x", "www.example.org",
			"api.example.org/v1/users"}[r.IntN(4)]
	},
}

// withLuhn returns so many digits, of which the last is the check digit.
func withLuhn(r *rand.Rand, n int) string {
	d := []byte(fmt.Sprintf("%0*d", n, 1+r.Int64N(9e14)))
	for ; ; d[n-1] = '0' + (d[n-1]-'0'+1)%10 {
		digits := bytes.Clone(d)
		for i := range digits {
			digits[i] -= '0'
		}
		if luhn(digits) {
			return string(d)
		}
	}
}

// What is to be found is found, whatever it stands in.
func TestGenuine(t *testing.T) {
	all := corpora(t)
	frames := []string{"%s", "user: %s.", `{"value":"%s","n":1}`, "(%s)", "a\t%s\tb", "<%s>", "x=%s, y=2", "'%s'", "和%s和"}
	for kind, form := range genuine {
		r := rand.New(rand.NewPCG(3, 4))
		for i := range 1000 {
			value := form(r)
			lines := all[slices.Sorted(maps.Keys(generated))[r.IntN(len(generated))]]
			line := lines[i%len(lines)] + " | " + fmt.Sprintf(frames[r.IntN(len(frames))], value)
			redactor, err := New(Rule{Type: kind})
			assert.NilError(t, err)
			got, err := redactor.Bytes([]byte(line))
			assert.NilError(t, err)
			assert.Assert(t, !bytes.Contains(got, []byte(value)), "%s: %q", kind, got)
		}
	}
	assert.Equal(t, len(genuine), len(detectors))
}
