package contract

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

var sum = strings.Repeat("0f", 32)

// TestParseMeta also records what each side accepted before both used this parser. The job's parser decided whether a
// restore could begin. The coordinator accepted any object with the right name as a commit marker.
func TestParseMeta(t *testing.T) {
	for name, c := range map[string]struct {
		text                string
		ok                  bool
		job, coordinatorSum bool // accepted before; for the coordinator: with a checksum
	}{
		"as written":            {"sha256:" + sum, true, true, true},
		"with a newline":        {"sha256:" + sum + "\n", true, true, true},
		"with two newlines":     {"sha256:" + sum + "\n\n", false, true, true},
		"with a DOS newline":    {"sha256:" + sum + "\r\n", false, true, true},
		"space after":           {"sha256:" + sum + "   ", false, true, true},
		"space before":          {" sha256:" + sum, false, false, true},
		"newline before":        {"\nsha256:" + sum, false, false, true},
		"wide space after":      {"sha256:" + sum + "\u00a0", false, false, true},
		"space inside":          {"sha256: " + sum, false, false, false},
		"upper-case digits":     {"sha256:" + strings.ToUpper(sum), false, false, false},
		"upper-case name":       {"SHA256:" + sum, false, false, false},
		"no digits":             {"sha256:" + strings.Repeat("g", 64), false, false, false},
		"a digit too few":       {"sha256:" + sum[1:], false, false, false},
		"a digit too many":      {"sha256:" + sum + "0", false, false, false},
		"nothing":               {"", false, false, false},
		"only a newline":        {"\n", false, false, false},
		"only the name":         {"sha256:", false, false, false},
		"only digits":           {sum, false, false, false},
		"another algorithm":     {"md5:" + sum, false, false, false},
		"something else":        {"hello", false, false, false},
		"two markers":           {"sha256:" + sum + "\nsha256:" + sum, false, false, false},
		"more than a read held": {"sha256:" + sum + strings.Repeat(" ", 5000) + "x", false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for how, parse := range map[string]func() (string, error){
				"ParseMeta":            func() (string, error) { return ParseMeta(c.text) },
				"ReadMeta":             func() (string, error) { return ReadMeta(strings.NewReader(c.text)) },
				"ReadMeta, byte-wise":  func() (string, error) { return ReadMeta(iotest.OneByteReader(strings.NewReader(c.text))) },
				"ReadMeta, early end.": func() (string, error) { return ReadMeta(iotest.DataErrReader(strings.NewReader(c.text))) },
			} {
				got, err := parse()
				if c.ok && (err != nil || got != sum) || !c.ok && (!errors.Is(err, ErrMalformedMeta) || got != "") {
					t.Errorf("%s: %q, %v", how, got, err)
				}
			}
			if c.ok && !(c.job && c.coordinatorSum) {
				t.Error("this parser accepts what one side refused")
			}
		})
	}
}

func TestReadMetaTellsAReadErrorFromAMalformedMarker(t *testing.T) {
	broken := errors.New("the connection broke")
	r := io.MultiReader(strings.NewReader("sha256:"), iotest.ErrReader(broken))
	if _, err := ReadMeta(r); !errors.Is(err, broken) || errors.Is(err, ErrMalformedMeta) {
		t.Errorf("got %v", err)
	}
}

// FuzzMeta asserts that the parser accepts only what FormatMeta writes, with or without a newline at the end, and that
// this survives the round trip.
func FuzzMeta(f *testing.F) {
	for _, text := range []string{"", "\n", "sha256:" + sum, "sha256:" + sum + "\n", "sha256:" + sum + "\n\n",
		" sha256:" + sum,
		"sha256:" + strings.ToUpper(sum), "sha256:" + sum[:63] + "\n", "md5:" + sum} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseMeta(text)
		read, readErr := ReadMeta(strings.NewReader(text))
		if got != read || (err == nil) != (readErr == nil) {
			t.Fatalf("ParseMeta: %q, %v; ReadMeta: %q, %v", got, err, read, readErr)
		}
		if err != nil {
			if !errors.Is(err, ErrMalformedMeta) || got != "" {
				t.Fatalf("refused with %q, %v", got, err)
			}
			return
		}
		written := FormatMeta(got)
		if text != written && text != written+"\n" {
			t.Fatalf("%q was accepted, and is written as %q", text, written)
		}
		if again, err := ParseMeta(written); err != nil || again != got {
			t.Fatalf("%q came back as %q, %v", got, again, err)
		}
	})
}

