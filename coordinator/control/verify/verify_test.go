package verify_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/control/verify"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// world implements the database, the object store and the backend of a comparison.
type world struct {
	t       *testing.T
	rows    []store.Inspected
	objects []archive.Object
	volumes map[workspace.ID]workspace.Volume
	locked  map[string]bool
	content map[string]string // checksums of what an archive holds now
	marker  map[string]string // checksums in commit markers; empty: malformed
	refused map[string]error  // what the store answers about an archive
	silent  error             // what it answers to a listing of one workspace
	pages   int
}

var began = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func id(n int) workspace.ID { return workspace.ID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)) }

func (w *world) Now(context.Context) (time.Time, error) { return began.Add(24 * time.Hour), nil }

func (w *world) CountWorkspaces(context.Context) (int64, error) { return int64(len(w.rows)), nil }

func (w *world) InspectAfter(_ context.Context, after workspace.ID, limit int) ([]store.Inspected, error) {
	w.pages++
	i, found := slices.BinarySearchFunc(w.rows, after, func(r store.Inspected, id workspace.ID) int {
		return strings.Compare(string(r.ID), string(id))
	})
	if found {
		i++
	}
	return w.rows[i:min(len(w.rows), i+limit)], nil
}

func (w *world) Inspect(_ context.Context, id workspace.ID) ([]store.Inspected, error) {
	for _, r := range w.rows {
		if r.ID == id {
			return []store.Inspected{r}, nil
		}
	}
	return nil, nil
}

