package gateway

import (
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Identity is what is known of who sends a request.
type Identity uint8

const (
	// Anonymous: nobody is signed in.
	Anonymous Identity = iota
	// SignedIn: the user is known.
	SignedIn
	// Unverifiable: whether the session is valid cannot be checked at the moment.
	Unverifiable
)

// Progress is what has come of the request so far.
type Progress uint8

const (
	// NotTried: the request was neither held nor proxied yet.
	NotTried Progress = iota
	// HoldFull: as many requests are held as may be.
	HoldFull
	// LimitReached: no further workspace may run.
	LimitReached
	// WakeUpEnded: the wake-up has ended, and the workspace is not ready.
	WakeUpEnded
	// Unreachable: nothing accepts connections at the workspace's address.
	Unreachable
	// NoAnswer: the application broke off, or took too long, before it answered.
	NoAnswer
	// Stopping: this process is ending.
	Stopping
)

// State is everything about a request and its workspace that a decision depends on,
// besides the client kind.
type State struct {
	// CrossOrigin: a page of another origin acts with the user's rights.
	CrossOrigin bool
	// Loading: the route table is not filled yet.
	Loading bool
	// NoSuchHost: the host can be no workspace's, so nobody can sign in there.
	NoSuchHost bool
	Identity   Identity
	// Visible: the workspace exists and belongs to the user.
	Visible bool
	// Desired is the workspace's desired state.
	Desired workspace.DesiredState
	// Failed: the workspace is in ERROR until an administrator recovers it.
	Failed bool
	// Running: its container runs and has an address.
	Running bool
	// Ready: besides, the application has answered.
	Ready bool
	// Progress is what has come of the request so far.
	Progress Progress
}

// observe takes over what is known of the workspace.
func (s *State) observe(st *route.State) {
	s.Visible = s.Visible && st.Exists()
	s.Desired = st.Route.Desired
	s.Failed, s.Running, s.Ready = st.Failed(), st.Running(), st.Ready()
}

// Answer is what a request gets in the end.
type Answer uint8

const (
	// Proxy passes the request on to the application.
	Proxy Answer = iota
	// SendCrossOrigin is problem 403.
	SendCrossOrigin
	// SendUnavailable is problem 503 with Retry-After and the decision's detail;
	// ShowUnavailable is the same as a page.
	SendUnavailable
	ShowUnavailable
	// SendUnauthorized is problem 401; ShowLogin leads to the login page and back.
	SendUnauthorized
	ShowLogin
	// SendNotFound is problem 404, ShowNotFound a page.
	SendNotFound
	ShowNotFound
	// SendFailed is problem 502, ShowFailed a page: the reason, and what to do.
	SendFailed
	ShowFailed
	// SendAsleep is problem 503 with Retry-After.
	SendAsleep
	// SendOverload is problem 503 with Retry-After.
	SendOverload
	// SendLimit is problem 429 with Retry-After; ShowLimit is a page, status 502, that
	// lists the running workspaces.
	SendLimit
	ShowLimit
	// SendBadGateway is problem 502 or 504, ShowBadGateway a page.
	SendBadGateway
	ShowBadGateway
	// ShowWake is a page, status 502, that becomes the workspace when it is ready.
	ShowWake
)

// Wake is what a decision does for a workspace that is not ready.
type Wake uint8

const (
	// NoWake leaves the workspace alone.
	NoWake Wake = iota
	// JoinWakeUp waits for a workspace that comes up anyway, and never sets the
	// desired state.
	JoinWakeUp
	// StartWakeUp wakes the workspace.
	StartWakeUp
)

// Wait is how long a request is held before it gets its answer. It is decided again
// whenever the state changes meanwhile.
type Wait uint8

const (
	// NoWait answers at once.
	NoWait Wait = iota
	// PageWait is short: a person would rather see a page.
	PageWait
	// WakeTimeout is as long as a workspace may take to come up.
	WakeTimeout
)

// Decision is what becomes of a request.
type Decision struct {
	Answer Answer
	Wake   Wake
	Wait   Wait
	// Detail explains SendUnavailable.
	Detail string
}

// row is a row of the decision table.
type row uint8

const (
	rowCrossOrigin row = iota
	rowLoading
	rowUnverifiable
	rowAnonymous
	rowNotFound
	rowNoAnswer
	rowUnreachable
	rowReady
	rowFailed
	rowStopping
	rowLimitReached
	rowWakeUpEnded
	rowHoldFull
	rowAnswering
	rowComingUp
	rowAsleep
)

// row finds the row of a state. The order is the priority.
func (s State) row() row {
	switch {
	case s.CrossOrigin:
		return rowCrossOrigin
	case s.Loading:
		return rowLoading
	case s.NoSuchHost:
		return rowNotFound
	case s.Identity == Unverifiable:
		return rowUnverifiable
	case s.Identity == Anonymous:
		return rowAnonymous
	case !s.Visible:
		return rowNotFound
	case s.Progress == NoAnswer:
		return rowNoAnswer
	case s.Progress == Unreachable:
		return rowUnreachable
	case s.Ready:
		return rowReady
	case s.Failed:
		return rowFailed
	case s.Progress == Stopping:
		return rowStopping
	case s.Progress == LimitReached:
		return rowLimitReached
	case s.Progress == WakeUpEnded:
		return rowWakeUpEnded
	case s.Progress == HoldFull:
		return rowHoldFull
	case s.Desired != workspace.DesiredRunning:
		return rowAsleep
	case s.Running:
		return rowAnswering
	}
	return rowComingUp
}

// unavailable is a decision to answer 503 with a detail.
func unavailable(detail string) Decision { return Decision{Answer: SendUnavailable, Detail: detail} }

// The details of several cells.
const (
	timedOut = "The workspace has not become ready in time."
	atLimit  = "The limit of running workspaces is reached."
)

// decisions is the decision table (SPEC 8): a row per state, a column per client
// kind. A new case is a row here and in its test, never a branch elsewhere.
var decisions = [...]struct{ navigation, program, subresource Decision }{
	rowCrossOrigin: {
		navigation:  Decision{Answer: SendCrossOrigin},
		program:     Decision{Answer: SendCrossOrigin},
		subresource: Decision{Answer: SendCrossOrigin},
	},
	rowLoading: {
		navigation:  Decision{Answer: ShowUnavailable},
		program:     unavailable("The server has just started."),
		subresource: unavailable("The server has just started."),
	},
	rowUnverifiable: {
		navigation:  Decision{Answer: ShowUnavailable},
		program:     unavailable("The session cannot be checked at the moment."),
		subresource: unavailable("The session cannot be checked at the moment."),
	},
	rowAnonymous: {
		navigation:  Decision{Answer: ShowLogin},
		program:     Decision{Answer: SendUnauthorized},
		subresource: Decision{Answer: SendUnauthorized},
	},
	rowNotFound: {
		navigation:  Decision{Answer: ShowNotFound},
		program:     Decision{Answer: SendNotFound},
		subresource: Decision{Answer: SendNotFound},
	},
	rowNoAnswer: {
		navigation:  Decision{Answer: ShowBadGateway},
		program:     Decision{Answer: SendBadGateway},
		subresource: Decision{Answer: SendBadGateway},
	},
	rowUnreachable: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     unavailable("The workspace does not answer."),
		subresource: unavailable("The workspace does not answer."),
	},
	rowReady: {
		navigation:  Decision{Answer: Proxy},
		program:     Decision{Answer: Proxy},
		subresource: Decision{Answer: Proxy},
	},
	rowFailed: {
		navigation:  Decision{Answer: ShowFailed},
		program:     Decision{Answer: SendFailed},
		subresource: Decision{Answer: SendFailed},
	},
	rowStopping: {
		navigation:  Decision{Answer: ShowWake},
		program:     unavailable("The server is stopping."),
		subresource: unavailable("The server is stopping."),
	},
	rowLimitReached: {
		navigation:  Decision{Answer: ShowLimit},
		program:     Decision{Answer: SendLimit},
		subresource: unavailable(atLimit),
	},
	rowWakeUpEnded: {
		navigation:  Decision{Answer: ShowWake},
		program:     unavailable("The workspace is no longer being woken."),
		subresource: unavailable("The workspace is no longer being woken."),
	},
	rowHoldFull: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     Decision{Answer: SendOverload},
		subresource: Decision{Answer: SendOverload},
	},
	// The container runs; its application has not answered yet.
	rowAnswering: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
	// The workspace is to run: a person watches its way up from the wake page.
	rowComingUp: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
	// The workspace is not to run, even if its container has not ended yet.
	// A page waits for a moment, because a limit may forbid waking the workspace.
	rowAsleep: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendAsleep},
	},
}

// Decide returns what becomes of a request of the given kind in the given state. It
// is the only place where that is decided.
func Decide(s State, kind ClientKind) Decision {
	d := &decisions[s.row()]
	switch kind {
	case Navigation:
		return d.navigation
	case Subresource:
		return d.subresource
	}
	return d.program
}
