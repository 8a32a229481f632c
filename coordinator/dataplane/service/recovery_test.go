package service_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inventory is the same data for every workspace. Archives are named by their operation.
type inventory struct {
	volume   bool
	archives []string // the newest first
	err      error
	asked    atomic.Int64
	look     func() // called while the service waits for the answer
}

func (i *inventory) Inventory(_ context.Context, id workspace.ID) (workspace.Inventory, error) {
	i.asked.Add(1)
	if i.look != nil {
		i.look()
	}
	var inv workspace.Inventory
	if i.volume {
		inv.Volume = &workspace.Volume{OpID: "op", CreatedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	}
	for n, op := range i.archives {
		inv.Archives = append(inv.Archives, workspace.ArchiveVersion{
			Key: id.ArchiveKey(op), Size: 1000, Modified: time.Date(2026, 1, 10-n, 0, 0, 0, 0, time.UTC),
		})
	}
	return inv, i.err
}

func (i *inventory) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	inv, err := i.Inventory(ctx, id)
	return inv.Archives, err
}

var (
	none      = service.Choice{}
	retry     = service.Choice{Kind: workspace.RecoverRetry}
	keep      = service.Choice{Kind: workspace.RecoverVolume}
	empty     = service.Choice{Kind: workspace.RecoverEmpty}
	emptyOver = service.Choice{Kind: workspace.RecoverEmpty, ReplaceVolume: true}
)

// from chooses an archive; the workspace's id completes the key.
func from(op string) service.Choice {
	return service.Choice{Kind: workspace.RecoverArchive, Key: op}
}

func fromOver(op string) service.Choice {
	return service.Choice{Kind: workspace.RecoverArchive, Key: op, ReplaceVolume: true}
}

