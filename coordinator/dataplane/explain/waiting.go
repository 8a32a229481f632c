package explain

import "github.com/codehub/gateway/coordinator/workspace"

// unknownWait is what an owner is told about a reason that a newer process has written.
var unknownWait = Advice{
	Text{"It waits for something that this version does not know.", "이 버전이 모르는 이유로 기다리고 있습니다."},
	Text{"If that does not pass, ask an administrator.", "계속되면 관리자에게 문의하세요."},
}

// What is known of some waits takes the place of their meaning.
var (
	changedText  = Text{`"{0}" has changed while it was read.`, `읽는 동안 "{0}"의 내용이 바뀌었습니다.`}
	pullingText  = Text{"Its image is being pulled: {0}.", "이미지를 내려받고 있습니다: {0}."}
	pulledOfText = Text{"{0} of {1}", "{1} 중 {0}"}
	soFarText    = Text{"{0} so far", "지금까지 {0}"}
	leavingTexts = map[bool]Text{ // by whether it is one
		true:  {"It waits for room on the disk of the homes, which is {0} % full; 1 sleeping workspace is being archived to make room.", "홈 디스크가 {0}% 차서 공간을 기다리고 있습니다. 잠든 워크스페이스 1개를 보관해 공간을 확보하는 중입니다."},
		false: {"It waits for room on the disk of the homes, which is {0} % full; {1} sleeping workspaces are being archived to make room.", "홈 디스크가 {0}% 차서 공간을 기다리고 있습니다. 잠든 워크스페이스 {1}개를 보관해 공간을 확보하는 중입니다."},
	}
	nextText        = Text{"It is next: its files are archived or restored as soon as another workspace's are.", "바로 다음 차례입니다. 다른 워크스페이스의 파일 보관이나 복원이 하나 끝나면 시작합니다."}
	beforeText      = Text{"It waits for its turn to have its files archived or restored: {0} before it.", "파일을 보관하거나 복원할 차례를 기다리고 있습니다. 앞에 {0}개 있습니다."}
	leastBeforeText = Text{"It waits for its turn to have its files archived or restored: at least {0} before it.", "파일을 보관하거나 복원할 차례를 기다리고 있습니다. 앞에 {0}개 이상 있습니다."}
)

// Waits says what a workspace waits for and what to do, to an administrator or to its owner.
func Waits(w workspace.Waiting, admin bool) Text {
	advice := ownersAdvice(w.Reason)
	if admin {
		advice = adviceOnWait(w.Reason)
	}
	advice.Meaning = meaning(w, advice.Meaning)
	if c := changed(w); c != (Text{}) {
		advice.Meaning = Text{"{0} {1}", "{0} {1}"}.with(advice.Meaning, c)
	}
	return advice.sentence()
}

// meaning is what a wait means, with the figures that are known of it.
func meaning(w workspace.Waiting, otherwise Text) Text {
	switch {
	case w.Reason == workspace.WaitPullingImage && w.Done > 0:
		return pullingText.with(Pulled(w))
	case w.Reason == workspace.WaitDiskPressure && w.Count > 0:
		return leavingTexts[w.Count == 1].with(number(w.Percent), number(w.Count))
	case w.Reason == workspace.WaitJobQueue && w.Before == 0:
		return nextText
	case w.Reason == workspace.WaitJobQueue && w.Before > workspace.ExactlyBefore:
		return leastBeforeText.with(number(w.Before))
	case w.Reason == workspace.WaitJobQueue:
		return beforeText.with(number(w.Before))
	}
	return otherwise
}

// Pulled says how much of an image is pulled, such as "120 MB of 540 MB"; empty if nothing is known.
func Pulled(w workspace.Waiting) Text {
	switch {
	case w.Done == 0:
		return Text{}
	case w.Total < w.Done:
		return soFarText.with(size(w.Done))
	}
	return pulledOfText.with(size(w.Done), size(w.Total))
}

// changed names the owner's file that has changed while it was archived; empty if there is none.
func changed(w workspace.Waiting) Text {
	if w.Reason != workspace.WaitArchiveFailed || w.Subject == "" {
		return Text{}
	}
	return changedText.with(Text{w.Subject, w.Subject})
}

// ownersAdvice is the advice on a wait for the owner.
func ownersAdvice(reason string) Advice {
	if a, ok := ownerWaits[reason]; ok {
		return a
	}
	if a, ok := waitAdvice[reason]; ok {
		return a
	}
	return unknownWait
}

// ownersMessage is the message of a wait for the owner: without what servers said. A message
// with the figures of its reason is the planner's own.
func ownersMessage(w workspace.Waiting) string {
	advice, hidden := ownerWaits[w.Reason]
	if !hidden {
		advice, hidden = waitAdvice[w.Reason], w.Reason == workspace.WaitPullingImage
	}
	switch {
	case advice.Meaning.En == "":
		return unknownWait.Meaning.En
	case !hidden,
		w.Reason == workspace.WaitPullingImage && w.Done > 0,
		w.Reason == workspace.WaitDiskPressure && w.Percent > 0:
		return w.Message
	case changed(w) != Text{}:
		return advice.Meaning.En + " " + changed(w).En
	}
	return advice.Meaning.En
}
