package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// unverifiedFor is the time after which it is worth saying that an archive was not read back.
const unverifiedFor = 30 * 24 * time.Hour

// Sentences about the archive. {0} is a time, {1} a number of days.
var (
	damagedBesideVolumeText = Text{"Its last archive is damaged or missing. Its files on the volume are not concerned, and the next archive takes the place of this one.",
		"마지막 보관본이 손상되었거나 없습니다. 볼륨의 파일은 무사하며 다음 보관본이 이것을 대신합니다."}
	damagedText = Text{"The archive with its files is damaged or missing. Do not delete the workspace: go back to an older archive if there is one, or tell an administrator.",
		"파일이 든 보관본이 손상되었거나 없습니다. 워크스페이스를 삭제하지 말고, 이전 보관본이 있으면 그것으로 되돌리거나 관리자에게 알리세요."}
	verifiedText      = Text{"Its archive was last read back and found right at {0}.", "보관본을 {0}에 마지막으로 읽어 확인했고 이상이 없었습니다."}
	verifiedLongText  = Text{"Its archive was last read back and found right at {0}, {1} days ago.", "보관본을 마지막으로 읽어 확인한 것은 {1}일 전인 {0}입니다."}
	neverVerifiedText = Text{"Its archive was never read back.", "보관본을 아직 다시 읽어 확인하지 않았습니다."}
	revertingText     = Text{"It goes back to an older archive (asked for at {0}). Its present files are archived first.", "이전 보관본으로 되돌리는 중입니다({0} 요청). 지금의 파일을 먼저 보관합니다."}
	revertFailedText  = Text{"It could not go back to the older archive, and is as it was before.", "이전 보관본으로 되돌리지 못했고 그 전과 같은 상태입니다."}
)

// archiveState says how the archive is, and what became of the wish to go back to another one.
func archiveState(now time.Time, w workspace.Workspace) []Statement {
	out := []Statement{}
	switch {
	case w.Reverting():
		out = append(out, Statement{Code: "Reverting", Since: w.Revert.At, Text: revertingText.with(at(w.Revert.At))})
	case w.HomeCtx.RevertProblem != "":
		out = append(out, Statement{Code: "RevertFailed", Text: revertFailedText, Detail: w.HomeCtx.RevertProblem})
	}
	if w.ArchiveKey == "" {
		return out
	}
	days := int(now.Sub(w.ArchiveVerifiedAt) / (24 * time.Hour))
	switch {
	case w.ArchiveDamage != "" && w.Conditions.True(workspace.VolumeReady):
		out = append(out, Statement{Code: "ArchiveDamaged", Text: damagedBesideVolumeText, Detail: w.ArchiveDamage})
	case w.ArchiveDamage != "":
		out = append(out, Statement{Code: "ArchiveDamaged", Text: damagedText, Detail: w.ArchiveDamage})
	case w.ArchiveVerifiedAt.IsZero():
		out = append(out, Statement{Code: "ArchiveNeverVerified", Text: neverVerifiedText})
	case now.Sub(w.ArchiveVerifiedAt) >= unverifiedFor:
		out = append(out, Statement{Code: "ArchiveVerifiedLongAgo", Since: w.ArchiveVerifiedAt, Text: verifiedLongText.with(at(w.ArchiveVerifiedAt), number(days))})
	default:
		out = append(out, Statement{Code: "ArchiveVerified", Since: w.ArchiveVerifiedAt, Text: verifiedText.with(at(w.ArchiveVerifiedAt))})
	}
	return out
}
