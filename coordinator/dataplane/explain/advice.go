package explain

import (
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Advice is what a reason means and what to do about it. It is read in the dashboard and
// on the command line, so it names the choices, but not the command-line flags that select them.
type Advice struct{ Meaning, Remedy words.Text }

// The keys of the texts about reasons for ERROR (SPEC 3) and for waiting. Every reason has a meaning and a
// remedy, which administrators read, and may have others for its owner.
const (
	aboutErrors = "error."
	aboutWaits  = "wait."
)

// advice returns the advice on a reason for an administrator. A reason that a newer process has written gets the advice
// on unknown reasons.
func advice(about, reason string) Advice {
	key := about + reason + "."
	if !words.Has(key + "meaning") {
		key = "explain.unknown."
	}
	return Advice{words.Of(key+"meaning", nil), words.Of(key+"remedy", nil)}
}

func adviceOnError(r workspace.ErrorReason) Advice { return advice(aboutErrors, string(r)) }

func adviceOnWait(reason string) Advice { return advice(aboutWaits, reason) }

// KnownError reports whether r is one of the reasons for ERROR.
func KnownError(r workspace.ErrorReason) bool { return words.Has(aboutErrors + string(r) + ".meaning") }

// Messages of the container engine and the object store name hosts and addresses inside the installation, and reveal
// which ports are open. Therefore only administrators see them. Owners are told what happened and what they can do.

// ownersAdvice returns the advice on a reason for the owner. A reason that a newer process has written gets the advice
// on unknown reasons.
func ownersAdvice(about, reason string) Advice {
	if !words.Has(about + reason + ".meaning") {
		reason = "unknown"
	}
	text := func(part string) words.Text {
		if key := about + reason + ".owner_" + part; words.Has(key) {
			return words.Of(key, nil)
		}
		return words.Of(about+reason+"."+part, nil)
	}
	return Advice{text("meaning"), text("remedy")}
}

// ForOwner returns what a reason for ERROR means to the workspace's owner, and what the owner can do. If a newer
// process has written a reason that this release does not know, the text refers the owner to the administrators.
func ForOwner(r workspace.ErrorReason) Advice { return ownersAdvice(aboutErrors, string(r)) }

// sentence returns the advice as one text.
func (a Advice) sentence() words.Text { return words.Join(a.Meaning, " ", a.Remedy) }

// Failed returns one text for the owner of a workspace with that error.
func Failed(r workspace.ErrorReason) words.Text { return ForOwner(r).sentence() }
