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

// action is the consequence of a look.
type action int

const (
	refuse action = iota // it is a different one
	trust                // it is the recorded one
	record               // record what was found, and look again
	write                // write the marker, and look again
)

// step is an action with its data: the identity that was found and, for write, the marker and the ETag of the object
// that it replaces.
type step struct {
	do       action
	identity string
	marker   marker
	etag     string
}

// judgeBackend decides about a backend. A backend is recorded if it is the first one, or if an administrator has
// accepted it.
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
	// Database is the id of the database to which the archives belong.
	Database string `json:"database"`
	// Generation grows each time that this database adopts a bucket. This distinguishes an abandoned bucket from the
	// current one.
	Generation int `json:"generation"`
}

// encode returns the object's content.
func (m marker) encode() []byte {
	text, _ := json.MarshalIndent(m, "", "  ") // cannot fail: two strings and a number
	return append(text, '\n')
}

// String returns the identity of a bucket with this marker, for people and for the record.
func (m marker) String() string {
	return fmt.Sprintf("installation %q, database %s, generation %d", m.Installation, m.Database, m.Generation)
}

// generation returns the generation in an identity made by [marker.String].
func generation(identity string) int {
	_, number, _ := strings.Cut(identity, ", generation ")
	n, _ := strconv.Atoi(number)
	return n
}

// sighting is a finding in a bucket: a marker, or the reason why there is none.
type sighting struct {
	noBucket bool
	exists   bool // there is an object with the marker's name
	etag     string
	readable bool // the object is a marker
	marker   marker
}

// parseMarker reads a marker object. The id goes into the database and is shown to people: if PostgreSQL could not
// store the id, all other processes would not see the mismatch.
func parseMarker(found archive.Marker) sighting {
	s := sighting{exists: true, etag: found.ETag}
	s.readable = json.Unmarshal(found.Content, &s.marker) == nil &&
		s.marker.Database != "" && !strings.ContainsFunc(s.marker.Database, unicode.IsControl)
	return s
}

// String returns the identity that was found, for people and for the record.
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

// judgeBucket decides about a bucket. own is this installation's marker without its generation.
//
//	recorded   in the bucket                  →
//	nothing    nothing                        write the marker
//	nothing    our marker                     record it (after a crash, or with an older database)
//	gen. n     our marker, n                  trust
//	gen. n     our marker, above n            record it (for the same reasons)
//	gen. n     our marker, below n            refuse: this bucket was abandoned
//	any        anything else                  refuse
//	any        a different one, but accepted  write the marker over it, generation n+1
//
// If the first bucket ever seen belongs to another installation, it is not recorded either.
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
