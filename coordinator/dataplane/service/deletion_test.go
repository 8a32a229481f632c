package service_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestOnlyAdministratorsDeleteNow(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	s := service.New(st, service.Options{Logger: zap.New(core)})
	a := actor(t, st)
	admin := service.Actor{Admin: true, Through: "cli"}
	w := create(t, s, a)
	if err := s.Delete(t.Context(), a, w.ID, true); !errors.Is(err, service.ErrForbidden) {
		t.Errorf("the owner deletes at once: %v", err)
	}
	if got := storetest.Row(t, st, w.ID); got.Deleted() {
		t.Fatalf("deleted: %+v", got)
	}
	if err := s.Delete(t.Context(), a, w.ID, false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also what is deleted already, and given up already
		if err := s.Delete(t.Context(), admin, w.ID, true); err != nil {
			t.Error(err)
		}
	}
	if got := storetest.Row(t, st, w.ID); !got.Deleted() || !got.DeleteNow {
		t.Errorf("the row is %+v", got)
	}
	deleted := logs.FilterMessage("workspace deleted")
	if deleted.Len() != 2 || deleted.FilterField(zap.Bool("now", true)).Len() != 1 {
		t.Errorf("logged %v", deleted.All())
	}
	if err := s.Delete(t.Context(), admin, workspace.ID(uuid.NewString()), true); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestUndelete(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1}, Logger: zap.New(core)})
	owner, stranger := actor(t, st), actor(t, st)
	admin := service.Actor{Admin: true}
	w := create(t, s, owner)
	var over *service.LimitError
	for _, c := range []struct {
		name, set string
		by        service.Actor
		id        workspace.ID
		want      error
	}{
		{"another's", `phase = 'STANDBY'`, stranger, w.ID, service.ErrNotFound},
		{"unknown", `phase = 'STANDBY'`, owner, workspace.ID(uuid.NewString()), service.ErrNotFound},
		{"no id", `phase = 'STANDBY'`, owner, "x", service.ErrNotFound},
		{"an operation", `operation = 'ARCHIVING'`, owner, w.ID, service.ErrOperationInProgress},
		{"collected", `operation = 'NONE', collected_at = now()`, owner, w.ID, service.ErrCollected},
		{"nothing left", `collected_at = NULL, phase = 'DELETED'`, admin, w.ID, service.ErrCollected},
		{"by its owner", `phase = 'DELETING'`, owner, w.ID, nil},
		{"by an administrator", `phase = 'DELETING'`, admin, w.ID, nil},
	} {
		storetest.Set(t, st, w.ID, `deleted_at = now(), desired_state = 'DELETED', `+c.set)
		got, err := s.Undelete(t.Context(), c.by, c.id)
		if !errors.Is(err, c.want) || err != nil && err.Error() != c.want.Error() {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if row := storetest.Row(t, st, w.ID); row.Deleted() != (c.want != nil) {
			t.Errorf("%s: the row is %+v", c.name, row)
		}
		if c.want == nil && (got.ID != w.ID || got.DesiredState != workspace.DesiredArchived) {
			t.Errorf("%s: returned %+v", c.name, got)
		}
	}
	if _, err := s.Undelete(t.Context(), owner, w.ID); err != nil {
		t.Errorf("one that is not deleted: %v", err)
	}
	if n := logs.FilterMessage("workspace undeleted").Len(); n != 2 {
		t.Errorf("%d undeletions are logged, want 2", n)
	}
	// The workspace still runs, and another one has taken its place.
	storetest.Set(t, st, w.ID, `deleted_at = now(), desired_state = 'DELETED', phase = 'RUNNING'`)
	create(t, s, owner)
	if _, err := s.Undelete(t.Context(), owner, w.ID); !errors.As(err, &over) || over.Scope != "user" {
		t.Errorf("over the limit: %v", err)
	}
}

