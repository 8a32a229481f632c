package reconcile

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// confirmAfter is the time between the look that finds a loss and the one that
	// confirms it.
	confirmAfter = time.Second
	// brakeFrom is the number of workspaces from which on a look is doubted.
	brakeFrom = 4
)

// errTooManyLosses is why a look is not believed.
var errTooManyLosses = errors.New("too many losses at once")

// brake keeps DataLost from being believed too soon: a loss counts only when two looks
// show it, and not when one look shows too many.
type brake struct {
	suspects  map[workspace.ID]struct{}
	confirmAt time.Time // when all are looked at again; zero: at the usual time
	braked    bool      // the last full look showed too many losses
	doubted   *outage.Reporter
}

func newBrake(log *zap.Logger) brake {
	return brake{suspects: make(map[workspace.ID]struct{}), doubted: outage.New(log, zap.ErrorLevel,
		"too many workspaces would have lost their data at once; none of it is believed. Check the container backend's data folder and the bucket; "+
			"if the data is really gone, raise max_loss_share for a while", "no implausible number of workspaces has lost its data any more")}
}

// loss is a decision that would declare data as lost.
type loss struct {
	row         workspace.Workspace
	decision    workspace.Decision
	observation workspace.Observation
}

// look is one observation, as the brake counts it.
type look struct {
	full   bool
	seen   map[workspace.ID]struct{} // workspaces of which something was looked at
	losses []loss
}

// look begins to count an observation. Volumes of workspaces that are not looked at
// count as well: that they exist makes it plausible that others do not.
func (b *brake) look(s scope, snap snapshot) *look {
	k := &look{full: s == everything}
	if k.full {
		k.seen = make(map[workspace.ID]struct{}, len(snap.volumes)+len(snap.rows))
		for id := range snap.volumes {
			k.seen[id] = struct{}{}
		}
	}
	return k
}

// others returns the suspects that are not among the rows.
func (b *brake) others(rows []workspace.Workspace) []workspace.ID {
	if len(b.suspects) == 0 {
		return nil
	}
	has := make(map[workspace.ID]struct{}, len(rows))
	for _, w := range rows {
		has[w.ID] = struct{}{}
	}
	var ids []workspace.ID
	for id := range b.suspects {
		if _, ok := has[id]; !ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// holds takes a decision out of the hands of the caller if it declares a loss that was
// not confirmed: it is kept for the look's end, or forgotten until a full look.
func (b *brake) holds(now time.Time, k *look, l loss) bool {
	if k.full {
		k.seen[l.row.ID] = struct{}{}
	}
	if l.decision.Next.ErrorReason != workspace.ReasonDataLost || l.row.ErrorReason == workspace.ReasonDataLost {
		b.cleared(l.row.ID)
		return false
	}
	_, known := b.suspects[l.row.ID]
	switch {
	case known && k.full:
		k.losses = append(k.losses, l)
	case !known:
		b.suspects[l.row.ID] = struct{}{}
		fallthrough
	default:
		if b.confirmAt.IsZero() && !b.braked {
			b.confirmAt = now.Add(confirmAfter)
		}
	}
	return true
}

// cleared forgets a suspect whose data is there.
func (b *brake) cleared(id workspace.ID) {
	delete(b.suspects, id)
	if len(b.suspects) == 0 {
		b.confirmAt = time.Time{}
	}
}

// confirm returns the losses that are believed after a look.
func (b *brake) confirm(now time.Time, k *look, share float64) []loss {
	if !k.full || len(b.suspects) == 0 {
		if len(b.suspects) == 0 {
			b.braked = false
			b.doubted.Recovered()
		}
		return nil
	}
	b.confirmAt = time.Time{}
	if len(k.losses) == 0 {
		return nil // suspects of which the object store was not asked again yet
	}
	if len(k.seen) >= brakeFrom && float64(len(k.losses)) > share*float64(len(k.seen)) {
		b.doubted.Failed(errTooManyLosses, zap.Int("lost", len(k.losses)), zap.Int("looked_at", len(k.seen)),
			zap.String("first", string(k.losses[0].row.ID)), zap.String("message", k.losses[0].decision.Next.ErrorMessage))
		b.confirmAt, b.braked = time.Time{}, true
		return nil
	}
	b.braked = false
	for _, l := range k.losses {
		b.cleared(l.row.ID)
	}
	return k.losses
}
