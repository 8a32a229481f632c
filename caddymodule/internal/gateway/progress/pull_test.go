package progress

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAFailedPullSaysWhy: the wake page says the same as the card.
func TestAFailedPullSaysWhy(t *testing.T) {
	w := workspace.Waiting{Reason: workspace.WaitPullingImage, Cause: workspace.CauseRateLimit}
	s := Step{Stage: StagePulling, Text: StagePulling.text()}
	s.present(&Waiting{Reason: w.Reason, Text: explain.Waits(w, false), of: w}, "")
	if got := s.Text.String(); !strings.Contains(got, "rate limit") || !strings.Contains(got, "choose another image") {
		t.Errorf("the step says %q", got)
	}
	w.Cause = ""
	s = Step{Stage: StagePulling, Text: StagePulling.text()}
	if s.present(&Waiting{Reason: w.Reason, Text: explain.Waits(w, false), of: w}, ""); s.Text.String() != StagePulling.text().String() {
		t.Errorf("a pull that goes on says %q", s.Text)
	}
}
