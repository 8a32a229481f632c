package explain

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

var (
	now    = time.Date(2026, 5, 6, 14, 0, 0, 0, time.UTC)
	delays = Delays{
		WorkCap: 12 * time.Hour,
		Standby: 10 * time.Minute, Archive: 30 * time.Minute, TTLInterval: time.Minute, KeepDeleted: 2 * time.Hour,
		Timeouts: planner.DefaultTimeouts(), MaxRetry: 3, WaitLimit: 10 * time.Minute,
	}
)

// ago is a time before now.
func ago(d time.Duration) time.Time { return now.Add(-d) }

// row returns a workspace that has been in a phase for an hour and has no other values to explain.
func row(phase workspace.Phase, desired workspace.DesiredState, more ...func(*workspace.Workspace)) workspace.Workspace {
	w := workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", Phase: phase, PhaseChangedAt: ago(time.Hour), Operation: workspace.OpNone, DesiredState: desired,
	}
	if desired == workspace.DesiredDeleted {
		w.DeletedAt = ago(30 * time.Minute)
	}
	for _, change := range more {
		change(&w)
	}
	return w
}

// frozen is what the controller has seen of a workspace that dozes.
func frozen(w *workspace.Workspace) {
	w.Conditions = w.Conditions.With(workspace.Dozing, true, workspace.ContainerDozing, "", now)
}

// codes lists what comes next, with the time of day.
func codes(statements []Statement) []string {
	out := []string{}
	for _, s := range statements {
		line := s.Code
		if !s.At.IsZero() {
			line += " " + s.At.Format("15:04:05")
		}
		out = append(out, line)
	}
	return out
}

