package store

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// neighbours are the workspaces of some users. Without enforcement, these users would always exceed the limits.
type neighbours struct {
	limits Limits
	fence  postgres.Fence
	users  []string
	mu     sync.Mutex // guards rows
	rows   []workspace.ID
}

// process is one of several processes that write concurrently.
type process struct {
	*neighbours
	Limited
	random *rand.Rand
}

func (p process) any() workspace.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows[p.random.IntN(len(p.rows))]
}

// viewer is an administrator: every process may change every workspace.
func (p process) viewer() Viewer { return Viewer{All: true, Through: "api"} }

// knowsLimits chooses at random whether the writer enforces the limits. Older releases do not know them, nor do writers
// that bypass the service layer.
func (p process) knowsLimits() bool { return p.random.IntN(2) == 0 }

func choose[T any](p process, all ...T) T { return all[p.random.IntN(len(all))] }

// moves holds every statement that writes a column on which a workspace's place depends. Its keys are the names of the
// statements in the source.
var moves = map[string]func(ctx context.Context, p process) error{
	"updateSQL": func(ctx context.Context, p process) error {
		desired := choose(p, workspace.DesiredRunning, workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived)
		_, _, err := p.Update(ctx, p.viewer(), p.any(), Edit{Desired: &desired}, p.limits)
		return err
	},
	"createSQL": func(ctx context.Context, p process) error {
		w := workspace.Workspace{ID: workspace.ID(uuid.NewString()), OwnerID: choose(p, p.users...), Name: "w", InstanceBackend: "docker",
			StorageBackend: "docker", DesiredState: choose(p, workspace.DesiredRunning, workspace.DesiredStandby)}
		_, outcome, err := p.Create(ctx, w, "api", p.limits)
		if outcome == Changed {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.rows = append(p.rows, w.ID)
		}
		return err
	},
	"adoptSQL": func(ctx context.Context, p process) error {
		_, err := p.Adopt(ctx, workspace.Workspace{ID: workspace.ID(uuid.NewString()), Name: "w", Phase: workspace.PhaseArchived,
			InstanceBackend: "docker", StorageBackend: "docker"}, "nobody", "cli")
		return err
	},
	"deleteSQL": func(ctx context.Context, p process) error {
		_, err := p.Delete(ctx, p.viewer(), p.any(), false)
		return err
	},
	"undeleteSQL": func(ctx context.Context, p process) error {
		_, _, err := p.Undelete(ctx, p.viewer(), p.any(), p.limits)
		return err
	},
	"recoverSQL": func(ctx context.Context, p process) error {
		_, _, err := p.Recover(ctx, p.viewer(), p.any(), workspace.ReasonTimeout, workspace.Recovery{ID: uuid.NewString()}, p.limits)
		return err
	},
	"revertSQL": func(ctx context.Context, p process) error {
		_, _, err := p.Revert(ctx, p.viewer(), p.any(), workspace.Revert{ID: uuid.NewString(), Key: "k"}, p.limits)
		return err
	},
	"saveSQL": func(ctx context.Context, p process) error {
		rows, err := p.Workspaces(ctx, []workspace.ID{p.any()})
		if err != nil {
			return err
		}
		next := p.observed(rows[0])
		if p.knowsLimits() {
			_, err = p.Save(ctx, p.fence, rows[0], next, nil)
		} else {
			_, err = p.Store.Save(ctx, p.fence, rows[0], next, nil)
		}
		return err
	},
	"dozeSQL": func(ctx context.Context, p process) error {
		_, err := p.Doze(ctx, p.any(), time.Now().Add(time.Hour), DozingLimits{})
		return err
	},
	"EndUnmadeDozes": func(ctx context.Context, p process) (err error) {
		if p.knowsLimits() {
			_, err = p.EndUnmadeDozes(ctx, 0)
		} else {
			_, err = p.Store.EndUnmadeDozes(ctx, 0)
		}
		return err
	},
	"EndDozes": func(ctx context.Context, p process) error {
		if p.knowsLimits() {
			return p.EndDozes(ctx)
		}
		return p.Store.EndDozes(ctx)
	},
	"endDozeSQL": func(ctx context.Context, p process) error {
		return p.endEach(ctx, []workspace.ID{p.any()}, "ttl")
	},
	"TouchLastAccess": func(ctx context.Context, p process) error {
		ages := map[workspace.ID]time.Duration{p.any(): time.Duration(p.random.IntN(60)) * time.Second, p.any(): 0}
		if p.knowsLimits() {
			return p.TouchLastAccess(ctx, ages, nil)
		}
		return p.Store.TouchLastAccess(ctx, ages, ages)
	},
	"keepAwakeSQL": func(ctx context.Context, p process) (err error) {
		d := choose(p, 0, time.Millisecond, time.Hour)
		if d > 0 && p.knowsLimits() {
			_, _, err = p.KeepAwakeWithin(ctx, p.viewer(), p.any(), d, true, p.limits)
		} else {
			_, err = p.KeepAwake(ctx, p.viewer(), p.any(), d)
		}
		return err
	},
	"sleepSQL": func(ctx context.Context, p process) error {
		id := p.any()
		if _, err := p.pool.Exec(ctx, `UPDATE workspaces SET sleep_at = now() WHERE id = $1`, string(id)); err != nil {
			return err
		}
		_, err := p.Sleep(ctx, id, time.Second, time.Now().Add(time.Hour), "")
		return err
	},
	"sleepForMemorySQL": func(ctx context.Context, p process) error {
		_, err := p.SleepForMemory(ctx, p.any(), "memory", "")
		return err
	},
	"expireStandbySQL": func(ctx context.Context, p process) error {
		_, err := p.ExpireStandby(ctx, p.any(), 0, "ttl", "")
		return err
	},
}

