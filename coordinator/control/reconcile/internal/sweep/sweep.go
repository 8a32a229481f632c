// Package sweep looks at everything that the controller's ticks leave out: the homes of sleeping workspaces, the
// remaining archives of deleted workspaces, and the sizes of homes. It owns the pace of these looks. It decides
// nothing: the controller observes again whatever looks changed. It writes nothing but the sizes of homes.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

const (
	// pageSize is how many workspaces one step of a sweep looks at.
	pageSize = 500
	// stepTimeout bounds one step.
	stepTimeout = 2 * time.Minute
	// archivesPerStep is about how many archives one step asks the object store at most.
	archivesPerStep = 25
	// firstSteps is the time between the steps of the first sweep. How many steps it has is
	// known only at its end.
	firstSteps = time.Second
)

// Store is the database as sweeps use it.
type Store interface {
	// SweepPage returns the next rows of a shard that ticks leave out, ordered by id.
	SweepPage(ctx context.Context, shard, shards int, after workspace.ID, limit int) ([]workspace.Workspace, error)
	// Workspaces returns the rows with these ids, deleted ones included.
	Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
	// UnmeasuredHomes returns workspaces of a shard whose homes need a measurement, and SaveHome saves the result; see
	// [store.Store.UnmeasuredHomes].
	UnmeasuredHomes(ctx context.Context, shard, shards int, settled, age time.Duration, asleep bool,
		limit int) ([]workspace.ID, error)
	SaveHome(ctx context.Context, f postgres.Fence, id workspace.ID, h workspace.HomeSize) (bool, error)
}

// Backend is the container backend as sweeps use it.
type Backend interface {
	backend.Sensors
	Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (map[workspace.ID]backend.Usage, error)
}

// Archives is the object store as sweeps use it; see [observation.Archives].
type Archives interface {
	Stat(ctx context.Context, key string) (archive.Info, error)
}

// Settings are the pace of sweeps.
type Settings struct {
	// Interval is the time in which all workspaces that the ticks leave out are observed once.
	Interval time.Duration
	// MeasureInterval is the time between two looks for homes to measure. MeasureAge is the age
	// from which the size of a home that is in use is out of date.
	MeasureInterval, MeasureAge time.Duration
	// HomeWarn is the size, in bytes, from which a home is logged; 0 means never.
	HomeWarn int64
}

// Sweeper sweeps one shard for one term as its leader. All fields are required.
type Sweeper struct {
	Store    Store
	Backend  Backend
	Archives Archives
	Identity observation.Identity
	Clock    *clock.Database
	Policy   func() planner.Policy
	Settings func() Settings
	// Changed has the controller observe a workspace again.
	Changed func(workspace.ID)
	// Measuring is a lock that is held while homes are measured, so that only one shard of the process measures at a
	// time.
	Measuring chan struct{}
	// LocalHomes is that of backend.Backend.
	LocalHomes bool
	Log        *zap.Logger

	// Fence is the condition of every write of the term.
	Fence         postgres.Fence
	Shard, Shards int
}

// Run looks at the workspaces that ticks leave out, one page after the other, spread
// over the sweep interval. It runs beside the loop, so a slow sweep delays no workspace.
func (s *Sweeper) Run(ctx context.Context) {
	reading := outage.New(s.Log, zap.WarnLevel, "cannot sweep workspaces in STANDBY; losses there are noticed late",
		"sweeping workspaces works again")
	var after workspace.ID
	steps, before := 0, 0 // pages of this sweep, and of the one before
	looked := false
	for ctx.Err() == nil {
		if !looked {
			looked = s.inspectLeftovers(ctx)
		}
		rows, err := s.Store.SweepPage(ctx, s.Shard, s.Shards, after, pageSize)
		reading.Report(ctx, err)
		if err == nil {
			s.inspect(ctx, rows)
			steps, after = steps+1, ""
			if len(rows) == pageSize {
				after = rows[len(rows)-1].ID
			} else {
				steps, before = 0, steps
			}
		}
		pause := min(firstSteps, s.Settings().Interval)
		if before > 0 {
			pause = s.Settings().Interval / time.Duration(before)
		}
		periodic.Pause(ctx, pause)
	}
}

