package explain

import (
	"github.com/codehub/gateway/coordinator/workspace"
)

// The codes of [Explanation.Home].
const (
	CodeHomeSize  = "HomeSize"
	CodeHomeLarge = "HomeLarge"
)

// What a home holds: {0} bytes in {1} files, at {2}; {3} is the size from which it is large.
var (
	homeText        = Text{"Its home holds {0} in {1} files and folders (measured at {2}).", "홈에 파일과 폴더 {1}개, {0}가 있습니다({2} 측정)."}
	homeAtLeastText = Text{"Its home holds at least {0} in {1} files and folders (measured at {2}).", "홈에 적어도 파일과 폴더 {1}개, {0}가 있습니다({2} 측정)."}
	homeLargeText   = Text{" That is more than the {3} from which this server warns: delete what is not needed, such as caches, so that it sleeps and wakes quickly.",
		" 이 서버의 경고 기준인 {3}보다 큽니다. 캐시처럼 필요 없는 것을 지우면 더 빨리 잠들고 깨어납니다."}
)

// home says how much a home holds, or nil while that is not known.
func home(h workspace.HomeSize, warn int64) *Statement {
	if h.MeasuredAt.IsZero() {
		return nil
	}
	s := Statement{Code: CodeHomeSize, At: h.MeasuredAt, Text: homeText}
	if h.AtLeast {
		s.Text = homeAtLeastText
	}
	if LargeHome(h, warn) {
		s.Code = CodeHomeLarge
		s.Text.En, s.Text.Ko = s.Text.En+homeLargeText.En, s.Text.Ko+homeLargeText.Ko
	}
	s.Text = s.Text.with(size(h.Bytes), number(int(h.Files)), at(h.MeasuredAt), size(warn))
	return &s
}

// LargeHome reports whether a home has reached the size from which its owner is told; 0 is
// never.
func LargeHome(h workspace.HomeSize, warn int64) bool { return warn > 0 && h.Bytes >= warn }
