// Package decision is the decision table of SPEC 8: the answer to a request, by its client kind and
// the state of its workspace.
//
// It owns the client kinds, the states, the answers and the table between them. It is pure:
// a decision follows from its arguments alone, costs no allocation, and changes nothing. It
// must not know how an answer is given, nor how a workspace is woken.
package decision

// Answer is the final answer to a request. Names that begin with Send are answers to
// programs, names that begin with Show are pages or redirects for people.
type Answer uint8

const (
	// Proxy passes the request on to the application.
	Proxy Answer = iota
	// SendOutdated is problem 503 with the reason, ShowOutdated a page.
	SendOutdated
	ShowOutdated
	// SendTooEarly is problem 425: the client sends the request again.
	SendTooEarly
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
	// SendBadToken is problem 401, SendScopeMissing 403. A request with an access token is always a
	// program's: it never gets a page.
	SendBadToken
	SendScopeMissing
	// SendNotFound is problem 404, ShowNotFound a page.
	SendNotFound
	ShowNotFound
	// SendFailed is problem 502. ShowFailed is a page with the reason and with what the person can do.
	SendFailed
	ShowFailed
	// SendAsleep is problem 503 with Retry-After, or 504 for a dozing one; ShowAsleep is a page, status 503, with
	// a button that wakes the workspace.
	SendAsleep
	ShowAsleep
	// SendPutToSleep is problem 409: after a 503 programs retry automatically, which would wake the workspace.
	// ShowPutToSleep is the page of ShowAsleep with other words.
	SendPutToSleep
	ShowPutToSleep
	// SendOverload is problem 503 with Retry-After.
	SendOverload
	// SendOverShare is the same problem with another detail: the user's own share is used up.
	SendOverShare
	// SendLimit is problem 429 with Retry-After; ShowLimit is a page, status 502, that
	// lists the running workspaces.
	SendLimit
	ShowLimit
	// SendBadGateway is problem 502 or 504, ShowBadGateway a page.
	SendBadGateway
	ShowBadGateway
	// SendBadBody is problem 408 or 400.
	SendBadBody
	// ShowWake is the wake page, status 502. Its script reloads the address when the
	// workspace is ready.
	ShowWake
)

// Wake is what a decision does for a workspace that is not ready.
type Wake uint8

const (
	// NoWake leaves the workspace as it is.
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
	// NoWait answers immediately.
	NoWait Wait = iota
	// PageWait is the gateway's option of that name. It is long enough that people do not see a page that would
	// disappear immediately, and too short for people to notice the wait.
	PageWait
	// WakeTimeout is the option of that name, the longest that a program waits.
	WakeTimeout
	// UntilThaw means as long as the workspace dozes and the client waits.
	UntilThaw
)

// Decision is what the gateway does with a request: whether it wakes the workspace, how long it waits, and how it
// answers if nothing has changed by then.
type Decision struct {
	// Answer is the final answer, if nothing changes.
	Answer Answer
	// Wake says whether the workspace is woken for the request.
	Wake Wake
	// Wait is how long the request is held first.
	Wait Wait
	// Detail is the key of the text in package words that explains SendUnavailable.
	Detail string
}

// unavailable is the decision to answer a program with 503 and a detail.
func unavailable(detail string) Decision { return Decision{Answer: SendUnavailable, Detail: detail} }

// Details that several cells of the table share.
const (
	timedOut = "problem.workspace.timed_out"
	atLimit  = "problem.workspace.at_limit"

	unconfirmed = "problem.workspace.unconfirmed"
)

// cells are the decisions of one row, by client kind.
type cells struct{ navigation, selfNavigation, program, subresource Decision }

// all gives the same answer to every client.
func all(a Answer) cells {
	d := Decision{Answer: a}
	return cells{d, d, d, d}
}

// pageOr shows people a page, and answers other clients.
func pageOr(page, other Answer) cells { return pageOrElse(page, Decision{Answer: other}) }

// pageOrElse does the same as [pageOr], for other clients whose answer needs more than its name.
func pageOrElse(page Answer, other Decision) cells {
	return cells{Decision{Answer: page}, Decision{Answer: page}, other, other}
}

// wakePageOr wakes the workspace for people and shows them the progress. Other clients get the answer other.
func wakePageOr(other Decision) cells {
	return cells{
		Decision{Answer: ShowWake, Wake: StartWakeUp}, Decision{Answer: ShowWake, Wake: JoinWakeUp}, other, other,
	}
}

// heldProgram is the decision for a program that wakes a workspace and waits for it.
var heldProgram = Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout}

