package archive_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestOnlyObjectsWithOurNamesAreTakenForArchives(t *testing.T) {
	const (
		ws = workspace.ID("00000000-0000-4000-8000-000000000001")
		op = "00000000-0000-4000-8000-0000000000a1"
	)
	name := ws.ArchiveKey(op)
	for _, object := range []string{name, name + ".meta"} {
		key, id, ok := archive.ParseKey(object)
		if !ok || key != name || id != ws {
			t.Errorf("%s is taken for %q of %q, %v", object, key, id, ok)
		}
	}
	for _, object := range []string{
		"", "/", "file", ".meta", string(ws), string(ws) + "/", string(ws) + "/" + op, string(ws) + "/" + op + "/",
		name + ".meta.meta", name + "x", name + "/x", "/" + name, "x/" + name, archive.MarkerKey,
		string(ws) + "/" + op + "/home.tar.gz", string(ws) + "/" + op + "/x/home.tar.zst",
		string(ws) + "/latest/home.tar.zst", "workspace/" + op + "/home.tar.zst",
		"00000000-0000-4000-8000-00000000000G/" + op + "/home.tar.zst",
		"ABCDEF00-0000-4000-8000-000000000001/" + op + "/home.tar.zst",
		string(ws) + "//home.tar.zst", string(ws) + "/" + op + "//home.tar.zst",
	} {
		if key, _, ok := archive.ParseKey(object); ok {
			t.Errorf("%q is taken for archive %q", object, key)
		}
	}
}
