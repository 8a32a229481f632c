package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// sweep deletes the due archives in batches. Before each batch it checks that this process is still the only one that
// collects, that the bucket is the right one, and that each archive is still an orphan. The workspace may have changed
// since the listing.
func (c *cycle) sweep(ctx context.Context) error {
	var errs []error
	for batch := range slices.Chunk(c.due, deleteBatch) {
		doomed, err := c.again(ctx, batch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := c.remove(ctx, doomed); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// again judges a batch once more, and returns the archives that may be deleted now. If that makes the deletion of a
// workspace final, it marks the workspace as collected.
func (c *cycle) again(ctx context.Context, batch []due) ([]Judgement, error) {
	if err := c.hold.check(ctx); err != nil {
		return nil, err
	}
	if err := c.opts.Identity.Bucket(ctx); err != nil {
		return nil, err
	}
	archives := make([]listed, len(batch))
	for i, d := range batch {
		archives[i] = d.listed
	}
	c.judged = clock.Now()
	protection, err := c.protection(ctx, archives)
	if err != nil {
		return nil, err
	}
	reasons := make([]Reason, len(batch))
	marks := make(map[workspace.ID]bool) // false until it is marked
	var unmarked []workspace.ID
	for i, d := range batch {
		p, known := protection[d.id]
		reason := judge(d.listed, p, known, d.comparison)
		// The current archive has changed since the comparison.
		if p.ArchiveKey != d.comparison.key || !reason.orphan() && !(c.request.Unknown && reason.reported()) {
			continue
		}
		reasons[i] = reason
		if _, seen := marks[d.id]; !seen && needsMark(reason, p) {
			marks[d.id] = false
			unmarked = append(unmarked, d.id)
		}
	}
	if len(unmarked) > 0 {
		marked, err := c.opts.Store.MarkCollected(ctx, c.hold.exclusive.Fence(), unmarked, c.settings.UndeleteFor)
		if err != nil {
			return nil, err
		}
		for _, id := range marked {
			marks[id] = true
		}
	}
	var doomed []Judgement
	var spared []string
	for i, d := range batch {
		f := Judgement{
			Key: d.key, Workspace: d.id, Size: d.size, Modified: d.modified, Reason: reasons[i], Verdict: Spared,
		}
		if marked, needed := marks[d.id]; f.Reason != "" && (marked || !needed || f.Reason == OrphanSuperseded) {
			doomed = append(doomed, f)
			continue
		}
		c.report.Spared++
		spared = append(spared, f.Key)
		if err := c.tell(f); err != nil {
			return nil, err
		}
	}
	// If they become orphans again, their delay starts again.
	return doomed, c.opts.Orphans.remove(ctx, spared)
}

// remove deletes archives together with their commit markers.
func (c *cycle) remove(ctx context.Context, doomed []Judgement) error {
	if len(doomed) == 0 {
		return nil
	}
	keys, objects := make([]string, 0, len(doomed)), make([]string, 0, 2*len(doomed))
	for _, f := range doomed {
		keys, objects = append(keys, f.Key), append(objects, f.Key, f.Key+contract.MetaSuffix)
	}
	// The rows are deleted first, because the next listing finds objects that remain, but nothing would find rows that
	// remain. If an archive remains, the next listing restores its row.
	if err := c.opts.Store.RemoveArchives(ctx, keys); err != nil {
		return err
	}
	// The lease is checked here because the following request cannot be taken back.
	if !c.hold.leads() {
		return errNotLeading
	}
	if c.judged.Elapsed() > cmp.Or(c.life, judgementLife) {
		return errTooLate
	}
	failed, err := c.opts.Archives.Delete(ctx, objects)
	var deleted []string
	var ids []workspace.ID
	for _, f := range doomed {
		f.Verdict = Deleted
		if cause := errors.Join(failed[f.Key], failed[f.Key+contract.MetaSuffix]); cause != nil {
			f.Verdict = Failed
			c.report.Failed++
			if err == nil {
				err = fmt.Errorf("deleting archive %s: %w", f.Key, cause)
			}
		} else {
			c.report.Deleted++
			deleted = append(deleted, f.Key)
			if n := len(ids); n == 0 || ids[n-1] != f.Workspace {
				ids = append(ids, f.Workspace)
			}
		}
		err = errors.Join(err, c.tell(f))
	}
	if c.opts.OnCollected != nil && len(ids) > 0 {
		c.opts.OnCollected(ids)
	}
	return errors.Join(err, c.opts.Orphans.remove(ctx, deleted))
}

// uploads aborts uploads of archives that began too long ago. No operation takes that long, so none still uses such an
// upload. The parts of an upload appear in no other listing.
func (c *cycle) uploads(ctx context.Context) error {
	if c.generation == untimed {
		return nil
	}
	var old []archive.Upload
	err := c.opts.Archives.ListUploads(ctx, func(page []archive.Upload) error {
		for _, u := range page {
			if _, _, ok := archive.ParseKey(u.Key); ok && len(old) < maxUploads &&
				c.generation.now.Sub(u.Initiated) > c.settings.UploadExpiry {
				old = append(old, u)
			}
		}
		return nil
	})
	if err != nil || c.dry {
		c.report.Uploads = len(old)
		return err
	}
	var errs []error
	for batch := range slices.Chunk(old, deleteBatch) {
		if err := errors.Join(c.hold.check(ctx), c.opts.Identity.Bucket(ctx)); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, u := range batch {
			if err := c.opts.Archives.AbortUpload(ctx, u); err != nil {
				errs = append(errs, err)
				continue
			}
			c.report.Uploads++
		}
	}
	return errors.Join(errs...)
}

// maxUploads is how many unfinished uploads one cycle aborts at most.
const maxUploads = 10_000
