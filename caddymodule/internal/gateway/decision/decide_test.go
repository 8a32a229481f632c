package decision

import (
	"fmt"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// stateOf returns the facts about a workspace with that row in the database. answered says whether its application has
// answered.
func stateOf(row store.Route, answered bool) Facts {
	s := Facts{Identity: SignedIn, Visible: true}
	s.Observe(&route.State{Route: row, Answered: answered})
	return s
}

// portState is the same for a port other than the application's.
func portState(row store.Route) Facts {
	s := Facts{Identity: SignedIn, Visible: true, Port: true}
	s.Observe(&route.State{Route: row})
	return s
}

func up(phase workspace.Phase, op workspace.Operation) store.Route {
	return store.Route{Phase: phase, Operation: op, Desired: workspace.DesiredRunning}
}

func down(phase workspace.Phase, desired workspace.DesiredState) store.Route {
	return store.Route{Phase: phase, Operation: workspace.OpNone, Desired: desired}
}

// TestDecide is the table of SPEC 8, row by row, followed by the cases that the
// specification leaves open.
func TestDecide(t *testing.T) {
	running := store.Route{Phase: workspace.PhaseRunning, Operation: workspace.OpNone, Desired: workspace.DesiredRunning, Endpoint: "10.0.0.1:8080", PhaseChangedAt: time.Unix(1, 0)}
	stopping := running
	stopping.Desired, stopping.Operation = workspace.DesiredStandby, workspace.OpStopping
	failed := store.Route{Phase: workspace.PhaseError, ErrorReason: workspace.ReasonTimeout, Desired: workspace.DesiredRunning}
	dozing := running
	dozing.DozeAt = time.Unix(2, 0)
	recovering := failed
	recovering.ErrorReason = ""
	asleep := stateOf(down(workspace.PhaseStandby, workspace.DesiredStandby), false)
	with := func(s Facts, p Attempt) Facts { s.Attempt = p; return s }
	kept := func(s Facts) Facts { s.Kept = true; return s }
	doubtful := func(s Facts) Facts { s.Unconfirmed = true; return s }

	type cells struct{ navigation, selfNavigation, program, subresource Decision }
	all := func(d Decision) cells { return cells{d, d, d, d} }
	pass := all(Decision{Answer: Proxy})
	wakeUp := cells{
		Decision{Answer: ShowWake, Wake: StartWakeUp, Wait: PageWait},
		Decision{Answer: ShowAsleep},
		Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		Decision{Answer: SendAsleep},
	}
	startingUp := cells{
		Decision{Answer: ShowWake, Wake: StartWakeUp},
		Decision{Answer: ShowWake, Wake: JoinWakeUp},
		Decision{Answer: SendUnavailable, Detail: timedOut, Wake: StartWakeUp, Wait: WakeTimeout},
		Decision{Answer: SendUnavailable, Detail: timedOut, Wake: JoinWakeUp, Wait: WakeTimeout},
	}
	answering := startingUp
	answering.navigation.Wait, answering.selfNavigation.Wait = PageWait, PageWait
	notFound := cells{Decision{Answer: ShowNotFound}, Decision{Answer: ShowNotFound}, Decision{Answer: SendNotFound}, Decision{Answer: SendNotFound}}
	notSignedIn := cells{Decision{Answer: ShowLogin}, Decision{Answer: ShowLogin}, Decision{Answer: SendUnauthorized}, Decision{Answer: SendUnauthorized}}
	errors502 := cells{Decision{Answer: ShowFailed}, Decision{Answer: ShowFailed}, Decision{Answer: SendFailed}, Decision{Answer: SendFailed}}
	limit := cells{Decision{Answer: ShowLimit}, Decision{Answer: ShowLimit}, Decision{Answer: SendLimit}, unavailable(atLimit)}

	for _, c := range []struct {
		name  string
		state Facts
		want  cells
	}{
		// SPEC 8.
		{"RUNNING", stateOf(running, true), pass},
		{"STANDBY", asleep, wakeUp},
		{"ARCHIVED", stateOf(down(workspace.PhaseArchived, workspace.DesiredArchived), false), wakeUp},
		{"PENDING, starting", stateOf(up(workspace.PhasePending, workspace.OpNone), false), startingUp},
		{"PENDING, being provisioned", stateOf(up(workspace.PhasePending, workspace.OpProvisioning), false), startingUp},
		{"ARCHIVED, being restored", stateOf(up(workspace.PhaseArchived, workspace.OpRestoring), false), startingUp},
		{"STANDBY, starting", stateOf(up(workspace.PhaseStandby, workspace.OpStarting), false), startingUp},
		{"STANDBY, desired RUNNING", stateOf(up(workspace.PhaseStandby, workspace.OpNone), false), startingUp},
		{"ERROR", stateOf(failed, false), errors502},
		{"limit reached", with(asleep, LimitReached), limit},
		{"unknown", Facts{Identity: SignedIn}, notFound},
		{"deleted", stateOf(store.Route{Phase: workspace.PhaseDeleting, Deleted: true}, false), notFound},
		{"deleted, still RUNNING", stateOf(store.Route{Phase: workspace.PhaseRunning, Endpoint: "x", Deleted: true}, true), notFound},
		{"not signed in", Facts{}, notSignedIn},
		{"not signed in, whatever else is known", Facts{Visible: true, Ready: true}, notSignedIn},

		// Cases that SPEC 8 leaves open.
		{"RUNNING, the application has not answered", stateOf(running, false), answering},
		{"RUNNING without an address", stateOf(up(workspace.PhaseRunning, workspace.OpNone), false), startingUp},
		{"RUNNING, dozing", stateOf(dozing, true), cells{
			wakeUp.navigation, Decision{Answer: ShowAsleep, Wait: PageWait}, wakeUp.program, Decision{Answer: SendAsleep, Wait: PageWait}}},
		{"RUNNING, dozing, one of the few requests of a tab", kept(stateOf(dozing, true)), cells{
			wakeUp.navigation, Decision{Answer: ShowAsleep, Wait: PageWait}, wakeUp.program, Decision{Answer: SendAsleep, Wait: UntilThaw}}},
		{"one of the few requests of a tab, and it goes on", kept(stateOf(running, true)), pass},
		{"a port of a workspace that dozes", portState(dozing), cells{
			wakeUp.navigation, Decision{Answer: ShowAsleep, Wait: PageWait}, wakeUp.program, Decision{Answer: SendAsleep, Wait: PageWait}}},
		{"dozing, and the limit is reached", with(stateOf(dozing, true), LimitReached), limit},
		{"RUNNING, being stopped", stateOf(stopping, true), pass},
		{"RUNNING, being stopped, and it answers no more", stateOf(stopping, false), wakeUp},
		{"asleep, and somebody has asked for it", Facts{Identity: SignedIn, Visible: true, Waking: true}, cells{
			wakeUp.navigation, Decision{Answer: ShowWake, Wake: JoinWakeUp, Wait: PageWait}, wakeUp.program, wakeUp.subresource}},
		{"PENDING, to be archived", stateOf(down(workspace.PhasePending, workspace.DesiredArchived), false), wakeUp},
		{"ERROR, just recovered", stateOf(recovering, false), startingUp},
		{"ERROR, and the limit of held requests is reached", with(stateOf(failed, false), HoldFull), errors502},
		{"the process is too old, whatever else is known", Facts{Outdated: true, CrossOrigin: true, Identity: SignedIn, Visible: true, Ready: true}, cells{
			Decision{Answer: ShowOutdated}, Decision{Answer: ShowOutdated}, Decision{Answer: SendOutdated}, Decision{Answer: SendOutdated}}},
		{"a request that may be a copy", Facts{TooEarly: true, CrossOrigin: true, Identity: SignedIn, Visible: true, Ready: true}, all(Decision{Answer: SendTooEarly})},
		{"a page of another origin", Facts{CrossOrigin: true, Identity: SignedIn, Visible: true, Ready: true}, all(Decision{Answer: SendCrossOrigin})},
		{"a host where nobody signs in, and a page of another origin", Facts{Misdirected: true, CrossOrigin: true, Identity: SignedIn, Visible: true, Ready: true}, cells{
			Decision{Answer: ShowMisdirected}, Decision{Answer: ShowMisdirected}, Decision{Answer: SendMisdirected}, Decision{Answer: SendMisdirected}}},
		{"a page of another origin frames the path of a workspace that has a host", Facts{CrossOrigin: true, OtherHost: true}, all(Decision{Answer: SendCrossOrigin})},
		{"a browser at the path of a workspace that has a host", Facts{OtherHost: true, Identity: SignedIn, Visible: true, Ready: true}, cells{
			Decision{Answer: RedirectToHost}, Decision{Answer: RedirectToHost}, Decision{Answer: SendOtherHost}, Decision{Answer: SendOtherHost}}},
		{"a host that is a name", Facts{Named: true}, cells{Decision{Answer: RedirectByName}, Decision{Answer: RedirectByName}, Decision{Answer: SendNotFound}, Decision{Answer: SendNotFound}}},
		{"a port that is not published", Facts{Identity: SignedIn, Visible: true, Unpublished: true, Ready: true}, cells{
			Decision{Answer: ShowUnpublished}, Decision{Answer: ShowUnpublished}, Decision{Answer: SendUnpublished}, Decision{Answer: SendUnpublished}}},
		{"a port on which nothing listens", with(stateOf(running, true), NoListener), cells{
			Decision{Answer: ShowNoListener}, Decision{Answer: ShowNoListener}, Decision{Answer: SendNoListener}, Decision{Answer: SendNoListener}}},
		{"a port of a workspace whose application has not answered", portState(running), pass},
		{"a port of a workspace that sleeps", portState(down(workspace.PhaseStandby, workspace.DesiredStandby)), wakeUp},
		{"the table is not filled yet", Facts{Loading: true, Identity: SignedIn}, cells{
			Decision{Answer: ShowUnavailable}, Decision{Answer: ShowUnavailable}, unavailable("problem.workspace.just_started"), unavailable("problem.workspace.just_started")}},
		{"the session cannot be checked", Facts{Identity: Unverifiable, Visible: true, Ready: true}, cells{
			Decision{Answer: ShowUnavailable}, Decision{Answer: ShowUnavailable}, unavailable("problem.workspace.session_unchecked"), unavailable("problem.workspace.session_unchecked")}},
		{"an access token that is not valid", Facts{Identity: BadToken, Visible: true, Ready: true}, all(Decision{Answer: SendBadToken})},
		{"an access token without the scope", Facts{Identity: ScopeMissing, Visible: true, Ready: true}, all(Decision{Answer: SendScopeMissing})},
		{"a host without a valid workspace id", Facts{NoSuchHost: true}, notFound},
		{"the limit of held requests is reached", with(asleep, HoldFull), cells{
			Decision{Answer: ShowWake, Wake: StartWakeUp}, Decision{Answer: ShowWake, Wake: JoinWakeUp}, Decision{Answer: SendOverload}, Decision{Answer: SendOverload}}},
		{"the share of the user in the held requests is reached", with(asleep, ShareFull), cells{
			Decision{Answer: ShowWake, Wake: StartWakeUp}, Decision{Answer: ShowWake, Wake: JoinWakeUp}, Decision{Answer: SendOverShare}, Decision{Answer: SendOverShare}}},
		{"the wake-up has ended", with(asleep, WakeUpEnded), cells{
			Decision{Answer: ShowWake}, Decision{Answer: ShowWake}, unavailable("problem.workspace.not_woken"), unavailable("problem.workspace.not_woken")}},
		{"it was put to sleep meanwhile", with(asleep, PutToSleep), cells{
			Decision{Answer: ShowPutToSleep}, Decision{Answer: ShowPutToSleep}, Decision{Answer: SendPutToSleep}, Decision{Answer: SendAsleep}}},
		{"it was put to sleep meanwhile, and runs again", with(stateOf(running, true), PutToSleep), pass},
		{"nothing accepts connections", with(stateOf(running, false), Unreachable), cells{
			Decision{Answer: ShowWake, Wake: StartWakeUp}, Decision{Answer: ShowWake, Wake: JoinWakeUp}, unavailable("problem.workspace.no_answer"), unavailable("problem.workspace.no_answer")}},
		{"the application closed the connection", with(stateOf(running, true), NoAnswer), cells{
			Decision{Answer: ShowBadGateway}, Decision{Answer: ShowBadGateway}, Decision{Answer: SendBadGateway}, Decision{Answer: SendBadGateway}}},
		{"the client did not send the rest", with(stateOf(running, true), BadBody), all(Decision{Answer: SendBadBody})},
		{"the process is ending", with(asleep, Stopping), cells{
			Decision{Answer: ShowWake}, Decision{Answer: ShowWake}, unavailable("problem.workspace.stopping"), unavailable("problem.workspace.stopping")}},
		{"the address is not confirmed", doubtful(stateOf(running, true)), cells{
			Decision{Answer: ShowUnavailable, Wait: PageWait}, Decision{Answer: ShowUnavailable, Wait: PageWait},
			Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout},
			Decision{Answer: SendUnavailable, Detail: unconfirmed, Wait: WakeTimeout}}},
		{"the address is not confirmed, and the process is ending", doubtful(with(stateOf(running, true), Stopping)), cells{
			Decision{Answer: ShowUnavailable}, Decision{Answer: ShowUnavailable}, unavailable(unconfirmed), unavailable(unconfirmed)}},
		{"asleep, and nothing is confirmed", doubtful(asleep), wakeUp},
		{"the process is ending, and the workspace is ready", with(stateOf(running, true), Stopping), pass},
	} {
		for kind, want := range map[ClientKind]Decision{Navigation: c.want.navigation, SelfNavigation: c.want.selfNavigation, Program: c.want.program, Subresource: c.want.subresource} {
			if got := Decide(c.state, kind); got != want {
				t.Errorf("%s, client kind %d: got %+v, want %+v", c.name, kind, got, want)
			}
		}
	}
}