// decisions is the decision table (SPEC 8): one row per state, one column per client
// kind. A new case is a row here and in the test, never a branch elsewhere.
var decisions = [...]cells{
	// This process serves nothing any more, because its release is too old for the database. Another process may answer
	// next time.
	rowOutdated:    pageOr(ShowOutdated, SendOutdated),
	rowTooEarly:    all(SendTooEarly),
	rowMisdirected: pageOr(ShowMisdirected, SendMisdirected),
	rowCrossOrigin: all(SendCrossOrigin),
	// No content of a workspace is served to a browser on the dashboard's origin. A program in this row is a browser
	// that has sent a form.
	rowOtherHost:    pageOr(RedirectToHost, SendOtherHost),
	rowNamed:        pageOr(RedirectByName, SendNotFound),
	rowLoading:      pageOrElse(ShowUnavailable, unavailable("problem.workspace.just_started")),
	rowUnverifiable: pageOrElse(ShowUnavailable, unavailable("problem.workspace.session_unchecked")),
	rowAnonymous:    pageOr(ShowLogin, SendUnauthorized),
	rowBadToken:     all(SendBadToken),
	rowScopeMissing: all(SendScopeMissing),
	rowNotFound:     pageOr(ShowNotFound, SendNotFound),
	rowUnpublished:  pageOr(ShowUnpublished, SendUnpublished),
	rowNoAnswer:     pageOr(ShowBadGateway, SendBadGateway),
	rowBadBody:      all(SendBadBody),
	rowNoListener:   pageOr(ShowNoListener, SendNoListener),
	// The dial failed although the workspace counted as ready. A person gets the wake
	// page, which waits until the application answers again.
	rowUnreachable: wakePageOr(unavailable("problem.workspace.no_answer")),
	// It is unknown whether the workspace still has its address. Nothing is woken, because the workspace runs.
	rowUnconfirmed: {
		navigation:     Decision{Answer: ShowUnavailable, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowUnavailable, Wait: PageWait},
		program:        Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout},
		subresource:    Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout},
	},
	rowStillUnconfirmed: pageOrElse(ShowUnavailable, unavailable(unconfirmed)),
	// The fast path: nearly every request ends here.
	rowReady:  all(Proxy),
	rowFailed: pageOr(ShowFailed, SendFailed),
	// The process is exiting. The wake page polls until the next process answers; this process
	// wakes nothing.
	rowStopping: pageOrElse(ShowWake, unavailable("problem.workspace.stopping")),
	rowLimitReached: {
		navigation:     Decision{Answer: ShowLimit},
		selfNavigation: Decision{Answer: ShowLimit},
		program:        Decision{Answer: SendLimit},
		subresource:    unavailable(atLimit),
	},
	// The wake-up of this request ended without a ready workspace. The client decides
	// whether to try again.
	rowWakeUpEnded: pageOrElse(ShowWake, unavailable("problem.workspace.not_woken")),
	// The owner has put the workspace to sleep while this request waited for it. This request does not wake it again,
	// but a new request does.
	rowPutToSleep: {
		navigation:     Decision{Answer: ShowPutToSleep},
		selfNavigation: Decision{Answer: ShowPutToSleep},
		program:        Decision{Answer: SendPutToSleep},
		subresource:    Decision{Answer: SendAsleep},
	},
	rowHoldFull:  wakePageOr(Decision{Answer: SendOverload}),
	rowShareFull: wakePageOr(Decision{Answer: SendOverShare}),
	// A person has requested the wake-up, but the desired state is not RUNNING yet: another
	// workspace must stop first, or PostgreSQL is slow.
	rowWaking: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowWake, Wake: JoinWakeUp, Wait: PageWait},
		program:        heldProgram,
		subresource:    Decision{Answer: SendAsleep},
	},
	// The desired state is not RUNNING, even if the container has not stopped yet. A page waits a
	// moment for the desired state to be granted. If a limit forbids it, the person sees the limit
	// immediately instead of the wake page.
	rowAsleep: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowAsleep},
		program:        heldProgram,
		subresource:    Decision{Answer: SendAsleep},
	},
	// Applications that poll end their session with the first error. So the first requests of each tab wait, as if they
	// had reached the frozen application: until the workspace resumes, the browser gives up, or the tab is closed.
	rowDozingKept: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowAsleep, Wait: PageWait},
		program:        heldProgram,
		subresource:    Decision{Answer: SendAsleep, Wait: UntilThaw},
	},
	// The container is frozen because the workspace is idle. It resumes within a moment of the request. A
	// request that a page sends by itself waits only a moment for a person's input. A longer wait would
	// block other requests, and the browser needs one of its few connections to report the input.
	rowDozing: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowAsleep, Wait: PageWait},
		program:        heldProgram,
		subresource:    Decision{Answer: SendAsleep, Wait: PageWait},
	},
	// The container runs; its application has not answered yet.
	rowAnswering: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		selfNavigation: Decision{Answer: ShowWake, Wake: JoinWakeUp, Wait: PageWait},
		program:        heldProgram,
		subresource:    Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
	// The desired state is RUNNING already: a person follows the start on the wake page.
	rowComingUp: {
		navigation:     Decision{Answer: ShowWake, Wake: StartWakeUp},
		selfNavigation: Decision{Answer: ShowWake, Wake: JoinWakeUp},
		program:        heldProgram,
		subresource:    Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	},
}

// Decide returns the decision for a request of the given kind in the given state
// (SPEC 8). It is pure and does not allocate. Nothing else decides about a request.
func Decide(s Facts, kind ClientKind) Decision {
	d := &decisions[s.row()]
	switch kind {
	case Navigation:
		return d.navigation
	case SelfNavigation:
		return d.selfNavigation
	case Subresource:
		return d.subresource
	}
	return d.program
}