func TestWhyAndWhatComesNext(t *testing.T) {
	type change = func(*workspace.Workspace)
	used := func(d time.Duration) change { return func(w *workspace.Workspace) { w.LastAccessAt = ago(d) } }
	operation := func(op workspace.Operation, since time.Duration) change {
		return func(w *workspace.Workspace) { w.Operation, w.OpStartedAt = op, ago(since) }
	}
	waiting := func(reason string) change {
		return func(w *workspace.Workspace) {
			w.Waiting = &workspace.Waiting{Reason: reason, Message: "no answer", Since: ago(4 * time.Minute)}
		}
	}
	failed := func(reason workspace.ErrorReason, count int) change {
		return func(w *workspace.Workspace) { w.ErrorReason, w.ErrorMessage, w.ErrorCount = reason, "m", count }
	}
	attempt := []store.Transition{{Kind: store.KindError, New: "ActionFailed", Message: "m", At: ago(time.Second)}}
	for _, c := range []struct {
		name    string
		w       workspace.Workspace
		history []store.Transition
		why     string
		next    []string
		says    string // part of the English texts
	}{
		{"in use", row("RUNNING", "RUNNING", used(3*time.Minute)), nil, "RUNNING", []string{"Sleeps 14:07:00"}, "goes to sleep at 2026-05-06 14:07:00 UTC unless it is used"},
		{"just started", row("RUNNING", "RUNNING", used(3*time.Hour), func(w *workspace.Workspace) { w.PhaseChangedAt = ago(time.Minute) }), nil, "RUNNING", []string{"Sleeps 14:09:00"}, ""},
		{"due", row("RUNNING", "RUNNING", used(time.Hour)), nil, "RUNNING", []string{"Sleeps 14:01:00"}, "at the next check"},
		{"announced", row("RUNNING", "RUNNING", used(9*time.Minute), func(w *workspace.Workspace) { w.SleepAt = ago(-90 * time.Second) }), nil, "RUNNING", []string{"Sleeps 14:01:30"}, "at 2026-05-06 14:01:30 UTC unless"},
		{"busy", row("RUNNING", "RUNNING", used(time.Hour), func(w *workspace.Workspace) {
			w.Busy = &workspace.Busy{Reason: workspace.BusyTerminal, Detail: "make", Since: ago(time.Minute)}
		}), nil, "RUNNING", []string{"TerminalJob", "WorkCap 01:00:00"}, "printing, writing or computing (since 2026-05-06 13:59:00 UTC)"},
		{"busy for too long", row("RUNNING", "RUNNING", used(time.Hour), func(w *workspace.Workspace) {
			w.Busy, w.SleepAt = &workspace.Busy{Reason: workspace.BusyNoAnswer, Since: ago(time.Minute)}, ago(-time.Minute)
		}), nil, "RUNNING", []string{"NoAnswer", "Sleeps 14:01:00"}, "although work is in progress"},
		{"busy for a reason of a newer process", row("RUNNING", "RUNNING", func(w *workspace.Workspace) { w.Busy = &workspace.Busy{Reason: "Moon"} }), nil, "RUNNING", []string{"Moon", "WorkCap 01:00:00"}, "does not know"},
		{"kept awake", row("RUNNING", "RUNNING", used(time.Hour), func(w *workspace.Workspace) { w.KeepAwakeUntil = ago(-time.Hour) }), nil, "RUNNING", []string{"KeptAwake 15:00:00", "Sleeps 15:00:00"}, "keeps it awake until 2026-05-06 15:00:00 UTC"},
		{"its pages cannot report people", row("RUNNING", "RUNNING", used(3*time.Minute), func(w *workspace.Workspace) { w.PageActivity = workspace.PageTraffic }), nil, "RUNNING", []string{"Sleeps 14:07:00", "TrafficCounts"}, "all their traffic counts"},
		{"dozing", row("RUNNING", "RUNNING", used(6*time.Minute), frozen, func(w *workspace.Workspace) { w.DozeAt = ago(time.Minute) }), nil, "Dozing", []string{"Wakes", "Sleeps 14:04:00"}, "uses no processor time (since 2026-05-06 13:59:00 UTC)"},
		{"to doze, and not frozen", row("RUNNING", "RUNNING", used(6*time.Minute), func(w *workspace.Workspace) { w.DozeAt = ago(time.Minute) }), nil, "RUNNING", []string{"Sleeps 14:04:00"}, "Its container is running"},
		{"frozen, and about to go on", row("RUNNING", "RUNNING", used(time.Minute), frozen), nil, "RUNNING", []string{"Sleeps 14:09:00"}, "Its container is running"},
		{"dozing no more", row("STANDBY", "RUNNING", operation("STARTING", time.Minute), frozen, func(w *workspace.Workspace) { w.DozeAt = ago(time.Hour) }), nil, "STARTING", []string{"Timeout 14:04:00"}, ""},
		{"asleep", row("STANDBY", "STANDBY", func(w *workspace.Workspace) { w.PhaseChangedAt = ago(10 * time.Minute) }), nil, "STANDBY", []string{"Archived 14:20:00"}, "is archived at 2026-05-06 14:20:00 UTC"},
		{"asleep for long", row("STANDBY", "STANDBY"), nil, "STANDBY", []string{"Archived 14:01:00"}, "at the next check"},
		{"archived", row("ARCHIVED", "ARCHIVED"), nil, "ARCHIVED", []string{"Stays"}, "until it is opened"},
		{"woken", row("ARCHIVED", "RUNNING"), nil, "ARCHIVED", []string{"Step"}, "towards RUNNING"},
		{"starting", row("STANDBY", "RUNNING", operation("STARTING", time.Minute)), nil, "STARTING", []string{"Timeout 14:04:00"}, "being started (since 2026-05-06 13:59:00 UTC)"},
		{"a long archive", row("STANDBY", "ARCHIVED", operation("ARCHIVING", time.Hour)), nil, "ARCHIVING", []string{"Timeout 13:30:00"}, "takes longer than usual"},
		{"restoring", row("ARCHIVED", "RUNNING", operation("RESTORING", time.Minute), func(w *workspace.Workspace) {
			w.Progress = &workspace.JobProgress{Step: "unpack", Done: 63, Total: 100, Rate: 1, At: ago(time.Second)}
		}), nil, "RESTORING", []string{"Progress", "Timeout 14:29:00"}, "2026-05-06 13:59:59 UTC: downloading and unpacking, 63 B of 100 B · 1 B/s · 37 s left."},
		{"a job that says nothing", row("ARCHIVED", "RUNNING", operation("RESTORING", time.Minute), func(w *workspace.Workspace) {
			w.Progress = &workspace.JobProgress{Step: "of another release"}
		}), nil, "RESTORING", []string{"Timeout 14:29:00"}, ""},
		{"retrying", row("STANDBY", "RUNNING", operation("STARTING", time.Minute), failed("ActionFailed", 1)), attempt, "STARTING", []string{"Retry 14:00:00", "Timeout 14:04:00"}, "Attempt 1 of 3 failed"},
		{"on a lost node", row("STANDBY", "RUNNING", operation("STARTING", time.Hour), waiting(workspace.WaitNodeLost)), nil, "STARTING", []string{"Waits"}, "for as long as it takes"},
		{"back on its node", row("STANDBY", "RUNNING", operation("STARTING", time.Hour), func(w *workspace.Workspace) { w.HomeCtx.ResumedAt = ago(time.Minute) }), nil, "STARTING", []string{"Timeout 14:04:00"}, "if there is no progress by"},
		{"in the queue of storage jobs", row("STANDBY", "ARCHIVED", waiting(workspace.WaitJobQueue)), nil, "STANDBY", []string{"Waits"}, "for as long as it takes"},
		{"the store is away", row("STANDBY", "ARCHIVED", waiting(workspace.WaitStoreAway)), nil, "STANDBY", []string{"TriedAgain"}, "retried automatically"},
		{"the store refuses", row("ARCHIVED", "RUNNING", waiting(workspace.WaitStoreRefuses)), nil, "ARCHIVED", []string{"TriedAgain", "WaitEnds 14:06:00"}, "fails with an error"},
		{"the store refuses, but the volume is there", row("STANDBY", "ARCHIVED", waiting(workspace.WaitStoreRefuses), func(w *workspace.Workspace) {
			w.Conditions = workspace.Conditions{workspace.VolumeReady: {Status: "True"}}
		}), nil, "STANDBY", []string{"TriedAgain"}, ""},
		{"lost", row("ERROR", "RUNNING", failed("DataLost", 1)), nil, "DataLost", []string{"NeedsRecovery"}, "until an administrator recovers it"},
		{"recovered", row("ERROR", "RUNNING"), nil, "Recovered", []string{"Observed"}, "checked within seconds"},
		{"deleted", row("STANDBY", "DELETED"), nil, "STANDBY", []string{"Step", "Undeletable 15:30:00", "FilesDeleted 15:30:00"}, "can be undone until 2026-05-06 15:30:00 UTC"},
		{"deleted and archived", row("DELETING", "DELETED", func(w *workspace.Workspace) { w.AwaitsGC = true }), nil, "AwaitsGC", []string{"Undeletable 15:30:00", "FilesDeleted 15:30:00"}, "only its archive is left"},
		{"deleted and kept", row("DELETING", "DELETED", waiting(workspace.WaitKeptUntilDeleted)), nil, "DELETING", []string{"TriedAgain", "Undeletable 15:30:00", "FilesDeleted 15:30:00"}, ""},
		{"deleted and kept without a limit", row("DELETING", "DELETED", waiting(workspace.WaitKeptUntilGivenUp)), nil, "DELETING", []string{"Kept"}, "until its deletion is undone"},
		{"deleted in an error", row("ERROR", "DELETED", failed("Timeout", 1)), nil, "Timeout", []string{"Step", "Undeletable 15:30:00", "FilesDeleted 15:30:00"}, ""},
		{"given up", row("DELETING", "DELETED", func(w *workspace.Workspace) { w.DeleteNow = true }), nil, "DELETING", []string{"Step", "GivenUp"}, "without the usual delay"},
		{"collected", row("DELETING", "DELETED", func(w *workspace.Workspace) { w.AwaitsGC, w.CollectedAt = true, ago(time.Minute) }), nil, "AwaitsGC", []string{"Collected"}, "can no longer be undone"},
		{"gone", row("DELETED", "DELETED"), nil, "DELETED", []string{"Nothing"}, "nothing is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Explain(now, c.w, delays, c.history)
			if e.Why.Code != c.why || !slices.Equal(codes(e.Next), c.next) {
				t.Errorf("%s, next %q; want %s, next %q", e.Why.Code, codes(e.Next), c.why, c.next)
			}
			var said []string
			for _, s := range append([]Statement{e.Why}, e.Next...) {
				said = append(said, s.Text["en"])
				complete(t, s.Text)
			}
			if text := strings.Join(said, " "); !strings.Contains(text, c.says) {
				t.Errorf("%q does not say %q", text, c.says)
			}
			if (e.Waiting != nil) != (c.w.Waiting != nil) {
				t.Fatalf("waiting %+v", e.Waiting)
			}
			if e.Waiting != nil {
				complete(t, e.Waiting.Text)
				complete(t, e.Waiting.Remedy)
				if e.Waiting.Code != c.w.Waiting.Reason || e.Waiting.Since != c.w.Waiting.Since || e.Waiting.Detail != "no answer" {
					t.Errorf("waiting %+v", e.Waiting)
				}
			}
			if e.WorkspaceID != c.w.ID || e.Phase != c.w.Phase || e.Operation != c.w.Operation || e.DesiredState != c.w.DesiredState {
				t.Errorf("explained another row: %+v", e)
			}
		})
	}
}

