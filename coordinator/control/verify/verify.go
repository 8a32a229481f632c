// Package verify compares the database with the archives in the object store and the volumes on the backend. It is for
// an installation that was restored from backups (SPEC 12.9). It may run while the installation serves users.
//
// It owns the findings and their remedies. It asks the planner what would happen to a workspace if it were opened, so
// that it never contradicts the product. It must change nothing, and its memory must not grow with the number of
// workspaces or objects.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/control/scrub"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Store is the database. *store.Store implements it.
type Store interface {
	InspectAfter(ctx context.Context, after workspace.ID, limit int) ([]store.Inspected, error)
	Inspect(ctx context.Context, id workspace.ID) ([]store.Inspected, error)
	CountWorkspaces(ctx context.Context) (int64, error)
	Now(ctx context.Context) (time.Time, error)
}

// Archives is the object store. *archive.Store implements it.
type Archives interface {
	List(ctx context.Context, page func([]archive.Object) error) error
	Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error)
	// If a commit marker is malformed, Stat returns it without a checksum, together with an error.
	Stat(ctx context.Context, key string) (archive.Info, error)
	ReadBack(ctx context.Context, key string, pace func(n int) error) (archive.Content, error)
	// Locked reports whether an archive is encrypted to keys that are missing here.
	Locked(ctx context.Context, key string) (bool, error)
}

// Options are the two sides of the comparison. Backend may be nil if it is not known. Then nothing is reported about
// homes that exist only on the backend.
type Options struct {
	Store    Store
	Archives Archives
	Backend  backend.Sensors
	// If Read is set, every archive is read completely. Otherwise only the checksum in the commit marker of each
	// current archive is read.
	Read bool
	// Progress, if set, is called with the counts so far after each page.
	Progress func(Report)
}

// Discrepancy is about one workspace.
type Discrepancy struct {
	check.Finding
	Workspace workspace.ID `json:"workspace_id"`
	// Archive is the key of the archive concerned; empty for none.
	Archive string `json:"archive,omitempty"`
	// Unknown means that the database does not know the workspace.
	Unknown bool `json:"-"`
}

// Report counts the examined objects.
type Report struct {
	// Workspaces is how many of the database's workspaces were compared. Of is about how many the database has. Unknown
	// is how many workspaces only the object store has; Workspaces does not include them.
	Workspaces, Of, Unknown int64
	// Objects were listed. Archives is the number of the workspaces' archives; Read is how many of them were read back,
	// and Bytes is their total size.
	Objects, Archives, Read, Bytes int64
	// Problems and Warnings are the numbers of findings.
	Problems, Warnings int64
}

const (
	// pageSize is how many rows are read at once.
	pageSize = 1000
	// maxVersions is how many archives of one workspace are compared. In normal use no workspace has that many.
	// Archives beyond that number are only counted.
	maxVersions = 10_000
	// sampled is how many archives are checked for a matching key if Read is not set.
	sampled = 20
	// atOnce is how many commit markers are read at once.
	atOnce = 16
)

// run is one comparison.
type run struct {
	Options
	each    func(Discrepancy) error
	report  Report
	now     time.Time // by the database's clock
	volumes map[workspace.ID]workspace.Volume
	tried   int // archives of which the header was read

	rows  []store.Inspected // of the present page, not compared yet
	said  map[string]stat   // of the current archives of the present page, without Read
	after workspace.ID      // the last row that was read
	last  bool              // no page follows

	id       workspace.ID // of the archives that are being collected from the listing
	versions []workspace.ArchiveVersion
	pairs    archive.Pairs
}

// stat is the store's answer about an archive.
type stat struct {
	archive.Info
	err error
}

// Run compares the two sides, and calls the function each with every finding, in the order of the ids. If it returns an
// error, a workspace without a finding is not necessarily intact.
//
// Both lists are in the order of the ids and are read page by page, side by side. A suspicious workspace is examined
// separately once more before it is reported, because the installation may be in use.
func Run(ctx context.Context, o Options, each func(Discrepancy) error) (Report, error) {
	r := &run{Options: o, each: each}
	var err error
	if r.report.Of, err = o.Store.CountWorkspaces(ctx); err != nil {
		return r.report, err
	}
	if r.now, err = o.Store.Now(ctx); err != nil {
		return r.report, err
	}
	if o.Backend != nil {
		if r.volumes, err = o.Backend.Volumes(ctx); err != nil {
			return r.report, fmt.Errorf("listing the volumes: %w", err)
		}
	}
	err = o.Archives.List(ctx, func(page []archive.Object) error { return r.page(ctx, page) })
	if err == nil {
		err = r.group(ctx)
	}
	for err == nil && r.more(ctx, &err) { // those behind the last archive
		err = r.row(ctx, nil)
	}
	return r.report, err
}

