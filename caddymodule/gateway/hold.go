package gateway

import (
	"errors"
	"time"

	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
)

// ErrClientGone is what a request ends with whose client has not waited.
var ErrClientGone = errors.New("the client has gone")

// hold keeps a request until the state of its workspace changes. The zero value with
// its gateway and request holds nothing.
type hold struct {
	gateway *Gateway
	request *request

	held     bool // counted by the activator
	timer    *time.Timer
	expired  bool // the request has waited as long as it may
	replaced bool // the gateway's configuration is being replaced, seen once
	wakeUp   *activator.WakeUp
	wokenIn  *route.State // the state in which the wake-up was asked for
	refusal  *service.LimitError
}

// wait waits until st is no longer the newest state, or until something else is
// known, which it writes into s. The time that a request may wait begins with the
// first wait. It returns [ErrClientGone] when the client has gone.
func (h *hold) wait(d Decision, s *State, st *route.State) error {
	g, req := h.gateway, h.request
	if !h.held {
		if !g.Activator.Hold() {
			s.Progress = HoldFull
			return nil
		}
		h.held = true
		h.timer = time.NewTimer(map[Wait]time.Duration{PageWait: g.PageWait, WakeTimeout: g.WakeTimeout}[d.Wait])
	}
	h.wake(d, st)
	stopping := g.Stopping
	if h.replaced {
		stopping = nil
	}
	select {
	case <-st.Changed():
	case <-req.r.Context().Done():
		return ErrClientGone
	case <-h.timer.C:
		h.expired = true
	case <-h.wakeUp.Done():
		h.refusal = h.wakeUp.Refusal()
		switch {
		case req.entry.State() != h.wokenIn:
			h.wakeUp = nil // it ended for a change, which may be over already
		case h.refusal != nil:
			s.Progress = LimitReached
		default:
			s.Progress = WakeUpEnded
		}
	case <-g.Activator.Stopped():
		s.Progress = Stopping
	case <-stopping:
		// The end of a configuration leaves the request where it is, the end of the
		// process does not.
		if g.Exiting() {
			s.Progress = Stopping
		}
		h.replaced = true
	}
	return nil
}

// wake does for the workspace, which is in the state st, what the decision says.
func (h *hold) wake(d Decision, st *route.State) {
	g, req := h.gateway, h.request
	if h.wakeUp != nil {
		return
	}
	h.wokenIn = st
	switch d.Wake {
	case StartWakeUp:
		h.wakeUp = g.Activator.Wake(req.target.ID, req.entry, g.WakeTimeout)
	case JoinWakeUp:
		h.wakeUp = g.Activator.Join(req.target.ID, req.entry, g.WakeTimeout)
	}
}

// release ends the hold.
func (h *hold) release() {
	if h.held {
		h.held = false
		h.timer.Stop()
		h.gateway.Activator.Release()
	}
}
