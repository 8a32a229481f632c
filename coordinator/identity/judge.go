package identity

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/store"
)

// action is what follows from one look.
type action int

const (
	refuse action = iota // it is another one
	trust                // it is the recorded one
	record               // record what was found, and look again
	write                // write the marker, and look again
)

// step is an action with what it needs: the identity that was found, and for write the
// marker and the ETag of what it replaces.
type step struct {
	do       action
	identity string
	marker   marker
	etag     string
}

// judgeBackend decides about a backend. It is recorded when it is the first one, or
// when an administrator has accepted it.
func judgeBackend(row store.Identity, found string) step {
	switch {
	case found == row.Identity:
		return step{do: trust, identity: found}
	case row.Identity == "", found == row.Accepted:
		return step{do: record, identity: found}
	}
	return step{do: refuse, identity: found}
}

// marker is the content of the marker object.
type marker struct {
	Installation string `json:"installation"`
	// Database is the id of the database that the archives belong to.
	Database string `json:"database"`
	// Generation grows each time that this database adopts a bucket. So a bucket that it
	// has left is told from the one that it uses.
	Generation int `json:"generation"`
}

// encode returns the object's content.
func (m marker) encode() []byte {
	text, _ := json.MarshalIndent(m, "", "  ") // two strings and a number
	return append(text, '\n')
}

// String is the identity of a bucket with this marker, for people and for the record.
func (m marker) String() string {
	return fmt.Sprintf("installation %q, database %s, generation %d", m.Installation, m.Database, m.Generation)
}

// generation returns the generation in an identity that [marker.String] made.
func generation(identity string) int {
	_, number, _ := strings.Cut(identity, ", generation ")
	n, _ := strconv.Atoi(number)
	return n
}

// sighting is what lies in a bucket: a marker, or why there is none.
type sighting struct {
	noBucket bool
	exists   bool // there is an object with the marker's name
	etag     string
	readable bool // and it is a marker
	marker   marker
}

// parseMarker reads a marker object. Its id goes into the database and is shown to people:
// one that PostgreSQL cannot hold would hide the mismatch from all but this process.
func parseMarker(found archive.Marker) sighting {
	s := sighting{exists: true, etag: found.ETag}
	s.readable = json.Unmarshal(found.Content, &s.marker) == nil &&
		s.marker.Database != "" && !strings.ContainsFunc(s.marker.Database, unicode.IsControl)
	return s
}

// String is the identity that was found, for people and for the record.
func (s sighting) String() string {
	switch {
	case s.noBucket:
		return "no bucket of that name"
	case !s.exists:
		return "no marker object " + archive.MarkerKey + ", as in an empty bucket"
	case !s.readable:
		return "an unreadable marker object " + archive.MarkerKey + " " + s.etag
	}
	return s.marker.String()
}

// judgeBucket decides about a bucket. own is this installation's marker without its
// generation.
//
//	recorded   in the bucket                  →
//	nothing    nothing                        write the marker
//	nothing    our marker                     record it (a crash, or an older database)
//	gen. n     our marker, n                  trust
//	gen. n     our marker, above n            record it (the same)
//	gen. n     our marker, below n            another bucket: this one was left
//	any        anything else                  another bucket
//	any        another one, but accepted      write the marker over it, generation n+1
//
// Nothing is recorded either when another installation's bucket is the first that was
// ever seen.
func judgeBucket(row store.Identity, own marker, seen sighting) step {
	recorded, found := generation(row.Identity), seen.String()
	ours := seen.readable && seen.marker.Installation == own.Installation && seen.marker.Database == own.Database
	own.Generation = recorded + 1
	switch {
	case row.Identity != "" && found == row.Identity:
		return step{do: trust, identity: found}
	case ours && seen.marker.Generation > recorded:
		return step{do: record, identity: found}
	case found == row.Accepted, row.Identity == "" && !seen.exists:
		return step{do: write, identity: found, marker: own, etag: seen.etag}
	}
	return step{do: refuse, identity: found}
}