// page collects the complete archives of the workspaces on one page of the listing.
func (r *run) page(ctx context.Context, page []archive.Object) error {
	r.report.Objects += int64(len(page))
	for _, o := range page {
		_, id, ok := archive.ParseKey(o.Key)
		if !ok {
			continue
		}
		if id != r.id {
			if err := r.group(ctx); err != nil {
				return err
			}
			r.id = id
		}
		if v, complete := r.pairs.Next(o); complete && len(r.versions) < maxVersions {
			r.versions = append(r.versions, v)
		}
	}
	r.progress()
	return nil
}

func (r *run) progress() {
	if r.Progress != nil {
		r.Progress(r.report)
	}
}

// group compares the workspace whose archives were collected. Before that it compares the workspaces that precede it in
// the database, which have no archives.
func (r *run) group(ctx context.Context) (err error) {
	id, versions := r.id, r.versions
	r.versions = r.versions[:0]
	if id == "" {
		return nil
	}
	for r.more(ctx, &err) && r.rows[0].ID < id {
		if err := r.row(ctx, nil); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case len(r.rows) > 0 && r.rows[0].ID == id:
		return r.row(ctx, versions)
	case len(versions) > 0:
		r.report.Unknown++
		return r.confirm(ctx, id)
	}
	return nil
}

// more reports whether there is another row, and reads the next page if necessary.
func (r *run) more(ctx context.Context, err *error) bool {
	if len(r.rows) == 0 && !r.last {
		if r.rows, *err = r.Store.InspectAfter(ctx, r.after, pageSize); *err != nil {
			return false
		}
		r.last = len(r.rows) < pageSize
		if len(r.rows) > 0 {
			r.after = r.rows[len(r.rows)-1].ID
		}
		if !r.Read {
			r.said = r.ask(ctx)
		}
		r.progress()
	}
	return len(r.rows) > 0
}

// row compares the next row with the archives of its workspace.
func (r *run) row(ctx context.Context, versions []workspace.ArchiveVersion) error {
	w := r.rows[0]
	r.rows = r.rows[1:]
	r.report.Workspaces++
	r.report.Archives += int64(len(versions))
	if w.Unreadable != nil {
		return r.tell(discrepancy(w.Workspace, check.Problem("have the program corrected, or the row; until then nothing happens with the workspace",
			"its row cannot be read: %v", w.Unreadable)))
	}
	archive.NewestFirst(versions)
	seen := sight{id: w.ID, row: &w, versions: versions, volumes: r.volumes != nil}
	if volume, found := r.volumes[w.ID]; found {
		seen.volume = &volume
	}
	if len(judge(r.now, seen)) > 0 {
		return r.confirm(ctx, w.ID)
	}
	return r.try(ctx, seen)
}

// confirm examines one workspace alone, and reports the findings that remain.
func (r *run) confirm(ctx context.Context, id workspace.ID) error {
	seen, err := r.onBackend(ctx, id)
	if err != nil {
		return err
	}
	if seen.versions, err = r.Archives.Versions(ctx, id); err != nil {
		return err
	}
	rows, err := r.Store.Inspect(ctx, id) // read last, so that the row is not older than the objects that it is compared with
	if err != nil {
		return err
	}
	if len(rows) == 1 {
		seen.row = &rows[0]
	}
	for _, f := range judge(r.now, seen) {
		if err := r.tell(f); err != nil {
			return err
		}
	}
	return r.try(ctx, seen)
}

// onBackend returns what exists of a workspace on the backend.
func (r *run) onBackend(ctx context.Context, id workspace.ID) (sight, error) {
	seen := sight{id: id}
	if r.Backend == nil {
		return seen, nil
	}
	volumes, err := r.Backend.Volumes(ctx, id)
	containers, other := r.Backend.Containers(ctx, id)
	jobs, third := r.Backend.Jobs(ctx, id)
	if err = errors.Join(err, other, third); err != nil {
		return seen, fmt.Errorf("asking the container backend about workspace %s: %w", id, err)
	}
	seen.volumes, seen.jobs = true, jobs[id]
	if v, ok := volumes[id]; ok {
		seen.volume = &v
	}
	if c, ok := containers[id]; ok {
		seen.container = &c
	}
	return seen, nil
}

