package workspaces_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

const exampleID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

func TestCommandRecoverListsWhatExistsAndTakesAChoice(t *testing.T) {
	in := commandtest.NewInstallation(t)
	id := in.Workspace("lost", workspace.ReasonDataLost)
	key := in.Archive(id)

	o := in.Run("", "workspace", "recover", string(id))
	if o.Code != 1 || strings.Count(o.Stderr, "Error: ") != 1 {
		t.Errorf("got %+v", o)
	}
	for _, part := range []string{"--from-archive " + key + "\n", "4B", "--empty\n"} {
		if !strings.Contains(o.Stdout, part) {
			t.Errorf("the list lacks %q: %s", part, o.Stdout)
		}
	}
	if got := in.Value("SELECT error_reason FROM workspaces"); got != "DataLost" {
		t.Errorf("the error is %q", got)
	}
	o = in.Run("", "workspace", "recover", string(id), "--json")
	var problem struct {
		Type     string
		Archives []struct{ Key string }
		Choices  []struct{ Choice string }
	}
	if err := json.Unmarshal([]byte(o.Stdout), &problem); err != nil || o.Code != 1 || len(problem.Choices) != 2 || problem.Archives[0].Key != key {
		t.Errorf("%v: got %+v", err, o)
	}

	in.Run("", "workspace", "recover", string(id), "--from-archive", key).Want(t, 0, "lost is recovered")
	if got := in.Value("SELECT recovery ->> 'key' FROM workspaces WHERE error_reason IS NULL"); got != key {
		t.Errorf("the controller is told the key %q", got)
	}
}

// Irreversible actions need a confirmation, and any answer but yes changes nothing.
func TestCommandRecoverAsksBeforeAVolumeIsGivenUp(t *testing.T) {
	in := commandtest.NewInstallation(t)
	id := in.Workspace("conflict", workspace.ReasonConflict)
	key := in.Archive(id)
	in.Volume(id)

	o := in.Run("", "workspace", "recover", string(id))
	for _, part := range []string{"--keep-volume\n", "--from-archive " + key + " --replace-volume\n", "--empty --replace-volume\n"} {
		if o.Code != 1 || !strings.Contains(o.Stdout, part) {
			t.Errorf("the list lacks %q: %+v", part, o)
		}
	}
	for _, answer := range []string{"", "no\n", "y\n"} {
		o := in.Run(answer, "workspace", "recover", string(id), "--from-archive", key, "--replace-volume")
		if o.Code != 1 || !strings.Contains(o.Stderr, "Volumes that exist are deleted") || !strings.Contains(o.Stderr, "nothing was changed") {
			t.Errorf("the answer %q: got %+v", answer, o)
		}
	}
	if o := in.Run("", "workspace", "recover", string(id), "--empty", "--yes"); o.Code != 1 {
		t.Errorf("a volume was given up without --replace-volume: %+v", o)
	}
	if got := in.Value("SELECT error_reason FROM workspaces"); got != "Conflict" {
		t.Fatalf("the error is %q", got)
	}
	if o := in.Run("yes\n", "workspace", "recover", string(id), "--from-archive", key, "--replace-volume"); o.Code != 0 {
		t.Errorf("got %+v", o)
	}
	if got := in.Value("SELECT recovery ->> 'choice' FROM workspaces WHERE error_reason IS NULL"); got != "archive" {
		t.Errorf("the choice is %q", got)
	}
}

func TestCommandRecoverAllThatShareAReason(t *testing.T) {
	in := commandtest.NewInstallation(t)
	back, lost := in.Workspace("back", workspace.ReasonDataLost), in.Workspace("lost", workspace.ReasonDataLost)
	in.Workspace("other", workspace.ReasonTimeout)
	in.Volume(back)

	if o := in.Run("no\n", "workspace", "recover", "--reason", "DataLost", "--all"); o.Code != 1 || in.Value("SELECT count(*)::text FROM workspaces WHERE phase = 'ERROR' AND error_reason IS NULL") != "0" {
		t.Errorf("got %+v", o)
	}
	o := in.Run("yes\n", "workspace", "recover", "--reason", "DataLost", "--all")
	if o.Code != 1 || !strings.Contains(o.Stdout, "1 recovered, 1 not.") || !strings.Contains(o.Stdout, string(lost)+": ") {
		t.Errorf("got %+v", o)
	}
	if got := in.Value("SELECT recovery ->> 'choice' FROM workspaces WHERE error_reason IS NULL"); got != "volume" {
		t.Errorf("the one whose volume is back has the choice %q", got)
	}
	o = in.Run("", "workspace", "recover", "--reason", "DataLost", "--all", "--empty", "--yes", "--json")
	if o.Code != 0 || !strings.Contains(o.Stdout, `"recovered": [`) || !strings.Contains(o.Stdout, string(lost)) || !strings.Contains(o.Stdout, `"failed": []`) {
		t.Errorf("got %+v", o)
	}
	if got := in.Value("SELECT error_reason FROM workspaces WHERE name = 'other'"); got != "Timeout" {
		t.Errorf("another reason was recovered")
	}
}

