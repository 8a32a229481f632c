package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
)

// stage is where the terms of a test's processes run. It records terms that must not run at the same time.
type stage struct {
	mu     sync.Mutex
	going  map[turn]string // by node
	wrong  []string
	began  int
	failed map[string]error // the next result of a node's work
}

// turn is a term without its lease.
type turn struct {
	postgres.Fence
	Shard, Shards int
}

func newStage(t *testing.T) *stage {
	s := &stage{going: make(map[turn]string), failed: make(map[string]error)}
	t.Cleanup(func() {
		for _, w := range s.wrong {
			t.Error(w)
		}
	})
	return s
}

// lead is the work of a node.
func (s *stage) lead(node string) func(context.Context, leader.Term) error {
	return func(ctx context.Context, led leader.Term) error {
		term := turn{led.Fence, led.Shard, led.Shards}
		s.mu.Lock()
		for other, by := range s.going {
			if other.Shards != term.Shards || other.Shard == term.Shard {
				s.wrong = append(s.wrong, fmt.Sprintf("%s leads %+v while %s leads %+v", node, term, by, other))
			}
		}
		s.going[term] = node
		s.began++
		s.mu.Unlock()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var err error
		for ctx.Err() == nil && err == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				s.mu.Lock()
				err = s.failed[node]
				delete(s.failed, node)
				s.mu.Unlock()
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.going, term)
		return err
	}
}

// begun counts the terms that have begun.
func (s *stage) begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// terms returns the running terms.
func (s *stage) terms() (all []turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for term := range s.going {
		all = append(all, term)
	}
	return all
}

// member is an elector that runs on a stage.
type member struct {
	*leader.Elector
	stop func()
	logs *observer.ObservedLogs
}

func (s *stage) join(t *testing.T, cfg *pgx.ConnConfig, node string, shards int) member {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	e, err := leader.New(leader.Options{
		Conn: cfg, Node: node, Shards: shards, Settings: leader.Settings{RetryInterval: 20 * time.Millisecond},
	}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, s.lead(node)) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returns %v", err)
		}
	})
	t.Cleanup(stop)
	return member{e, stop, logs}
}

// leads returns when the members lead those numbers of shards, in any order.
func leads(t *testing.T, members []member, want ...int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("the processes lead %v shards", want), func() error {
		var all, counts []int
		for _, m := range members {
			led := m.Status().Led
			if m.Status().IsLeader != (len(led) > 0) {
				t.Fatalf("status %+v", m.Status())
			}
			all, counts = append(all, led...), append(counts, len(led))
		}
		slices.Sort(counts)
		slices.Sort(want)
		if !slices.Equal(counts, want) {
			return fmt.Errorf("they lead %v", counts)
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != len(all) {
			return fmt.Errorf("a shard has two leaders: %v", all)
		}
		return nil
	})
}

