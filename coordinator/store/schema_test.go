package store

import (
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

// constants returns the constants of a type of package workspace.
func constants(t testing.TB, typeName string) []string {
	t.Helper()
	return workspacetest.Constants[string](t, "../workspace", typeName, "")
}

// TestTheSchemaAllowsExactlyTheConstantsOfGo compares the CHECK constraints with the constants of package
// workspace.
func TestTheSchemaAllowsExactlyTheConstantsOfGo(t *testing.T) {
	s := open(t)
	for column, typeName := range map[string]string{"phase": "Phase", "operation": "Operation", "desired_state": "DesiredState"} {
		check := value[string](t, s, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'workspaces_' || $1 || '_check'`, column)
		if got, want := postgrestest.Matches(`'([^']+)'::text`, check), constants(t, typeName); !slices.Equal(got, want) {
			t.Errorf("the schema allows %s %v, Go has %v", column, got, want)
		}
	}
	for _, op := range constants(t, "Operation") {
		if _, ok := planner.DefaultTimeouts()[workspace.Operation(op)]; ok == (op == string(workspace.OpNone)) {
			t.Errorf("operation %s has a default timeout: %v", op, ok)
		}
	}
}
