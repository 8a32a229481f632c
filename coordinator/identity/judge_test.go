package identity

import (
	"errors"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/store"
)

func TestWhichBackendIsBelieved(t *testing.T) {
	for _, c := range []struct {
		name, recorded, found, accepted, now string
		want                                 action
	}{
		{name: "first start", now: "A", want: record},
		{name: "the recorded one", recorded: "A", now: "A", want: trust},
		{name: "another one", recorded: "A", now: "B", want: refuse},
		{name: "another one, found before", recorded: "A", found: "B", now: "B", want: refuse},
		{name: "another one, accepted", recorded: "A", found: "B", accepted: "B", now: "B", want: record},
		{name: "a third one", recorded: "A", found: "B", accepted: "B", now: "C", want: refuse},
		{name: "the recorded one is back", recorded: "A", found: "B", accepted: "B", now: "A", want: trust},
	} {
		s := judgeBackend(store.Identity{Identity: c.recorded, Found: c.found, Accepted: c.accepted}, c.now)
		if s.do != c.want || s.identity != c.now {
			t.Errorf("%s: %+v, want %d", c.name, s, c.want)
		}
	}
}

func TestWhichBucketIsBelieved(t *testing.T) {
	own := marker{Installation: "one", Database: "D1"}
	with := func(installation, database string, generation int) sighting {
		return sighting{exists: true, readable: true, etag: "e", marker: marker{installation, database, generation}}
	}
	empty, noBucket, unreadable := sighting{}, sighting{noBucket: true}, sighting{exists: true, etag: "e"}
	text := func(s sighting) string { return s.String() }
	ours := func(generation int) string { return with("one", "D1", generation).String() }
	for _, c := range []struct {
		name, recorded, accepted string
		seen                     sighting
		want                     action
		generation               int
	}{
		{name: "first start", seen: empty, want: write, generation: 1},
		{name: "first start without a bucket", seen: noBucket, want: write, generation: 1},
		{name: "crash between the marker and its record", seen: with("one", "D1", 1), want: record},
		{name: "another installation's bucket is the first one", seen: with("two", "D2", 1), want: refuse},
		{name: "an empty database beside a full bucket", seen: with("one", "D0", 3), want: refuse},
		{name: "the same, accepted", accepted: text(with("one", "D0", 3)), seen: with("one", "D0", 3), want: write, generation: 1},
		{name: "another program's file is the first one", seen: unreadable, want: refuse},

		{name: "the recorded one", recorded: ours(2), seen: with("one", "D1", 2), want: trust},
		{name: "emptied", recorded: ours(2), seen: empty, want: refuse},
		{name: "the bucket is gone", recorded: ours(2), seen: noBucket, want: refuse},
		{name: "the marker is overwritten", recorded: ours(2), seen: unreadable, want: refuse},
		{name: "another installation's", recorded: ours(2), seen: with("two", "D2", 2), want: refuse},
		{name: "another installation on this database", recorded: ours(2), seen: with("two", "D1", 2), want: refuse},
		{name: "a bucket that this installation has left", recorded: ours(2), seen: with("one", "D1", 1), want: refuse},
		{name: "a database older than an acceptance", recorded: ours(2), seen: with("one", "D1", 3), want: record},

		{name: "emptied, accepted", recorded: ours(2), accepted: text(empty), seen: empty, want: write, generation: 3},
		{name: "the bucket is gone, accepted", recorded: ours(2), accepted: text(noBucket), seen: noBucket, want: write, generation: 3},
		{name: "overwritten, accepted", recorded: ours(2), accepted: text(unreadable), seen: unreadable, want: write, generation: 3},
		{name: "another one, accepted", recorded: ours(2), accepted: text(with("two", "D2", 7)), seen: with("two", "D2", 7), want: write, generation: 3},
		{name: "left and taken again", recorded: ours(2), accepted: ours(1), seen: with("one", "D1", 1), want: write, generation: 3},
		{name: "another one than the accepted", recorded: ours(2), accepted: text(with("two", "D2", 7)), seen: with("two", "D2", 8), want: refuse},
		{name: "the recorded one is back", recorded: ours(2), accepted: text(empty), seen: with("one", "D1", 2), want: trust},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := judgeBucket(store.Identity{Identity: c.recorded, Accepted: c.accepted}, own, c.seen)
			if s.do != c.want || s.identity != c.seen.String() {
				t.Fatalf("%+v, want %d", s, c.want)
			}
			if c.want == write && (s.marker != marker{"one", "D1", c.generation} || s.etag != c.seen.etag) {
				t.Errorf("it writes %+v over %q", s.marker, s.etag)
			}
		})
	}
}

func TestAMarkerIsReadAsItWasWritten(t *testing.T) {
	m := marker{Installation: `a "b", generation 9`, Database: "D", Generation: 4}
	s := parseMarker(archive.Marker{Content: m.encode(), ETag: "e"})
	if s.marker != m || !s.readable || !s.exists || s.etag != "e" {
		t.Errorf("%+v", s)
	}
	for _, text := range []string{"", "{", "[]", "{}", `{"installation": "x", "generation": 1}`, `{"database": 7}`, `{"database": "a\u0000b"}`, "<html>"} {
		if s := parseMarker(archive.Marker{Content: []byte(text), ETag: "e"}); s.readable || !strings.Contains(s.String(), "unreadable") {
			t.Errorf("%q is taken for a marker: %+v", text, s)
		}
	}
	// A later version of this program may add fields.
	if s := parseMarker(archive.Marker{Content: []byte(`{"database": "D", "more": [1]}`)}); !s.readable {
		t.Error("a marker with an unknown field is unreadable")
	}
	for _, g := range []int{0, 1, 12345} {
		if got := generation(marker{"one", "D", g}.String()); got != g {
			t.Errorf("generation %d is read as %d", g, got)
		}
	}
}

func TestAMismatchSaysWhatWasExpectedAndFoundAndWhatToDo(t *testing.T) {
	for _, e := range []*MismatchError{
		{Resource: store.ResourceBackend, Expected: "AAAA:1", Found: "BBBB:2"},
		{Resource: store.ResourceBucket, Expected: "AAAA:1", Found: "BBBB:2"},
	} {
		for _, part := range []string{"expected AAAA:1", "found BBBB:2", "data folder", "mounted", "caddy codehub accept " + string(e.Resource)} {
			if !strings.Contains(e.Error(), part) {
				t.Errorf("%q is missing: %s", part, e)
			}
		}
	}
	var mismatch *MismatchError
	if err := error(&MismatchError{Resource: store.ResourceBucket}); !errors.As(err, &mismatch) || strings.Contains(err.Error(), "expected ,") {
		t.Errorf("without a record: %v", err)
	}
}