// TestTheRecoveryTable is reason × choice × existing data → outcome. The current archive of the rows is "now".
func TestTheRecoveryTable(t *testing.T) {
	const (
		asks    = "only you can tell"
		exists  = "a volume exists"
		missing = "no complete archive"
		dirty   = `, home_ctx = '{"dirty": true}'`
	)
	doubts := []workspace.ErrorReason{"DataLost", "Conflict"}
	others := []workspace.ErrorReason{"Timeout", "RetryExceeded", "ActionFailed", "Unreachable", "ImagePullFailed",
		"ArchiveCorrupted", "ContainerWithoutVolume"}
	lost := doubts[:1]
	st := storetest.Open(t)
	a := actor(t, st)
	admin := service.Actor{UserID: actor(t, st).UserID, Admin: true, Through: "cli"}
	for _, c := range []struct {
		name     string
		reasons  []workspace.ErrorReason
		choice   service.Choice
		volume   bool
		archives []string
		set      string
		want     workspace.RecoveryChoice
		key      string
		problem  string
	}{
		{"nothing about the data is in doubt", others, none, true, []string{"now"}, "", "retry", "", ""},
		{"nor when it is said", others, retry, false, nil, "", "retry", "", ""},
		{"the volume is back", lost, none, true, nil, dirty, "volume", "", ""},
		{"the volume is back, and an older archive exists", lost, none, true, []string{"now"}, dirty, "volume", "", ""},
		{"the current archive is back", lost, none, false, []string{"now", "old"}, "", "archive", "now", ""},
		{"the archive is older than the lost volume", lost, none, false, []string{"now"}, dirty, "", "", asks},
		{"a newer archive exists", lost, none, false, []string{"newer", "now"}, "", "", "", asks},
		{"an older archive exists", lost, none, false, []string{"old"}, "", "", "", asks},
		{"nothing exists", lost, none, false, nil, "", "", "", asks},
		{"retrying is no choice", lost, retry, false, nil, "", "", "", asks},
		{"no choice with a volume", doubts[1:], none, true, []string{"now"}, "", "", "", asks},
		{"no choice with an archive", doubts[1:], none, false, []string{"now"}, "", "", "", asks},
		{"the volume", doubts, keep, true, []string{"now"}, "", "volume", "", ""},
		{"a volume that is not there", doubts, keep, false, []string{"now"}, "", "", "", "no volume to keep"},
		{"an archive", doubts, from("old"), false, []string{"now", "old"}, "", "archive", "old", ""},
		{"an archive instead of a volume that was not mentioned", doubts, from("old"), true, []string{"old"}, "", "", "", exists},
		{"an archive instead of the volume", doubts, fromOver("old"), true, []string{"old"}, "", "archive", "old", ""},
		{"an archive that is not there", doubts, from("gone"), false, []string{"now"}, "", "", "", missing},
		{"an archive that is not there, and a volume", doubts, fromOver("gone"), true, nil, "", "", "", missing},
		{"an empty home", doubts, empty, false, []string{"now"}, "", "empty", "", ""},
		{"an empty home, and a volume", doubts, empty, true, nil, "", "", "", exists},
		{"an empty home instead of the volume", doubts, emptyOver, true, nil, "", "empty", "", ""},
		{"a choice where none is needed", others, from("old"), false, []string{"old"}, "", "archive", "old", ""},
		{"a choice where none is needed, and a volume", others, empty, true, nil, "", "", "", exists},
		{"deleted", doubts, none, true, nil, `, deleted_at = now(), desired_state = 'DELETED'`, "retry", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := service.New(st, service.Options{Inventory: &inventory{volume: c.volume, archives: c.archives}})
			for _, reason := range c.reasons {
				w := create(t, s, a)
				storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = '`+string(reason)+`', error_message = 'm', error_count = 3,
					archive_key = '`+w.ID.ArchiveKey("now")+`'`+c.set)
				before := storetest.Row(t, st, w.ID)
				choice, key := c.choice, ""
				if choice.Key != "" {
					choice.Key = w.ID.ArchiveKey(choice.Key)
				}
				if c.key != "" {
					key = w.ID.ArchiveKey(c.key)
				}
				seen := "" // the volume about which the choice was made
				if c.volume && c.want != workspace.RecoverRetry {
					seen = "op"
				}
				got, err := s.Recover(t.Context(), admin, w.ID, choice)
				after := storetest.Row(t, st, w.ID)
				if c.problem != "" {
					var needed *service.ChoiceError
					if !errors.As(err, &needed) || needed.Reason != reason || !strings.Contains(needed.Problem.String(), c.problem) || !strings.Contains(err.Error(), c.problem) {
						t.Errorf("%s: %v, want a problem: %s", reason, err, c.problem)
					} else if !before.Deleted() && ((needed.Inventory.Volume != nil) != c.volume || len(needed.Inventory.Archives) != len(c.archives)) {
						t.Errorf("%s: shown %+v", reason, needed.Inventory)
					}
					if !reflect.DeepEqual(after, before) {
						t.Errorf("%s: the row changed to %+v", reason, after)
					}
					for _, listed := range needed.Choices {
						if recovered, err := s.Recover(t.Context(), admin, w.ID, listed); err != nil || recovered.Recovery == nil || recovered.Recovery.Choice != listed.Kind {
							t.Errorf("%s: it lists %+v, but %v", reason, listed, err)
						}
						storetest.Set(t, st, w.ID, `error_reason = '`+string(reason)+`', recovery = NULL`)
					}
					if want := len(c.archives) + 1; c.volume && len(needed.Choices) != want+1 || !c.volume && len(needed.Choices) != want {
						t.Errorf("%s: it lists %+v", reason, needed.Choices)
					}
					continue
				}
				if err != nil || after.ErrorReason != "" || after.ErrorMessage != "" || after.ErrorCount != 0 || after.Phase != workspace.PhaseError ||
					after.Recovery == nil || after.Recovery.Choice != c.want || after.Recovery.Key != key || uuid.Validate(after.Recovery.ID) != nil ||
					after.Recovery.ReplaceVolume != c.choice.ReplaceVolume || after.Recovery.VolumeOpID != seen || got.Revision != after.Revision {
					t.Errorf("%s: %v, recovery %+v of %+v; want %s %q", reason, err, after.Recovery, after, c.want, key)
				}
			}
		})
	}
}

// TestARecoveryRemembersTheNewestArchive: a recovery records the newest archive that was seen when the choice was made,
// because the choice was not about later archives.
func TestARecoveryRemembersTheNewestArchive(t *testing.T) {
	st := storetest.Open(t)
	admin := service.Actor{Admin: true}
	for _, archives := range [][]string{{"now", "old"}, {"old"}, nil} {
		s := service.New(st, service.Options{Inventory: &inventory{archives: archives}})
		w := create(t, s, actor(t, st))
		storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost', error_message = 'm', error_count = 1`)
		if _, err := s.Recover(t.Context(), admin, w.ID, empty); err != nil {
			t.Fatal(err)
		}
		want := ""
		if len(archives) > 0 {
			want = w.ID.ArchiveKey(archives[0])
		}
		if got := storetest.Row(t, st, w.ID).Recovery.Newest; got != want {
			t.Errorf("of %v: %q, want %q", archives, got, want)
		}
	}
}

func TestAChoiceThatCannotBeIsRefusedWithoutLooking(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{volume: true, archives: []string{"now"}}
	s := service.New(st, service.Options{Inventory: inv})
	w, other := create(t, s, actor(t, st)), create(t, s, actor(t, st))
	admin := service.Actor{Admin: true}
	set := `phase = 'ERROR', error_reason = 'DataLost'`
	storetest.Set(t, st, w.ID, set)
	before := storetest.Row(t, st, w.ID)
	for _, c := range []struct {
		choice service.Choice
		field  string
	}{
		{service.Choice{Kind: "newest"}, "choice"},
		{service.Choice{Kind: workspace.RecoverArchive}, "archive_key"},
		{service.Choice{Kind: workspace.RecoverEmpty, Key: "k"}, "archive_key"},
		{service.Choice{Key: "k"}, "archive_key"},
		{service.Choice{Kind: workspace.RecoverVolume, ReplaceVolume: true}, "replace_volume"},
		{service.Choice{ReplaceVolume: true}, "replace_volume"},
	} {
		var invalid *service.InvalidError
		if _, err := s.Recover(t.Context(), admin, w.ID, c.choice); !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%+v: %v, want an error about %s", c.choice, err, c.field)
		}
	}
	if _, err := s.Recover(t.Context(), service.Actor{UserID: w.OwnerID}, w.ID, keep); !errors.Is(err, service.ErrForbidden) {
		t.Errorf("the owner recovers: %v", err)
	}
	for _, id := range []workspace.ID{workspace.ID(uuid.NewString()), "x"} {
		if _, err := s.Recover(t.Context(), admin, id, keep); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("Recover(%q) = %v", id, err)
		}
	}
	if n := inv.asked.Load(); n != 0 {
		t.Errorf("looked %d times", n)
	}
	// The archive of another workspace is not one of this workspace, even if the listing claims it.
	foreign := service.New(st, service.Options{Inventory: listing{other.ID.ArchiveKey("now")}})
	var needed *service.ChoiceError
	if _, err := foreign.Recover(t.Context(), admin, w.ID, from(other.ID.ArchiveKey("now"))); !errors.As(err, &needed) {
		t.Errorf("another's archive: %v", err)
	}
	if after := storetest.Row(t, st, w.ID); !reflect.DeepEqual(after, before) {
		t.Errorf("the row changed to %+v", after)
	}
}

