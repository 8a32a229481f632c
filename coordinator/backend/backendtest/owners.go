package backendtest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// testOwners checks that every object is labelled with the id of its owner, and that only an id is accepted.
func testOwners(t *testing.T, f Fixture) {
	b, id, ctx, owner := f.New(t, Installation()), newID(), Context(t), uuid.NewString()
	job := jobSpec(id, workspace.JobArchive)
	job.Owner = "ann@example.com"
	for what, err := range map[string]error{
		"provisioning":   b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op", Owner: job.Owner}),
		"starting":       b.Start(ctx, backend.StartSpec{ID: id, Owner: job.Owner}),
		"starting a job": b.StartJob(ctx, job),
	} {
		if err == nil || !strings.Contains(err.Error(), "owner") {
			t.Errorf("%s for an e-mail address: %v, want it refused", what, err)
		}
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op", Owner: owner}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Owner: owner}))
	if got, want := f.Owners(t, id), map[string]string{"workspace": owner, "home": owner}; !maps.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	must(t, b.Delete(ctx, id))
	job.Owner = owner
	must(t, b.StartJob(ctx, job))
	if got, want := f.Owners(t, id), map[string]string{"job": owner, "home": owner}; !maps.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	ended(t, b, id)
	must(t, b.DeleteJobs(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// testOwnerAfterUpgrade checks that objects still work that an earlier release made without an owner.
func testOwnerAfterUpgrade(t *testing.T, f Fixture) {
	b, id, ctx, owner := f.New(t, Installation()), newID(), Context(t), uuid.NewString()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Term: "old"}))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op", Owner: owner}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Owner: owner, Term: "new"}))
	if got := f.Terms(t, id); !slices.Equal(got, []string{"old"}) {
		t.Errorf("the container is of term %q, want the one that runs to stay", got)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Owner: owner, Term: "new"}))
	if got := f.Owners(t, id)["workspace"]; got != owner {
		t.Errorf("the next container has the owner %q, want %q", got, owner)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}