func TestCommandListsWhatAnAdministratorMayCareFor(t *testing.T) {
	in := commandtest.NewInstallation(t)
	in.Run("", "workspace", "list", "--failed").Want(t, 0, "No workspace is in ERROR.")
	in.Run("", "workspace", "list", "--deleted").Want(t, 0, "No deletion can be undone.")
	lost, deleted := string(in.Workspace("lost", workspace.ReasonDataLost)), string(in.Workspace("old", ""))
	in.Run("", "workspace", "delete", deleted, "--yes").Want(t, 0)
	in.Run("", "workspace", "list", "--failed").Want(t, 0, "REASON ", "DataLost ", lost+"  ann    lost\n")
	in.Run("", "workspace", "list", "--deleted").Want(t, 0, "KEPT UNTIL", deleted+"  ann    old\n")
	in.Run("", "workspace", "list").Want(t, 0, "STATE", lost+"  ann    lost\n")
	in.Run("", "workspace", "list", "--owner", "ann", "--phase", "error", "-q", "LO").Want(t, 0, lost)
	in.Run("", "workspace", "list", "--phase", "RUNNING").Want(t, 0, "There is no such workspace.")
	in.Run("", "workspace", "list", "--sort", "size").Want(t, 1, "sort must be")
	for flag, id := range map[string]string{"--failed": lost, "--deleted": deleted} {
		o := in.Run("", "workspace", "list", flag, "--json")
		var found []struct {
			ID      string
			Owner   string  `json:"owner_user_id"`
			Reason  *string `json:"error_reason"`
			Deleted *string `json:"deleted_at"`
		}
		if err := json.Unmarshal([]byte(o.Stdout), &found); err != nil || o.Code != 0 || len(found) != 1 || found[0].ID != id || found[0].Owner == "" ||
			(found[0].Reason != nil) != (id == lost) || (found[0].Deleted != nil) != (id == deleted) {
			t.Errorf("%s: %v: got %+v", flag, err, o)
		}
	}
}

// A workspace without an error needs no recovery, and none is reported.
func TestCommandRecoverSaysThatThereIsNoError(t *testing.T) {
	in := commandtest.NewInstallation(t)
	id := string(in.Workspace("fine", ""))
	in.Run("", "workspace", "recover", id).Want(t, 0, "fine is in no error; nothing was changed.")
	in.Run("", "workspace", "recover", id, "--empty", "--yes").Want(t, 1, "Error: the workspace is in no error; nothing was changed\n")
}

func TestCommandDeletesAndUndeletes(t *testing.T) {
	in := commandtest.NewInstallation(t)
	id := string(in.Workspace("one", ""))
	if o := in.Run("no\n", "workspace", "delete", id); o.Code != 1 || !strings.Contains(o.Stderr, `This deletes the workspace "one"`) {
		t.Errorf("got %+v", o)
	}
	in.Run("", "workspace", "delete", id, "--yes").Want(t, 0, "one is deleted")
	if got := in.Value("SELECT desired_state FROM workspaces WHERE deleted_at IS NOT NULL AND NOT delete_now"); got != "DELETED" {
		t.Errorf("the desired state is %s", got)
	}
	in.Run("", "workspace", "undelete", id).Want(t, 0, "one is back.")
	if got := in.Value("SELECT desired_state FROM workspaces WHERE deleted_at IS NULL"); got != "ARCHIVED" {
		t.Errorf("the desired state is %s", got)
	}
	in.Run("", "workspace", "delete", id, "--yes").Want(t, 0)
	o := in.Run("yes\n", "workspace", "delete", id, "--now")
	if o.Code != 0 || !strings.Contains(o.Stderr, "lost at once and for good") {
		t.Errorf("got %+v", o)
	}
	if got := in.Value("SELECT delete_now::text FROM workspaces"); got != "true" {
		t.Errorf("delete_now is %s", got)
	}
	in.Exec("UPDATE workspaces SET collected_at = now()")
	in.Run("", "workspace", "undelete", id).Want(t, 1, "too late")
	in.Run("", "workspace", "undelete", uuid.NewString()).Want(t, 1, "there is no workspace")
}