// complete checks that a text is a sentence in both languages, without an unfilled placeholder.
func complete(t *testing.T, text words.Text) {
	t.Helper()
	open := regexp.MustCompile(`\{\{|<no value>`)
	for _, lang := range words.Languages() {
		if s := text[lang.Code]; !strings.HasSuffix(s, ".") || open.MatchString(s) {
			t.Errorf("%s: %q is not a whole sentence", lang.Code, s)
		}
	}
	if !strings.ContainsFunc(text["ko"], func(r rune) bool { return unicode.Is(unicode.Hangul, r) }) {
		t.Errorf("%q is not Korean", text["ko"])
	}
}

// Every row gets a complete explanation, even with values that never occur together.
func TestEveryRowCanBeExplained(t *testing.T) {
	reasons := append(constants(t, "ErrorReason", ""), "")
	waits := append(constants(t, "WaitReason", "Wait"), "")
	for _, phase := range constants(t, "Phase", "") {
		for _, desired := range constants(t, "DesiredState", "") {
			for _, op := range constants(t, "Operation", "") {
				for i := range max(len(reasons), len(waits)) {
					w := row(workspace.Phase(phase), workspace.DesiredState(desired))
					w.Operation, w.OpStartedAt = workspace.Operation(op), ago(time.Minute)
					w.ErrorReason, w.ErrorCount = workspace.ErrorReason(reasons[i%len(reasons)]), i%4
					if reason := waits[i%len(waits)]; reason != "" {
						w.Waiting = &workspace.Waiting{Reason: reason, Since: ago(time.Minute)}
					}
					e := Explain(now, w, delays, nil)
					if len(e.Next) == 0 || e.Why.Code == "" {
						t.Errorf("nothing to say about %+v: %+v", w, e)
					}
					complete(t, e.Why.Text)
					for _, s := range e.Next {
						complete(t, s.Text)
					}
				}
			}
		}
	}
}

