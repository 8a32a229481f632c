package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Client is the kind of client that sends a request (SPEC 8), in the order of [clients].
type Client uint8

// The kinds of clients.
const (
	Program Client = iota
	Navigation
	SelfNavigation
	Subresource
)

// Outcome is the result of a request for a workspace, in the order of [outcomes].
type Outcome uint8

// The outcomes.
const (
	Proxied Outcome = iota
	WakePage
	SignIn
	Redirected
	Refused
	ClientGone
)

// Refusal is why a request was refused, in the order of [refusalReasons]. The log names its answer by the same
// word.
type Refusal uint8

// The reasons for refusing a request. NotRefused means none.
const (
	NotRefused Refusal = iota
	RefusedAsleep
	RefusedBadBody
	RefusedBadGateway
	RefusedBadToken
	RefusedCrossOrigin
	RefusedFailed
	RefusedLimit
	RefusedMisdirected
	RefusedNoListener
	RefusedNotFound
	RefusedNotWoken
	RefusedOtherHost
	RefusedOutdated
	RefusedOverShare
	RefusedOverload
	RefusedScopeMissing
	RefusedStarting
	RefusedStopping
	RefusedTimeout
	RefusedTooEarly
	RefusedUnauthorized
	RefusedUnchecked
	RefusedUnconfirmed
	RefusedUnpublished
	RefusedUnreachable
)

// Gateway counts requests for workspaces. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Gateway struct {
	requests, refused series[prometheus.Counter]
	held              series[prometheus.Observer]
	webSockets        prometheus.Gauge
}

func newGateway(m *Metrics) *Gateway {
	return &Gateway{
		requests: counters(m, "codehub_gateway_requests_total"), refused: counters(m, "codehub_gateway_refusals_total"),
		held: histograms(m, "codehub_gateway_hold_duration_seconds"), webSockets: gauges(m, "codehub_gateway_websockets").all[0],
	}
}

// Answered counts a request by its outcome, and by the reason if the outcome is [Refused].
func (g *Gateway) Answered(c Client, o Outcome, why Refusal) {
	if g == nil {
		return
	}
	g.requests.at(int(c), int(o)).Inc()
	if o == Refused && why != NotRefused {
		g.refused.at(int(c), int(why)-1).Inc()
	}
}

// Held counts a request that was held for that long.
func (g *Gateway) Held(c Client, d time.Duration) {
	if g != nil {
		g.held.at(int(c)).Observe(d.Seconds())
	}
}

// WebSocket adds n to the number of open connections: 1 or -1.
func (g *Gateway) WebSocket(n int) {
	if g != nil {
		g.webSockets.Add(float64(n))
	}
}

// Signal is a sign of use of a workspace (SPEC 6), in the order of [signals].
type Signal uint8

// The signals.
const (
	ByNavigation Signal = iota
	ByProgram
	ByPage
	ByTransfer
	ByMessage
	ByInput
	ByCommand
)

// Person reports whether a person makes the signal.
func (s Signal) Person() bool { return s == ByNavigation || s == ByInput }

// Activity counts signals of use. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Activity struct{ signals series[prometheus.Counter] }

func newActivity(m *Metrics) *Activity {
	return &Activity{counters(m, "codehub_activity_signals_total")}
}

// Used counts a signal that has moved the time of the last use.
func (a *Activity) Used(s Signal) {
	if a != nil {
		a.signals.at(int(s)).Inc()
	}
}

// Events counts event streams by their fate. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Events struct{ slow prometheus.Counter }

func newEvents(m *Metrics) *Events {
	return &Events{counters(m, "codehub_event_streams_too_slow_total").all[0]}
}

// TooSlow counts a stream that was closed because its client lagged behind.
func (e *Events) TooSlow() {
	if e != nil {
		e.slow.Inc()
	}
}