func (w *world) List(_ context.Context, page func([]archive.Object) error) error {
	for objects := range slices.Chunk(w.objects, 7) { // a page may end anywhere in a workspace
		if err := page(objects); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) Versions(_ context.Context, id workspace.ID) (found []workspace.ArchiveVersion, _ error) {
	if w.silent != nil {
		return nil, w.silent
	}
	for i, o := range w.objects {
		if strings.HasPrefix(o.Key, string(id)+"/") && i+1 < len(w.objects) && w.objects[i+1].Key == o.Key+".meta" {
			found = append([]workspace.ArchiveVersion{{Key: o.Key, Size: o.Size, Modified: o.LastModified}}, found...)
		}
	}
	return found, nil
}

func (w *world) Locked(_ context.Context, key string) (bool, error) {
	if !slices.ContainsFunc(w.objects, func(o archive.Object) bool { return o.Key == key }) {
		return false, fs.ErrNotExist
	}
	return w.locked[key], w.refused[key]
}

func (w *world) Stat(_ context.Context, key string) (archive.Info, error) {
	switch sum, other := w.marker[key]; {
	case w.refused[key] != nil:
		return archive.Info{}, w.refused[key]
	case other && sum == "":
		return archive.Info{}, contract.ErrMalformedMeta
	case other:
		return archive.Info{Size: 7, SHA256: sum}, nil
	case !slices.ContainsFunc(w.objects, func(o archive.Object) bool { return o.Key == key+".meta" }):
		return archive.Info{}, fs.ErrNotExist
	}
	return archive.Info{Size: 7, SHA256: "right"}, nil
}

func (w *world) ReadBack(_ context.Context, key string, pace func(int) error) (archive.Content, error) {
	sum := "right"
	if s, ok := w.content[key]; ok {
		sum = s
	}
	marker := "right"
	if s, ok := w.marker[key]; ok {
		marker = s
	}
	return archive.Content{Size: 7, SHA256: sum, Recorded: marker}, errors.Join(w.refused[key], pace(7))
}

func (w *world) Volumes(_ context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	found := maps.Clone(w.volumes)
	maps.DeleteFunc(found, func(id workspace.ID, _ workspace.Volume) bool { return len(ids) > 0 && !slices.Contains(ids, id) })
	return found, nil
}

func (w *world) Containers(context.Context, ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	return nil, nil
}

func (w *world) Jobs(context.Context, ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	return nil, nil
}

// archive puts the n-th archive of a workspace, and returns its key. They are in the order of their dates.
func (w *world) archive(id workspace.ID, n int) string {
	key := id.ArchiveKey(fmt.Sprintf("00000000-0000-4000-9000-%012d", n))
	at := began.Add(time.Duration(n) * time.Hour)
	w.objects = append(w.objects, archive.Object{Key: key, Size: 7, LastModified: at},
		archive.Object{Key: key + ".meta", Size: 71, LastModified: at})
	return key
}

// row is an archived workspace whose archive has the key.
func row(id workspace.ID, key string) store.Inspected {
	w := store.Inspected{ArchiveSize: 7, ArchiveSHA256: "right"}
	w.ID, w.Name, w.OwnerID, w.CreatedAt = id, "w", "o", began
	w.Phase, w.DesiredState, w.Operation, w.ArchiveKey = workspace.PhaseArchived, workspace.DesiredArchived, workspace.OpNone, key
	return w
}

// home is a workspace that sleeps on a volume of the backend.
func (w *world) home(id workspace.ID, key string) store.Inspected {
	r := row(id, key)
	r.Phase, r.DesiredState = workspace.PhaseStandby, workspace.DesiredStandby
	r.HomeCtx = workspace.HomeContext{VolumeRecord: workspace.VolumeRecord{VolumeOpID: "A", RestoreMarker: key, Dirty: true}}
	r.Conditions = workspace.Conditions{}.With(workspace.VolumeReady, true, "VolumePresent", "", began).
		With(workspace.PolicyHealthy, true, "", "", began)
	w.volumes[id] = workspace.Volume{OpID: "A"}
	return r
}

// TestARestoredInstallation: each workspace is in a different state, and gets the finding for that state.
func TestARestoredInstallation(t *testing.T) {
	const problem, warning = check.LevelProblem, check.LevelWarning
	for _, tt := range []struct {
		name   string
		make   func(w *world, id workspace.ID) *store.Inspected
		level  check.Level // empty: nothing is wrong
		says   string
		remedy string
	}{
		{"archived", func(w *world, id workspace.ID) *store.Inspected {
			w.archive(id, 0)
			r := row(id, w.archive(id, 1))
			return &r
		}, "", "", ""},
		{"without anything, new", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, "")
			r.Phase, r.DesiredState = workspace.PhasePending, workspace.DesiredRunning
			return &r
		}, "", "", ""},
		{"asleep", func(w *world, id workspace.ID) *store.Inspected {
			r := w.home(id, w.archive(id, 1))
			return &r
		}, "", "", ""},
		{"asleep, and its volume is gone", func(w *world, id workspace.ID) *store.Inspected {
			r := w.home(id, w.archive(id, 1))
			delete(w.volumes, id)
			return &r
		}, problem, "DataLost", "workspace recover"},
		{"asleep on another volume", func(w *world, id workspace.ID) *store.Inspected {
			r := w.home(id, w.archive(id, 1))
			w.volumes[id] = workspace.Volume{OpID: "B"}
			return &r
		}, problem, "Conflict", "workspace recover"},
		{"asleep, and its archive is gone", func(w *world, id workspace.ID) *store.Inspected {
			r := w.home(id, id.ArchiveKey("00000000-0000-4000-9000-000000000001"))
			return &r
		}, warning, "its files are on its volume", "keep its volume"},
		{"archived, and a newer archive exists", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			w.archive(id, 2)
			return &r
		}, problem, "Conflict", "workspace recover"},
		{"archived, and the newer archive was seen", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			r.HomeCtx.Newest = w.archive(id, 2)
			return &r
		}, "", "", ""},
		{"archived, and its archive was collected", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, id.ArchiveKey("00000000-0000-4000-9000-000000000000"))
			w.archive(id, 1)
			return &r
		}, problem, "is missing", "workspace recover"},
		{"archived, and only the archive is left of it", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			w.objects = w.objects[:len(w.objects)-1]
			return &r
		}, problem, "is missing", "workspace recover"},
		{"archived, of another size", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			r.ArchiveSize = 8
			return &r
		}, problem, "7 bytes, and had 8", "copy of the bucket"},
		{"archived, and encrypted to another key", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			w.locked[r.ArchiveKey] = true
			return &r
		}, problem, "keys that this configuration does not have", "encryption identities"},
		{"archived, and damaged", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			w.content[r.ArchiveKey] = "wrong"
			return &r
		}, problem, "its checksum differs", "copy of the bucket"},
		{"not in the database", func(w *world, id workspace.ID) *store.Inspected {
			w.archive(id, 1)
			return nil
		}, problem, "does not know it", "workspace adopt"},
		{"deleted", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			r.DeletedAt, r.DesiredState = began, workspace.DesiredDeleted
			return &r
		}, "", "", ""},
		{"deleted, and archived since", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			w.archive(id, 2)
			r.DeletedAt, r.DesiredState = began, workspace.DesiredDeleted
			return &r
		}, problem, "has newer archives", "workspace undelete"},
		{"in an error that needs a choice", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			r.Phase, r.ErrorReason, r.ErrorMessage = workspace.PhaseError, workspace.ReasonDataLost, "gone"
			return &r
		}, problem, "DataLost: gone", "workspace recover"},
		{"in another error", func(w *world, id workspace.ID) *store.Inspected {
			r := row(id, w.archive(id, 1))
			r.Phase, r.ErrorReason, r.ErrorMessage = workspace.PhaseError, workspace.ReasonTimeout, "slow"
			return &r
		}, warning, "Timeout: slow", "workspace recover"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{t: t, volumes: map[workspace.ID]workspace.Volume{}, locked: map[string]bool{}, content: map[string]string{}}
			// Intact workspaces come before and after it.
			for n := range 3 {
				if n != 1 {
					w.rows = append(w.rows, row(id(n), w.archive(id(n), 1)))
				} else if r := tt.make(w, id(n)); r != nil {
					w.rows = append(w.rows, *r)
				}
			}
			var found []verify.Discrepancy
			report, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w, Backend: w, Read: true},
				func(f verify.Discrepancy) error { found = append(found, f); return nil })
			if err != nil || report.Workspaces != int64(len(w.rows)) || report.Problems+report.Warnings != int64(len(found)) {
				t.Errorf("%+v, %v", report, err)
			}
			switch {
			case tt.level == "" && len(found) > 0, tt.level != "" && len(found) != 1:
				t.Errorf("found %+v", found)
			case tt.level == "":
			case found[0].Level != tt.level || found[0].Workspace != id(1) ||
				!strings.Contains(found[0].Text, tt.says) || !strings.Contains(found[0].Remedy, tt.remedy):
				t.Errorf("found %+v", found[0])
			}
		})
	}
}

