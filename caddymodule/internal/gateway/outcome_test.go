package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Every decision has an outcome. A refusal has a reason, and no other outcome has one.
func TestEveryDecisionCounts(t *testing.T) {
	seen := make(map[metrics.Refusal]bool)
	count := func(s decision.Facts) {
		for kind := decision.Program; kind <= decision.Subresource; kind++ {
			d := decision.Decide(s, kind)
			if d.Answer == decision.Proxy {
				continue
			}
			client, outcome, why := outcomeOf(kind, d)
			if client != metrics.Client(kind) {
				t.Errorf("kind %d counts as %d", kind, client)
			}
			if (outcome == metrics.Refused) != (why != metrics.NotRefused) || outcome == metrics.Proxied {
				t.Errorf("%+v for kind %d has outcome %d and reason %d", d, kind, outcome, why)
			}
			if _, known := details[d.Detail]; d.Answer == decision.SendUnavailable && !known {
				t.Errorf("the detail %q has no reason", d.Detail)
			}
			seen[why] = true
		}
	}
	for _, s := range []decision.Facts{
		{Outdated: true}, {TooEarly: true}, {Misdirected: true}, {CrossOrigin: true}, {OtherHost: true}, {Named: true}, {Loading: true},
		{NoSuchHost: true}, {}, {Identity: decision.Unverifiable}, {Identity: decision.BadToken},
		{Identity: decision.ScopeMissing}, {Identity: decision.SignedIn},
	} {
		count(s)
	}
	for attempt := decision.NotTried; attempt <= decision.Stopping; attempt++ {
		for bits := range 64 {
			is := func(i int) bool { return bits>>i&1 == 1 }
			s := decision.Facts{
				Identity: decision.SignedIn, Visible: true, Attempt: attempt, Failed: is(0), Running: is(1), Ready: is(2),
				Waking: is(3), Unconfirmed: is(4), Unpublished: is(5), Desired: workspace.DesiredStandby,
			}
			count(s)
			s.Desired = workspace.DesiredRunning
			count(s)
		}
	}
	for why := metrics.RefusedAsleep; why <= metrics.RefusedUnreachable; why++ {
		if !seen[why] {
			t.Errorf("no decision has the reason %d", why)
		}
	}
}

// A refusal has the same word in the metrics and in the log. Only for a workspace that is unavailable do the metrics
// say more precisely why.
func TestRefusalsAreCountedByTheNameOfTheirAnswer(t *testing.T) {
	for i, o := range outcomes {
		answer := decision.Answer(i)
		if o.outcome != metrics.Refused || answer == decision.SendUnavailable || answer == decision.ShowUnavailable {
			continue
		}
		m := metrics.New(func() *metrics.State { return &metrics.State{} })
		m.Gateway.Answered(metrics.Program, o.outcome, o.refusal)
		registry := prometheus.NewPedanticRegistry()
		if err := registry.Register(m); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var counted string
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if f.GetName() != "codehub_gateway_refusals_total" || series.GetCounter().GetValue() == 0 {
					continue
				}
				for _, l := range series.GetLabel() {
					if l.GetName() == "reason" {
						counted = l.GetValue()
					}
				}
			}
		}
		if counted != answer.String() {
			t.Errorf("the log says %s, and the metrics %q", answer, counted)
		}
	}
}
