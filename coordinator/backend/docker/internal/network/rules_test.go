package network

import (
	"strings"
	"testing"
)

// Two installations have tables of their own, with names that nft reads back.
func TestTableNames(t *testing.T) {
	one, other := tableName("codehub"), tableName("co.de-hub")
	if one == other || tableName("codehub") != one || strings.ContainsAny(one+other, ".- ") {
		t.Errorf("%s, %s", one, other)
	}
}