func TestNoTimeIsSaidThatIsNotKnown(t *testing.T) {
	for _, w := range []workspace.Workspace{
		row("RUNNING", "RUNNING"), row("STANDBY", "STANDBY"), row("DELETING", "DELETED"),
		row("STANDBY", "RUNNING", func(w *workspace.Workspace) { w.Operation, w.OpStartedAt = workspace.OpStarting, now }),
		row("ARCHIVED", "RUNNING", func(w *workspace.Workspace) {
			w.Waiting = &workspace.Waiting{Reason: workspace.WaitStoreRefuses, Since: now}
		}),
	} {
		for _, s := range Explain(now, w, Delays{}, nil).Next {
			if !s.At.IsZero() || strings.Contains(s.Text["en"], "UTC") {
				t.Errorf("%s: %+v", w.Phase, s)
			}
		}
	}
}

func TestWhoAskedIsTheNewestRequestOfTheHistory(t *testing.T) {
	others := []store.Transition{
		{Kind: store.KindPhase, New: "STANDBY", Cause: "controller", At: now},
		{Kind: store.KindWaiting, New: "StoreAway", Cause: "controller", At: now},
	}
	older := store.Transition{Kind: store.KindCreated, New: "RUNNING", Cause: "api", UserID: "u0", Username: "zoe", At: ago(time.Hour)}
	for _, c := range []struct {
		t    store.Transition
		says string
	}{
		{store.Transition{Kind: store.KindDesiredState, New: "RUNNING", Cause: "gateway", UserID: "u1", Username: "ann"}, "A start was requested by ann by opening it at 2026-05-06 13:55:00 UTC."},
		{store.Transition{Kind: store.KindDesiredState, New: "STANDBY", Cause: "ttl"}, "Sleep was requested by the system because it had not been used for a while"},
		{store.Transition{Kind: store.KindCreated, New: "RUNNING", Cause: "api", UserID: "u1", Username: "ann"}, "created by ann in the dashboard"},
		{store.Transition{Kind: store.KindDeleted, Cause: "cli"}, "deleted by an administrator on the command line"},
		{store.Transition{Kind: store.KindUndeleted, New: "ARCHIVED", Cause: "api", Username: "ann"}, "deletion was undone by ann"},
		{store.Transition{Kind: store.KindRecovered, New: "archive", Message: "key", Cause: "cli"}, "recovered (archive) by an administrator"},
		{store.Transition{Kind: store.KindDesiredState, New: "STANDBY", Cause: "robot"}, "by the system robot"},
	} {
		c.t.At = ago(5 * time.Minute)
		e := Explain(now, row("STANDBY", "RUNNING"), delays, append(slices.Clone(others), c.t, older))
		if e.Asked == nil || !strings.Contains(e.Asked.Text["en"], c.says) || e.Asked.Code != string(c.t.Kind) || !e.Asked.Since.Equal(c.t.At) ||
			e.Asked.Cause != c.t.Cause || e.Asked.UserID != c.t.UserID || e.Asked.Username != c.t.Username || e.Asked.Detail != c.t.Message {
			t.Errorf("%+v: %+v, want %q", c.t, e.Asked, c.says)
			continue
		}
		complete(t, e.Asked.Text)
	}
	if e := Explain(now, row("STANDBY", "RUNNING"), delays, others); e.Asked != nil {
		t.Errorf("asked by %+v although the history does not go that far back", e.Asked)
	}
}

