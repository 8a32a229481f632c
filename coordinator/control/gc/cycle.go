package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Bounds of a cycle.
const (
	// maxDue is how many archives one cycle deletes at most; the next cycle continues. They are in memory,
	// about 300 bytes each.
	maxDue = 50_000
	// maxHeld is how many archives of one workspace are kept in memory until all are listed and can be compared with
	// each other. In normal use no workspace has that many.
	maxHeld = 10_000
	// deleteBatch is how many archives are checked again and deleted together. With their commit markers they
	// make one request of 1,000 objects.
	deleteBatch = 500
	// judgementLife is how long a batch may be deleted after its rows were read. A process that was suspended for
	// longer has missed the changes since then.
	judgementLife = time.Minute
)

// cycle is one pass over all archives.
type cycle struct {
	opts     Options
	settings Settings
	request  Request
	// dry cycles change nothing. The function each, if set, is called with every finding.
	dry  bool
	each func(Judgement) error
	hold *hold // nil in a dry cycle

	generation *generation
	report     Report
	// pending are listed archives that are not judged yet. The archives of one workspace wait for each other, and an
	// archive waits for its commit marker.
	pending []listed
	// partial is a workspace some of whose archives were judged already.
	partial workspace.ID
	due     []due
	judged  clock.Moment  // when the rows of the present batch were read
	life    time.Duration // of a judgement; default judgementLife
	faults  []error       // panics about single workspaces, whose archives stay
}

// due is an archive to delete, with the facts on which it was judged.
type due struct {
	listed
	comparison comparison
}

// collect runs the cycle. It first judges all archives, and then deletes those that are due, but only if nothing has
// failed.
func (c *cycle) collect(ctx context.Context) error {
	if err := c.opts.Identity.Bucket(ctx); err != nil {
		return err
	}
	if err := c.inspect(ctx); err != nil {
		return err
	}
	if err := c.checkShare(ctx); err != nil {
		return err
	}
	if c.request.Unknown && c.report.Due > c.request.Confirmed {
		return fmt.Errorf("%w: %d archives would be deleted, %d were confirmed; look again", ErrNotConfirmed,
			c.report.Due, c.request.Confirmed)
	}
	return errors.Join(append(c.faults, c.sweep(ctx), c.uploads(ctx))...)
}

// inspect judges all archives and records the orphans. It deletes nothing.
func (c *cycle) inspect(ctx context.Context) error {
	var err error
	if c.dry && c.opts.Orphans == nil {
		c.generation = untimed
	} else if c.generation, err = c.opts.Orphans.begin(ctx, c.dry); err != nil {
		return err
	}
	err = c.opts.Archives.List(ctx, func(page []archive.Object) error { return c.inspectPage(ctx, page) })
	if err != nil {
		return err
	}
	if err := c.inspectArchives(ctx, c.pending); err != nil {
		return err
	}
	return c.generation.commit(ctx)
}

// inspectPage adds one page of the listing, and judges the workspaces whose archives are all listed. It reads the rows
// after the objects were listed, because the row of a workspace exists before its archives.
func (c *cycle) inspectPage(ctx context.Context, page []archive.Object) error {
	if err := c.hold.check(ctx); err != nil {
		return err
	}
	c.report.Objects += len(page)
	for _, object := range page {
		if err := c.add(object); err != nil {
			return err
		}
	}
	last := len(c.pending) - 1
	if last < 0 {
		return nil
	}
	// The next page may have more archives of the last workspace, or the commit marker of its last archive.
	whole := last
	for whole > 0 && c.pending[whole-1].id == c.pending[last].id {
		whole--
	}
	if last-whole >= maxHeld {
		whole, c.partial = last, c.pending[last].id
	}
	if err := c.inspectArchives(ctx, c.pending[:whole]); err != nil {
		return err
	}
	c.pending = append(c.pending[:0], c.pending[whole:]...)
	return nil
}

// add adds one object of the listing.
func (c *cycle) add(object archive.Object) error {
	key, id, ok := archive.ParseKey(object.Key)
	if !ok {
		if object.Key == archive.MarkerKey || strings.HasPrefix(object.Key, archive.CheckFolder) {
			return nil
		}
		c.report.Foreign++
		if !c.dry {
			return nil
		}
		return c.tell(Judgement{Key: object.Key, Size: object.Size, Modified: object.LastModified, Verdict: Foreign})
	}
	marker := object.Key != key
	if last := len(c.pending) - 1; last >= 0 && c.pending[last].key == key {
		c.pending[last].marker = marker
		return nil
	}
	a := listed{key: key, id: id, size: object.Size, modified: object.LastModified, marker: marker}
	if marker {
		a.size = UnknownSize
	}
	c.pending = append(c.pending, a)
	return nil
}

// tell passes a finding on.
func (c *cycle) tell(f Judgement) error {
	if c.each == nil {
		return nil
	}
	return c.each(f)
}

