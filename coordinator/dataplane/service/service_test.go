package service_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

func actor(t testing.TB, st *store.Store) service.Actor {
	t.Helper()
	return service.Actor{UserID: storetest.AddUser(t, st), Through: "api"}
}

func create(t testing.TB, s *service.Service, a service.Actor) workspace.Workspace {
	t.Helper()
	w, err := s.Create(t.Context(), a, service.CreateInput{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ptr[T any](v T) *T { return &v }

func TestCreate(t *testing.T) {
	st := storetest.Open(t)
	core, logs := observer.New(zap.InfoLevel)
	s := service.New(st, service.Options{InstanceBackend: "kubernetes", StorageBackend: "pvc", Logger: zap.New(core)})
	a := actor(t, st)
	w, err := s.Create(t.Context(), a, service.CreateInput{Name: "  작업 공간 ", Description: "two\nlines", ImageRef: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if w.OwnerID != a.UserID || w.Name != "작업 공간" || w.Description != "two\nlines" || w.ImageRef != "default" ||
		w.InstanceBackend != "kubernetes" || w.StorageBackend != "pvc" ||
		w.DesiredState != workspace.DesiredRunning || w.Phase != workspace.PhasePending || w.Operation != workspace.OpNone {
		t.Errorf("created %+v", w)
	}
	if _, err := workspace.ParseID(string(w.ID)); err != nil {
		t.Errorf("id %q: %v", w.ID, err)
	}
	if got, err := s.Get(t.Context(), a, w.ID); err != nil || got.ID != w.ID {
		t.Errorf("Get = %+v, %v", got, err)
	}
	if logs.FilterMessage("workspace created").Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
	if _, err := s.Create(t.Context(), service.Actor{}, service.CreateInput{Name: "x"}); !errors.Is(err, service.ErrForbidden) {
		t.Errorf("an actor without a user creates: %v", err)
	}
}

func TestInvalidInputNamesTheField(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	w := create(t, s, a)
	createWith := func(in service.CreateInput) error { _, err := s.Create(t.Context(), a, in); return err }
	updateWith := func(p service.Patch) error { _, err := s.Update(t.Context(), a, w.ID, p); return err }
	for _, c := range []struct {
		what, field string
		err         error
	}{
		{"no name", "name", createWith(service.CreateInput{})},
		{"a blank name", "name", createWith(service.CreateInput{Name: " \t "})},
		{"256 characters", "name", createWith(service.CreateInput{Name: strings.Repeat("é", 256)})},
		{"255 characters", "", createWith(service.CreateInput{Name: strings.Repeat("é", 255)})},
		{"a control character", "name", createWith(service.CreateInput{Name: "a\x1b[31mb"})},
		{"a null", "name", createWith(service.CreateInput{Name: "a\x00b"})},
		{"two lines", "name", createWith(service.CreateInput{Name: "a\nb"})},
		{"text turned around", "name", createWith(service.CreateInput{Name: "a\u202eb"})},
		{"not UTF-8", "name", createWith(service.CreateInput{Name: "a\xffb"})},
		{"a long description", "description", createWith(service.CreateInput{Name: "a", Description: strings.Repeat("x", service.MaxDescription+1)})},
		{"a null in it", "description", createWith(service.CreateInput{Name: "a", Description: "\x00"})},
		{"a long image", "image_ref", createWith(service.CreateInput{Name: "a", ImageRef: strings.Repeat("a/", 300) + "a"})},
		{"patch: no name", "name", updateWith(service.Patch{Name: ptr("")})},
		{"patch: description", "description", updateWith(service.Patch{Description: ptr("\x07")})},
		{"patch: a long memo", "memo", updateWith(service.Patch{Memo: ptr(strings.Repeat("x", service.MaxMemo+1))})},
		{"patch: not UTF-8", "memo", updateWith(service.Patch{Memo: ptr("\xff")})},
		{"patch: state", "desired_state", updateWith(service.Patch{DesiredState: ptr(workspace.DesiredState("PENDING"))})},
		{"patch: deleted", "desired_state", updateWith(service.Patch{DesiredState: ptr(workspace.DesiredDeleted)})},
		{"patch: nothing", "", updateWith(service.Patch{})},
	} {
		var invalid *service.InvalidError
		switch {
		case c.field == "" && c.err != nil:
			t.Errorf("%s: %v", c.what, c.err)
		case c.field != "" && (!errors.As(c.err, &invalid) || invalid.Field != c.field || !strings.HasPrefix(c.err.Error(), c.field+" must ")):
			t.Errorf("%s: error %v, want one about %s", c.what, c.err, c.field)
		}
	}
}

// A workspace that the actor may not see looks like one that does not exist.
func TestOthersUnknownAndDeletedWorkspacesAreNotFound(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	owner, other := actor(t, st), actor(t, st)
	admin := service.Actor{UserID: other.UserID, Admin: true}
	w, deleted := create(t, s, owner), create(t, s, owner)
	if err := s.Delete(t.Context(), owner, deleted.ID, false); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(service.Actor, workspace.ID) error{
		"Get": func(a service.Actor, id workspace.ID) error { _, err := s.Get(t.Context(), a, id); return err },
		"Update": func(a service.Actor, id workspace.ID) error {
			_, err := s.Update(t.Context(), a, id, service.Patch{Memo: ptr("x")})
			return err
		},
		"SetDesired": func(a service.Actor, id workspace.ID) error {
			return s.SetDesired(t.Context(), a, id, workspace.DesiredStandby)
		},
		"Delete": func(a service.Actor, id workspace.ID) error { return s.Delete(t.Context(), a, id, false) },
	}
	before := []workspace.Workspace{storetest.Row(t, st, w.ID), storetest.Row(t, st, deleted.ID)}
	for name, call := range calls {
		for what, try := range map[string]error{
			"another user's": call(other, w.ID),
			"unknown":        call(owner, workspace.ID(uuid.NewString())),
			"deleted":        call(owner, deleted.ID),
			"no id":          call(owner, "../etc/passwd"),
			"upper case":     call(owner, workspace.ID(strings.ToUpper(string(w.ID)))),
			"no user":        call(service.Actor{}, w.ID),
			"no such user":   call(service.Actor{UserID: "x' OR true --"}, w.ID),
		} {
			if !errors.Is(try, service.ErrNotFound) || try.Error() != service.ErrNotFound.Error() {
				t.Errorf("%s of %s: %v", name, what, try)
			}
		}
	}
	for i, id := range []workspace.ID{w.ID, deleted.ID} {
		if got := storetest.Row(t, st, id); got.UpdatedAt != before[i].UpdatedAt {
			t.Errorf("%+v was changed", got)
		}
	}
	if items, _, err := s.List(t.Context(), other, service.ListOptions{}, 0, ""); len(items) != 0 || err != nil {
		t.Errorf("another's list = %v, %v", items, err)
	}
	if items, _, err := s.List(t.Context(), admin, service.ListOptions{}, 0, ""); len(items) != 0 || err != nil {
		t.Errorf("an administrator's own list = %v, %v", items, err)
	}
	if got, err := s.Get(t.Context(), admin, deleted.ID); err != nil || !got.Deleted() {
		t.Errorf("an administrator's Get = %+v, %v", got, err)
	}
	if err := s.SetDesired(t.Context(), service.Actor{Admin: true}, w.ID, workspace.DesiredStandby); err != nil {
		t.Errorf("an administrator changes the desired state: %v", err)
	}
	if err := calls["Update"](admin, deleted.ID); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("an administrator changes a deleted one: %v", err)
	}
}

func TestAChangeIsRefusedDuringAnOperationUnlessItChangesNothing(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	w := create(t, s, a)
	storetest.Set(t, st, w.ID, `operation = 'PROVISIONING', op_started_at = now()`)
	before := storetest.Row(t, st, w.ID)
	for _, d := range []workspace.DesiredState{workspace.DesiredStandby, workspace.DesiredArchived} {
		if err := s.SetDesired(t.Context(), a, w.ID, d); !errors.Is(err, service.ErrOperationInProgress) {
			t.Errorf("SetDesired(%s) = %v", d, err)
		}
	}
	if _, err := s.Update(t.Context(), a, w.ID, service.Patch{Name: ptr("new"), DesiredState: ptr(workspace.DesiredStandby)}); !errors.Is(err, service.ErrOperationInProgress) {
		t.Errorf("Update = %v", err)
	}
	if err := s.Delete(t.Context(), a, w.ID, false); !errors.Is(err, service.ErrOperationInProgress) {
		t.Errorf("Delete = %v", err)
	}
	if err := s.SetDesired(t.Context(), a, w.ID, workspace.DesiredRunning); err != nil {
		t.Errorf("the same desired state: %v", err)
	}
	if got := storetest.Row(t, st, w.ID); got.UpdatedAt != before.UpdatedAt || got.Name != "one" {
		t.Errorf("the row was written: %+v", got)
	}
	got, err := s.Update(t.Context(), a, w.ID, service.Patch{Name: ptr("new"), DesiredState: ptr(workspace.DesiredRunning)})
	if err != nil || got.Name != "new" || got.Operation != workspace.OpProvisioning {
		t.Errorf("a new name with the same desired state = %+v, %v", got, err)
	}
}

func TestUpdateChangesOnlyTheGivenFields(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	w := create(t, s, a)
	got, err := s.Update(t.Context(), a, w.ID, service.Patch{Description: ptr("d"), Memo: ptr("m")})
	if err != nil || got.Name != "one" || got.Description != "d" || got.Memo != "m" || got.DesiredState != workspace.DesiredRunning {
		t.Errorf("Update = %+v, %v", got, err)
	}
	got, err = s.Update(t.Context(), a, w.ID, service.Patch{Name: ptr(" two "), Description: ptr(""), DesiredState: ptr(workspace.DesiredArchived)})
	if err != nil || got.Name != "two" || got.Description != "" || got.Memo != "m" || got.DesiredState != workspace.DesiredArchived {
		t.Errorf("Update = %+v, %v", got, err)
	}
	same, err := s.Update(t.Context(), a, w.ID, service.Patch{DesiredState: ptr(workspace.DesiredArchived)})
	if err != nil || same.UpdatedAt != got.UpdatedAt || same.ID != w.ID {
		t.Errorf("the same again = %+v, %v", same, err)
	}
}

func TestListPagesNewestFirst(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	var want []workspace.ID
	for i := range 7 {
		w := create(t, s, a)
		// Groups of three workspaces have the same time of creation, so that the id decides their order.
		storetest.Set(t, st, w.ID, fmt.Sprintf(`created_at = '2026-01-01 00:00:00.123456Z'::timestamptz + %d * interval '1 second'`, i/3))
		want = append(want, w.ID)
	}
	gone := create(t, s, a)
	if err := s.Delete(t.Context(), a, gone.ID, false); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want[0:3], func(a, b workspace.ID) int { return strings.Compare(string(a), string(b)) })
	slices.SortFunc(want[3:6], func(a, b workspace.ID) int { return strings.Compare(string(a), string(b)) })
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 2, 3, 7, service.MaxPage} {
		var got []workspace.ID
		cursor, pages := "", 0
		for {
			items, next, err := s.List(t.Context(), a, service.ListOptions{}, limit, cursor)
			if err != nil {
				t.Fatal(err)
			}
			if limit > 0 && len(items) > limit {
				t.Errorf("%d items on a page of %d", len(items), limit)
			}
			for _, w := range items {
				got = append(got, w.ID)
			}
			pages++
			if cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
		if limit == 7 && pages != 1 {
			t.Errorf("%d pages of 7 for 7", pages)
		}
	}
	for _, cursor := range []string{"x", "eA", "MSx4", "!", "OTk5OTk5OTk5OTk5OTk5OTk5OSxh", "LTEsMDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDAw"} {
		var invalid *service.InvalidError
		if _, _, err := s.List(t.Context(), a, service.ListOptions{}, 1, cursor); !errors.As(err, &invalid) || invalid.Field != "cursor" {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	for _, limit := range []int{-1, service.MaxPage + 1} {
		var invalid *service.InvalidError
		if _, _, err := s.List(t.Context(), a, service.ListOptions{}, limit, ""); !errors.As(err, &invalid) || invalid.Field != "limit" {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if items, _, err := s.List(t.Context(), service.Actor{}, service.ListOptions{}, 1, ""); len(items) != 0 || err != nil {
		t.Errorf("the list without a user = %v, %v", items, err)
	}
}

func TestDelete(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	a := actor(t, st)
	w := create(t, s, a)
	if err := s.Delete(t.Context(), a, w.ID, false); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Row(t, st, w.ID); !got.Deleted() || got.DesiredState != workspace.DesiredDeleted {
		t.Errorf("deleted: %+v", got)
	}
	failed := create(t, s, a)
	storetest.Set(t, st, failed.ID, `phase = 'ERROR', error_reason = 'Timeout'`)
	if err := s.Delete(t.Context(), a, failed.ID, false); err != nil {
		t.Errorf("deleting one in ERROR: %v", err)
	}
}