// TestEveryStateIsDecided enumerates all states and checks four rules. Each state has a row. Requests that a page sends
// by itself never wake a workspace. Only requests of the owner of a visible workspace are proxied or wake it. Every
// held request gets an answer when its wait is over.
func TestEveryStateIsDecided(t *testing.T) {
	seen := map[row]bool{}
	bools := []bool{false, true}
	n := 0
	for _, refused := range []Facts{{}, {Outdated: true}, {TooEarly: true}, {Misdirected: true}, {CrossOrigin: true}, {OtherHost: true}, {Named: true}, {Unpublished: true}} {
		for _, loading := range bools {
			for _, noHost := range bools {
				for identity := Anonymous; identity <= ScopeMissing; identity++ {
					for _, visible := range bools {
						for _, desired := range []workspace.DesiredState{workspace.DesiredArchived, workspace.DesiredStandby, workspace.DesiredRunning} {
							for _, failed := range bools {
								for up := range 8 { // neither, running, ready, the last two unconfirmed, waking, dozing, and kept meanwhile
									for progress := NotTried; progress <= Stopping; progress++ {
										s := refused
										s.Loading, s.NoSuchHost, s.Identity, s.Visible, s.Desired = loading, noHost, identity, visible, desired
										s.Failed, s.Running, s.Ready, s.Unconfirmed, s.Attempt = failed, up > 0 && up != 5, up == 2 || up == 4, up == 3 || up == 4, progress
										s.Waking, s.Dozing, s.Kept = up == 5, up >= 6, up == 7
										seen[s.row()] = true
										admitted := refused == Facts{} && !loading && !noHost && identity == SignedIn && visible
										for _, kind := range []ClientKind{Program, Navigation, SelfNavigation, Subresource} {
											n++
											if err := sound(s, Decide(s, kind), kind, admitted); err != nil {
												t.Fatalf("%+v, client kind %d: %v", s, kind, err)
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	for r := range row(len(decisions)) {
		if !seen[r] {
			t.Errorf("row %d applies to no state", r)
		}
	}
	if len(seen) != len(decisions) || n == 0 {
		t.Errorf("the table has %d rows, but %d are reached", len(decisions), len(seen))
	}
}

func sound(s Facts, d Decision, kind ClientKind, admitted bool) error {
	switch {
	case (kind == Subresource || kind == SelfNavigation) && d.Wake == StartWakeUp:
		return fmt.Errorf("it wakes: %+v", d)
	case !admitted && (d.Answer == Proxy || d.Wake != NoWake || d.Wait != NoWait):
		return fmt.Errorf("a request that is not admitted gets %+v", d)
	case d.Answer == Proxy && (d.Wake != NoWake || d.Wait != NoWait):
		return fmt.Errorf("it waits although it can be proxied: %+v", d)
	case d.Answer == Proxy && s.Unconfirmed:
		return fmt.Errorf("it is proxied to an address that may be another's: %+v", d)
	case d.Wait != NoWait && d.Wake == NoWake && !s.Unconfirmed && !s.Dozing:
		return fmt.Errorf("it waits for a workspace that is not being woken: %+v", d)
	case d.Wait == WakeTimeout && d.Wake == NoWake && !s.Unconfirmed:
		return fmt.Errorf("it waits for long for what nobody may want: %+v", d)
	case kind.IsPage() && d.Wait == WakeTimeout:
		return fmt.Errorf("a person waits for minutes without a page: %+v", d)
	case (d.Answer == SendUnavailable) != (d.Detail != ""):
		return fmt.Errorf("the detail does not belong to the answer: %+v", d)
	}
	return nil
}

func BenchmarkDecide(b *testing.B) {
	s := Facts{Identity: SignedIn, Visible: true, Ready: true, Running: true}
	b.ReportAllocs()
	for b.Loop() {
		if Decide(s, Program).Answer != Proxy {
			b.Fatal("not proxied")
		}
	}
}
