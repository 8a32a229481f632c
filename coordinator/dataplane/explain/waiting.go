package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Waits says what a workspace waits for and what to do, to an administrator or to its owner.
func Waits(w workspace.Waiting, admin bool) words.Text {
	advice := ownersAdvice(aboutWaits, w.Reason)
	if admin {
		advice = adviceOnWait(w.Reason)
	}
	advice.Meaning, advice.Remedy = meaning(w, advice.Meaning), remedy(w, advice.Remedy)
	if c := changed(w); !c.Empty() {
		advice.Meaning = words.Join(advice.Meaning, " ", c)
	}
	return advice.sentence()
}

// meaning returns what a wait means, with its known figures.
func meaning(w workspace.Waiting, otherwise words.Text) words.Text {
	switch {
	case w.FailedPull() && words.Has("wait.PullingImage.failed."+w.Cause):
		return words.Of("wait.PullingImage.failed."+w.Cause, nil)
	case w.FailedPull():
		return words.Of("wait.PullingImage.failed."+workspace.CauseUnknown, nil)
	case w.Reason == workspace.WaitPullingImage && w.Done > 0:
		return words.Of("wait.PullingImage.pulled", words.Values{"Pulled": Pulled(w)})
	case w.Reason == workspace.WaitNotAnswering && w.Port > 0:
		return aboutPorts(w, "meaning")
	case w.Reason == workspace.WaitDiskPressure && w.Count > 0:
		return words.Of("wait.DiskPressure.leaving", words.Values{"Percent": w.Percent, "Count": w.Count})
	case w.Reason == workspace.WaitJobQueue && w.Before == 0:
		return words.Of("wait.JobQueued.next", nil)
	case w.Reason == workspace.WaitJobQueue && w.Before > workspace.ExactlyBefore:
		return words.Of("wait.JobQueued.at_least_before", words.Values{"Before": w.Before})
	case w.Reason == workspace.WaitJobQueue:
		return words.Of("wait.JobQueued.before", words.Values{"Before": w.Before})
	}
	return otherwise
}

// remedy returns the advice about a wait, derived from its known details.
func remedy(w workspace.Waiting, otherwise words.Text) words.Text {
	if w.Reason == workspace.WaitNotAnswering && w.Port > 0 {
		return aboutPorts(w, "remedy")
	}
	if w.FailedPull() {
		return words.Of("wait.PullingImage.failed.remedy", nil)
	}
	return otherwise
}

// aboutPorts returns the advice about an application that does not answer at its port: which ports listen instead, or
// what to do.
func aboutPorts(w workspace.Waiting, part string) words.Text {
	found, listening := "nothing", w.Ports
	switch {
	case slices.Contains(w.Ports, w.Port):
		found = "mute"
	case len(w.Ports) > 0:
		found = "elsewhere"
	case len(w.LocalPorts) > 0:
		found, listening = "local", w.LocalPorts
	}
	ports := make([]string, len(listening))
	for i, port := range listening {
		ports[i] = strconv.Itoa(port)
	}
	return words.Of("wait.NotAnswering."+found+"."+part, words.Values{"Port": w.Port, "Ports": strings.Join(ports, ", ")})
}

// Pulled says how much of an image is pulled, such as "120 MB of 540 MB"; empty if nothing is known.
func Pulled(w workspace.Waiting) words.Text {
	if w.Done == 0 {
		return nil
	}
	return doneOf(w.Done, w.Total)
}

// changed names the owner's file that has changed while it was archived; empty if there is none.
func changed(w workspace.Waiting) words.Text {
	if w.Reason != workspace.WaitArchiveFailed || w.Subject == "" {
		return nil
	}
	return words.Of("wait.ArchiveFailed.changed", words.Values{"File": w.Subject})
}

// ownMessages are the waits whose messages the planner itself writes: no part of them comes from a server.
var ownMessages = map[string]bool{
	workspace.WaitKeptUntilDeleted: true, workspace.WaitKeptUntilGivenUp: true,
	workspace.WaitUnhealthy: true, workspace.WaitJobQueue: true,
}

// ownersMessage is the message of a wait for the owner, without the messages of servers. If the wait has the figures
// that belong to its reason, the planner has written the message itself.
func ownersMessage(w workspace.Waiting) string {
	switch advice := ownersAdvice(aboutWaits, w.Reason); {
	case w.FailedPull(), w.Reason == workspace.WaitNotAnswering:
		return meaning(w, advice.Meaning).String()
	case ownMessages[w.Reason],
		w.Reason == workspace.WaitPullingImage && w.Done > 0,
		w.Reason == workspace.WaitDiskPressure && w.Percent > 0:
		return w.Message
	case !changed(w).Empty():
		return words.Join(advice.Meaning, " ", changed(w)).String()
	default:
		return advice.Meaning.String()
	}
}
