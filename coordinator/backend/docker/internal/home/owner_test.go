package home

import (
	"strings"
	"testing"
)

func TestIdentityOf(t *testing.T) {
	files := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nbroken\nodd:x:many:0:::\ncoder:x:1000:1001::/home/coder:/bin/sh\njovyan:x:1000:100::/home/jovyan:/bin/sh",
		"/etc/group":  "root:x:0:\nusers:x:100:jovyan\nalone\nodd:x:few:",
	}
	accounts := func(file string) (all [][]string, _ error) {
		for line := range strings.SplitSeq(files[file], "\n") {
			all = append(all, strings.Split(line, ":"))
		}
		return all, nil
	}
	none := func(string) ([][]string, error) { return nil, nil }
	for user, want := range map[string]identity{
		"": {}, "root": {}, "0": {}, "coder": {1000, 1001}, "jovyan": {1000, 100}, "1000": {1000, 1001},
		"1000:100": {1000, 100}, "coder:users": {1000, 100}, "jovyan:0": {1000, 0}, "7:8": {7, 8}, "7": {7, 0}, "7:users": {7, 100},
	} {
		if got, err := identityOf(user, accounts); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", user, got, err, want)
		}
	}
	for _, user := range []string{"nobody", "odd", "coder:nobody", "coder:odd", "-1", "99999999999"} {
		if got, err := identityOf(user, accounts); err == nil {
			t.Errorf("%q: %+v, want an error", user, got)
		}
	}
	if got, err := identityOf("1000", none); err != nil || got != (identity{1000, 0}) {
		t.Errorf("an image without a list of users: %+v, %v", got, err)
	}
	if _, err := identityOf("coder", none); err == nil {
		t.Error("a name was resolved without a list of users")
	}
}

func TestWritable(t *testing.T) {
	for _, c := range []struct {
		uid, gid int
		mode     int64
		want     bool
	}{
		{1000, 1000, 0o755, true}, {1000, 1000, 0o555, false}, {0, 1000, 0o775, true}, {0, 1000, 0o755, false},
		{0, 0, 0o755, false}, {0, 0, 0o777, true}, {1000, 0, 0o077, false},
	} {
		if got := (folder{uid: c.uid, gid: c.gid, mode: c.mode}).writable(identity{1000, 1000}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
