package preview

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// printEvery is how often a workspace of the preview prints a line.
const printEvery = 2 * time.Second

// containers are the containers of a board's running workspaces.
type containers struct{ *board }

func (b containers) runs(id workspace.ID) error {
	w, err := workspaces(b).Get(context.Background(), service.Actor{}, id)
	if err == nil && w.Phase == workspace.PhaseRunning {
		return nil
	}
	return backend.ErrNotFound
}

func (containers) Exec(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
	return 0, backend.ErrNotFound
}

// printed is a line that a server could print.
func printed(at time.Time, n int) string {
	return fmt.Sprintf("[%s] info  GET /static/%d.js 200 %d ms\n", at.UTC().Format(time.TimeOnly), n, 3+n%17)
}

func (b containers) Logs(_ context.Context, id workspace.ID, lines int) (string, error) {
	var text strings.Builder
	for n := range lines {
		text.WriteString(printed(time.Now().Add(time.Duration(n-lines)*printEvery), n))
	}
	return text.String(), b.runs(id)
}

// Follow prints a line now and then.
func (b containers) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	before, err := b.Logs(ctx, id, lines)
	if err == nil {
		_, err = io.WriteString(to, before)
	}
	ticker := time.NewTicker(printEvery)
	defer ticker.Stop()
	for n := lines; err == nil; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case at := <-ticker.C:
			_, err = io.WriteString(to, printed(at, n))
		}
	}
	return err
}

// Stats go up and down.
func (b containers) Stats(_ context.Context, id workspace.ID) (backend.Stats, error) {
	now := time.Now()
	seconds := float64(now.UnixMilli()%(24*3600*1000)) / 1000
	wave := math.Sin(seconds / 20)
	return backend.Stats{
		At: now, CPU: time.Duration((seconds*0.6 - 12*math.Cos(seconds/20)) * 0.8 * float64(time.Second)), Cores: 2,
		Memory: int64((700 + 250*wave) * (1 << 20)), MemoryLimit: 2 << 30, Processes: 21 + int(4*wave),
		Ports: []int{3000, 5173},
	}, b.runs(id)
}

func (containers) HomeDisk(context.Context) int64 { return 120 << 30 }

func (containers) ImageSizes(context.Context, []string) map[string]int64 { return imageSizes }

// administration counts the board's workspaces, beside a disk that fills up.
type administration struct{ *board }

func (b administration) Overview(context.Context) (coordinator.Overview, error) {
	count := func(of func(workspace.Workspace) string) (all []store.Count) {
		n := map[string]int{}
		for _, w := range b.rows {
			if key := of(w); key != "" {
				n[key]++
			}
		}
		for key, count := range n {
			all = append(all, store.Count{Of: key, Count: count})
		}
		return all
	}
	o := coordinator.Overview{
		Overview: store.Overview{
			Phases: count(func(w workspace.Workspace) string { return string(w.Phase) }),
			Errors: count(func(w workspace.Workspace) string { return string(w.ErrorReason) }),
			Waiting: count(func(w workspace.Workspace) string {
				if w.Waiting == nil {
					return ""
				}
				return w.Waiting.Reason
			}),
			Running: len(b.running()), Users: 3, HomeBytes: 48 << 30,
			Leaders: []store.Leader{{Lock: "coordinator", Node: "gateway-1", Epoch: 12, Since: time.Now().Add(-26 * time.Hour)}},
		},
		Disk:     &backend.Disk{Total: 900 << 30, Free: 120 << 30},
		Archives: store.ArchiveHealth{Current: 41, Damaged: 1, Unverified: 3, Oldest: 5 * 24 * time.Hour},
		Scrub:    store.Scrub{Left: 7, LeftBytes: 21 << 30},
	}
	for _, w := range b.rows {
		if w.Dozes() {
			o.Dozing++
		}
	}
	return o, nil
}

func (b administration) Collect(context.Context, bool, func(gc.Judgement) error) (gc.Report, error) {
	return gc.Report{}, b.refused()
}

func (b administration) Scrub(_ context.Context, dry bool) (store.Scrub, error) {
	found := store.Scrub{
		Archives: 97, Bytes: 310 << 30, Unread: 3, OldestRead: time.Now().Add(-5 * 24 * time.Hour), Left: 7, LeftBytes: 21 << 30,
	}
	if !dry {
		found.Left, found.LeftBytes = found.Archives, found.Bytes
	}
	return found, b.refuse
}