// observed returns what the controller may find: usually the desired state, sometimes another one.
func (p process) observed(w workspace.Workspace) workspace.Workspace {
	w.Operation, w.OpStartedAt, w.ErrorReason = workspace.OpNone, time.Time{}, ""
	w.Phase = workspace.Phase(w.DesiredState)
	if w.Deleted() {
		w.Phase = workspace.PhaseDeleting
	}
	frozen := !w.DozeAt.IsZero()
	if p.random.IntN(3) == 0 {
		w.Phase = choose(p, workspace.PhaseRunning, workspace.PhaseStandby, workspace.PhaseArchived, workspace.PhaseError)
		w.Operation = choose(p, workspace.OpNone, workspace.OpNone, workspace.OpStarting, workspace.OpStopping)
		frozen = p.random.IntN(2) == 0
	}
	if w.Phase == workspace.PhaseError {
		w.Operation, w.ErrorReason = workspace.OpNone, workspace.ReasonTimeout
	}
	if w.Operation != workspace.OpNone {
		w.OpStartedAt = time.Now()
	}
	w.Conditions = w.Conditions.With(workspace.Dozing, frozen && w.Phase == workspace.PhaseRunning, "", "", time.Now())
	return w
}

// reopen returns a second store on the same database, as if in another process.
func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	other, err := Open(s.ConnConfig().ConnString(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// TestNothingTakesAPlaceBeyondTheLimits: two processes make random writes at the same time.
func TestNothingTakesAPlaceBeyondTheLimits(t *testing.T) {
	names := slices.Sorted(maps.Keys(moves))
	// Statements that can lead to a doze without a place are chosen more often; otherwise few sequences would reach
	// one.
	likely := append(slices.Repeat([]string{"dozeSQL", "saveSQL", "saveSQL", "updateSQL"}, 6), names...)
	seed.Each(t, func(t *testing.T, random *rand.Rand) {
		s := open(t)
		c := &neighbours{limits: Limits{PerUser: 2, Global: 3}, fence: postgres.Fence{Lock: "places", Epoch: 1}}
		exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('places', 'test', 1)`)
		for range 2 {
			c.users = append(c.users, addUser(t, s))
		}
		var processes []process
		for _, s := range []*Store{s, reopen(t, s)} {
			processes = append(processes, process{c, Limited{s, func() Limits { return c.limits }}, seed.Source(random.Uint64())})
		}
		for _, owner := range slices.Repeat(c.users, 3) {
			c.rows = append(c.rows, add(t, s, owner, `phase = 'STANDBY'`, `desired_state = 'STANDBY'`).ID)
		}
		for step := range 300 {
			var wg sync.WaitGroup
			doing := make([]string, len(processes))
			for i, p := range processes {
				doing[i] = likely[p.random.IntN(len(likely))]
				wg.Go(func() {
					if err := moves[doing[i]](t.Context(), p); err != nil && !errors.Is(err, postgres.ErrNotFound) {
						t.Errorf("step %d, %s: %v", step, doing[i], err)
					}
				})
			}
			wg.Wait()
			if wrong := c.wrong(t, s); wrong != "" || t.Failed() {
				t.Fatalf("step %d, after %v: %s", step, doing, wrong)
			}
		}
	})
}

// wrong describes a violation of the rules for places.
func (c *neighbours) wrong(t *testing.T, s *Store) string {
	t.Helper()
	return value[string](t, s, `
		SELECT concat_ws('; ',
			(SELECT 'more than the user may have: ' || max(n) FROM (SELECT count(*) AS n FROM workspaces WHERE counted GROUP BY owner_user_id) AS u
				HAVING max(n) > $1),
			(SELECT 'more than all may have: ' || count(*) FROM workspaces WHERE counted HAVING count(*) > $2),
			(SELECT 'runs without a place: ' || string_agg(w::text, ' ') FROM workspaces w WHERE deleted_at IS NULL AND desired_state = 'RUNNING'
				AND doze_at IS NULL AND NOT counted AND NOT (phase = 'ERROR' AND error_reason IS NOT NULL)),
			(SELECT 'holds a place for nothing: ' || string_agg(w::text, ' ') FROM workspaces w WHERE counted
				AND (deleted_at IS NOT NULL OR 'RUNNING' NOT IN (phase, desired_state) OR phase = 'ERROR' AND error_reason IS NOT NULL)))`,
		c.limits.PerUser, c.limits.Global)
}

// TestEveryStatementThatMovesAPlaceIsTried: no statement outside moves writes a column on which a place depends.
func TestEveryStatementThatMovesAPlaceIsTried(t *testing.T) {
	write := regexp.MustCompile(`(?s)(?:UPDATE workspaces(?: w)?\s+SET|INSERT INTO workspaces\s*\()(.*?)(?:\bFROM\b|\bWHERE\b|\bRETURNING\b|\bSELECT\b|$)`)
	column := regexp.MustCompile(`\b(phase|operation|desired_state|deleted_at|doze_at|counted|conditions|error_reason|last_access_at|keep_awake_until)\b *[=,)]`)
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range literals(parsed) {
			for _, m := range write.FindAllStringSubmatch(text, -1) {
				if column.MatchString(m[1]) && !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
		}
	}
	slices.Sort(found)
	if want := slices.Sorted(maps.Keys(moves)); !slices.Equal(found, want) {
		t.Errorf("the source has %v, and the test tries %v", found, want)
	}
}

// literals returns the string literals in each constant and function of a file.
func literals(f *ast.File) map[string]string {
	all := make(map[string]string)
	add := func(name string, n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				all[name] += text
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					add(v.Names[0].Name, v)
				}
			}
		}
	}
	return all
}
