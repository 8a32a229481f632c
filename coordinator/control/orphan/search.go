package orphan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/logkey"
)

// SearchInterval is the time between two searches by the leader. Leftovers do no harm.
const SearchInterval = time.Hour

// Command lists the orphans, and removes them on request.
const Command = "caddy codehub orphans"

// Search looks for orphans in the leader, and logs when they have changed.
type Search struct {
	finder *Finder
	log    *zap.Logger

	mu   sync.Mutex
	last []string // the orphans in the last line of the log
}

// NewSearch returns a search. It performs no I/O.
func NewSearch(f *Finder, log *zap.Logger) *Search { return &Search{finder: f, log: log} }

// Look looks for orphans once, and logs them if they differ from those of the last look.
func (s *Search) Look(ctx context.Context) error {
	orphans, err := s.finder.Find(ctx)
	if err != nil {
		return err
	}
	now := make([]string, len(orphans))
	for i, o := range orphans {
		now[i] = string(o.Kind) + " " + o.Name + " " + o.UID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(now, s.last) {
		return nil
	}
	s.last = now
	if len(orphans) == 0 {
		s.log.Info("nothing on the container backend is left behind any more")
		return nil
	}
	s.log.Warn("on the container backend something is left behind that belongs to no workspace; "+
		"nothing is removed before you say so: "+Command, zap.String(logkey.Problem, count(orphans)),
		zap.Int(logkey.Objects, len(orphans)), zap.String(logkey.Object, orphans[0].Name))
	return nil
}

// count formats the number of each kind, such as "2 containers and 1 volume".
func count(orphans []Orphan) string {
	kinds := make(map[backend.ObjectKind]int)
	for _, o := range orphans {
		kinds[o.Kind]++
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		what := string(k)
		if k == backend.ObjectScratch {
			what = "scratch volume"
		}
		if kinds[k] > 1 {
			what += "s"
		}
		parts = append(parts, fmt.Sprintf("%d %s", kinds[k], what))
	}
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
	return strings.Join(parts, "")
}
