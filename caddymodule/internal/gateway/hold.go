package gateway

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/tracing"
)

// ErrClientGone means that the client disconnected before its request was answered.
var ErrClientGone = errors.New("the client has gone")

// hold keeps a request until the state of its workspace changes, and runs the wake-up that the decision asks for. A new
// hold, in which only the gateway and the request are set, holds nothing yet. One goroutine uses it.
type hold struct {
	gateway *Gateway
	request *request

	held     bool            // counted by the activator
	since    time.Time       // when that began
	ctx      context.Context // for work for the request, once there is any
	span     trace.Span      // while it is held
	timer    *time.Timer
	keep     func() // releases its tab's slot for requests that wait for a thaw; nil without one
	expired  bool   // the request has waited as long as its decision allows
	replaced bool   // the gateway's configuration is being replaced, seen once
	wakeUp   *activator.WakeUp
	wokenIn  *route.State // the state in which the wake-up was asked for
	refusal  *service.LimitError
}

// wait waits until st is no longer the newest state, or until another event changes the decision. It records such an
// event in s.Attempt. The time limit runs from the first wait on, however often the state changes. It returns
// [ErrClientGone] when the client has disconnected.
func (h *hold) wait(d decision.Decision, s *decision.Facts, st *route.State) error {
	g, req := h.gateway, h.request
	if !h.held && d.Wait != decision.UntilThaw {
		switch g.Activator.Admit(req.user) {
		case activator.Full:
			s.Attempt = decision.HoldFull
			return nil
		case activator.ShareFull:
			s.Attempt = decision.ShareFull
			return nil
		}
		h.held, h.since = true, time.Now()
		h.ctx, h.span = g.Tracer.Start(h.context(), tracing.Hold, trace.WithAttributes(
			attribute.String(logkey.Workspace, string(req.at.ID)), attribute.String(logkey.Client, req.kind.String())))
		limit := g.WakeTimeout
		if d.Wait == decision.PageWait {
			limit = g.PageWait
		}
		h.timer = time.NewTimer(limit)
	}
	h.joinWakeUp(d, st)
	var confirmed, wakeUpEnded <-chan struct{}
	var expired <-chan time.Time
	if h.timer != nil {
		expired = h.timer.C
	}
	if h.wakeUp != nil {
		wakeUpEnded = h.wakeUp.Done()
	}
	if s.Unconfirmed {
		confirmed = g.Routes.FreshAgain()
	}
	stopping := g.Stopping
	if h.replaced {
		stopping = nil
	}
	select {
	case <-st.Changed():
	case <-confirmed:
	case <-req.r.Context().Done():
		return ErrClientGone
	case <-req.grant.Ended():
		req.signOut(s)
	case <-expired:
		h.expired = true
	case <-wakeUpEnded:
		h.refusal = h.wakeUp.Refusal()
		switch {
		case h.wakeUp.Overtaken():
			s.Attempt = decision.PutToSleep
		case req.entry.State() != h.wokenIn:
			h.wakeUp = nil // it ended because of a change, which may already be over
		case h.refusal != nil:
			s.Attempt = decision.LimitReached
		default:
			s.Attempt = decision.WakeUpEnded
		}
	case <-g.Activator.Stopped():
		s.Attempt = decision.Stopping
	case <-stopping:
		// When only the configuration is replaced, the request stays held. When the
		// process exits, it must be answered.
		if g.Exiting() {
			s.Attempt = decision.Stopping
		}
		h.replaced = true
	}
	return nil
}

// joinWakeUp starts or joins the wake-up that the decision asks for, unless the request already
// waits for one. The decision was made in the state st.
func (h *hold) joinWakeUp(d decision.Decision, st *route.State) {
	g, req := h.gateway, h.request
	if h.wakeUp != nil {
		return
	}
	h.wokenIn = st
	switch d.Wake {
	case decision.StartWakeUp:
		h.wakeUp = g.Activator.Wake(h.context(), req.at.ID, req.entry, g.WakeTimeout, clientOf(req.kind))
	case decision.JoinWakeUp:
		h.wakeUp = g.Activator.Join(h.context(), req.at.ID, req.entry, g.WakeTimeout, clientOf(req.kind))
	}
}

// context returns the context for the work that the request causes, during its wait and afterwards.
func (h *hold) context() context.Context {
	if h.ctx == nil {
		h.ctx = h.gateway.acting(h.request)
	}
	return h.ctx
}

// sharedConnections is the largest number of requests of a workspace's pages that may be in progress over HTTP/1.1
// while one of them waits for a thaw. A browser has six connections to a host. One must be left for the report of a
// person's input, and one for quickly answered requests.
const sharedConnections = 4

// keepForThaw takes a slot in which the request waits until the workspace resumes. It reports false if it gets none;
// each tab has only a few.
func (h *hold) keepForThaw() bool {
	req := h.request
	if h.keep != nil {
		return true
	}
	if req.kind != decision.Subresource || site.IsWebSocket(req.r) ||
		req.r.ProtoMajor < 2 && req.entry.PageRequests.Load() > sharedConnections {
		return false
	}
	h.keep = h.gateway.tabs.Keep(req.at.ID, tabs.Sender(req.r))
	return h.keep != nil
}

// release ends the hold and frees its slot for another request. It may be called more than once.
// The wake-up continues without the request.
func (h *hold) release() {
	if h.keep != nil {
		h.keep()
		h.keep = nil
	}
	if h.held {
		h.held = false
		h.timer.Stop()
		h.span.End()
		took := time.Since(h.since)
		h.request.held += took
		h.gateway.Activator.Leave(h.request.user)
		h.gateway.Metrics.Held(clientOf(h.request.kind), took)
	}
}
