package api_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestArchivesAreListedAndRestored(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	w := ann.Create("w")
	key1, key2 := keys(w)
	path := apitest.WorkspacePath(w) + "/archives"
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	in.inventory.Archives = []workspace.ArchiveVersion{{Key: key2, Size: 50, Modified: at}, {Key: key1, Size: 40, Modified: at.Add(-time.Hour)}}
	in.exec(`UPDATE workspaces SET phase = 'STANDBY', desired_state = 'STANDBY', archive_key = $2, archive_damage = 'torn' WHERE id = $1`, w["id"], key2)
	in.exec(`INSERT INTO archives (workspace_id, key, size, content_bytes, files, verified_at) VALUES ($1, $2, 40, 400, 4, $3)`, w["id"], key1, at)
	in.exec(`INSERT INTO archives (workspace_id, key, size, damage) VALUES ($1, $2, 50, 'torn')`, w["id"], key2)

	items := ann.Do("GET", path, nil).Object(t)["items"].([]any)
	if len(items) != 2 {
		t.Fatalf("got %v", items)
	}
	newest, older := items[0].(map[string]any), items[1].(map[string]any)
	if newest["key"] != key2 || newest["current"] != true || newest["damage"] != "torn" || newest["verified_at"] != nil || newest["files"] != nil || newest["created_at"] != "2026-11-20T10:00:00Z" {
		t.Errorf("the current one: %v", newest)
	}
	if older["key"] != key1 || older["current"] != false || older["damage"] != nil || older["size"] != 40.0 || older["content_bytes"] != 400.0 || older["files"] != 4.0 || older["verified_at"] != "2026-11-20T10:00:00Z" {
		t.Errorf("the older one: %v", older)
	}
	if got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["revert"] != nil || got["archive"].(map[string]any)["damage"] != "torn" {
		t.Errorf("the workspace shows %v, %v", got["archive"], got["revert"])
	}
	bob.Do("GET", path, nil).Problem(t, 404, "not-found")
	bob.Do("POST", path+"/restore", map[string]any{"archive": key1}).Problem(t, 404, "not-found")
	ann.Do("POST", path+"/restore", map[string]any{}).Problem(t, 400, "invalid-field")
	ann.Do("POST", path+"/restore", map[string]any{"archive": key2}).Problem(t, 409, "archive-not-restorable")       // damaged
	ann.Do("POST", path+"/restore", map[string]any{"archive": key1 + "x"}).Problem(t, 409, "archive-not-restorable") // not there

	a := ann.Do("POST", path+"/restore", map[string]any{"archive": key1})
	if got := a.Object(t); a.StatusCode != 202 || got["revert"].(map[string]any)["key"] != key1 || got["desired_state"] != "STANDBY" {
		t.Fatalf("got status %d: %s", a.StatusCode, a.Text)
	}
	ann.Do("POST", path+"/restore", map[string]any{"archive": key1}).Problem(t, 409, "operation-in-progress")

	// After the restore, the user can go back: the archive that was replaced can be restored, too.
	in.exec(`UPDATE workspaces SET phase = 'ARCHIVED', archive_key = $2,
		home_ctx = jsonb_build_object('revert_id', revert ->> 'id', 'replaced', $3::text, 'newest', $3::text) WHERE id = $1`, w["id"], key1, key2)
	items = ann.Do("GET", path, nil).Object(t)["items"].([]any)
	if newest := items[0].(map[string]any); newest["kept"] != true || newest["current"] != false {
		t.Errorf("the way back: %v", newest)
	}
	ann.Do("POST", path+"/restore", map[string]any{"archive": key1}).Problem(t, 409, "archive-not-restorable") // the present one
	in.fail(w, workspace.ReasonTimeout)
	ann.Do("POST", path+"/restore", map[string]any{"archive": key2}).Problem(t, 409, "archive-not-restorable") // in an error

	// If the current archive is missing from the bucket, the list says so instead of leaving it
	// out.
	in.inventory.Archives = nil
	items = ann.Do("GET", path, nil).Object(t)["items"].([]any)
	if len(items) != 1 || items[0].(map[string]any)["key"] != key1 || items[0].(map[string]any)["damage"] == nil {
		t.Errorf("got %v", items)
	}
}
