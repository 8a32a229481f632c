package coordinator

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestAnInventoryHoldsTheVolumeAndTheArchives(t *testing.T) {
	bucket := devenv.S3(t)
	archives, err := archive.New(archive.Options{
		Endpoint: bucket.Endpoint, Region: bucket.Region, Bucket: bucket.Bucket, PathStyle: true,
		AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Open(t)
	engine := memory.New()
	t.Cleanup(func() { _ = engine.Close() })
	i := Inventory{engine, archives, identity.New(db, engine, archives, "test", testlog.New(t))}

	id, other, op := workspace.ID(uuid.NewString()), workspace.ID(uuid.NewString()), uuid.NewString()
	found, err := i.Inventory(t.Context(), id)
	if err != nil || found.Volume != nil || len(found.Archives) != 0 {
		t.Fatalf("of nothing: %+v, %v", found, err)
	}
	for _, w := range []workspace.ID{id, other} {
		if err := engine.Provision(t.Context(), backend.VolumeSpec{ID: w, OpID: op}); err != nil {
			t.Fatal(err)
		}
	}
	if err := archives.CreateEmpty(t.Context(), id.ArchiveKey(op)); err != nil {
		t.Fatal(err)
	}
	found, err = i.Inventory(t.Context(), id)
	if err != nil || found.Volume == nil || found.Volume.OpID != op || len(found.Archives) != 1 || found.Archives[0].Key != id.ArchiveKey(op) {
		t.Errorf("found %+v, %v", found, err)
	}

	// An empty answer of another bucket or engine is not believed.
	mismatched := func(r store.Resource) {
		t.Helper()
		var mismatch *identity.MismatchError
		if _, err := i.Inventory(t.Context(), id); !errors.As(err, &mismatch) || mismatch.Resource != r {
			t.Errorf("with another %s: %v", r, err)
		}
	}
	marker, err := archives.ReadMarker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := archives.WriteMarker(t.Context(), []byte(`{"installation": "other", "database": "other"}`), marker.ETag); err != nil {
		t.Fatal(err)
	}
	mismatched(store.ResourceBucket)
	storetest.Exec(t, db, "UPDATE system_identity SET identity = 'another' WHERE resource = 'backend'")
	mismatched(store.ResourceBackend)
	refused := errors.New("no answer")
	engine.Before = func(context.Context, string, workspace.ID) error { return refused }
	if _, err := i.Inventory(t.Context(), id); !errors.Is(err, refused) {
		t.Errorf("without the backend: %v", err)
	}
}