func TestCommandShowsExplanationAndHistory(t *testing.T) {
	in := commandtest.NewInstallation(t)
	id := string(in.Workspace("one", ""))
	in.Run("", "workspace", "delete", id, "--yes").Want(t, 0)
	in.Run("", "workspace", "undelete", id).Want(t, 0)

	o := in.Run("", "workspace", "history", id)
	o.Want(t, 0, "AT ", "undeleted", "deleted", "cli")
	if undeleted, deleted := strings.Index(o.Stdout, "undeleted"), strings.Index(o.Stdout, " deleted"); undeleted > deleted {
		t.Errorf("not the newest first: %s", o.Stdout)
	}
	o = in.Run("", "workspace", "history", id, "--json", "--limit", "1")
	var items []struct {
		Kind, Cause string
		At          time.Time
	}
	if err := json.Unmarshal([]byte(o.Stdout), &items); err != nil || len(items) != 1 || items[0].Kind != "undeleted" || items[0].Cause != "cli" || time.Since(items[0].At) > time.Hour {
		t.Errorf("%v: got %+v", err, o)
	}
	in.Run("", "workspace", "explain", id).Want(t, 0, "ARCHIVED")
	if o := in.Run("", "workspace", "explain", id, "--json"); o.Code != 0 || !json.Valid([]byte(o.Stdout)) {
		t.Errorf("got %+v", o)
	}
}

// The reason of a wait is shown with its remedy, as in the dashboard.
func TestCommandExplainsWhatHelpsAgainstAWait(t *testing.T) {
	for _, waiting := range []struct{ value, remedy string }{
		{`{"reason": "NotAnswering", "port": 8080, "ports": [8888], "since": "2026-11-21T10:00:00Z"}`, "8080"},
		{`{"reason": "PullingImage", "cause": "rate_limit", "since": "2026-11-21T10:00:00Z"}`, "choose another image"},
	} {
		in := commandtest.NewInstallation(t)
		id := string(in.Workspace("one", ""))
		in.Exec("UPDATE workspaces SET waiting = '" + waiting.value + "'")
		o := in.Run("", "workspace", "explain", id)
		o.Want(t, 0, "waits ")
		if _, remedy, said := strings.Cut(o.Stdout, "\nremedy "); !said || !strings.Contains(remedy, waiting.remedy) {
			t.Errorf("%s: got no remedy with %q: %s", waiting.value, waiting.remedy, o.Stdout)
		}
	}
}

func TestCommandWorkspaceRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, c := range []struct{ args, problem string }{
		{"", "a command is missing"},
		{"explain", "0 arguments instead of 1"},
		{"history mine --config Caddyfile", `"mine" is not a workspace id`},
		{"delete " + exampleID + " --database postgres://x", "leave --database out"},
		{"recover", "0 arguments instead of 1: write the ID of a workspace, or --reason REASON --all"},
		{"list --failed --deleted", "write only one of"},
		{"list --failed --phase RUNNING", "write only one of"},
		{"list all", "1 argument instead of 0"},
		{"recover --reason Lost --all", `no workspace is in ERROR for "Lost": write a reason such as DataLost`},
		{"recover mine --config Caddyfile", `"mine" is not a workspace id`},
		{"recover --all", "--reason and --all belong together"},
		{"recover --reason DataLost", "--reason and --all belong together"},
		{"recover --reason DataLost --all " + exampleID, "leave the ID out"},
		{"recover --reason DataLost --all --from-archive k", "give its ID instead of --all"},
		{"recover " + exampleID + " --empty --keep-volume", "only one of"},
		{"recover " + exampleID + " --replace-volume", "goes with --from-archive or --empty"},
		{"recover " + exampleID + " --keep-volume --replace-volume", "goes with --from-archive or --empty"},
		{"undelete " + exampleID + " --config /nowhere/Caddyfile", "name it with --config"},
	} {
		commandtest.Run(t, nil, append([]string{"workspace"}, strings.Fields(c.args)...)...).Want(t, 2, "Error: ", c.problem)
	}
}