func TestProcessesShareTheShards(t *testing.T) {
	cfg, conn := database(t)
	ignore := goleak.IgnoreCurrent()
	s := newStage(t)
	a := s.join(t, cfg, "a", 8)
	leads(t, []member{a}, 8)
	b := s.join(t, cfg, "b", 8)
	leads(t, []member{a, b}, 4, 4)
	c := s.join(t, cfg, "c", 8)
	leads(t, []member{a, b, c}, 2, 3, 3)
	wait.Until(t, "the work of all terms has begun", func() bool { return s.begun() >= 8+4+2 })
	if n := s.begun(); n != 8+4+2 {
		t.Errorf("%d terms have begun, want 14: no shard moves without need", n)
	}
	wait.Quick(t, "taking the shards of one that stops", time.Second, func() time.Duration {
		d := s.join(t, cfg, "d", 8)
		leads(t, []member{a, b, c, d}, 2, 2, 2, 2)
		began := time.Now()
		d.stop()
		leads(t, []member{a, b, c}, 2, 3, 3)
		return time.Since(began)
	})
	c.stop()
	leads(t, []member{a, b}, 4, 4)
	b.stop()
	leads(t, []member{a}, 8)
	var rows int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM system_locks
		WHERE shards = 8 AND holder_id = 'a' AND lock_name = 'coordinator/' || substr(lock_name, 13)`).Scan(&rows); err != nil || rows != 8 {
		t.Errorf("system_locks shows %d shards of a, %v", rows, err)
	}
	a.stop()
	wait.NoGoroutines(t, ignore)
	wait.Until(t, "no advisory lock is left", func() bool {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows == 0
	})
}

func TestALostSessionEndsAllItsTerms(t *testing.T) {
	cfg, conn := database(t)
	s := newStage(t)
	a, b := s.join(t, cfg, "a", 4), s.join(t, cfg, "b", 4)
	leads(t, []member{a, b}, 2, 2)
	before := s.begun()
	var pid int
	if err := conn.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
		WHERE application_name = 'codehub leader a' AND datname = current_database()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	kill(t, conn, pid)
	// Whichever process takes the shards, each of them gets a new term, and in the end both processes have their share.
	wait.Until(t, "the shards of the lost session have new terms", func() bool { return s.begun() >= before+2 })
	leads(t, []member{a, b}, 2, 2)
}

func TestWorkThatFailsInOneShardResignsFromAll(t *testing.T) {
	cfg, _ := database(t)
	s := newStage(t)
	a, b := s.join(t, cfg, "a", 4), s.join(t, cfg, "b", 4)
	leads(t, []member{a, b}, 2, 2)
	before := s.begun()
	s.mu.Lock()
	s.failed["a"] = errors.New("everything is broken")
	s.mu.Unlock()
	wait.Until(t, "the shards of the failed process have new terms", func() bool { return s.begun() >= before+2 })
	leads(t, []member{a, b}, 2, 2)
	if n := a.logs.FilterMessageSnippet("no longer the leader;").Len(); n != 1 {
		t.Errorf("the failure was logged %d times", n)
	}
}

// In a rolling change, one process after the other ends, and starts again with another number of shards. The stage
// checks that no two terms with different numbers overlap.
func TestANumberOfShardsIsChangedProcessByProcess(t *testing.T) {
	for _, tt := range []struct{ from, to int }{{1, 8}, {8, 1}, {4, 8}, {8, 3}} {
		t.Run(fmt.Sprintf("from %d to %d", tt.from, tt.to), func(t *testing.T) {
			t.Parallel()
			cfg, conn := database(t)
			s := newStage(t)
			all := []member{s.join(t, cfg, "a", tt.from), s.join(t, cfg, "b", tt.from), s.join(t, cfg, "c", tt.from)}
			everything := func(what string, shards int) {
				t.Helper()
				wait.For(t, what, func() error {
					terms := s.terms()
					for _, term := range terms {
						if term.Shards != shards {
							return fmt.Errorf("%+v goes on", term)
						}
					}
					if len(terms) != shards {
						return fmt.Errorf("%d terms go on", len(terms))
					}
					return nil
				})
			}
			waits := func(m member) int { return m.logs.FilterMessageSnippet("another number of shards").Len() }
			ever := slices.Clone(all)
			least := min(tt.from, tt.to)
			everything("the processes lead", tt.from)
			if tt.from == 4 { // one that has not looked yet would come later, as one more with the former number
				leads(t, all, 1, 1, 2)
			}
			former := s.terms()[0].Fence
			for i := range all {
				all[i].stop()
				all[i] = s.join(t, cfg, string(rune('d'+i)), tt.to)
				ever = append(ever, all[i])
				if tt.from == 4 && i == 0 { // the others lead everything, whether it has looked or not
					wait.Until(t, "it says that it waits for those with fewer shards", func() bool { return waits(all[i]) == 1 })
				}
				now := least
				if i == len(all)-1 {
					now = tt.to
				}
				everything(fmt.Sprintf("those with the smallest number lead after %d changes", i+1), now)
			}
			var valid bool
			if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2)",
				former.Lock, former.Epoch).Scan(&valid); err != nil || valid {
				t.Errorf("a term with the former number could still write: %v, %v", valid, err)
			}
			for _, m := range all {
				most := 1
				if tt.from == 1 { // between two attempts to lead one shard, nothing shows of whom it waits for
					most += m.logs.FilterMessageSnippet("use this number of shards now").Len()
				}
				if n := waits(m); n > most {
					t.Errorf("%s said %d times that it waits, want %d at most", m.Status().NodeID, n, most)
				}
			}
			if t.Failed() {
				for _, m := range ever {
					for _, l := range m.logs.All() {
						t.Log(l.Time.Format(time.StampMicro), m.Status().NodeID, l.Message, l.ContextMap())
					}
				}
			}
		})
	}
}

// A suspended leader with the former number of shards holds its locks until PostgreSQL ends its session. It can write
// nothing after that.
func TestEveryEpochOfTheFormerNumberOfShardsEnds(t *testing.T) {
	cfg, conn := database(t)
	s := newStage(t)
	a := s.join(t, cfg, "a", 4)
	leads(t, []member{a}, 4)
	former := s.terms()
	a.stop()
	b := s.join(t, cfg, "b", 2)
	leads(t, []member{b}, 2)
	for _, term := range former {
		var valid bool
		if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2)",
			term.Fence.Lock, term.Fence.Epoch).Scan(&valid); err != nil || valid {
			t.Errorf("%+v could still write: %v, %v", term.Fence, valid, err)
		}
	}
	for _, term := range s.terms() {
		if held, err := holds(t, cfg, term.Fence); err != nil || !held {
			t.Errorf("%+v cannot write: %v", term.Fence, err)
		}
	}
}

func holds(t *testing.T, cfg *pgx.ConnConfig, f postgres.Fence) (bool, error) {
	t.Helper()
	db, err := store.Open(cfg.ConnString(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return db.Holds(t.Context(), f)
}

func TestAProgramWithoutShardsExcludesThoseWithSeveral(t *testing.T) {
	cfg, conn := database(t)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", leader.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	a := s.join(t, cfg, "a", 8)
	wait.Until(t, "it says that it waits", func() bool { return a.logs.FilterMessageSnippet("another number").Len() == 1 })
	if st := a.Status(); st.IsLeader || st.Shards != 8 {
		t.Errorf("status %+v", st)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", leader.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	leads(t, []member{a}, 8)
	if n := a.logs.FilterMessageSnippet("another number").Len(); n != 1 {
		t.Errorf("it said %d times that it waits", n)
	}
}