func TestArchiveURL(t *testing.T) {
	for _, c := range []struct{ bucket, key string }{{"bucket", "home.tar.zst"}, {"b", "archives/a/b/home.tar.zst"}} {
		bucket, key, err := ParseArchiveURL(ArchiveURL(c.bucket, c.key))
		if err != nil || bucket != c.bucket || key != c.key {
			t.Errorf("%+v came back as %q, %q, %v", c, bucket, key, err)
		}
	}
	for _, url := range []string{"", "s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://bucket/folder/",
		"http://bucket/key", "bucket/key"} {
		if bucket, key, err := ParseArchiveURL(url); err == nil {
			t.Errorf("%q passes as %q, %q", url, bucket, key)
		}
	}
}

func TestParseResult(t *testing.T) {
	want := Result{Event: EventResult, OK: true, Size: 7, SHA256: sum, Bytes: 8, Files: 9, Skipped: 1, Done: true,
		Seconds: 1.5, Began: 1, Stages: []Stage{{StepUnpack, 0.5}}, About: About{Workspace: "w", Operation: "RESTORING"}}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	progress, err := json.Marshal(ProgressLine{Event: EventProgress, Step: StepSwap})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(progress) + "\n" + string(line) + "\n"
	for name, c := range map[string]struct {
		output string
		ok     bool
	}{
		"the whole output":            {whole, true},
		"only the result":             {string(line), true},
		"blank lines after":           {whole + "\n  \n", true},
		"a field of another release":  {strings.Replace(whole, `"ok"`, `"new":{"a":1},"ok"`, 1), true},
		"progress last":               {string(line) + "\n" + string(progress), false},
		"cut off":                     {whole[:len(whole)-3], false},
		"other text last":             {whole + "panic: x\n", false},
		"a field of another type":     {strings.Replace(whole, `"size":7`, `"size":"7"`, 1), false},
		"a result without its event":  {strings.Replace(whole, EventResult, "", 1), false},
		"two results in the one line": {string(line) + string(line), false},
		"nothing":                     {"", false},
		"a blank line":                {"\n", false},
	} {
		got, ok := ParseResult([]byte(c.output))
		if ok != c.ok || ok && !reflect.DeepEqual(got, want) || !ok && !reflect.DeepEqual(got, Result{}) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

// FuzzParseResult asserts that a result survives writing and reading.
func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"event":"result","ok":true,"size":7}`))
	f.Add([]byte(`{"event":"progress"}` + "\n" + `{"event":"result","error":"a\u0000b` + "\xff" + `"}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		r, ok := ParseResult(output)
		if !ok {
			return
		}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := ParseResult(append(append(output, '\n'), line...)); !ok || !same(again, r) {
			t.Fatalf("%+v came back as %+v, %t", r, again, ok)
		}
	})
}

// same compares results. It ignores that an empty list of stages is omitted from the output.
func same(a, b Result) bool {
	if !slices.Equal(a.Stages, b.Stages) {
		return false
	}
	a.Stages, b.Stages = nil, nil
	return reflect.DeepEqual(a, b)
}

// TestImportsOnlyTheStandardLibrary: this package is linked into both programs, and a job that imports the coordinator
// could no longer be built without it.
func TestImportsOnlyTheStandardLibrary(t *testing.T) {
	const module = "github.com/codehub/gateway/"
	imports := func(pkg string) []string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	if got := imports(module + "storagejob/contract"); len(got) != 1 {
		t.Errorf("the contract needs %q", got)
	}
	for _, pkg := range imports(module + "storagejob") {
		if strings.HasPrefix(pkg, module) && !strings.HasPrefix(pkg, module+"storagejob") {
			t.Errorf("the storage job needs %s", pkg)
		}
	}
}

// FuzzParseArchiveURL asserts that an address has one bucket and one key.
func FuzzParseArchiveURL(f *testing.F) {
	for _, s := range []string{"s3://bucket/0a1b2c3d/op/home.tar.zst", "s3://b/", "s3:///k", "s3://b/k/", "https://b/k", "s3://b/../k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		bucket, key, err := ParseArchiveURL(s)
		if err == nil && (ArchiveURL(bucket, key) != s || strings.Contains(bucket, "/") || key == "") {
			t.Errorf("%q is bucket %q and key %q", s, bucket, key)
		}
	})
}
