package decision

import (
	"github.com/codehub/gateway/coordinator/dataplane/route"
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
	// BadToken: the request carries a personal access token that is not valid.
	BadToken
	// ScopeMissing: its personal access token may not reach workspaces.
	ScopeMissing
)

// Attempt is how far the gateway has got with a request so far, or what has stopped it.
type Attempt uint8

const (
	// NotTried: the request was neither held nor proxied so far.
	NotTried Attempt = iota
	// HoldFull: the gateway already holds as many requests as it may.
	HoldFull
	// ShareFull: the gateway already holds as many requests of this user as it may.
	ShareFull
	// LimitReached: the service layer refused, because a limit of running workspaces is
	// reached (SPEC 5).
	LimitReached
	// WakeUpEnded: the wake-up ended and the workspace is not ready.
	WakeUpEnded
	// PutToSleep: the request waited for the wake-up, but a user then put the workspace to sleep or archived it, which
	// ended the wake-up.
	PutToSleep
	// Unreachable: nothing accepts connections at the workspace's address.
	Unreachable
	// NoAnswer: the application closed the connection, or took too long, before it
	// answered.
	NoAnswer
	// BadBody: the client did not send the rest of its request.
	BadBody
	// NoListener: nothing accepts connections at the port of the workspace that the host
	// names. The workspace runs.
	NoListener
	// Stopping: this process is about to exit.
	Stopping
)

// Facts is everything that a decision depends on besides the client kind. It is a
// plain value, so that a test can enumerate every possible one.
type Facts struct {
	// Outdated: this process must no longer serve requests (SPEC 12.14).
	Outdated bool
	// TooEarly: the request may be a replay (RFC 8470).
	TooEarly bool
	// Misdirected: the request came for a path of the main site, at a host where users
	// do not sign in.
	Misdirected bool
	// CrossOrigin: a page of another origin sent the request, and it would act with the
	// user's rights (SPEC 8).
	CrossOrigin bool
	// Loading: the route table is not filled yet, or the workspace is not in it and the
	// database does not answer.
	Loading bool
	// NoSuchHost: the host looks like a workspace's own host, but has no valid id. No one can sign in there, so the
	// request gets 404 before the identity matters.
	NoSuchHost bool
	// OtherHost: a browser asks for the path of a workspace that has an origin of its own.
	OtherHost bool
	// Named: the host names a workspace by its name, which only the main site resolves.
	Named bool
	// Identity is the sender of the request.
	Identity Identity
	// Visible: the workspace exists and belongs to the user.
	Visible bool
	// Port: the host names a port other than the application's. Whether the application has
	// answered does not matter there.
	Port bool
	// Unpublished: the host names a port other than the application's, but this process reaches only the application's
	// port.
	Unpublished bool
	// Desired is the workspace's desired state.
	Desired workspace.DesiredState
	// Failed: the workspace is in ERROR until an administrator recovers it.
	Failed bool
	// Running: its container runs and has an address.
	Running bool
	// Dozing: its container is frozen, or about to be.
	Dozing bool
	// Kept: the request is one of the few of its tab that wait until a dozing workspace resumes.
	Kept bool
	// Ready: it runs and does not doze, and its application has answered.
	Ready bool
	// Waking: a wake-up of a sleeping workspace, requested by a person, is in progress.
	Waking bool
	// Unconfirmed: the lease of the routes has run out, so that another workspace may have
	// the address.
	Unconfirmed bool
	// Attempt is how far the gateway got with the request.
	Attempt Attempt
}

// Observe copies the newest state of the workspace. A workspace that the user must
// not see stays invisible.
func (s *Facts) Observe(st *route.State) {
	s.Visible = s.Visible && st.Exists()
	s.Desired = st.Route.Desired
	s.Failed, s.Running, s.Dozing, s.Ready = st.Failed(), st.Running(), st.Dozes(), st.Ready()
	if s.Port {
		s.Ready = s.Running && !s.Dozing
	}
}

// NeedsSignIn reports whether the request is refused because no user is signed in.
func (s Facts) NeedsSignIn() bool { return s.row() == rowAnonymous }

// row is the index of a row in the decision table.
type row uint8

const (
	rowOutdated row = iota
	rowTooEarly
	rowMisdirected
	rowCrossOrigin
	rowOtherHost
	rowNamed
	rowLoading
	rowUnverifiable
	rowAnonymous
	rowBadToken
	rowScopeMissing
	rowNotFound
	rowUnpublished
	rowNoAnswer
	rowBadBody
	rowNoListener
	rowUnreachable
	rowUnconfirmed
	rowStillUnconfirmed
	rowReady
	rowFailed
	rowStopping
	rowLimitReached
	rowWakeUpEnded
	rowPutToSleep
	rowHoldFull
	rowShareFull
	rowDozing
	rowDozingKept
	rowAnswering
	rowComingUp
	rowWaking
	rowAsleep
)

// row returns the row that applies to a state. The order of the cases is their priority. A
// process that must not serve comes first, then the rules that keep unauthorized requests out.
// Then come the results of earlier attempts, and last the state of the workspace.
func (s Facts) row() row {
	switch {
	case s.Outdated:
		return rowOutdated
	case s.TooEarly:
		return rowTooEarly
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
	case s.Identity == BadToken:
		return rowBadToken
	case s.Identity == ScopeMissing:
		return rowScopeMissing
	case !s.Visible:
		return rowNotFound
	case s.Unpublished:
		return rowUnpublished
	case s.Attempt == NoAnswer:
		return rowNoAnswer
	case s.Attempt == BadBody:
		return rowBadBody
	case s.Attempt == NoListener:
		return rowNoListener
	case s.Attempt == Unreachable:
		return rowUnreachable
	case s.Running && s.Unconfirmed && s.Attempt != NotTried:
		return rowStillUnconfirmed
	case s.Running && s.Unconfirmed:
		return rowUnconfirmed
	case s.Ready:
		return rowReady
	case s.Failed:
		return rowFailed
	case s.Attempt == Stopping:
		return rowStopping
	case s.Attempt == LimitReached:
		return rowLimitReached
	case s.Attempt == WakeUpEnded:
		return rowWakeUpEnded
	case s.Attempt == PutToSleep:
		return rowPutToSleep
	case s.Attempt == HoldFull:
		return rowHoldFull
	case s.Attempt == ShareFull:
		return rowShareFull
	case s.Desired != workspace.DesiredRunning && s.Waking:
		return rowWaking
	case s.Desired != workspace.DesiredRunning:
		return rowAsleep
	case s.Dozing && s.Kept:
		return rowDozingKept
	case s.Dozing:
		return rowDozing
	case s.Running:
		return rowAnswering
	}
	return rowComingUp
}
