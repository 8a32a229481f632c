package explain

import (
	"fmt"
	"strconv"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// stepTexts say what a storage job does in a step. A step that only another release's job
// knows is not named.
var stepTexts = map[string]Text{
	contract.StepCompare: {"looking for changes", "바뀐 것을 찾는 중"},
	contract.StepArchive: {"packing and uploading", "압축하여 올리는 중"},
	contract.StepUpload:  {"uploading the rest", "나머지를 올리는 중"},
	contract.StepVerify:  {"verifying the archive", "보관본을 검증하는 중"},
	contract.StepCommit:  {"completing the archive", "보관본을 마무리하는 중"},
	contract.StepUnpack:  {"downloading and unpacking", "내려받아 푸는 중"},
	contract.StepSwap:    {"putting the files in place", "파일을 제자리에 놓는 중"},
}

// Progress says how a storage job gets on, without a full stop: its step, how much of that is
// done and how long the rest takes, as far as it is known.
func Progress(p workspace.Progress) Text {
	text, much := stepTexts[p.Step], amount(p)
	switch {
	case text.En == "":
		return much
	case much.En == "":
		return text
	}
	return Text{"{0}, {1}", "{0}, {1}"}.with(text, much)
}

// amount says how much of a step is done and how long the rest takes, such as "63 % · 40 s
// left"; empty if nothing is known.
func amount(p workspace.Progress) Text {
	var out Text
	if percent, known := p.Percent(); known {
		out = Text{"{0} %", "{0}%"}.with(number(percent))
	} else if p.Done > 0 {
		out = soFarText.with(size(p.Done))
	} else {
		return out
	}
	if left, known := p.Left(); known {
		return Text{"{0} · {1} left", "{0} · {1} 남음"}.with(out, remaining(left))
	}
	if p.Rate > 0 {
		return Text{"{0} · {1}/s", "{0} · {1}/s"}.with(out, size(p.Rate))
	}
	return out
}

// size is how sentences name a number of bytes: three digits, in powers of 1,000.
func size(n int64) Text {
	value, unit := float64(n), 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	digits := 0
	if unit > 0 && value < 9.95 {
		digits = 1
	}
	text := strconv.FormatFloat(value, 'f', digits, 64) + " " + units[unit]
	return Text{text, text}
}

// remaining is how sentences name a time that is left, never shorter than it is.
func remaining(d time.Duration) Text {
	seconds := int((d + time.Second - 1) / time.Second)
	minutes := (seconds + 59) / 60
	switch {
	case seconds < 60:
		return Text{fmt.Sprintf("%d s", seconds), fmt.Sprintf("%d초", seconds)}
	case minutes < 60:
		return Text{fmt.Sprintf("%d min", minutes), fmt.Sprintf("%d분", minutes)}
	}
	return Text{fmt.Sprintf("%d h %d min", minutes/60, minutes%60), fmt.Sprintf("%d시간 %d분", minutes/60, minutes%60)}
}
