package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestTheStateOfTheArchiveIsSaid(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ready := workspace.Conditions{workspace.VolumeReady: {Status: "True"}}
	asked := &workspace.Revert{ID: "r", Key: "k0", At: now}
	for name, c := range map[string]struct {
		w          workspace.Workspace
		code, text string
		detail     string
		owner      string // the detail that an owner gets
	}{
		"none":                {workspace.Workspace{}, "", "", "", ""},
		"never verified":      {workspace.Workspace{ArchiveKey: "k"}, "ArchiveNeverVerified", "never read back", "", ""},
		"verified":            {workspace.Workspace{ArchiveKey: "k", ArchiveVerifiedAt: now.Add(-time.Hour)}, "ArchiveVerified", "2026-04-30 23:00:00 UTC", "", ""},
		"verified long ago":   {workspace.Workspace{ArchiveKey: "k", ArchiveVerifiedAt: now.AddDate(0, 0, -45)}, "ArchiveVerifiedLongAgo", "45 days ago", "", ""},
		"damaged":             {workspace.Workspace{ArchiveKey: "k", ArchiveDamage: "the checksum", ArchiveVerifiedAt: now}, "ArchiveDamaged", "Do not delete", "the checksum", "the checksum"},
		"damaged, and volume": {workspace.Workspace{ArchiveKey: "k", ArchiveDamage: "the checksum", Conditions: ready}, "ArchiveDamaged", "not affected", "the checksum", "the checksum"},
		"reverting":           {workspace.Workspace{Revert: asked}, "Reverting", "archived first", "", ""},
		"reverted":            {workspace.Workspace{Revert: asked, HomeCtx: workspace.HomeContext{ChoiceRecord: workspace.ChoiceRecord{RevertID: "r"}}}, "", "", "", ""},
		"revert failed": {workspace.Workspace{Revert: asked, HomeCtx: workspace.HomeContext{ChoiceRecord: workspace.ChoiceRecord{RevertID: "r", RevertProblem: "dial tcp 10.0.0.1"}}},
			"RevertFailed", "as it was before", "dial tcp 10.0.0.1", ""},
	} {
		e := Explain(now, c.w, Delays{}, nil)
		if c.code == "" {
			if len(e.Archive) != 0 {
				t.Errorf("%s: %+v", name, e.Archive)
			}
			continue
		}
		if len(e.Archive) != 1 || e.Archive[0].Code != c.code || !strings.Contains(e.Archive[0].Text["en"], c.text) || e.Archive[0].Detail != c.detail || e.Archive[0].Text["ko"] == "" {
			t.Errorf("%s: %+v", name, e.Archive)
			continue
		}
		if got := e.ForOwner().Archive[0].Detail; got != c.owner || e.Archive[0].Detail != c.detail {
			t.Errorf("%s: the owner is told %q, want %q", name, got, c.owner)
		}
	}
	told := OwnersHistory([]store.Transition{{Kind: store.KindReverted, Message: "dial tcp 10.0.0.1"}})
	if told[0].Message == "" || strings.Contains(told[0].Message, "10.0.0.1") {
		t.Errorf("the history tells the owner %q", told[0].Message)
	}
}
