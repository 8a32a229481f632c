package gateway

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pagescript"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ownPaths are the gateway's own resources for the owner of a workspace. They are below [site.OwnPath], on the origin
// of the workspace's pages. Requests to them do not count as use, unless they report use.
var ownPaths = map[string]func(*Gateway, *request) error{
	"status":              (*Gateway).status,
	limitPath:             (*Gateway).limit,
	swapPath:              (*Gateway).swap,
	wakePath:              (*Gateway).answerWakeForm,
	"presence":            (*Gateway).presence,
	"keep-awake":          (*Gateway).keepAwake,
	pagescript.ScriptName: (*Gateway).script,
}

// maxReport bounds the body of a report, in bytes.
const maxReport = 4 << 10

// maxTab bounds the name of a tab, in bytes.
const maxTab = 32

// report is a message of the script in a page.
type report struct {
	// Tab distinguishes the page from others. Frames are the paths of all frames in the page that have the page's
	// origin; the script reports them repeatedly.
	Tab    string   `json:"tab"`
	Frames []string `json:"frames"`
	// Hello: the script runs in a newly loaded page. Bye: that page ends.
	Hello bool `json:"hello"`
	Bye   bool `json:"bye"`
	// Input: a person has used the page since the last report.
	Input bool `json:"input"`
	// Stay: the person does not want the workspace to be put to sleep.
	Stay bool `json:"stay"`
	// Wake: the person wants the workspace back.
	Wake bool `json:"wake"`
}

// pageState is the answer of GET .codehub/presence.
type pageState struct {
	// State is running, dozing, asleep, waking or failed.
	State string `json:"state"`
	// SleepIn is the number of seconds until a running or dozing workspace is put to sleep if nobody uses it. It is
	// absent while that is not near.
	SleepIn *int `json:"sleep_in,omitempty"`
	// Since is for how many seconds it has been asleep.
	Since int `json:"since,omitempty"`
	// Run identifies one run of the workspace. A page that was loaded in another run no longer works.
	Run string `json:"run,omitempty"`
	// Tag changes whenever one of the fields above changes, unless only the time has passed.
	Tag string `json:"tag"`
}

// script sends the script.
func (g *Gateway) script(req *request) error {
	if req.r.Method != http.MethodGet && req.r.Method != http.MethodHead {
		problem.Method.With("problem.use_get", nil).Write(req.w, req.r)
		return nil
	}
	pagescript.ServeScript(req.w, req.r)
	return nil
}

// presence answers the script in a page: POST reports input by a person, GET returns the state of the
// workspace. With ?wait=<seconds>, GET answers as soon as the state differs from ?seen=<tag>, and after
// that time at the latest. ?hides says that the page's own requests do not name the page's address, although the
// script's requests do.
// Only input and requests of a person count as use. Only a request to wake wakes a sleeping workspace;
// any input resumes a dozing one.
//
// Reports from other origins do not get here: a report has an unsafe method, and the gateway refuses such a request
// from another origin.
func (g *Gateway) presence(req *request) error {
	switch req.r.Method {
	case http.MethodGet:
		return g.awaitPageState(req)
	case http.MethodPost:
	default:
		problem.Method.With("problem.use_get_or_post", nil).Write(req.w, req.r)
		return nil
	}
	var told report
	if !readReport(req, &told) {
		return nil
	}
	st := req.entry.State()
	if told.Hello {
		g.forwarder.RecordPageActivity(req.entry, workspace.PagePresence)
		g.tabs.LoadScripted(req.at.ID, tabs.SenderExact(req.r))
	}
	if !told.Bye {
		g.hear(req, told.Tab, told.Frames...)
	} else if told.Tab != "" {
		g.tabs.Leaves(req.at.ID, told.Tab)
	}
	person := told.Input || told.Stay
	wakes := told.Wake && !st.Ready() || person && st.Dozes()
	if person && g.tabs.Input(req.at.ID, g.Service.WorkCap()) && st.Route.Desired == workspace.DesiredRunning {
		if st.Dozes() { // resuming is a use, which a limit may forbid: then there was no use
			return g.answerWakeFromPage(req, st)
		}
		g.Activity.Slot(req.at.ID).TouchBy(metrics.ByInput, audit.Of(g.acting(req)))
	}
	if wakes { // perhaps a script does
		if g.Activator.InProgress(req.at.ID, g.WakeTimeout) == nil && !g.tabs.Wakes(req.at.ID) {
			problemTooManyWakes.With("problem.workspace.woken_too_often", nil).Write(req.w, req.r)
			return nil
		}
		return g.answerWakeFromPage(req, st)
	}
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

// hear records that the script runs in a tab and in frames. The browser sends the address of the tab's page with the
// request. A report also updates the workspace's row, because a page without the script may have been loaded since.
func (g *Gateway) hear(req *request, tab string, frames ...string) {
	if tab == "" || len(tab) > maxTab {
		return
	}
	if req.entry.State().Route.PageActivity == workspace.PageTraffic {
		g.forwarder.RecordPageActivity(req.entry, workspace.PagePresence)
	}
	pages := []tabs.Address{tabs.Sender(req.r)}
	for _, path := range frames {
		pages = append(pages, tabs.AddressOf(req.r.Host, path))
	}
	g.tabs.Reports(req.at.ID, tab, pages...)
	g.tabs.ReportsBeside(req.at.ID, tabs.SenderExact(req.r))
}

// readReport reads the JSON body of the request. If there is none, it answers and reports false. It accepts every
// content type, because sendBeacon sends text.
func readReport(req *request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(req.w, req.r.Body, maxReport))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		problem.BadRequest.With("problem.body_not_small", nil).Write(req.w, req.r)
		return false
	}
	return true
}