// inspectArchives judges archives, those of one workspace together.
func (c *cycle) inspectArchives(ctx context.Context, archives []listed) error {
	c.report.Archives += len(archives)
	protection, err := c.protection(ctx, archives)
	if err != nil {
		return err
	}
	judged := make([]Judgement, 0, len(archives))
	comparisons := make([]comparison, 0, len(archives))
	windows := make([]time.Duration, 0, len(archives)) // for which they stay because their workspace may be undeleted
	var orphans []string
	var rows []store.Archive
	for group := range groups(archives) {
		p, known := protection[group[0].id]
		var compared comparison
		err := guard.Call(guard.Workspace, func() (err error) {
			if compared, err = c.compare(ctx, group, p); err == nil {
				retain(group, p, compared, c.settings.Keep)
			}
			return err
		})
		if guard.Panicked(err) {
			c.faults = append(c.faults, fmt.Errorf("judging the archives of workspace %s, which all stay: %w", group[0].id, err))
			p.MarkUnreadable(err)
			known = true
		} else if err != nil {
			return err
		}
		for _, a := range group {
			if known && a.complete() && p.CollectedAt.IsZero() {
				rows = append(rows, store.Archive{WorkspaceID: a.id, Key: a.key, Size: a.size, CreatedAt: a.modified})
			}
			reason := judge(a, p, known, compared)
			if reason.orphan() {
				orphans = append(orphans, a.key)
			}
			judged = append(judged, Judgement{
				Key: a.key, Workspace: a.id, Size: a.size, Modified: a.modified, Reason: reason,
			})
			comparisons = append(comparisons, compared)
			windows = append(windows, p.Undeletable(c.settings.UndeleteFor))
		}
	}
	firstSeen, err := c.generation.see(ctx, orphans)
	if err != nil {
		return err
	}
	if !c.dry && len(rows) > 0 {
		if err := c.opts.Store.AddArchives(ctx, rows); err != nil {
			return err
		}
	}
	for i, f := range judged {
		if f.Reason.orphan() {
			f.FirstSeen, firstSeen = firstSeen[0], firstSeen[1:]
		}
		f.Verdict, f.Age, f.Left = c.verdict(f, windows[i])
		c.count(f)
		if f.Verdict == Due && !c.dry && len(c.due) < maxDue {
			c.due = append(c.due, due{archives[i], comparisons[i]})
		}
		if !c.dry {
			continue
		}
		if err := c.tell(f); err != nil {
			return err
		}
	}
	return nil
}

// compare does what the function [compare] does. It also handles a workspace that has too many archives to keep in
// memory. For such a workspace it asks the object store for the current archive, and assumes that there are newer ones.
func (c *cycle) compare(ctx context.Context, group []listed, p store.Protection) (comparison, error) {
	if group[0].id != c.partial || p.ArchiveKey == "" {
		return compare(group, p), nil
	}
	info, err := c.opts.Archives.Stat(ctx, p.ArchiveKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, contract.ErrMalformedMeta) {
		return comparison{}, err
	}
	if err != nil {
		return comparison{key: p.ArchiveKey}, nil
	}
	return comparison{key: p.ArchiveKey, current: info.Modified, until: info.Modified, newer: true}, nil
}

// verdict returns the verdict on an archive, its age as an orphan, and how long it stays. window is how long the
// deletion of its workspace can still be undone. An archive of a deleted workspace stays at least that long, unless it
// was superseded before the deletion.
func (c *cycle) verdict(f Judgement, window time.Duration) (v Verdict, age, left time.Duration) {
	switch {
	case f.Reason.orphan():
		if !f.FirstSeen.IsZero() {
			age = c.generation.now.Sub(f.FirstSeen)
		}
		left = max(c.settings.Delay-age, 0)
		if f.Reason == OrphanDeleted {
			left = max(left, window)
		}
		if left > 0 {
			return Candidate, age, left
		}
		return Due, age, 0
	case !f.Reason.reported():
		return Protected, 0, 0
	case c.request.Unknown && c.generation != untimed:
		// The row of a new archive's workspace may not be known yet.
		if age = c.generation.now.Sub(f.Modified); age >= c.settings.Delay && window == 0 {
			return Due, age, 0
		}
	}
	return Reported, 0, 0
}

// count adds a judged archive to the report.
func (c *cycle) count(f Judgement) {
	switch {
	case f.Reason.orphan():
		c.report.Orphans++
	case f.Reason == ReportedUnknown:
		c.report.Unknown++
	case f.Reason.reported():
		c.report.Newer++
	}
	if f.Verdict == Due {
		c.report.Due++
	}
}

// protection returns the rows of the archives' workspaces.
func (c *cycle) protection(ctx context.Context, archives []listed) (map[workspace.ID]store.Protection, error) {
	if len(archives) == 0 {
		return nil, nil
	}
	ids := make(map[workspace.ID]struct{}, len(archives))
	for _, a := range archives {
		ids[a.id] = struct{}{}
	}
	return c.opts.Store.Protection(ctx, slices.Collect(maps.Keys(ids)))
}

// groups splits a list of archives, which must be in the order of their keys, into one list per workspace.
func groups(archives []listed) func(yield func([]listed) bool) {
	return func(yield func([]listed) bool) {
		for len(archives) > 0 {
			n := 1
			for n < len(archives) && archives[n].id == archives[0].id {
				n++
			}
			if !yield(archives[:n]) {
				return
			}
			archives = archives[n:]
		}
	}
}
