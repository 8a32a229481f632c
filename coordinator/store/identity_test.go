package store_test

import (
	"errors"
	"testing"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

func identities(t *testing.T, s *store.Store) map[store.Resource]store.Identity {
	t.Helper()
	all, err := s.Identities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// record records an identity, and checks whether that succeeded.
func record(t *testing.T, s *store.Store, from, identity string, want bool) {
	t.Helper()
	if made, err := s.RecordIdentity(t.Context(), store.ResourceBucket, from, identity); err != nil || made != want {
		t.Fatalf("recording %q in place of %q: %v, %v", identity, from, made, err)
	}
}

func found(t *testing.T, s *store.Store, identity string) {
	t.Helper()
	if err := s.FoundIdentity(t.Context(), store.ResourceBucket, identity); err != nil {
		t.Fatal(err)
	}
}

func TestEveryDatabaseHasAnIdentityOfItsOwn(t *testing.T) {
	one, two := identities(t, storetest.Open(t)), identities(t, storetest.Open(t))
	id := one[store.ResourceDatabase]
	if len(one) != 1 || len(id.Identity) != 36 || id.RecordedAt.IsZero() || id.Identity == two[store.ResourceDatabase].Identity {
		t.Errorf("%+v, %+v", one, two)
	}
}

func TestAnIdentityIsRecordedOnlyInPlaceOfTheOneThatWasSeen(t *testing.T) {
	s := storetest.Open(t)
	record(t, s, "A", "B", false)
	record(t, s, "", "A", true)
	record(t, s, "", "B", false)
	record(t, s, "C", "B", false)
	if got := identities(t, s)[store.ResourceBucket]; got.Identity != "A" || got.Resource != store.ResourceBucket {
		t.Fatalf("%+v", got)
	}
	record(t, s, "A", "B", true)
	if got := identities(t, s); got[store.ResourceBucket].Identity != "B" || len(got) != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestOnlyWhatIsFoundNowCanBeAccepted(t *testing.T) {
	s := storetest.Open(t)
	accept := func(identity string) error { return s.AcceptIdentity(t.Context(), store.ResourceBucket, identity) }
	for _, prepare := range []func(){
		func() {}, // nothing is known at all
		func() { record(t, s, "", "A", true) },
		func() { found(t, s, "B"); found(t, s, "C") },
		func() { found(t, s, "B"); found(t, s, "") },
	} {
		prepare()
		if err := accept("B"); !errors.Is(err, store.ErrNothingToAccept) {
			t.Fatalf("accepted, %v: %+v", err, identities(t, s))
		}
	}
	if err := accept(""); !errors.Is(err, store.ErrNothingToAccept) {
		t.Fatalf("nothing is accepted, %v", err)
	}
	found(t, s, "B")
	if err := accept("B"); err != nil {
		t.Fatal(err)
	}
	if got := identities(t, s)[store.ResourceBucket]; got.Identity != "A" || got.Found != "B" || got.Accepted != "B" || got.FoundAgo < 0 {
		t.Fatalf("%+v", got)
	}
	record(t, s, "A", "B", true)
	if got := identities(t, s)[store.ResourceBucket]; got.Identity != "B" || got.Found != "" || got.Accepted != "" || got.FoundAgo != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestAnotherIdentityCanBeFoundBeforeOneIsRecorded(t *testing.T) {
	s := storetest.Open(t)
	found(t, s, "B")
	if got := identities(t, s)[store.ResourceBucket]; got.Identity != "" || got.Found != "B" {
		t.Fatalf("%+v", got)
	}
	record(t, s, "", "A", true)
	if got := identities(t, s)[store.ResourceBucket]; got.Identity != "A" || got.Found != "" {
		t.Fatalf("%+v", got)
	}
}

func TestIdentitiesOfADatabaseThatIsAway(t *testing.T) {
	s := storetest.Open(t)
	s.Close()
	_, list := s.Identities(t.Context())
	_, recorded := s.RecordIdentity(t.Context(), store.ResourceBackend, "", "A")
	for what, err := range map[string]error{
		"Identities": list, "RecordIdentity": recorded,
		"FoundIdentity":  s.FoundIdentity(t.Context(), store.ResourceBackend, "A"),
		"AcceptIdentity": s.AcceptIdentity(t.Context(), store.ResourceBackend, "A"),
	} {
		if err == nil || errors.Is(err, store.ErrNothingToAccept) {
			t.Errorf("%s returns %v", what, err)
		}
	}
}
