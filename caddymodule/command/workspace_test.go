package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
)

const exampleID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

// commandInstallation is a database with one user, a bucket and a container engine, and a
// Caddyfile that names them. No process leads.
type commandInstallation struct {
	t         *testing.T
	caddyfile string
	db        *pgx.Conn
	objects   devenv.ObjectStore
	backend   backend.Backend
}

func newCommandInstallation(t *testing.T) *commandInstallation {
	t.Helper()
	in := &commandInstallation{t: t, objects: devenv.S3(t), caddyfile: filepath.Join(t.TempDir(), "Caddyfile")}
	engine, dsn, name := devenv.Docker(t), devenv.PostgreSQL(t), "cli-"+uuid.NewString()[:8]
	runCommand(t, nil, "migrate", "--database", dsn).want(t, 0)
	var err error
	if in.db, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.db.Close(context.Background()) })
	in.exec("INSERT INTO users (username) VALUES ('ann')")
	if in.backend, err = docker.New(docker.Options{Host: engine, Installation: name, Image: "none"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.backend.Close() })
	text := fmt.Sprintf(`{
	codehub {
		database {env.CLI_TEST_DATABASE}
		redis redis://127.0.0.1:1
		installation %s
		docker {
			host %s
		}
		s3 {
			endpoint %s
			bucket %s
			access_key %s
			secret_key %s
		}
	}
}
`, name, engine, in.objects.Endpoint, in.objects.Bucket, in.objects.AccessKey, in.objects.SecretKey)
	t.Setenv("CLI_TEST_DATABASE", dsn)
	if err := os.WriteFile(in.caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *commandInstallation) exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatal(err)
	}
}

// value returns the only value of a query as text.
func (in *commandInstallation) value(sql string, args ...any) (s string) {
	in.t.Helper()
	if err := in.db.QueryRow(in.t.Context(), sql, args...).Scan(&s); err != nil {
		in.t.Fatal(err)
	}
	return s
}

// workspace adds a workspace of ann's, in ERROR if there is a reason.
func (in *commandInstallation) workspace(name string, reason workspace.ErrorReason) workspace.ID {
	in.t.Helper()
	phase := "ARCHIVED"
	if reason != "" {
		phase = "ERROR"
	}
	return workspace.ID(in.value(`INSERT INTO workspaces
		(id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, error_reason, error_message)
		SELECT gen_random_uuid(), id, $1, 'docker', 'docker', 'k', $2, 'ARCHIVED', NULLIF($3, ''), NULLIF($3, '') FROM users RETURNING id::text`,
		name, phase, string(reason)))
}

// archive stores a complete archive of a workspace, and returns its key.
func (in *commandInstallation) archive(id workspace.ID) string {
	in.t.Helper()
	key := id.ArchiveKey(uuid.NewString())
	for _, object := range []string{"archives/" + key, "archives/" + key + ".meta"} {
		_, err := in.objects.Client(in.t).PutObject(in.t.Context(), &s3.PutObjectInput{Bucket: &in.objects.Bucket, Key: &object, Body: strings.NewReader("1234")})
		if err != nil {
			in.t.Fatal(err)
		}
	}
	return key
}

// volume makes the workspace's volume, which exists until the test ends.
func (in *commandInstallation) volume(id workspace.ID) {
	in.t.Helper()
	if err := in.backend.Provision(in.t.Context(), id, "op"); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() {
		if err := in.backend.DeleteVolume(context.Background(), id, "op"); err != nil {
			in.t.Error(err)
		}
	})
}

// run runs a command; answer is what is written to its input.
func (in *commandInstallation) run(answer string, args ...string) outcome {
	in.t.Helper()
	return runCommand(in.t, strings.NewReader(answer), append(args, "--config", in.caddyfile)...)
}

