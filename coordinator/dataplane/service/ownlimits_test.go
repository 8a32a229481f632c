package service_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// span is the time of an event.
type span struct{ begin, end time.Time }

func (s span) overlaps(o span) bool { return !s.end.Before(o.begin) && !o.end.Before(s.begin) }

// limitInForce is a limit with the period in which calls may have been checked against it.
type limitInForce struct {
	value int
	span
}

// grant is a call that made one more workspace count.
type grant struct {
	id workspace.ID
	span
}

// Many concurrent calls through three processes add workspaces of a user, while an administrator changes the user's own
// limit. The history has the grants in their order. Each grant must respect at least one of the limits that were in
// force during its call.
func TestAUsersOwnLimitHoldsWhileItChanges(t *testing.T) {
	const all = 3 // the limit of all users
	for _, c := range []struct {
		name    string
		change  func(n *int) accounts.UserChange
		before  string // what half of the calls add again
		again   func(s *service.Service, t *testing.T, a service.Actor, id workspace.ID) error
		desired workspace.DesiredState // of what the others create
		limit   func(error) (int, bool)
		counted string
		site    service.Limits
	}{
		{
			"max_running", func(n *int) accounts.UserChange { return accounts.UserChange{MaxRunning: n} },
			`desired_state = 'STANDBY', phase = 'STANDBY'`, func(s *service.Service, t *testing.T, a service.Actor, id workspace.ID) error {
				return s.SetDesired(t.Context(), a, id, workspace.DesiredRunning)
			},
			workspace.DesiredRunning, func(err error) (int, bool) {
				var over *service.LimitError
				if !errors.As(err, &over) || over.Scope != "user" {
					return 0, false
				}
				return over.Limit, true
			},
			`counted`, service.Limits{PerUser: all},
		},
		{
			"max_workspaces", func(n *int) accounts.UserChange { return accounts.UserChange{MaxWorkspaces: n} },
			`desired_state = 'DELETED', phase = 'ARCHIVED', deleted_at = now()`,
			func(s *service.Service, t *testing.T, a service.Actor, id workspace.ID) error {
				_, err := s.Undelete(t.Context(), a, id)
				return err
			},
			workspace.DesiredArchived, func(err error) (int, bool) {
				var many *service.TooManyError
				if !errors.As(err, &many) {
					return 0, false
				}
				return many.Limit, true
			},
			`deleted_at IS NULL`, service.Limits{Workspaces: all},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed.Each(t, func(t *testing.T, random *rand.Rand) {
				st := storetest.Open(t)
				users := accounts.New(st.DB)
				var services []*service.Service
				for range 3 {
					services = append(services, service.New(storetest.Reopen(t, st), service.Options{Limits: c.site}))
				}
				a := actor(t, st)
				const calls = 60
				free, again := service.New(st, service.Options{}), make([]workspace.ID, calls/2)
				for i := range again {
					again[i] = create(t, free, a).ID
					storetest.Set(t, st, again[i], c.before)
				}
				mark := storetest.Value[int64](t, st, `SELECT max(id) FROM workspace_history`)

				var mu sync.Mutex // guards what follows
				var granted []grant
				refused := make(map[int][]span) // by the limit that the refusal names
				call := func(s *service.Service, i int) {
					g := grant{span: span{begin: time.Now()}}
					var err error
					if i%2 == 0 {
						g.id = again[i/2]
						err = c.again(s, t, a, g.id)
					} else {
						var w workspace.Workspace
						w, err = s.Create(t.Context(), a, service.CreateInput{Name: "new", DesiredState: c.desired})
						g.id = w.ID
					}
					g.end = time.Now()
					mu.Lock()
					defer mu.Unlock()
					limit, isLimit := c.limit(err)
					switch {
					case err == nil:
						granted = append(granted, g)
					case isLimit:
						refused[limit] = append(refused[limit], g.span)
					default:
						t.Errorf("call %d: %v", i, err)
					}
				}
				ever := span{end: time.Now().Add(time.Hour)}
				limits := []limitInForce{{all, ever}}
				// After every few calls, the limit changes to a value near the current number of workspaces. So each
				// call overlaps few limits.
				todo, done := make(chan int), make(chan struct{}, calls)
				var wg sync.WaitGroup
				for i := range 2 * len(services) {
					wg.Go(func() {
						for n := range todo {
							call(services[i/2], n)
							done <- struct{}{}
						}
					})
				}
				wg.Go(func() {
					defer close(todo)
					for i := range calls {
						todo <- i
					}
				})
				for finished := range calls {
					<-done
					if finished%5 != 4 {
						continue
					}
					mu.Lock()
					n := max(1, len(granted)+random.IntN(7)-2)
					mu.Unlock()
					begin := time.Now()
					if _, err := users.EditUser(t.Context(), a.UserID, c.change(&n)); err != nil {
						t.Error(err)
					}
					limits[len(limits)-1].end = time.Now()
					limits = append(limits, limitInForce{n, span{begin, ever.end}})
				}
				wg.Wait()

				order := storetest.Value[[]string](t, st, `SELECT array_agg(workspace_id::text ORDER BY id) FROM workspace_history
					WHERE id > $1 AND kind IN ('created', 'desired_state', 'undeleted')`, mark)
				if len(order) != len(granted) {
					t.Fatalf("%d were granted, the history has %d", len(granted), len(order))
				}
				place := make(map[workspace.ID]int)
				for i, id := range order {
					place[workspace.ID(id)] = i + 1
				}
				for _, g := range granted {
					allowed := 0
					for _, l := range limits {
						if l.overlaps(g.span) {
							allowed = max(allowed, l.value)
						}
					}
					if n := place[g.id]; n == 0 || n > allowed {
						t.Errorf("grant %d, of at most %d at its time", n, allowed)
					}
				}
				for value, spans := range refused {
					for _, s := range spans {
						known := false
						for _, l := range limits {
							known = known || l.value == value && l.overlaps(s)
						}
						if !known {
							t.Errorf("a refusal names %d, which was no limit at its time", value)
						}
					}
				}
				// Exactly the places that the last limit leaves free can be taken.
				last, have := limits[len(limits)-1].value, len(granted)
				for ; ; have++ {
					_, err := services[0].Create(t.Context(), a, service.CreateInput{Name: "new", DesiredState: c.desired})
					if limit, isLimit := c.limit(err); isLimit {
						if limit != last {
							t.Errorf("the limit is said to be %d, not %d", limit, last)
						}
						break
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				n := storetest.Value[int](t, st, fmt.Sprintf(`SELECT count(*) FROM workspaces WHERE %s`, c.counted))
				if n != have || have != max(last, len(granted)) {
					t.Errorf("%d count, %d were granted; the limit is %d and %d were there before", n, have, last, len(granted))
				}
				t.Logf("limits %v: %d granted, %d refused", values(limits), len(granted), calls-len(granted))
			})
		})
	}
}

func values(limits []limitInForce) (all []int) {
	for _, l := range limits {
		all = append(all, l.value)
	}
	return all
}