// awaitPageState answers GET.
func (g *Gateway) awaitPageState(req *request) error {
	req.entry.Pin() // so that its changes arrive even if it sleeps
	defer req.entry.Unpin()
	query := req.r.URL.Query()
	g.hear(req, query.Get("tab"))
	if query.Has("hides") {
		g.tabs.ReportsBeside(req.at.ID, tabs.Hidden)
	}
	return g.poll(req, func(st *route.State) (any, bool, <-chan struct{}) {
		s := g.pageState(req, st)
		return s, s.Tag != query.Get("seen"), nil
	})
}

// pageState returns the answer to the script in a page of a workspace in the state st. If the workspace was started
// without a wake-up, the request starts or joins one, because only a wake-up finds out whether the application answers.
func (g *Gateway) pageState(req *request, st *route.State) pageState {
	r := &st.Route
	var s pageState
	switch {
	case st.Failed():
		s.State = "failed"
	case r.Desired != workspace.DesiredRunning:
		s.State = "asleep"
		if !r.PhaseChangedAt.IsZero() && r.Phase != workspace.PhaseRunning {
			s.Since = int(max(time.Since(r.PhaseChangedAt), 0).Seconds())
		}
	case st.Ready(), st.Dozes():
		s.State = "running"
		if st.Dozes() {
			s.State = "dozing"
		}
		sum := fnv.New64a()
		fmt.Fprintf(sum, "%s %d", r.Endpoint, r.PhaseChangedAt.UnixNano())
		s.Run = strconv.FormatUint(sum.Sum64(), 36)
		if !r.SleepAt.IsZero() {
			in := int(max(time.Until(r.SleepAt), 0).Seconds())
			s.SleepIn = &in
		}
	default:
		s.State = "waking"
		g.Activator.Join(req.r.Context(), req.at.ID, req.entry, g.WakeTimeout, clientOf(req.kind))
	}
	s.Tag = fmt.Sprintf("%s.%s.%d", s.State, s.Run, max(r.SleepAt.Unix(), 0))
	return s
}

// keepAwake answers POST .codehub/keep-awake, whose body names the hours, 0 for none.
func (g *Gateway) keepAwake(req *request) error {
	if req.r.Method != http.MethodPost {
		problem.Method.With("problem.use_post", nil).Write(req.w, req.r)
		return nil
	}
	var in struct {
		Hours *int `json:"hours"`
	}
	if !readReport(req, &in) {
		return nil
	}
	if in.Hours == nil || *in.Hours < 0 || *in.Hours > 24*365 {
		problem.Invalid.With("problem.whole_hours", words.Values{"Field": "hours"}).Write(req.w, req.r)
		return nil
	}
	d := time.Duration(*in.Hours) * time.Hour
	_, err := g.Service.KeepAwake(g.acting(req), service.Actor{UserID: req.user, Through: audit.Gateway}, req.at.ID, d)
	if err != nil {
		if req.r.Context().Err() != nil {
			return ErrClientGone
		}
		problem.Of(err).Write(req.w, req.r)
		return nil
	}
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}