func (r *run) tell(f Discrepancy) error {
	switch f.Level {
	case check.LevelProblem:
		r.report.Problems++
	case check.LevelWarning:
		r.report.Warnings++
	}
	return r.each(f)
}

// ask asks the store about the current archives of the page.
func (r *run) ask(ctx context.Context) map[string]stat {
	var g errgroup.Group
	g.SetLimit(atOnce)
	all := make([]stat, len(r.rows))
	for i, w := range r.rows {
		if current(w) != "" {
			guard.Go(&g, func() error { all[i].Info, all[i].err = r.Archives.Stat(ctx, w.ArchiveKey); return nil })
		}
	}
	_ = g.Wait() // each has its own error
	said := make(map[string]stat, len(all))
	for i, w := range r.rows {
		said[w.ArchiveKey] = all[i]
	}
	return said
}

// current returns the archive that holds the workspace's data, or "".
func current(w store.Inspected) string {
	if w.Deleted() {
		return ""
	}
	return w.ArchiveKey
}

// leveled makes a finding of one level.
type leveled func(remedy, format string, args ...any) check.Finding

// try checks the current archive of a workspace and, with Read, all other archives that a recovery may choose.
func (r *run) try(ctx context.Context, s sight) error {
	var key string
	if s.row != nil {
		if key = current(*s.row); key != "" {
			if err := r.open(ctx, s.id, key, s.row.ArchiveSHA256, check.Problem); err != nil {
				return err
			}
		}
	}
	if !r.Read {
		return nil
	}
	for i, v := range s.versions {
		level := check.Warning
		if i == 0 {
			level = check.Problem
		}
		if v.Key == key {
			continue
		}
		if err := r.open(ctx, s.id, v.Key, "", level); err != nil {
			return err
		}
	}
	return nil
}

// open checks one archive: whether this configuration has a key for it, and whether its content matches its commit
// marker and the database. It ignores a missing archive, which was reported before. If the store answers but does not
// give the archive, open reports that, and the other archives are still examined.
func (r *run) open(ctx context.Context, id workspace.ID, key, sum string, level leveled) error {
	tell := func(f check.Finding) error { return r.tell(Discrepancy{Finding: f, Workspace: id, Archive: key}) }
	if r.Read || r.tried < sampled {
		r.tried++
		locked, err := r.Archives.Locked(ctx, key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return r.withheld(ctx, id, err, level, tell)
		case locked:
			return tell(level("add the secret key of one of its recipients to the file of encryption identities",
				"its archive is encrypted to keys that this configuration does not have"))
		}
	}
	c, err := r.content(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return r.withheld(ctx, id, err, level, tell)
	}
	if damage := scrub.Damage(store.Archive{SHA256: sum}, c, false); damage != "" {
		return tell(level(broken(id), "its archive is damaged: %s", damage))
	}
	return nil
}

// withheld reports that the store answered a request for an archive with err. If the store does not even list the
// archives of that workspace, it does not answer at all, and withheld returns err.
func (r *run) withheld(ctx context.Context, id workspace.ID, err error, level leveled, tell func(check.Finding) error) error {
	if _, silent := r.Archives.Versions(ctx, id); silent != nil {
		return err
	}
	return tell(level("look into the object store's log, "+another(id), "the object store does not give its archive: %v", err))
}

// content returns the content of an archive; without Read it is taken from the commit marker.
func (r *run) content(ctx context.Context, key string) (archive.Content, error) {
	if r.Read {
		c, err := r.Archives.ReadBack(ctx, key, func(n int) error {
			r.report.Bytes += int64(n)
			r.progress()
			return ctx.Err()
		})
		if err == nil {
			r.report.Read++
		}
		return c, err
	}
	s, asked := r.said[key]
	if !asked { // it has changed since
		s.Info, s.err = r.Archives.Stat(ctx, key)
	}
	if errors.Is(s.err, contract.ErrMalformedMeta) {
		s.err = nil
	}
	return archive.Content{Size: s.Size, SHA256: s.SHA256, Recorded: s.SHA256}, s.err
}
