package gateway

import (
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Identity is what the gateway knows about the user who sends a request.
type Identity uint8

const (
	// Anonymous: the request carries no valid session.
	Anonymous Identity = iota
	// SignedIn: the user is known.
	SignedIn
	// Unverifiable: the session cannot be checked at the moment, for example because
	// PostgreSQL does not answer.
	Unverifiable
)

// Progress is how far the gateway got with the request, or what stopped it.
type Progress uint8

const (
	// NotTried: the request was neither held nor proxied so far.
	NotTried Progress = iota
	// HoldFull: the maximum number of requests is held already.
	HoldFull
	// ShareFull: the maximum number of requests of this user is held already.
	ShareFull
	// LimitReached: the service layer refused, because a limit of running workspaces is
	// reached (SPEC 5).
	LimitReached
	// WakeUpEnded: the wake-up ended and the workspace is not ready.
	WakeUpEnded
	// Unreachable: nothing accepts connections at the workspace's address.
	Unreachable
	// NoAnswer: the application closed the connection, or took too long, before it
	// answered.
	NoAnswer
	// NoListener: nothing accepts connections at the port of the workspace that the host
	// names. The workspace runs.
	NoListener
	// Stopping: this process is about to exit.
	Stopping
)

// State is everything that a decision depends on besides the client kind. It is a
// plain value, so that a test can enumerate every possible one.
type State struct {
	// Misdirected: the request came for a path of the main site, at a host where nobody
	// signs in.
	Misdirected bool
	// CrossOrigin: a page of another origin sent the request, and it would act with the
	// user's rights (SPEC 8).
	CrossOrigin bool
	// Loading: the route table is not filled yet, or the workspace is not in it and the
	// database does not answer.
	Loading bool
	// NoSuchHost: the host has the form of a workspace's own host without a valid id.
	// No one can sign in there, so it gets 404 before the identity matters.
	NoSuchHost bool
	// OtherHost: a browser asks for the path of a workspace that has an origin of its own.
	OtherHost bool
	// Named: the host names a workspace by its name, which only the main site resolves.
	Named bool
	// Identity is who sends the request.
	Identity Identity
	// Visible: the workspace exists and belongs to the user.
	Visible bool
	// Port: the host names a port other than the application's. Whether the application has
	// answered does not matter there.
	Port bool
	// Unpublished: it does, and this process reaches only the application's.
	Unpublished bool
	// Desired is the workspace's desired state.
	Desired workspace.DesiredState
	// Failed: the workspace is in ERROR until an administrator recovers it.
	Failed bool
	// Running: its container runs and has an address.
	Running bool
	// Ready: it runs, and its application has answered.
	Ready bool
	// Unconfirmed: the lease of the routes has run out, so that another workspace may have
	// the address.
	Unconfirmed bool
	// Progress is how far the gateway got with the request.
	Progress Progress
}

// observe copies the newest state of the workspace. A workspace that the user must
// not see stays invisible.
func (s *State) observe(st *route.State) {
	s.Visible = s.Visible && st.Exists()
	s.Desired = st.Route.Desired
	s.Failed, s.Running, s.Ready = st.Failed(), st.Running(), st.Ready()
	if s.Port {
		s.Ready = s.Running
	}
}

// Answer is the final answer to a request. Names that begin with Send are answers to
// programs, names that begin with Show are pages or redirects for people.
type Answer uint8

const (
	// Proxy passes the request on to the application.
	Proxy Answer = iota
	// SendCrossOrigin is problem 403.
	SendCrossOrigin
	// SendMisdirected is problem 421, ShowMisdirected a page.
	SendMisdirected
	ShowMisdirected
	// SendOtherHost is problem 403, and RedirectToHost leads to the same page on the
	// workspace's own host.
	SendOtherHost
	RedirectToHost
	// SendUnpublished is problem 404 for a port that cannot be reached, ShowUnpublished a
	// page.
	SendUnpublished
	ShowUnpublished
	// SendNoListener is problem 502 for a port on which nothing listens, ShowNoListener a
	// page that tries again.
	SendNoListener
	ShowNoListener
	// RedirectByName leads to the main site, which knows the workspace of a name.
	RedirectByName
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
	// SendOverShare is the same problem with another detail: the places are the user's own.
	SendOverShare
	// SendLimit is problem 429 with Retry-After; ShowLimit is a page, status 502, that
	// lists the running workspaces.
	SendLimit
	ShowLimit
	// SendBadGateway is problem 502 or 504, ShowBadGateway a page.
	SendBadGateway
	ShowBadGateway
	// ShowWake is the wake page, status 502. Its script reloads the address when the
	// workspace is ready.
	ShowWake
)

// Wake is what a decision does for a workspace that is not ready.
type Wake uint8

const (
	// NoWake leaves the workspace alone.
	NoWake Wake = iota
	// JoinWakeUp waits for a workspace that another request or the user is starting. It
	// never sets the desired state.
	JoinWakeUp
	// StartWakeUp sets the desired state RUNNING, on behalf of the owner.
	StartWakeUp
)

// Wait is how long a request is held before it gets its answer. Whenever the state
// changes in that time, the gateway decides again.
type Wait uint8

const (
	// NoWait answers at once.
	NoWait Wait = iota
	// PageWait is [Options.PageWait]: long enough to avoid a page that disappears at
	// once, short enough that a person does not wait for one.
	PageWait
	// WakeTimeout is [Options.WakeTimeout], the longest that a program waits.
	WakeTimeout
)

// Decision is what the gateway does with a request: it wakes the workspace or not,
// waits, and answers if nothing has changed by then.
type Decision struct {
	// Answer is the final answer, if nothing changes.
	Answer Answer
	// Wake says whether the workspace is woken for the request.
	Wake Wake
	// Wait is how long the request is held first.
	Wait Wait
	// Detail explains SendUnavailable.
	Detail string
}

// row is the index of a row in the decision table.
type row uint8

const (
	rowMisdirected row = iota
	rowCrossOrigin
	rowOtherHost
	rowNamed
	rowLoading
	rowUnverifiable
	rowAnonymous
	rowNotFound
	rowUnpublished
	rowNoAnswer
	rowNoListener
	rowUnreachable
	rowUnconfirmed
	rowStillUnconfirmed
	rowReady
	rowFailed
	rowStopping
	rowLimitReached
	rowWakeUpEnded
	rowHoldFull
	rowShareFull
	rowAnswering
	rowComingUp
	rowAsleep
)

// row returns the row that applies to a state. The order of the cases is their
// priority: first the rules that keep unauthorized requests out, then the results of
// earlier attempts, then the state of the workspace.
func (s State) row() row {
	switch {
	case s.Misdirected:
		return rowMisdirected
	case s.CrossOrigin:
		return rowCrossOrigin
	case s.OtherHost:
		return rowOtherHost
	case s.Named:
		return rowNamed
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
	case s.Unpublished:
		return rowUnpublished
	case s.Progress == NoAnswer:
		return rowNoAnswer
	case s.Progress == NoListener:
		return rowNoListener
	case s.Progress == Unreachable:
		return rowUnreachable
	case s.Running && s.Unconfirmed && s.Progress != NotTried:
		return rowStillUnconfirmed
	case s.Running && s.Unconfirmed:
		return rowUnconfirmed
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
	case s.Progress == ShareFull:
		return rowShareFull
	case s.Desired != workspace.DesiredRunning:
		return rowAsleep
	case s.Running:
		return rowAnswering
	}
	return rowComingUp
}

// unavailable is the decision to answer a program with 503 and a detail.
func unavailable(detail string) Decision { return Decision{Answer: SendUnavailable, Detail: detail} }

// Details that several cells of the table share.
const (
	timedOut = "The workspace has not become ready in time."
	atLimit  = "The limit of running workspaces is reached."

	unconfirmed = "The address of the workspace cannot be confirmed, because the database does not answer."
)

// decisions is the decision table (SPEC 8): one row per state, one column per client
// kind. A new case is a row here and in the test, never a branch elsewhere.
var decisions = [...]struct{ navigation, program, subresource Decision }{
	rowMisdirected: {
		navigation:  Decision{Answer: ShowMisdirected},
		program:     Decision{Answer: SendMisdirected},
		subresource: Decision{Answer: SendMisdirected},
	},
	rowCrossOrigin: {
		navigation:  Decision{Answer: SendCrossOrigin},
		program:     Decision{Answer: SendCrossOrigin},
		subresource: Decision{Answer: SendCrossOrigin},
	},
	// Nothing of a workspace is served to a browser on the origin of the dashboard. Here a
	// program is a form that a browser sends.
	rowOtherHost: {
		navigation:  Decision{Answer: RedirectToHost},
		program:     Decision{Answer: SendOtherHost},
		subresource: Decision{Answer: SendOtherHost},
	},
	rowNamed: {
		navigation:  Decision{Answer: RedirectByName},
		program:     Decision{Answer: SendNotFound},
		subresource: Decision{Answer: SendNotFound},
	},
	rowLoading: {
		navigation:  Decision{Answer: ShowUnavailable},
		program:     unavailable("The server has just started, or its database does not answer."),
		subresource: unavailable("The server has just started, or its database does not answer."),
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
	rowUnpublished: {
		navigation:  Decision{Answer: ShowUnpublished},
		program:     Decision{Answer: SendUnpublished},
		subresource: Decision{Answer: SendUnpublished},
	},
	rowNoListener: {
		navigation:  Decision{Answer: ShowNoListener},
		program:     Decision{Answer: SendNoListener},
		subresource: Decision{Answer: SendNoListener},
	},
	// The dial failed although the workspace counted as ready. A person gets the wake
	// page, which waits until the application answers again.
	rowUnreachable: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     unavailable("The workspace does not answer."),
		subresource: unavailable("The workspace does not answer."),
	},
	// Nobody knows whether the workspace is still where it was. Nothing is woken: it runs.
	rowUnconfirmed: {
		navigation:  Decision{Answer: ShowUnavailable, Wait: PageWait},
		program:     Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout},
		subresource: Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout},
	},
	rowStillUnconfirmed: {
		navigation:  Decision{Answer: ShowUnavailable},
		program:     unavailable(unconfirmed),
		subresource: unavailable(unconfirmed),
	},
	// The fast path: nearly every request ends here.
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
	// The process exits. The wake page polls until the next process answers; nothing is
	// woken from here any more.
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
	// The wake-up of this request ended without a ready workspace. The client decides
	// whether to try again.
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
	rowShareFull: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     Decision{Answer: SendOverShare},
		subresource: Decision{Answer: SendOverShare},
	},
	// The container runs; its application has not answered yet.
	rowAnswering: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
	// The desired state is RUNNING already: a person follows the start on the wake page.
	rowComingUp: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
	// The desired state is not RUNNING, even if the container has not stopped yet. A page
	// waits a moment for the desired state to be granted: if a limit forbids it, the
	// person sees the limit at once instead of the wake page.
	rowAsleep: {
		navigation:  Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		program:     Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		subresource: Decision{Answer: SendAsleep},
	},
}

// Decide returns the decision for a request of the given kind in the given state
// (SPEC 8). It is pure and does not allocate. Nothing else decides about a request.
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
