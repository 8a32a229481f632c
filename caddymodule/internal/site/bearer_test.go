package site

import (
	"net/http"
	"testing"
)

func TestBearer(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
		ok    bool
	}{
		{nil, "", false},
		{[]string{""}, "", false},
		{[]string{"Bearer"}, "", false},
		{[]string{"Bearer theirs"}, "", false},
		{[]string{"Bearer CHG_a"}, "", false},
		{[]string{"Basic chg_a"}, "", false},
		{[]string{"chg_a"}, "", false},
		{[]string{`Digest username="chg_a", realm="Bearer chg_a"`}, "", false},
		{[]string{"Bearer theirs", "Basic x"}, "", false},
		{[]string{"Bearer chg_a"}, "chg_a", true},
		{[]string{"bearer   chg_a "}, "chg_a", true},
		{[]string{"Bearer\tchg_a"}, "chg_a", true},
		{[]string{"Bearer chg_a b"}, "chg_a b", true},
		{[]string{"Bearer chg_a", "Bearer chg_a"}, "", true},
		{[]string{"Bearer theirs", "Bearer chg_a"}, "", true},
		{[]string{"Bearer chg_a", "Basic x"}, "", true},
		{[]string{"Bearer chg_a,"}, "", true},
		{[]string{"Bearer theirs, Bearer chg_a"}, "", true},
	} {
		got, ok := Bearer(http.Header{"Authorization": c.lines}, "chg_")
		if got != c.want || ok != c.ok {
			t.Errorf("%q: got %q, %v", c.lines, got, ok)
		}
	}
}

func TestARequestWithoutAuthorizationCostsNothing(t *testing.T) {
	h := http.Header{"Cookie": {"session=x"}}
	if n := testing.AllocsPerRun(100, func() { Bearer(h, "chg_") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
