package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// parse reads requests such as "ann.i" or "bob.b/90". A request consists of its owner, the first letter of its class,
// and the number of seconds for which it has waited. A request without a number has waited a little less than the one
// before it.
func parse(t *testing.T, text string) (out []Request) {
	t.Helper()
	for i, word := range strings.Fields(text) {
		word, ago, old := strings.Cut(word, "/")
		owner, class, _ := strings.Cut(word, ".")
		r := Request{Owner: owner, Class: Class(strings.Index("inbc", class)), Since: noon.Add(time.Duration(i) * time.Millisecond), Key: fmt.Sprintf("%03d", i)}
		if old {
			seconds, err := time.ParseDuration(ago + "s")
			if err != nil {
				t.Fatal(err)
			}
			r.Since = noon.Add(-seconds)
		}
		out = append(out, r)
	}
	return out
}

// TestNext is the table of the rules. The present is one second past noon, and MaxWait is a minute.
func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		limit                          int
		running, waiting, begins, rest string
	}{
		"nothing waits":                             {4, "ann.b", "", "", ""},
		"there is room":                             {4, "", "ann.b ann.i", "1 0", ""},
		"no place is free":                          {2, "ann.i ann.i", "ann.i ann.b", "", "0 1"},
		"more run than may":                         {2, "ann.i ann.i ann.i", "ann.i", "", "0"},
		"a higher class goes first":                 {5, "", "ann.c ann.b ann.n ann.i", "3 2 1 0", ""},
		"one place is kept for people":              {4, "", "a.b b.b c.b d.b e.b", "0 1 2", "3 4"},
		"also from what is begun":                   {3, "", "a.n b.b c.c", "0 1", "2"},
		"a person gets it":                          {4, "a.b b.b c.b", "d.b e.i", "1", "0"},
		"people may have all places":                {2, "a.i", "b.i c.i", "0", "1"},
		"with one place none is kept":               {1, "", "a.b b.b", "0", "1"},
		"but people go first":                       {1, "", "a.b b.i", "1", "0"},
		"one owner's many do not hold up another's": {3, "", "ann.b ann.b ann.b ann.b bob.b", "0 4", "1 2 3"},
		"who has none running goes first":           {4, "ann.b ann.b", "ann.b bob.b cid.b", "1", "2 0"},
		"owners take turns in the queue":            {1, "ann.i", "ann.b ann.b ann.b bob.b bob.b cid.b", "", "3 5 0 4 1 2"},
		"among equals who has waited longest":       {1, "", "ann.b bob.b/30 cid.b/20", "1", "2 0"},
		"also of one owner":                         {1, "", "ann.b/1 ann.b/3 ann.b/2", "1", "2 0"},
		"a long wait does not pass people by":       {1, "", "ann.b/59 bob.i", "1", "0"},
		"but one that is too long does":             {1, "", "ann.b/61 bob.i", "0", "1"},
		"one of them, not all":                      {3, "", "a.b/61 b.b/61 c.i d.i", "0 2 3", "1"},
		"and it takes no place that is kept":        {2, "a.b", "b.b/900 c.i d.i", "1", "2 0"},
		"the lowest class gets its turn, too":       {1, "", "a.c/900 b.b/900 c.i", "0", "2 1"},
	} {
		l := Queue{Limit: c.limit, MaxWait: time.Minute, Running: parse(t, c.running), Waiting: parse(t, c.waiting)}
		l.Free = l.Limit - len(l.Running)
		begins, rest := l.Next(noon.Add(time.Second / 2))
		if got := strings.Trim(fmt.Sprint(begins), "[]"); got != c.begins {
			t.Errorf("%s: begins %q, want %q", name, got, c.begins)
		}
		if got := strings.Trim(fmt.Sprint(rest), "[]"); got != c.rest {
			t.Errorf("%s: the rest is %q, want %q", name, got, c.rest)
		}
	}
}

// TestOwnersTakeTurns: owners take turns even if only one request runs at a time, so that no owner has a running
// request when the next one begins.
func TestOwnersTakeTurns(t *testing.T) {
	l := Queue{Limit: 1, Free: 1, Waiting: parse(t, "ann.b ann.b ann.b ann.b bob.b bob.b cid.b")}
	var order []string
	for now := noon; len(l.Waiting) > 0; now = now.Add(time.Second) {
		begin, rest := l.Next(now)
		r := l.Waiting[begin[0]]
		order = append(order, r.Owner)
		l.Served.Note(r, now)
		var left []Request
		for _, i := range rest {
			left = append(left, l.Waiting[i])
		}
		l.Waiting = left
	}
	if got := strings.Join(order, " "); got != "ann bob cid ann bob ann ann" {
		t.Errorf("in the order %s", got)
	}
}

// TestFewerMayBeFree: fewer places may be free than the limit leaves. The place that is reserved for people is counted
// from the limit, and not from the free places.
func TestFewerMayBeFree(t *testing.T) {
	l := Queue{Limit: 4, Free: 1, Waiting: parse(t, "a.b b.b c.i")}
	if begins, rest := l.Next(noon); fmt.Sprint(begins, rest) != "[2] [0 1]" {
		t.Errorf("%v begin, and then %v", begins, rest)
	}
	l.Free = -1
	if begins, _ := l.Next(noon); len(begins) != 0 {
		t.Errorf("%v begin without a place", begins)
	}
}

// TestNoStarvation: even if interactive requests never stop, each class and each owner still get places. Most places go
// to work that people wait for.
func TestNoStarvation(t *testing.T) {
	for _, limit := range []int{1, 2, 4} {
		l := Queue{Limit: limit, MaxWait: time.Minute}
		now, done := noon, make(map[Class]map[string]int)
		arrive := func(owner string, c Class) {
			l.Waiting = append(l.Waiting, Request{Owner: owner, Class: c, Since: now, Key: now.String() + owner})
		}
		for i := range 30 {
			arrive("ann", Background)
			arrive(fmt.Sprint("bob", i%3), Background)
			arrive("cid", Cleanup)
		}
		for range 300 { // every 10 s all that run end, and more people come than there are places
			for i := range limit + 1 {
				arrive(fmt.Sprint("person", i), Interactive)
			}
			l.Free, l.Running = limit, nil
			begin, rest := l.Next(now)
			for _, i := range begin {
				r := l.Waiting[i]
				l.Served.Note(r, now)
				if done[r.Class] == nil {
					done[r.Class] = make(map[string]int)
				}
				done[r.Class][r.Owner]++
			}
			var left []Request
			for _, i := range rest {
				left = append(left, l.Waiting[i])
			}
			l.Waiting = left
			now = now.Add(10 * time.Second)
		}
		sum := func(c Class) (n int) {
			for _, k := range done[c] {
				n += k
			}
			return n
		}
		b := done[Background]
		if b["ann"] == 0 || b["bob0"] == 0 || b["bob1"] == 0 || b["bob2"] == 0 || done[Cleanup]["cid"] == 0 {
			t.Errorf("%d places: %v", limit, done)
		}
		if people, others := sum(Interactive), sum(Background)+sum(Cleanup); people < 2*others {
			t.Errorf("%d places: %d for people, %d for others", limit, people, others)
		}
	}
}
