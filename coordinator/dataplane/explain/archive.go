package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// unverifiedFor is how long an archive may remain unverified (not read back) before the explanation mentions that.
const unverifiedFor = 30 * 24 * time.Hour

// archiveState describes the archive, and the outcome of the last request to go back to another
// one.
func archiveState(now time.Time, w workspace.Workspace) []Statement {
	out := []Statement{}
	switch {
	case w.Reverting():
		out = append(out, Statement{
			Code: "Reverting", Since: w.Revert.At, Text: words.Of("explain.archive.reverting", words.Values{
				"At": clock(w.Revert.At),
			}),
		})
	case w.HomeCtx.RevertProblem != "":
		out = append(out, Statement{
			Code: "RevertFailed", Text: words.Of("explain.archive.revert_failed", nil), Detail: w.HomeCtx.RevertProblem,
		})
	}
	if w.ArchiveKey == "" {
		return out
	}
	days := int(now.Sub(w.ArchiveVerifiedAt) / (24 * time.Hour))
	switch {
	case w.ArchiveDamage != "" && w.Conditions.True(workspace.VolumeReady):
		out = append(out, Statement{
			Code: "ArchiveDamaged", Text: words.Of("dashboard.damaged_beside_volume", nil),
			Detail: w.ArchiveDamage,
		})
	case w.ArchiveDamage != "":
		out = append(out, Statement{
			Code: "ArchiveDamaged", Text: words.Of("dashboard.damaged", nil), Detail: w.ArchiveDamage,
		})
	case w.ArchiveVerifiedAt.IsZero():
		out = append(out, Statement{
			Code: "ArchiveNeverVerified", Text: words.Of("explain.archive.never_verified", nil),
		})
	case now.Sub(w.ArchiveVerifiedAt) >= unverifiedFor:
		out = append(out, Statement{
			Code: "ArchiveVerifiedLongAgo", Since: w.ArchiveVerifiedAt,
			Text: words.Of("explain.archive.verified_long_ago", words.Values{
				"At": clock(w.ArchiveVerifiedAt), "Count": days,
			}),
		})
	default:
		out = append(out, Statement{
			Code: "ArchiveVerified", Since: w.ArchiveVerifiedAt,
			Text: words.Of("explain.archive.verified", words.Values{"At": clock(w.ArchiveVerifiedAt)}),
		})
	}
	return out
}
