package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// secret is the message of a server: no part of it may reach an owner.
const secret = "dial tcp 10.0.0.5:9000: connection refused"

func TestOwnersAreNotToldWhatServersSaid(t *testing.T) {
	for _, reason := range errorReasons() {
		w := row(workspace.PhaseError, workspace.DesiredRunning, func(w *workspace.Workspace) {
			w.ErrorReason, w.ErrorMessage = reason, secret
			w.Conditions = workspace.Conditions{workspace.PolicyHealthy: {Status: "False", Reason: "Broken", Message: secret}}
		})
		history := []store.Transition{
			{Kind: store.KindError, New: string(reason), Message: secret, At: now},
			{Kind: store.KindError, New: "Other", Message: secret, At: now},
		}
		view := OwnersView(w)
		hidden(t, string(reason), view, OwnersHistory(history), Explain(now, w, delays, history).ForOwner())
		advice := ForOwner(reason)
		if view.ErrorMessage != advice.Meaning["en"]+" "+advice.Remedy["en"] || view.ErrorReason != reason || view.Conditions[workspace.PolicyHealthy].Reason != "Broken" {
			t.Errorf("%s: the owner sees %+v", reason, view)
		}
		if w.ErrorMessage != secret || w.Conditions[workspace.PolicyHealthy].Message != secret || history[0].Message != secret {
			t.Errorf("%s: the administrator's view was changed", reason)
		}
	}
	// Messages that the planner itself writes name no server.
	own := []string{workspace.WaitKeptUntilDeleted, workspace.WaitKeptUntilGivenUp, workspace.WaitUnhealthy, workspace.WaitJobQueue}
	for _, reason := range append(reasons(aboutWaits), "OfALaterRelease") {
		if slices.Contains(own, reason) {
			continue
		}
		w := row(workspace.PhaseStandby, workspace.DesiredRunning, func(w *workspace.Workspace) {
			w.Waiting = &workspace.Waiting{Reason: reason, Message: secret, Since: now}
		})
		history := []store.Transition{{Kind: store.KindWaiting, New: reason, Message: secret, At: now}}
		view := OwnersView(w)
		hidden(t, reason, view, OwnersHistory(history), Explain(now, w, delays, history).ForOwner())
		if view.Waiting.Message == "" || w.Waiting.Message != secret {
			t.Errorf("%s: the owner sees %+v, the administrator %+v", reason, view.Waiting, w.Waiting)
		}
	}
	pulling := OwnersView(workspace.Workspace{Waiting: &workspace.Waiting{Reason: workspace.WaitPullingImage, Message: "pulling 120 of 540 MB", Done: 120e6, Total: 540e6}})
	if pulling.Waiting.Message != "pulling 120 of 540 MB" {
		t.Errorf("the progress of a pull is %q", pulling.Waiting.Message)
	}
}

func hidden(t *testing.T, about string, values ...any) {
	t.Helper()
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "10.0.0.5") {
			t.Errorf("%s: %s", about, text)
		}
	}
}

func TestOwnersAreToldSomethingAboutEveryReason(t *testing.T) {
	for _, reason := range reasons(aboutErrors) {
		if !words.Has(aboutErrors + reason + ".owner_remedy") {
			t.Errorf("nothing for %s", reason)
		}
	}
	if a := ForOwner("OfALaterRelease"); a.Meaning["en"] == "" || a.Remedy["ko"] == "" {
		t.Errorf("an unknown reason: %+v", a)
	}
}

// The owner may know the name of a file that changes while it is archived, but nothing else that the job or a server
// has said.
func TestOwnersSeeWhichFileChanges(t *testing.T) {
	for subject, want := range map[string]string{`./app/db.sqlite`: `"./app/db.sqlite" changed while it was being read.`, "": ""} {
		w := workspace.Workspace{Phase: workspace.PhaseStandby, DesiredState: workspace.DesiredArchived,
			Waiting: &workspace.Waiting{Reason: workspace.WaitArchiveFailed, Message: secret, Subject: subject, Since: now}}
		if got := OwnersView(w).Waiting.Message; !strings.HasPrefix(got, adviceOnWait(workspace.WaitArchiveFailed).Meaning["en"]) || !strings.HasSuffix(got, want) {
			t.Errorf("the owner reads %q", got)
		}
		if got := Explain(now, w, delays, nil).ForOwner().Waiting.Detail; got != want {
			t.Errorf("explained: %q, want %q", got, want)
		}
	}
}
