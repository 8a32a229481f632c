package gc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Bounds of a cycle.
const (
	// maxDue is how many archives one cycle deletes at most; the next cycle continues.
	// They are in memory, about 150 bytes each.
	maxDue = 50_000
	// deleteBatch is how many archives are checked again and deleted together. With
	// their commit markers they make one request of 1,000 objects.
	deleteBatch = 500
)

// errNotLeading says that another process may be the leader now.
var errNotLeading = errors.New("this process may no longer be the leader; no further archive is deleted")

// cycle is one pass over all archives.
type cycle struct {
	opts     Options
	settings Settings
	// dry cycles change nothing; each, then set, takes the findings.
	dry  bool
	each func(Finding) error

	generation *generation
	report     Report
	// last is the archive of the last object, which the next object, its commit
	// marker, belongs to as well. A page may end between them.
	last string
	due  []listed
}

// listed is an archive of the listing.
type listed struct {
	key      string
	id       workspace.ID
	size     int64 // UnknownSize when only its commit marker is listed
	modified time.Time
}

// collect does the cycle: it judges everything first, and deletes only if nothing
// failed.
func (c *cycle) collect(ctx context.Context) error {
	if err := c.inspect(ctx); err != nil {
		return err
	}
	return c.sweep(ctx)
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
	if err := c.generation.commit(ctx); err != nil {
		return err
	}
	return c.checkShare(ctx)
}

// inspectPage judges one page of the listing. The rows are read after the objects
// were listed: an archive's row is always older than the archive.
func (c *cycle) inspectPage(ctx context.Context, page []archive.Object) error {
	archives := c.archives(page)
	c.report.Archives += len(archives)
	reasons, err := c.judge(ctx, archives)
	if err != nil {
		return err
	}
	var orphans []string
	for i, a := range archives {
		if reasons[i].orphan() {
			orphans = append(orphans, a.key)
		}
	}
	c.report.Orphans += len(orphans)
	firstSeen, err := c.generation.see(ctx, orphans)
	if err != nil {
		return err
	}
	for i, a := range archives {
		f := Finding{Key: a.key, Workspace: a.id, Size: a.size, Modified: a.modified, Verdict: Protected, Reason: reasons[i]}
		if reasons[i].orphan() {
			f.FirstSeen, firstSeen = firstSeen[0], firstSeen[1:]
			f.Verdict = Candidate
			if !f.FirstSeen.IsZero() {
				f.Age = c.generation.now.Sub(f.FirstSeen)
			}
		}
		if f.Verdict == Candidate && f.Age >= c.settings.Delay {
			f.Verdict = Due
			c.report.Due++
			if !c.dry && len(c.due) < maxDue {
				c.due = append(c.due, a)
			}
		}
		if c.each == nil {
			continue
		}
		if err := c.each(f); err != nil {
			return err
		}
	}
	return nil
}

// archives returns the archives whose first object is on this page.
func (c *cycle) archives(page []archive.Object) []listed {
	c.report.Objects += len(page)
	var found []listed
	for _, object := range page {
		key, id, ok := parse(object.Key)
		switch {
		case !ok:
			c.report.Foreign++
		case key != c.last:
			c.last = key
			a := listed{key: key, id: id, size: object.Size, modified: object.LastModified}
			if object.Key != key {
				a.size = UnknownSize
			}
			found = append(found, a)
		}
	}
	return found
}

// judge returns, for each of the archives, why it is kept or an orphan.
func (c *cycle) judge(ctx context.Context, archives []listed) ([]Reason, error) {
	if len(archives) == 0 {
		return nil, nil
	}
	ids := make(map[workspace.ID]struct{}, len(archives))
	for _, a := range archives {
		ids[a.id] = struct{}{}
	}
	var protection map[workspace.ID]store.Protection
	protection, err := c.opts.Store.Protection(ctx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return nil, fmt.Errorf("reading what protects archives: %w", err)
	}
	reasons := make([]Reason, len(archives))
	for i, a := range archives {
		p, known := protection[a.id]
		reasons[i] = judge(a.key, a.id, p, known)
	}
	return reasons, nil
}

// sweep deletes what is due, in batches. Each archive is judged once more just
// before: the workspace may have changed since the listing.
func (c *cycle) sweep(ctx context.Context) error {
	var errs []error
	for batch := range slices.Chunk(c.due, deleteBatch) {
		reasons, err := c.judge(ctx, batch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		var orphans []listed
		for i, a := range batch {
			if reasons[i].orphan() {
				orphans = append(orphans, a)
			}
		}
		c.report.Spared += len(batch) - len(orphans)
		if c.opts.HoldsLease != nil && !c.opts.HoldsLease() {
			return errors.Join(append(errs, errNotLeading)...)
		}
		if err := c.remove(ctx, orphans); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// remove deletes archives together with their commit markers.
func (c *cycle) remove(ctx context.Context, orphans []listed) error {
	if len(orphans) == 0 {
		return nil
	}
	objects := make([]string, 0, 2*len(orphans))
	for _, o := range orphans {
		objects = append(objects, o.key, o.key+contract.MetaSuffix)
	}
	failed, err := c.opts.Archives.Delete(ctx, objects)
	var deleted []string
	var ids []workspace.ID
	for _, o := range orphans {
		cause := errors.Join(failed[o.key], failed[o.key+contract.MetaSuffix])
		if cause != nil {
			c.report.Failed++
			if err == nil {
				err = fmt.Errorf("deleting archive %s: %w", o.key, cause)
			}
			continue
		}
		c.report.Deleted++
		deleted = append(deleted, o.key)
		if n := len(ids); n == 0 || ids[n-1] != o.id {
			ids = append(ids, o.id)
		}
	}
	if c.opts.OnCollected != nil && len(ids) > 0 {
		c.opts.OnCollected(ids)
	}
	return errors.Join(err, c.opts.Orphans.remove(ctx, deleted))
}