func TestCommandRecoverListsWhatExistsAndTakesAChoice(t *testing.T) {
	in := newCommandInstallation(t)
	id := in.workspace("lost", workspace.ReasonDataLost)
	key := in.archive(id)

	o := in.run("", "workspace", "recover", string(id))
	if o.code != 1 || strings.Count(o.stderr, "Error: ") != 1 {
		t.Errorf("got %+v", o)
	}
	for _, part := range []string{"--from-archive " + key + "\n", "4B", "--empty\n"} {
		if !strings.Contains(o.stdout, part) {
			t.Errorf("the list lacks %q: %s", part, o.stdout)
		}
	}
	if got := in.value("SELECT error_reason FROM workspaces"); got != "DataLost" {
		t.Errorf("the error is %q", got)
	}
	o = in.run("", "workspace", "recover", string(id), "--json")
	var problem struct {
		Type     string
		Archives []struct{ Key string }
		Choices  []struct{ Choice string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &problem); err != nil || o.code != 1 || len(problem.Choices) != 2 || problem.Archives[0].Key != key {
		t.Errorf("%v: got %+v", err, o)
	}

	in.run("", "workspace", "recover", string(id), "--from-archive", key).want(t, 0, "lost is recovered")
	if got := in.value("SELECT recovery ->> 'key' FROM workspaces WHERE error_reason IS NULL"); got != key {
		t.Errorf("the controller is told the key %q", got)
	}
}

// What cannot be undone is asked for, and any answer but yes changes nothing.
func TestCommandRecoverAsksBeforeAVolumeIsGivenUp(t *testing.T) {
	in := newCommandInstallation(t)
	id := in.workspace("conflict", workspace.ReasonConflict)
	key := in.archive(id)
	in.volume(id)

	o := in.run("", "workspace", "recover", string(id))
	for _, part := range []string{"--keep-volume\n", "--from-archive " + key + " --replace-volume\n", "--empty --replace-volume\n"} {
		if o.code != 1 || !strings.Contains(o.stdout, part) {
			t.Errorf("the list lacks %q: %+v", part, o)
		}
	}
	for _, answer := range []string{"", "no\n", "y\n"} {
		o := in.run(answer, "workspace", "recover", string(id), "--from-archive", key, "--replace-volume")
		if o.code != 1 || !strings.Contains(o.stderr, "Volumes that exist are deleted") || !strings.Contains(o.stderr, "nothing was changed") {
			t.Errorf("the answer %q: got %+v", answer, o)
		}
	}
	if o := in.run("", "workspace", "recover", string(id), "--empty", "--yes"); o.code != 1 {
		t.Errorf("a volume was given up without --replace-volume: %+v", o)
	}
	if got := in.value("SELECT error_reason FROM workspaces"); got != "Conflict" {
		t.Fatalf("the error is %q", got)
	}
	if o := in.run("yes\n", "workspace", "recover", string(id), "--from-archive", key, "--replace-volume"); o.code != 0 {
		t.Errorf("got %+v", o)
	}
	if got := in.value("SELECT recovery ->> 'choice' FROM workspaces WHERE error_reason IS NULL"); got != "archive" {
		t.Errorf("the choice is %q", got)
	}
}

func TestCommandRecoverAllThatShareAReason(t *testing.T) {
	in := newCommandInstallation(t)
	back, lost := in.workspace("back", workspace.ReasonDataLost), in.workspace("lost", workspace.ReasonDataLost)
	in.workspace("other", workspace.ReasonTimeout)
	in.volume(back)

	if o := in.run("no\n", "workspace", "recover", "--reason", "DataLost", "--all"); o.code != 1 || in.value("SELECT count(*)::text FROM workspaces WHERE phase = 'ERROR' AND error_reason IS NULL") != "0" {
		t.Errorf("got %+v", o)
	}
	o := in.run("yes\n", "workspace", "recover", "--reason", "DataLost", "--all")
	if o.code != 1 || !strings.Contains(o.stdout, "1 recovered, 1 not.") || !strings.Contains(o.stdout, string(lost)+": ") {
		t.Errorf("got %+v", o)
	}
	if got := in.value("SELECT recovery ->> 'choice' FROM workspaces WHERE error_reason IS NULL"); got != "volume" {
		t.Errorf("the one whose volume is back has the choice %q", got)
	}
	o = in.run("", "workspace", "recover", "--reason", "DataLost", "--all", "--empty", "--yes", "--json")
	if o.code != 0 || !strings.Contains(o.stdout, `"recovered": [`) || !strings.Contains(o.stdout, string(lost)) || !strings.Contains(o.stdout, `"failed": []`) {
		t.Errorf("got %+v", o)
	}
	if got := in.value("SELECT error_reason FROM workspaces WHERE name = 'other'"); got != "Timeout" {
		t.Errorf("another reason was recovered")
	}
}

func TestCommandListsWhatAnAdministratorMayCareFor(t *testing.T) {
	in := newCommandInstallation(t)
	in.run("", "workspace", "list", "--failed").want(t, 0, "No workspace is in ERROR.")
	in.run("", "workspace", "list", "--deleted").want(t, 0, "No deletion can be undone.")
	lost, deleted := string(in.workspace("lost", workspace.ReasonDataLost)), string(in.workspace("old", ""))
	in.run("", "workspace", "delete", deleted, "--yes").want(t, 0)
	in.run("", "workspace", "list", "--failed").want(t, 0, "REASON ", "DataLost ", lost+"  ann    lost\n")
	in.run("", "workspace", "list", "--deleted").want(t, 0, "KEPT UNTIL", deleted+"  old\n")
	for flag, id := range map[string]string{"--failed": lost, "--deleted": deleted} {
		o := in.run("", "workspace", "list", flag, "--json")
		var found []struct {
			ID      string
			Owner   string  `json:"owner_user_id"`
			Reason  *string `json:"error_reason"`
			Deleted *string `json:"deleted_at"`
		}
		if err := json.Unmarshal([]byte(o.stdout), &found); err != nil || o.code != 0 || len(found) != 1 || found[0].ID != id || found[0].Owner == "" ||
			(found[0].Reason != nil) != (id == lost) || (found[0].Deleted != nil) != (id == deleted) {
			t.Errorf("%s: %v: got %+v", flag, err, o)
		}
	}
}

// One that is well needs no recovery, and nothing is claimed to be recovered.
func TestCommandRecoverSaysThatThereIsNoError(t *testing.T) {
	in := newCommandInstallation(t)
	id := string(in.workspace("fine", ""))
	in.run("", "workspace", "recover", id).want(t, 0, "fine is in no error; nothing was changed.")
	in.run("", "workspace", "recover", id, "--empty", "--yes").want(t, 1, "Error: the workspace is in no error; nothing was changed\n")
}

func TestCommandDeletesAndUndeletes(t *testing.T) {
	in := newCommandInstallation(t)
	id := string(in.workspace("one", ""))
	if o := in.run("no\n", "workspace", "delete", id); o.code != 1 || !strings.Contains(o.stderr, `This deletes the workspace "one"`) {
		t.Errorf("got %+v", o)
	}
	in.run("", "workspace", "delete", id, "--yes").want(t, 0, "one is deleted")
	if got := in.value("SELECT desired_state FROM workspaces WHERE deleted_at IS NOT NULL AND NOT delete_now"); got != "DELETED" {
		t.Errorf("the desired state is %s", got)
	}
	in.run("", "workspace", "undelete", id).want(t, 0, "one is back.")
	if got := in.value("SELECT desired_state FROM workspaces WHERE deleted_at IS NULL"); got != "ARCHIVED" {
		t.Errorf("the desired state is %s", got)
	}
	in.run("", "workspace", "delete", id, "--yes").want(t, 0)
	o := in.run("yes\n", "workspace", "delete", id, "--now")
	if o.code != 0 || !strings.Contains(o.stderr, "lost at once and for good") {
		t.Errorf("got %+v", o)
	}
	if got := in.value("SELECT delete_now::text FROM workspaces"); got != "true" {
		t.Errorf("delete_now is %s", got)
	}
	in.exec("UPDATE workspaces SET collected_at = now()")
	in.run("", "workspace", "undelete", id).want(t, 1, "too late")
	in.run("", "workspace", "undelete", uuid.NewString()).want(t, 1, "there is no workspace")
}

func TestCommandShowsExplanationAndHistory(t *testing.T) {
	in := newCommandInstallation(t)
	id := string(in.workspace("one", ""))
	in.run("", "workspace", "delete", id, "--yes").want(t, 0)
	in.run("", "workspace", "undelete", id).want(t, 0)

	o := in.run("", "workspace", "history", id)
	o.want(t, 0, "AT ", "undeleted", "deleted", "cli")
	if undeleted, deleted := strings.Index(o.stdout, "undeleted"), strings.Index(o.stdout, " deleted"); undeleted > deleted {
		t.Errorf("not the newest first: %s", o.stdout)
	}
	o = in.run("", "workspace", "history", id, "--json", "--limit", "1")
	var items []struct {
		Kind, Cause string
		At          time.Time
	}
	if err := json.Unmarshal([]byte(o.stdout), &items); err != nil || len(items) != 1 || items[0].Kind != "undeleted" || items[0].Cause != "cli" || time.Since(items[0].At) > time.Hour {
		t.Errorf("%v: got %+v", err, o)
	}
	in.run("", "workspace", "explain", id).want(t, 0, "ARCHIVED")
	if o := in.run("", "workspace", "explain", id, "--json"); o.code != 0 || !json.Valid([]byte(o.stdout)) {
		t.Errorf("got %+v", o)
	}
}

func TestCommandWorkspaceRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, c := range []struct{ args, problem string }{
		{"", "a command is missing"},
		{"explain", "0 arguments instead of 1"},
		{"history mine", `"mine" is not a workspace id`},
		{"delete " + exampleID + " --database postgres://x", "leave --database out"},
		{"recover", "0 arguments instead of 1: write the ID of a workspace, or --reason REASON --all"},
		{"list", "write --failed or --deleted"},
		{"recover --reason Lost --all", `no workspace is in ERROR for "Lost": write a reason such as DataLost`},
		{"recover mine", `"mine" is not a workspace id`},
		{"recover --all", "--reason and --all belong together"},
		{"recover --reason DataLost", "--reason and --all belong together"},
		{"recover --reason DataLost --all " + exampleID, "leave the ID out"},
		{"recover --reason DataLost --all --from-archive k", "give its ID instead of --all"},
		{"recover " + exampleID + " --empty --keep-volume", "only one of"},
		{"recover " + exampleID + " --replace-volume", "goes with --from-archive or --empty"},
		{"recover " + exampleID + " --keep-volume --replace-volume", "goes with --from-archive or --empty"},
		{"undelete " + exampleID + " --config /nowhere/Caddyfile", "name it with --config"},
	} {
		runCommand(t, nil, append([]string{"workspace"}, strings.Fields(c.args)...)...).want(t, 2, "Error: ", c.problem)
	}
}

// The command as it is, on a real engine, where everything is too young.
func TestCommandOrphansOnARealEngine(t *testing.T) {
	in := newCommandInstallation(t)
	in.volume(in.workspace("one", ""))
	in.run("", "orphans").want(t, 0, "Everything that is older than 15m belongs to a workspace.")
	in.run("", "orphans", "--older-than", "0s").want(t, 0, "Everything that is older than 0s belongs to a workspace.")
	in.volume(workspace.ID(exampleID))
	in.run("", "orphans", "--older-than", "0s").want(t, 0, "ws-"+exampleID+"-home", "no workspace has its id")
	if o := in.run("no\n", "orphans", "--older-than", "0s", "--remove"); o.code != 1 || !strings.Contains(o.stderr, "younger than 15m may be in the making") {
		t.Errorf("got %+v", o)
	}
	if o := in.run("", "orphans", "--older-than", "0s", "--remove", "--yes"); o.code != 0 || !strings.Contains(o.stdout, "1 removed, 0 not.") {
		t.Errorf("got %+v", o)
	}
	if o := in.run("", "orphans", "--json", "--remove"); o.code != 0 || strings.TrimSpace(o.stdout) != "[]" {
		t.Errorf("got %+v", o)
	}
}
