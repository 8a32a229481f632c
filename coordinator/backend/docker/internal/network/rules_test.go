package network

import (
	"strings"
	"testing"
)

// Each installation has its own table, with a name that nft accepts.
func TestTableNames(t *testing.T) {
	one, other := tableName("codehub"), tableName("co.de-hub")
	if one == other || tableName("codehub") != one || strings.ContainsAny(one+other, ".- ") {
		t.Errorf("%s, %s", one, other)
	}
}
