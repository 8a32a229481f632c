// Package workspacetest helps tests that compare tables with the constants of package workspace.
package workspacetest

import (
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/constants"
)

// Constants returns the sorted values of the text constants of the package in dir, read from its source so that none
// is left out. These are the constants of type typeName and, if prefix is not empty, those whose names begin with it.
// dir is relative to the tested package.
func Constants[T ~string](t testing.TB, dir, typeName, prefix string) []T {
	t.Helper()
	values, err := constants.Read[T](dir, typeName, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return values
}