func TestErrorsAreTheLastOnesWithTheirRemedy(t *testing.T) {
	attempt := func(reason workspace.ErrorReason, minutes int) store.Transition {
		return store.Transition{Kind: store.KindError, New: string(reason), Message: "m" + strconv.Itoa(minutes), At: ago(time.Duration(minutes) * time.Minute)}
	}
	history := []store.Transition{
		attempt("RetryExceeded", 1), attempt("ActionFailed", 2), {Kind: store.KindPhase}, attempt("ActionFailed", 3),
		attempt("Unreachable", 4), attempt("Timeout", 5), attempt("DataLost", 6), attempt("Conflict", 7),
	}
	list := func(fs []Failure) (out []string) {
		for _, f := range fs {
			line := f.Code + " ×" + strconv.Itoa(f.Count) + " " + f.Detail
			if f.Current {
				line += " now"
			}
			out = append(out, line)
		}
		return out
	}
	in := func(reason workspace.ErrorReason) workspace.Workspace {
		return row("ERROR", "RUNNING", func(w *workspace.Workspace) { w.ErrorReason, w.ErrorMessage, w.ErrorCount = reason, "of the row", 3 })
	}
	for _, c := range []struct {
		name    string
		w       workspace.Workspace
		history []store.Transition
		want    []string
	}{
		{"none", row("RUNNING", "RUNNING"), nil, nil},
		{"past ones", row("RUNNING", "RUNNING"), history, []string{"RetryExceeded ×1 m1", "ActionFailed ×2 m2", "Unreachable ×1 m4", "Timeout ×1 m5", "DataLost ×1 m6"}},
		{"the present one", in("RetryExceeded"), history[:3], []string{"RetryExceeded ×1 m1 now", "ActionFailed ×1 m2"}},
		{"the present one is not in the history", in("Conflict"), history, []string{"Conflict ×3 of the row now", "RetryExceeded ×1 m1", "ActionFailed ×2 m2", "Unreachable ×1 m4", "Timeout ×1 m5"}},
		{"the history was trimmed", in("Conflict"), nil, []string{"Conflict ×3 of the row now"}},
		{"a reason of a newer version", in("Melted"), nil, []string{"Melted ×3 of the row now"}},
	} {
		e := Explain(now, c.w, delays, c.history)
		if got := list(e.Errors); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for _, f := range e.Errors {
			complete(t, f.Text)
			complete(t, f.Remedy)
		}
	}
}