// TestWhatArchivesHold: even if archives are not read, the checksum in the commit marker of each current archive is
// compared with the database's. With reading, the content of every archive is checked.
func TestWhatArchivesHold(t *testing.T) {
	const bad, malformed = "wrong", ""
	type of struct{ content, marker map[string]string }
	only := func(key, sum string) map[string]string { return map[string]string{key: sum} }
	for _, tt := range []struct {
		name         string
		is           func(older, newest string) of
		deleted      bool
		unread, read check.Level
		says         string
		olderIsNamed bool
	}{
		{name: "all is well", is: func(string, string) of { return of{} }},
		{name: "the current one is exchanged, with its marker", is: func(_, newest string) of {
			return of{only(newest, bad), only(newest, bad)}
		}, unread: check.LevelProblem, read: check.LevelProblem, says: "the one that the database knows"},
		{name: "the marker of the current one is malformed", is: func(_, newest string) of {
			return of{nil, only(newest, malformed)}
		}, unread: check.LevelProblem, read: check.LevelProblem, says: "marker is malformed"},
		{name: "the current one is damaged", is: func(_, newest string) of {
			return of{only(newest, bad), nil}
		}, read: check.LevelProblem, says: "the one in its commit marker"},
		{name: "an older one is damaged", olderIsNamed: true, is: func(older, _ string) of {
			return of{only(older, bad), nil}
		}, read: check.LevelWarning, says: "the one in its commit marker"},
		{name: "that of a deleted one is damaged", deleted: true, is: func(_, newest string) of {
			return of{only(newest, bad), nil}
		}, read: check.LevelProblem, says: "the one in its commit marker"},
	} {
		for _, read := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read %v", tt.name, read), func(t *testing.T) {
				w := &world{t: t, volumes: map[workspace.ID]workspace.Volume{}}
				older, newest := w.archive(id(1), 1), w.archive(id(1), 2)
				is := tt.is(older, newest)
				w.content, w.marker = is.content, is.marker
				r := row(id(1), newest)
				if tt.deleted {
					r.DeletedAt, r.DesiredState = began, workspace.DesiredDeleted
				}
				w.rows = []store.Inspected{r}
				var found []verify.Discrepancy
				report, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w, Backend: w, Read: read},
					func(f verify.Discrepancy) error { found = append(found, f); return nil })
				if err != nil || read != (report.Read == 2) {
					t.Errorf("%+v, %v", report, err)
				}
				level, about := tt.unread, newest
				if read {
					level = tt.read
				}
				if tt.olderIsNamed {
					about = older
				}
				switch {
				case (level != "") != (len(found) == 1):
					t.Errorf("found %+v", found)
				case level != "" && (found[0].Level != level || found[0].Archive != about || !strings.Contains(found[0].Text, tt.says)):
					t.Errorf("found %+v", found[0])
				}
			})
		}
	}
}