type listing []string

func (l listing) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	inv, err := l.Inventory(ctx, id)
	return inv.Archives, err
}

func (l listing) Inventory(context.Context, workspace.ID) (inv workspace.Inventory, err error) {
	for _, key := range l {
		inv.Archives = append(inv.Archives, workspace.ArchiveVersion{Key: key})
	}
	return inv, nil
}

// No choices are offered: the data of a deleted workspace is kept or given up as a whole.
func TestAChoiceForADeletedWorkspaceSaysToUndeleteIt(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{volume: true, archives: []string{"now"}}
	s := service.New(st, service.Options{Inventory: inv})
	w := create(t, s, actor(t, st))
	storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost', deleted_at = now(), desired_state = 'DELETED'`)
	before := storetest.Row(t, st, w.ID)
	for _, c := range []service.Choice{keep, empty, emptyOver, from(w.ID.ArchiveKey("now"))} {
		_, err := s.Recover(t.Context(), service.Actor{Admin: true}, w.ID, c)
		var choice *service.ChoiceError
		if !errors.Is(err, service.ErrDeleted) || errors.As(err, &choice) || !strings.Contains(err.Error(), "undelete it first") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if after := storetest.Row(t, st, w.ID); inv.asked.Load() != 0 || !reflect.DeepEqual(after, before) {
		t.Errorf("asked %d times, the row is %+v", inv.asked.Load(), after)
	}
}

// The collector may have judged the workspace before its error.
func TestNoArchiveIsChosenWhileArchivesAreCollected(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{archives: []string{"now", "old"}}
	s := service.New(st, service.Options{Inventory: inv})
	w := create(t, s, actor(t, st))
	storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost', archive_key = '`+w.ID.ArchiveKey("now")+`'`)
	collection, err := st.TryExclusive(t.Context(), postgres.LockGC, "test")
	if err != nil {
		t.Fatal(err)
	}
	choice, admin := from(w.ID.ArchiveKey("old")), service.Actor{Admin: true}
	_, err = s.Recover(t.Context(), admin, w.ID, choice)
	if !errors.Is(err, service.ErrInventoryUnknown) || !strings.Contains(err.Error(), "being collected") || inv.asked.Load() != 0 {
		t.Errorf("during a collection: %v, asked %d times", err, inv.asked.Load())
	}
	collection.End(t.Context())
	if got, err := s.Recover(t.Context(), admin, w.ID, choice); err != nil || got.Recovery == nil || got.Recovery.Key != choice.Key {
		t.Errorf("after it: %+v, %v", got.Recovery, err)
	}
}

// collecting is an inventory; a collection begins while it lists.
type collecting struct {
	*inventory
	begin func() error
	found error
}

func (c *collecting) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	c.found = c.begin()
	return listing{id.ArchiveKey("now"), id.ArchiveKey("old")}.Versions(ctx, id)
}