// constants returns the constants of package workspace: see [workspacetest.Constants].
func constants(t *testing.T, typeName, prefix string) []string {
	t.Helper()
	return workspacetest.Constants[string](t, "../../workspace", typeName, prefix)
}

// namesBelow returns the sorted names of the texts below a key.
func namesBelow(key string) (names []string) {
	var texts map[string]map[string]any
	if err := json.Unmarshal(words.Section(key), &texts); err != nil {
		panic(err)
	}
	for rest := range texts[words.Default] {
		name, _, _ := strings.Cut(rest, ".")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reasons returns the reasons of errors or of waits that have texts, sorted.
func reasons(about string) []string {
	return slices.DeleteFunc(namesBelow(strings.TrimSuffix(about, ".")), func(s string) bool { return s == "unknown" })
}

func errorReasons() (out []workspace.ErrorReason) {
	for _, reason := range reasons(aboutErrors) {
		out = append(out, workspace.ErrorReason(reason))
	}
	return out
}

func TestEveryReasonPhaseAndOperationHasItsRow(t *testing.T) {
	for name, c := range map[string]struct{ has, want []string }{
		"error reasons":   {reasons(aboutErrors), constants(t, "ErrorReason", "")},
		"waiting reasons": {reasons(aboutWaits), constants(t, "WaitReason", "Wait")},
		"phases":          {namesBelow("explain.phase"), constants(t, "Phase", "")},
		"operations":      {namesBelow("explain.operation"), constants(t, "Operation", "")},
	} {
		if len(c.want) < 5 || !slices.Equal(c.has, c.want) {
			t.Errorf("%s: there are rows for %q, want %q", name, c.has, c.want)
		}
	}
}

func TestEveryTextIsAWholeSentence(t *testing.T) {
	for _, about := range []string{aboutErrors, aboutWaits} {
		for _, reason := range reasons(about) {
			for _, a := range []Advice{advice(about, reason), ownersAdvice(about, reason)} {
				complete(t, a.Meaning)
				complete(t, a.Remedy)
			}
		}
		unknown := advice(about, "OfALaterRelease")
		complete(t, unknown.Meaning)
		complete(t, unknown.Remedy)
	}
	for _, section := range []string{"explain.phase.", "explain.operation.", "explain.busy."} {
		for _, name := range namesBelow(strings.TrimSuffix(section, ".")) {
			complete(t, words.Of(section+name, nil))
		}
	}
}

// The dashboard shows the same words as the command line.
func TestReasonsWithAChoiceNameTheChoicesAndNoFlags(t *testing.T) {
	for _, reason := range []workspace.ErrorReason{"DataLost", "Conflict", "ArchiveCorrupted", "ContainerWithoutVolume"} {
		if text := adviceOnError(reason).Remedy; !strings.Contains(text["en"], "choose") || !strings.Contains(text["ko"], "선택해") {
			t.Errorf("%s: %q names no choice", reason, text)
		}
	}
	for _, about := range []string{aboutErrors, aboutWaits} {
		for _, reason := range reasons(about) {
			for _, text := range advice(about, reason).Remedy {
				if strings.Contains(text, "--") {
					t.Errorf("%q names a flag", text)
				}
			}
		}
	}
	if !KnownError("DataLost") || KnownError("Melted") || KnownError("") {
		t.Error("KnownError does not tell reasons from other words")
	}
}

func TestTheExplanationAsJSON(t *testing.T) {
	w := row("ERROR", "RUNNING", func(w *workspace.Workspace) { w.ErrorReason, w.ErrorMessage = "DataLost", "gone" })
	text, err := json.Marshal(Explain(now, w, delays, []store.Transition{{Kind: store.KindCreated, New: "RUNNING", Cause: "api", Username: "ann", At: now}}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"archive", "asked", "desired_state", "errors", "next", "operation", "phase", "why", "workspace_id"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("fields %q, want %q", names, want)
	}
	failure := got["errors"].([]any)[0].(map[string]any)
	if names := slices.Sorted(maps.Keys(failure)); !slices.Equal(names, []string{"code", "count", "current", "detail", "remedy", "since", "text"}) {
		t.Errorf("a failure has the fields %q", names)
	}
	if why := got["why"].(map[string]any); !reflect.DeepEqual(why["since"], "2026-05-06T13:00:00Z") || why["at"] != nil {
		t.Errorf("why = %v", why)
	}
}
