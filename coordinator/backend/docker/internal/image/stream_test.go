package image

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	const (
		fs       = `{"status":"Pulling from library/x","id":"latest"}` + "\n" + `{"status":"Pulling fs layer","progressDetail":{},"id":"a"}` + "\n"
		complete = `{"status":"Digest: sha256:0"}` + "\n" + `{"status":"Status: Downloaded newer image for x"}` + "\n"
	)
	loading := func(id string, done, total int) string {
		return fmt.Sprintf(`{"status":"Downloading","progressDetail":{"current":%d,"total":%d},"progress":"[=> ]","id":%q}`+"\n", done, total, id)
	}
	status := func(id, s string) string { return fmt.Sprintf(`{"status":%q,"progressDetail":{},"id":%q}`+"\n", s, id) }
	for name, c := range map[string]struct {
		stream string
		want   string
	}{
		"one layer":               {fs + loading("a", 3, 10) + loading("a", 10, 10) + complete, "3/10 10/10"},
		"two layers":              {fs + loading("a", 3, 10) + loading("b", 5, 20) + loading("a", 7, 10) + complete, "3/10 8/30 12/30"},
		"the end comes by status": {fs + loading("a", 3, 10) + status("a", "Download complete") + status("a", "Pull complete"), "3/10 10/10"},
		"unpacking is no loading": {fs + loading("a", 10, 10) + `{"status":"Extracting","progressDetail":{"current":2,"total":10},"id":"a"}`, "10/10"},
		"a layer begins again":    {fs + loading("a", 8, 10) + status("a", "Retrying in 5 seconds") + loading("a", 1, 10) + loading("a", 9, 10), "8/10 9/10"},
		"there already":           {status("a", "Already exists") + complete, ""},
		"a size that is not told": {loading("a", 4, 0) + loading("a", 9, -1) + status("a", "Download complete"), "4/4 9/9"},
		"too small for progress":  {fs + status("a", "Download complete") + complete, ""},
		"nothing":                 {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stream := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				var got []string
				if err := read(stream, func(done, total int64) { got = append(got, fmt.Sprintf("%d/%d", done, total)) }); err != nil {
					t.Fatal(err)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestReadFails(t *testing.T) {
	broken := errors.New("the connection broke")
	const begun = `{"status":"Downloading","progressDetail":{"current":1,"total":2},"id":"a"}` + "\n"
	for name, c := range map[string]struct {
		stream  io.Reader
		want    error
		refused string
	}{
		"the registry refuses": {strings.NewReader(begun + `{"errorDetail":{"message":"denied"},"error":"  denied: not yours\n"}`), nil, "denied: not yours"},
		"it is cut":            {strings.NewReader(begun + `{"status":"Down`), io.ErrUnexpectedEOF, ""},
		"it breaks":            {io.MultiReader(strings.NewReader(begun), iotest.ErrReader(broken)), broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := read(c.stream, func(int64, int64) { calls++ })
			var refused *refusedError
			if c.refused != "" {
				if !errors.As(err, &refused) || refused.Error() != c.refused {
					t.Errorf("%v, want the engine's own %q", err, c.refused)
				}
			} else if !errors.Is(err, c.want) || errors.As(err, &refused) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if calls != 1 {
				t.Errorf("%d reports before it failed", calls)
			}
		})
	}
	if err := read(strings.NewReader("<html>"), func(int64, int64) {}); err == nil {
		t.Error("something else than a stream was read")
	}
}