func (c *collecting) Inventory(ctx context.Context, id workspace.ID) (workspace.Inventory, error) {
	c.found = c.begin()
	return c.inventory.Inventory(ctx, id)
}

// A collector that began after the listing and before the choice was written would have read the row without the
// choice.
func TestNobodyBeginsToCollectBeforeTheChosenArchiveIsWritten(t *testing.T) {
	st := storetest.Open(t)
	inv := &collecting{inventory: &inventory{archives: []string{"now", "old"}}}
	s := service.New(st, service.Options{Inventory: inv})
	collect := func() error {
		collection, err := st.TryExclusive(t.Context(), postgres.LockGC, "test")
		if err == nil {
			collection.End(t.Context())
		}
		return err
	}
	inv.begin = collect
	owner := actor(t, st)
	for name, choose := range map[string]func(w workspace.Workspace, key string) error{
		"recover": func(w workspace.Workspace, key string) error {
			storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost', archive_key = '`+w.ID.ArchiveKey("now")+`'`)
			_, err := s.Recover(t.Context(), service.Actor{Admin: true}, w.ID, from(key))
			return err
		},
		"revert": func(w workspace.Workspace, key string) error {
			storetest.Set(t, st, w.ID, `phase = 'ARCHIVED', desired_state = 'ARCHIVED', archive_key = '`+w.ID.ArchiveKey("now")+`'`)
			_, err := s.Revert(t.Context(), owner, w.ID, key)
			return err
		},
	} {
		inv.found = nil
		w := create(t, s, owner)
		if err := choose(w, w.ID.ArchiveKey("old")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var busy *postgres.BusyError
		if !errors.As(inv.found, &busy) {
			t.Errorf("%s: who begins to collect meanwhile gets %v", name, inv.found)
		}
		if err := collect(); err != nil {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
}

func TestTheChoiceErrorShowsWhatExists(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{archives: []string{"now", "old"}}
	s := service.New(st, service.Options{Inventory: inv})
	w := create(t, s, actor(t, st))
	storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost', home_ctx = '{"dirty": true}', archive_key = '`+w.ID.ArchiveKey("now")+`'`)
	for _, c := range []struct {
		volume   bool
		archives []string
		choice   service.Choice
		want     []string
		not      string
	}{
		{false, []string{"now", "old"}, none, []string{"no volume", w.ID.ArchiveKey("now") + " (1000 bytes of 2026-01-10T00:00:00Z, the current one)",
			w.ID.ArchiveKey("old") + " (1000 bytes of 2026-01-09T00:00:00Z)", "Choose archive or empty"}, "replace the volume"},
		{true, []string{"old"}, empty, []string{"a volume of 2026-02-03T04:05:06Z", "Choose volume or archive and replace the volume or empty and replace the volume"}, "current"},
		{false, nil, none, []string{"no volume, no archive", "Choose empty"}, "replace the volume"},
	} {
		inv.volume, inv.archives = c.volume, c.archives
		_, err := s.Recover(t.Context(), service.Actor{Admin: true}, w.ID, c.choice)
		if err == nil {
			t.Fatalf("%+v: no error", c)
		}
		for _, text := range c.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
		if strings.Contains(err.Error(), c.not) {
			t.Errorf("%q says %q", err, c.not)
		}
	}
}

func TestWithoutAnInventoryNothingIsChanged(t *testing.T) {
	st := storetest.Open(t)
	away := errors.New("the bucket is another one")
	for name, options := range map[string]service.Options{"away": {Inventory: &inventory{volume: true, err: away}}, "without one": {}} {
		s := service.New(st, options)
		w := create(t, s, actor(t, st))
		admin := service.Actor{Admin: true}
		storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost'`)
		before := storetest.Row(t, st, w.ID)
		for _, choice := range []service.Choice{none, keep, emptyOver, from("k")} {
			_, err := s.Recover(t.Context(), admin, w.ID, choice)
			if !errors.Is(err, service.ErrInventoryUnknown) || options.Inventory != nil && !errors.Is(err, away) {
				t.Errorf("%s: %+v: %v", name, choice, err)
			}
		}
		if after := storetest.Row(t, st, w.ID); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the row changed to %+v", name, after)
		}
		// An error that does not concern the data needs no inventory.
		storetest.Set(t, st, w.ID, `error_reason = 'Timeout'`)
		if _, err := s.Recover(t.Context(), admin, w.ID, none); err != nil {
			t.Errorf("%s: a Timeout: %v", name, err)
		}
	}
}

func TestARecoveryDecidesAboutTheErrorThatItClears(t *testing.T) {
	st := storetest.Open(t)
	inv := &inventory{volume: true}
	s := service.New(st, service.Options{Inventory: inv})
	w := create(t, s, actor(t, st))
	admin := service.Actor{Admin: true}
	storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'DataLost'`)

	// The error gets a reason after which the volume is used only if a person chooses it.
	inv.look = func() { storetest.Set(t, st, w.ID, `error_reason = 'Conflict'`) }
	var needed *service.ChoiceError
	if _, err := s.Recover(t.Context(), admin, w.ID, none); !errors.As(err, &needed) || needed.Reason != workspace.ReasonConflict {
		t.Errorf("the reason changed meanwhile: %v", err)
	}
	// Another administrator recovers it meanwhile.
	inv.look = func() { storetest.Set(t, st, w.ID, `error_reason = NULL, error_count = 0`) }
	if got, err := s.Recover(t.Context(), admin, w.ID, none); !errors.As(err, &needed) && (err != nil || got.Recovery != nil) {
		t.Errorf("recovered meanwhile: %+v, %v", got, err)
	}
	// The error changes all the time.
	reasons := []string{"DataLost", "Conflict"}
	n := 0
	inv.look = func() { n++; storetest.Set(t, st, w.ID, `error_reason = '`+reasons[n%2]+`'`) }
	storetest.Set(t, st, w.ID, `error_reason = 'DataLost'`)
	if _, err := s.Recover(t.Context(), admin, w.ID, keep); err == nil || !strings.Contains(err.Error(), "changes all the time") || n != 3 {
		t.Errorf("it changes all the time: %v after %d looks", err, n)
	}
}

// TestAConflictInUse: the volume in use can be kept immediately. Every other choice requires that the workspace sleeps,
// and the error says so.
func TestAConflictInUse(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1, Global: 1, Workspaces: 9}, Inventory: &inventory{volume: true, archives: []string{"now"}}})
	admin := service.Actor{Admin: true}
	const inUse = `phase = 'RUNNING', operation = 'NONE', waiting = '{"reason": "Conflict", "message": "m", "since": "2026-01-01T00:00:00Z"}'`
	w := create(t, s, actor(t, st))
	storetest.Set(t, st, w.ID, inUse)
	for _, c := range []struct {
		choice  service.Choice
		problem string
	}{
		{none, "only you can tell"}, {retry, "only you can tell"}, {empty, "put the workspace to sleep"}, {emptyOver, "put the workspace to sleep"},
		{fromOver(w.ID.ArchiveKey("now")), "put the workspace to sleep"},
	} {
		before := storetest.Row(t, st, w.ID)
		var needed *service.ChoiceError
		_, err := s.Recover(t.Context(), admin, w.ID, c.choice)
		if !errors.As(err, &needed) || needed.Reason != workspace.ReasonConflict || !slices.Equal(needed.Choices, []service.Choice{keep}) || !strings.Contains(err.Error(), c.problem) ||
			!strings.HasSuffix(err.Error(), "Choose volume") {
			t.Errorf("%+v: %v, want a problem: %s", c.choice, err, c.problem)
		}
		if after := storetest.Row(t, st, w.ID); !reflect.DeepEqual(after, before) {
			t.Errorf("%+v: the row changed to %+v", c.choice, after)
		}
	}
	got, err := s.Recover(t.Context(), admin, w.ID, keep)
	if err != nil || got.Recovery == nil || got.Recovery.Choice != workspace.RecoverVolume || got.Recovery.VolumeOpID != "op" ||
		got.DesiredState != workspace.DesiredRunning {
		t.Errorf("keep: %+v, %v; want a recovery that keeps the volume, and no limit: it runs already", got, err)
	}
	for _, set := range []string{`operation = 'STOPPING', op_started_at = now()`, `waiting = NULL`, `phase = 'STANDBY'`} {
		w := create(t, service.New(st, service.Options{}), actor(t, st))
		storetest.Set(t, st, w.ID, inUse)
		storetest.Set(t, st, w.ID, set)
		var refused *service.ChoiceError
		if _, err := s.Recover(t.Context(), admin, w.ID, keep); !errors.As(err, &refused) || refused.Choices != nil {
			t.Errorf("%s: %v, want that it is in no error", set, err)
		}
	}
}

func TestAWorkspaceInNoErrorStaysAsItIs(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Inventory: &inventory{volume: true}})
	admin := service.Actor{Admin: true}
	for _, set := range []string{`operation = 'PROVISIONING', error_reason = 'ActionFailed', error_count = 2`, `phase = 'RUNNING'`, `phase = 'ERROR'`} {
		w := create(t, s, actor(t, st))
		storetest.Set(t, st, w.ID, set)
		before := storetest.Row(t, st, w.ID)
		if got, err := s.Recover(t.Context(), admin, w.ID, none); err != nil || got.ID != w.ID {
			t.Errorf("%s: %+v, %v", set, got, err)
		}
		var refused *service.ChoiceError
		if _, err := s.Recover(t.Context(), admin, w.ID, keep); !errors.As(err, &refused) || !strings.Contains(err.Error(), "in no error") {
			t.Errorf("%s: a choice: %v", set, err)
		}
		if after := storetest.Row(t, st, w.ID); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: the row changed to %+v", set, after)
		}
	}
}
