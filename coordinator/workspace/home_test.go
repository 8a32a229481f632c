package workspace

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// flatHome is the JSON of a home context with all fields set, in the order of its keys. Other releases and SQL
// statements read it in this form. PostgreSQL keeps the order of a jsonb's keys by itself.
const flatHome = `{"conflict_desired":"RUNNING","crashes":1,"deferred":2,"dirty":true,"dozed":"2026-01-02T03:04:08Z",` +
	`"exited":"2026-01-02T03:04:07Z","fingerprint":{"value":"v","volume_op_id":"o","archive_key":"k","size":4,"sha256":"s"},` +
	`"foreign_volume_op_id":"foreign","found_port":{"port":5,"started":"2026-01-02T03:04:09Z","image":"i","configured":6},"newest":"newest",` +
	`"recovery_id":"recovery","replaced":"replaced","restore_marker":"marker","restore_op_id":"restore",` +
	`"restore_volume_at":"2026-01-02T03:04:05Z","resumed_at":"2026-01-02T03:04:06Z","revert_id":"revert",` +
	`"revert_problem":"problem","stale_volume_op_id":"stale","unread":3,"volume_op_id":"volume"}`

func TestTheHomeContextIsFlatJSON(t *testing.T) {
	var h HomeContext
	strict := json.NewDecoder(strings.NewReader(flatHome))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&h); err != nil {
		t.Fatal(err)
	}
	for record := range reflect.TypeFor[HomeContext]().NumField() {
		v := reflect.ValueOf(h).Field(record)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not in flatHome", v.Type().Field(i).Name)
			}
		}
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	if sorted, err := json.Marshal(keys); err != nil || string(sorted) != flatHome {
		t.Errorf("%s, %v, want %s", sorted, err, flatHome)
	}
	if empty, err := json.Marshal(HomeContext{}); err != nil || string(empty) != "{}" {
		t.Errorf("an empty one is %s, %v", empty, err)
	}
	if at := time.Date(2026, 1, 2, 3, 4, 8, 0, time.UTC); !h.Dozed.Equal(at) {
		t.Errorf("dozed %s, want %s", h.Dozed, at)
	}
}
