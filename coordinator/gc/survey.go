package gc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// maxDue is how many archives one cycle deletes at most; the next cycle goes on.
	// They are held in memory, about 100 bytes each.
	maxDue = 50_000
	// deleteBatch is how many archives are checked again and deleted together. With
	// their commit markers they make one request of 1,000 objects.
	deleteBatch = 500
	// maxFindings is how many orphans a report names.
	maxFindings = 1000
)

// Finding is one orphan.
type Finding struct {
	Key       string
	Workspace workspace.ID
	Reason    Reason
	// Since is its first sighting; Due is whether the safety delay has passed.
	Since time.Time
	Due   bool
}

// Report is what a cycle saw and did.
type Report struct {
	DryRun bool
	// Objects were listed; Foreign of them are not of our form and were left alone.
	Objects, Foreign int
	// Archives is how many archives the other objects make; Orphans of them are
	// needed by nobody, and Due of these have been orphans for the safety delay.
	Archives, Orphans, Due int
	// Deleted archives are gone; Spared ones were due, but needed again when it came
	// to it; Failed ones could not be deleted.
	Deleted, Spared, Failed int
	// Findings are the orphans, the first 1,000.
	Findings []Finding
}

func (r Report) log(log *zap.Logger) {
	log.Info("archives looked through", zap.Bool("dry_run", r.DryRun),
		zap.Int("archives", r.Archives), zap.Int("foreign_objects", r.Foreign),
		zap.Int("orphans", r.Orphans), zap.Int("due", r.Due),
		zap.Int("deleted", r.Deleted), zap.Int("spared", r.Spared), zap.Int("failed", r.Failed))
}

// survey is one cycle.
type survey struct {
	runner   *Runner
	settings Settings
	draft    *draft
	report   Report
	// last is the archive of the last object, which the next one, its commit marker,
	// belongs to as well. The page may have ended between them.
	last string
	due  []suspect
}

type suspect struct {
	key string
	id  workspace.ID
}

func (s *survey) run(ctx context.Context) error {
	var err error
	if s.draft, err = s.runner.opts.Sightings.begin(ctx, s.report.DryRun); err != nil {
		return err
	}
	err = s.runner.opts.Archives.List(ctx, func(page []archive.Object) error { return s.look(ctx, page) })
	if err != nil {
		return err
	}
	if err := s.draft.commit(ctx); err != nil {
		return err
	}
	if err := s.brake(ctx); err != nil {
		return err
	}
	if s.report.DryRun {
		return nil
	}
	return s.sweep(ctx)
}

// look judges one page of the listing. The rows are read after the objects were
// listed: an archive's row is always older than the archive.
func (s *survey) look(ctx context.Context, page []archive.Object) error {
	s.report.Objects += len(page)
	var found []suspect
	for _, object := range page {
		key, id, ok := parse(object.Key)
		switch {
		case !ok:
			s.report.Foreign++
		case key != s.last:
			s.last = key
			found = append(found, suspect{key, id})
		}
	}
	s.report.Archives += len(found)
	orphans, reasons, err := s.orphans(ctx, found)
	if err != nil {
		return err
	}
	keys := make([]string, len(orphans))
	for i, o := range orphans {
		keys[i] = o.key
	}
	since, err := s.draft.see(ctx, keys)
	if err != nil {
		return err
	}
	s.report.Orphans += len(orphans)
	for i, o := range orphans {
		due := s.draft.now.Sub(since[i]) >= s.settings.Delay
		if due {
			s.report.Due++
			if len(s.due) < maxDue {
				s.due = append(s.due, o)
			}
		}
		if len(s.report.Findings) < maxFindings {
			s.report.Findings = append(s.report.Findings,
				Finding{Key: o.key, Workspace: o.id, Reason: reasons[i], Since: since[i], Due: due})
		}
	}
	return nil
}

// orphans returns those of the archives that nothing protects, and why.
func (s *survey) orphans(ctx context.Context, found []suspect) (orphans []suspect, reasons []Reason, err error) {
	if len(found) == 0 {
		return nil, nil, nil
	}
	ids := make(map[workspace.ID]struct{}, len(found))
	for _, f := range found {
		ids[f.id] = struct{}{}
	}
	var protection map[workspace.ID]store.Protection
	protection, err = s.runner.opts.Store.Protection(ctx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return nil, nil, fmt.Errorf("asking what protects archives: %w", err)
	}
	for _, f := range found {
		p, known := protection[f.id]
		if orphan, why := judge(f.key, f.id, p, known); orphan {
			orphans = append(orphans, f)
			reasons = append(reasons, why)
		}
	}
	return orphans, reasons, nil
}

// sweep deletes what is due, in batches. Each is judged once more just before: a
// wish may have come since the listing.
func (s *survey) sweep(ctx context.Context) error {
	var errs []error
	for batch := range slices.Chunk(s.due, deleteBatch) {
		still, _, err := s.orphans(ctx, batch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		s.report.Spared += len(batch) - len(still)
		if err := s.remove(ctx, still); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// remove deletes archives together with their commit markers.
func (s *survey) remove(ctx context.Context, orphans []suspect) error {
	if len(orphans) == 0 {
		return nil
	}
	objects := make([]string, 0, 2*len(orphans))
	for _, o := range orphans {
		objects = append(objects, o.key, o.key+contract.MetaSuffix)
	}
	failed, err := s.runner.opts.Archives.Delete(ctx, objects)
	var gone []string
	var ids []workspace.ID
	for _, o := range orphans {
		cause := errors.Join(failed[o.key], failed[o.key+contract.MetaSuffix])
		if cause != nil {
			s.report.Failed++
			if err == nil {
				err = fmt.Errorf("deleting archive %s: %w", o.key, cause)
			}
			continue
		}
		s.report.Deleted++
		gone = append(gone, o.key)
		if n := len(ids); n == 0 || ids[n-1] != o.id {
			ids = append(ids, o.id)
		}
	}
	if s.runner.opts.OnCollected != nil && len(ids) > 0 {
		s.runner.opts.OnCollected(ids)
	}
	return errors.Join(err, s.runner.opts.Sightings.forget(ctx, gone))
}
