package observation

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

const (
	// confirmAfter is the time between the look that finds a loss and the one that confirms it.
	confirmAfter = time.Second
	// breakerFrom is how many workspaces a look must cover at least to be doubted.
	breakerFrom = 4
)

// errTooManyLosses is why a look is not believed.
var errTooManyLosses = errors.New("too many losses at once")

// Breaker is the circuit breaker for losses of data (SPEC 2). A loss counts only when two looks
// show it. If a look shows too many losses, it opens the breaker, and none of these losses counts. It owns which losses
// are suspected and when to look again. It is not safe for concurrent use.
type Breaker struct {
	suspects  map[workspace.ID]struct{}
	confirmAt time.Time // when all are looked at again; zero: at the usual time
	open      bool      // the last full look showed too many losses
	doubted   *outage.Reporter
}

// NewBreaker returns a breaker that logs to log when it opens and when it closes.
func NewBreaker(log *zap.Logger) *Breaker {
	return &Breaker{suspects: make(map[workspace.ID]struct{}), doubted: outage.New(log, zap.ErrorLevel,
		"too many workspaces would have lost their data at once; none of it is believed. Check the container "+
			"backend's data folder and the bucket; if the data is really gone, raise max_loss_share for a while",
		"no implausible number of workspaces has lost its data any more")}
}

// Loss is a decision that would declare data as lost.
type Loss struct {
	Row         workspace.Workspace
	Decision    planner.Decision
	Observation workspace.Observation
}

// declares reports whether the decision treats data as gone. That includes the case in which a container still runs on
// a volume that is not listed, because the listing of volumes can be wrong then, too.
func (l *Loss) declares() bool {
	reason := l.Decision.Next.ErrorReason
	return reason != l.Row.ErrorReason && (reason == workspace.ReasonDataLost ||
		reason == workspace.ReasonContainerWithoutVolume && l.Observation.Volume == nil &&
			l.Observation.Unseen&workspace.SensorVolumes == 0)
}

// Look is one observation, as the breaker counts it.
type Look struct {
	full   bool
	seen   map[workspace.ID]struct{} // workspaces of which something was looked at
	losses []Loss
}

// Begin begins to count an observation. A full observation covers all candidates and suspects. The volumes of other
// workspaces count as well: the more volumes are listed, the more plausible it is that the missing ones are really
// missing.
func (b *Breaker) Begin(full bool, volumes map[workspace.ID]workspace.Volume) *Look {
	k := &Look{full: full}
	if full {
		b.confirmAt = time.Time{} // this is the look that was wanted
		k.seen = make(map[workspace.ID]struct{}, len(volumes))
		for id := range volumes {
			k.seen[id] = struct{}{}
		}
	}
	return k
}

// Full reports whether the look can confirm a loss.
func (k *Look) Full() bool { return k.full }

// ConfirmAt returns when to look at the suspects again; zero means at the usual time.
func (b *Breaker) ConfirmAt() time.Time { return b.confirmAt }

// Suspected reports whether a look has shown the loss of id.
func (b *Breaker) Suspected(id workspace.ID) bool {
	_, ok := b.suspects[id]
	return ok
}

// Suspects reports whether there are any suspects.
func (b *Breaker) Suspects() bool { return len(b.suspects) > 0 }

// Others returns the suspects that are not among the rows.
func (b *Breaker) Others(rows []workspace.Workspace) []workspace.ID {
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

// Holds reports whether a decision declares a loss that was not confirmed. The caller must not carry out such a
// decision. The breaker keeps it until the end of the look if the look can confirm it, and otherwise forgets it until a
// full look.
func (b *Breaker) Holds(now time.Time, k *Look, l Loss) bool {
	if k.full {
		k.seen[l.Row.ID] = struct{}{}
	}
	if !l.declares() {
		b.cleared(l.Row.ID)
		return false
	}
	known := b.Suspected(l.Row.ID)
	switch {
	case known && k.full:
		k.losses = append(k.losses, l)
	case !known:
		b.suspects[l.Row.ID] = struct{}{}
		fallthrough
	default:
		if b.confirmAt.IsZero() && !b.open {
			b.confirmAt = now.Add(confirmAfter)
		}
	}
	return true
}

// cleared forgets a suspect whose data is there.
func (b *Breaker) cleared(id workspace.ID) {
	delete(b.suspects, id)
	if len(b.suspects) == 0 {
		b.confirmAt = time.Time{}
	}
}

// Confirm returns the losses that are believed after a look.
func (b *Breaker) Confirm(k *Look, share float64) []Loss {
	if !k.full || len(b.suspects) == 0 {
		if len(b.suspects) == 0 {
			b.open = false
			b.doubted.Recovered()
		}
		return nil
	}
	if len(k.losses) == 0 {
		return nil // suspects of which the object store was not asked again yet
	}
	if len(k.seen) >= breakerFrom && float64(len(k.losses)) > share*float64(len(k.seen)) {
		b.doubted.Failed(errTooManyLosses, zap.Int(logkey.Lost, len(k.losses)), zap.Int(logkey.LookedAt, len(k.seen)),
			zap.String(logkey.Workspace, string(k.losses[0].Row.ID)),
			zap.String(logkey.Message, k.losses[0].Decision.Next.ErrorMessage))
		b.confirmAt, b.open = time.Time{}, true
		return nil
	}
	b.open = false
	for _, l := range k.losses {
		b.cleared(l.Row.ID)
	}
	return k.losses
}