func TestListDeletedPagesTheLastDeletedFirst(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a, other := actor(t, st), actor(t, st)
	var mine []workspace.ID
	for range 5 {
		w := create(t, s, a)
		if err := s.Delete(t.Context(), a, w.ID, false); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, w.ID)
	}
	create(t, s, a)
	theirs := create(t, s, other)
	if err := s.Delete(t.Context(), other, theirs.ID, false); err != nil {
		t.Fatal(err)
	}
	gone := create(t, s, a)
	storetest.Set(t, st, gone.ID, `phase = 'DELETED', deleted_at = now(), desired_state = 'DELETED'`)
	slices.Reverse(mine)
	for _, c := range []struct {
		name string
		by   service.Actor
		want []workspace.ID
	}{
		{"its owner's", a, mine},
		{"an administrator's", service.Actor{Admin: true}, append([]workspace.ID{theirs.ID}, mine...)},
		{"those of an actor without an id", service.Actor{}, nil},
	} {
		var got []workspace.ID
		cursor := ""
		for {
			items, next, err := s.List(t.Context(), c.by, service.ListOptions{Deleted: true, All: c.by.Admin}, 2, cursor)
			if err != nil || len(items) > 2 {
				t.Fatalf("%s: %d items, %v", c.name, len(items), err)
			}
			for _, w := range items {
				got = append(got, w.ID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var invalid *service.InvalidError
	if _, _, err := s.List(t.Context(), a, service.ListOptions{Deleted: true}, 0, "!"); !errors.As(err, &invalid) || invalid.Field != "cursor" {
		t.Errorf("a bad cursor: %v", err)
	}
}

func TestHistoryAndExplanationAreForTheOwnerAndAdministrators(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	s.SetDelays(explain.Delays{KeepDeleted: time.Hour})
	owner, stranger := actor(t, st), actor(t, st)
	admin := service.Actor{Admin: true}
	w := create(t, s, owner)
	if err := s.SetDesired(t.Context(), owner, w.ID, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), owner, w.ID, false); err != nil {
		t.Fatal(err)
	}
	read := func(a service.Actor, id workspace.ID) error {
		_, errHistory := s.History(t.Context(), a, id, 0, 0)
		_, errExplain := s.Explain(t.Context(), a, id)
		if !errors.Is(errExplain, errHistory) {
			t.Errorf("the history says %v, the explanation %v", errHistory, errExplain)
		}
		return errHistory
	}
	for name, try := range map[string]error{
		"another's": read(stranger, w.ID), "unknown": read(owner, workspace.ID(uuid.NewString())), "no id": read(admin, "x"),
	} {
		if !errors.Is(try, service.ErrNotFound) {
			t.Errorf("%s: %v", name, try)
		}
	}
	for _, a := range []service.Actor{owner, admin} {
		if err := read(a, w.ID); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	// A deleted workspace can be explained while it can be undeleted.
	e, err := s.Explain(t.Context(), owner, w.ID)
	if err != nil || e.Asked == nil || e.Asked.Code != string(store.KindDeleted) || e.Asked.UserID != owner.UserID ||
		!slices.ContainsFunc(e.Next, func(n explain.Statement) bool { return n.Code == "Undeletable" && !n.At.IsZero() }) {
		t.Errorf("Explain = %+v, %v", e, err)
	}
	page, err := s.History(t.Context(), owner, w.ID, 2, 0)
	if err != nil || len(page) != 2 || page[0].Kind != store.KindDeleted || page[1].Kind != store.KindDesiredState {
		t.Fatalf("the first page is %+v, %v", page, err)
	}
	rest, err := s.History(t.Context(), owner, w.ID, 2, page[1].ID)
	if err != nil || len(rest) != 1 || rest[0].Kind != store.KindCreated || rest[0].UserID != owner.UserID || rest[0].Cause != "api" {
		t.Errorf("the second page is %+v, %v", rest, err)
	}
	for field, err := range map[string]error{
		"limit":  func() error { _, err := s.History(t.Context(), owner, w.ID, service.MaxPage+1, 0); return err }(),
		"before": func() error { _, err := s.History(t.Context(), owner, w.ID, 1, -1); return err }(),
	} {
		var invalid *service.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	storetest.Set(t, st, w.ID, `phase = 'DELETED'`)
	if err := read(owner, w.ID); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("nothing is left of it: %v", err)
	}
}