// inspectLeftovers requests observations of archived workspaces that have a volume. It reports whether it could look
// for them. A previous leader may have saved a workspace as ARCHIVED, and ended before it removed the remains of a
// restore. No tick and no page includes an ARCHIVED workspace. Once per term is enough, because within a term the
// action after a save is always carried out.
func (s *Sweeper) inspectLeftovers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	volumes, err := s.Backend.Volumes(ctx)
	if err != nil {
		return false // the loop logs outages
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(volumes)), pageSize) {
		rows, err := s.Store.Workspaces(ctx, ids)
		if err != nil {
			return false
		}
		for _, w := range rows {
			if w.Phase == workspace.PhaseArchived && w.Operation == workspace.OpNone {
				s.Changed(w.ID)
			}
		}
	}
	return true
}

// inspect requests observations of the workspaces of a page that differ from their rows. It asks the object store last,
// so that it looks at the volumes even if the store is unavailable.
func (s *Sweeper) inspect(ctx context.Context, rows []workspace.Workspace) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var homes, archives []workspace.Workspace
	for _, w := range rows {
		switch {
		case w.Unreadable != nil:
			s.Changed(w.ID) // the controller says so
		case !w.AwaitsGC:
			homes = append(homes, w)
		case !w.Deleted():
			s.Changed(w.ID) // its deletion was undone
		default:
			archives = append(archives, w)
		}
	}
	s.inspectHomes(ctx, homes)
	s.inspectArchives(ctx, archives)
}

// inspectHomes requests observations of the workspaces whose volume, container or jobs have changed.
func (s *Sweeper) inspectHomes(ctx context.Context, rows []workspace.Workspace) {
	if len(rows) == 0 {
		return
	}
	ids := make([]workspace.ID, len(rows))
	for i, w := range rows {
		ids[i] = w.ID
	}
	// the loop logs outages
	snap := observation.Read(ctx, ctx, s.Backend, s.Identity, observation.NewOutages(zap.NewNop(), nil), ids)
	if snap.Unseen != 0 || s.Clock.Measure(ctx) != nil {
		return
	}
	policy := s.Policy()
	policy.NewOpID = func() string { return "" } // nothing is begun
	for _, w := range rows {
		if err := guard.Recover(func() error {
			if d := planner.Reconcile(s.Clock.Now(), w, snap.Of(w.ID), true, policy); d.Changed || len(snap.Jobs[w.ID]) > 0 {
				s.Changed(w.ID)
			}
			return nil
		}); err != nil {
			s.Changed(w.ID) // the controller meets the same, and says so
		}
	}
}

// inspectArchives requests observations of deleted workspaces whose archive, the last thing that was left of them, is
// gone. The garbage collector marks a row before it deletes the archive, so inspectArchives first asks about the
// archives of marked rows. Other causes of a missing archive are rare, so each step asks about only a few of the other
// rows.
func (s *Sweeper) inspectArchives(ctx context.Context, rows []workspace.Workspace) {
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	slices.SortStableFunc(rows, func(a, b workspace.Workspace) int {
		return cmp.Compare(b.CollectedAt.Unix(), a.CollectedAt.Unix()) // unmarked ones last
	})
	for _, w := range rows[:min(len(rows), archivesPerStep)] {
		bounded, cancel := context.WithTimeout(ctx, observation.StoreTimeout)
		_, err := s.Archives.Stat(bounded, w.ArchiveKey)
		cancel()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.Changed(w.ID) // the loop asks again, and whose bucket it is
		case err != nil && workspace.ReasonOf(err) != workspace.ReasonArchiveCorrupted:
			return // the store is away or refuses: the next step asks again
		}
	}
}