// The object store no longer gives out one of many archives, for example because it was moved to cold storage. The
// others are still examined, unless the store does not answer at all.
func TestAnArchiveThatTheStoreDoesNotGive(t *testing.T) {
	cold := errors.New("InvalidObjectState: it is in cold storage")
	for _, read := range []bool{false, true} {
		for _, silent := range []error{nil, errors.New("connection refused")} {
			t.Run(fmt.Sprintf("read %v, silent %v", read, silent), func(t *testing.T) {
				w := &world{t: t, silent: silent}
				first, last := w.archive(id(1), 1), w.archive(id(2), 1)
				w.rows = []store.Inspected{row(id(1), first), row(id(2), last)}
				w.refused, w.content, w.marker = map[string]error{first: cold}, map[string]string{last: "wrong"}, map[string]string{last: "wrong"}
				var found []verify.Discrepancy
				report, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w, Read: read},
					func(f verify.Discrepancy) error { found = append(found, f); return nil })
				if silent != nil {
					if !errors.Is(err, cold) || len(found) != 0 {
						t.Errorf("%v, %v", found, err)
					}
					return
				}
				if err != nil || report.Workspaces != 2 || len(found) != 2 {
					t.Fatalf("%+v, %v, %v", report, found, err)
				}
				if f := found[0]; f.Workspace != id(1) || f.Archive != first || f.Level != check.LevelProblem ||
					!strings.Contains(f.Text, "does not give its archive: InvalidObjectState") || !strings.Contains(f.Remedy, "archives "+string(id(1))) {
					t.Errorf("%+v", f)
				}
				if found[1].Workspace != id(2) {
					t.Errorf("%+v", found[1])
				}
			})
		}
	}
}

// Archives of a workspace that the database does not know are read, too, because an administrator may adopt one of
// them.
func TestArchivesOfAnUnknownWorkspace(t *testing.T) {
	w := &world{t: t, volumes: map[workspace.ID]workspace.Volume{}}
	w.archive(id(1), 1)
	newest := w.archive(id(1), 2)
	w.content = map[string]string{newest: "wrong"}
	var found []verify.Discrepancy
	report, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w, Backend: w, Read: true},
		func(f verify.Discrepancy) error { found = append(found, f); return nil })
	if err != nil || report.Read != 2 || len(found) != 2 || found[1].Archive != newest || !strings.Contains(found[1].Text, "damaged") {
		t.Errorf("%+v, %v, found %+v", report, err, found)
	}
}

// If the backend is not known, nothing is reported about files that may be on a volume.
func TestWithoutTheBackend(t *testing.T) {
	w := &world{t: t, volumes: map[workspace.ID]workspace.Volume{}}
	asleep := w.home(id(1), "")
	w.rows = []store.Inspected{asleep, row(id(2), id(2).ArchiveKey("00000000-0000-4000-9000-000000000001"))}
	var found []verify.Discrepancy
	if _, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w},
		func(f verify.Discrepancy) error { found = append(found, f); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Workspace != id(2) {
		t.Errorf("found %+v", found)
	}
}

// Rows and objects are read in pages of any size. Entries that only one list has may be anywhere.
func TestManyWorkspaces(t *testing.T) {
	const n = 5000
	w := &world{t: t, volumes: map[workspace.ID]workspace.Volume{}}
	unknown, lost, progress := 0, 0, 0
	for i := range n {
		switch {
		case i%500 == 499:
			w.archive(id(i), 1)
			unknown++
		case i%700 == 699:
			w.rows = append(w.rows, row(id(i), id(i).ArchiveKey("00000000-0000-4000-9000-000000000001")))
			lost++
		default:
			w.rows = append(w.rows, row(id(i), w.archive(id(i), 1)))
		}
	}
	told := make(map[check.Level]int)
	report, err := verify.Run(t.Context(), verify.Options{Store: w, Archives: w, Backend: w, Progress: func(verify.Report) { progress++ }},
		func(f verify.Discrepancy) error { told[f.Level]++; return nil })
	if err != nil || report.Unknown != int64(unknown) || report.Workspaces != int64(len(w.rows)) ||
		report.Archives != int64(n-unknown-lost) || told[check.LevelProblem] != unknown+lost || len(told) != 1 {
		t.Errorf("%+v, %v, told %v, want %d unknown and %d lost", report, err, told, unknown, lost)
	}
	if w.pages != n/1000 || progress < w.pages {
		t.Errorf("%d pages of rows, progress %d times", w.pages, progress)
	}
}
