package coordinator

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// panicOnce makes each component panic when it is first run. The result says how often each was run.
type panicOnce struct {
	mu   sync.Mutex
	runs map[string]int
}

func (p *panicOnce) all(components []component) []component {
	out := make([]component, len(components))
	for i, part := range components {
		out[i] = component{part.name, func(ctx context.Context) error {
			p.mu.Lock()
			p.runs[part.name]++
			first := p.runs[part.name] == 1
			p.mu.Unlock()
			if first {
				panic("injected into " + part.name)
			}
			return part.run(ctx)
		}}
	}
	return out
}

func (p *panicOnce) of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[name]
}

// TestEveryComponentThatPanicsIsStartedAgain: each component of every process and of the leader panics. The components
// come from the lists that the product itself runs. After each panic, the process still serves and leads, and the stack
// is in the log.
func TestEveryComponentThatPanicsIsStartedAgain(t *testing.T) {
	o := options(t, devenv.PostgreSQL(t), "node")
	core, logs := observer.New(zap.ErrorLevel)
	c, err := New(o, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	t.Cleanup(func() { stop(t, c) })
	panics := &panicOnce{runs: make(map[string]int)}
	everywhere := c.components()
	for i := range everywhere {
		if everywhere[i].name == "leader" {
			everywhere[i].run = func(ctx context.Context) error {
				return c.elector.Run(ctx, func(ctx context.Context, term leader.Term) error {
					return together(ctx, c.log, panics.all(c.ofTerm(term)))
				})
			}
		}
	}
	c.run(ctx, panics.all(everywhere))
	for _, part := range append(c.components(), c.ofTerm(leader.Term{})...) {
		wait.Until(t, part.name+" is started again", func() bool { return panics.of(part.name) == 2 })
		found := logs.FilterField(zap.String("component", part.name)).All()
		if len(found) != 1 || found[0].ContextMap()["stack"] == "" {
			t.Errorf("%s: logged %v", part.name, found)
		}
	}
	wait.Until(t, "the process serves and leads", func() bool { return c.Routes.Ready() && c.Health().IsLeader })
}

// TestAComponentThatAlwaysPanicsGivesUpTheLeadership: another process may do better.
func TestAComponentThatAlwaysPanicsGivesUpTheLeadership(t *testing.T) {
	err := together(t.Context(), testlog.New(t), []component{
		{"controller", func(context.Context) error { panic("injected") }},
		{"other", func(ctx context.Context) error { <-ctx.Done(); return nil }},
	})
	if !guard.Panicked(err) || errors.Is(err, context.Canceled) {
		t.Fatalf("the term ends with %v", err)
	}
}
