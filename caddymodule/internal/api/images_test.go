package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/workspace"
)

// withImages configures two images, and a limit of three workspaces per user.
func withImages(o *api.Options) {
	o.Service.(*service.Service).SetImages(launch.Catalog{
		{Name: "code", Reference: "internal.example:5000/code:1", Title: "VS Code", Description: "An editor", Icon: "code", Git: true},
		{Name: "jupyter", Reference: "internal.example:5000/jupyter:7", Description: "Notebooks"},
	})
	o.Service.(*service.Service).SetLimits(service.Limits{PerUser: 100, Workspaces: 3})
}

func TestImagesAreListedAndChosenByName(t *testing.T) {
	in, _ := newContainers(t, withImages)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	got := ann.Do("GET", "/api/v1/images", nil).Object(t)
	if fmt.Sprint(got) != "map[any_reference:false items:[map[default:true description:An editor git:true icon:code name:code size_bytes:1.5e+09 title:VS Code] "+
		"map[default:false description:Notebooks git:false icon:<nil> name:jupyter size_bytes:<nil> title:<nil>]]]" {
		t.Errorf("a user gets %v", got)
	}
	if got := admin.Do("GET", "/api/v1/images", nil); !strings.Contains(string(got.Text), "internal.example:5000/jupyter:7") || got.Object(t)["any_reference"] != true {
		t.Errorf("an administrator gets %s", got.Text)
	}
	in.anyone().Do("GET", "/api/v1/images", nil).Problem(t, 401, "not-signed-in")

	w := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one", "image_ref": "jupyter"}).Object(t)
	if w["image_ref"] != "jupyter" {
		t.Errorf("created %v", w)
	}
	free := map[string]any{"name": "x", "image_ref": "10.0.0.5:22/x"}
	p := ann.Do("POST", "/api/v1/workspaces", free).Problem(t, 400, "invalid-field")
	if p["field"] != "image_ref" || fmt.Sprint(p["names"]) != "[code jupyter]" || !strings.Contains(p["detail"].(string), "code, jupyter") {
		t.Errorf("got %v", p)
	}
	ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"image_ref": "10.0.0.5:22/x"}).Problem(t, 400, "invalid-field")
	if got := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"name": "two", "image_ref": nil}).Object(t); got["image_ref"] != nil || got["name"] != "two" {
		t.Errorf("the default: %v", got)
	}
	if got := admin.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"image_ref": "10.0.0.5:22/x"}); got.StatusCode != 200 {
		t.Errorf("an administrator: %s", got.Text)
	}
}

// TestARepositoryToBeginWith: a new workspace can get the address of a repository if its image clones repositories. The
// address cannot be changed later.
func TestARepositoryToBeginWith(t *testing.T) {
	in := newHarness(t, withImages)
	ann := in.signedIn("ann")
	const address = "ssh://git@git.example/team/project.git"
	w := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one", "git_url": " " + address}).Object(t)
	path := apitest.WorkspacePath(w)
	if got := ann.Do("GET", path, nil).Object(t); w["git_url"] != address || got["git_url"] != address {
		t.Errorf("created %v, read %v", w["git_url"], got["git_url"])
	}
	if p := ann.Do("PATCH", path, map[string]any{"git_url": address}).Problem(t, 400, "invalid-field"); p["field"] != "git_url" {
		t.Errorf("a change: %v", p)
	}
	for given, image := range map[string]string{address: "jupyter", "https://ann:secret@git.example/a": "code", "file:///etc": "code"} {
		p := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "x", "image_ref": image, "git_url": given}).Problem(t, 400, "invalid-field")
		if text := fmt.Sprint(p); p["field"] != "git_url" || strings.Contains(text, "secret") {
			t.Errorf("%s: %v", given, p)
		}
	}
	if w := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "x", "image_ref": "jupyter", "git_url": nil}).Object(t); w["git_url"] != nil {
		t.Errorf("without one: %v", w["git_url"])
	}
	// The user may choose another image that does not clone repositories. The address stays.
	if got := ann.Do("PATCH", path, map[string]any{"image_ref": "jupyter"}).Object(t); got["git_url"] != address {
		t.Errorf("after another image: %v", got["git_url"])
	}
}

func TestTheOwnerMendsAWrongImage(t *testing.T) {
	in := newHarness(t, withImages)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	w := ann.Create("one")
	in.fail(w, workspace.ReasonImagePullFailed)
	in.exec("UPDATE workspaces SET error_message = 'dial tcp 10.0.0.5:22: connection refused' WHERE id = $1", w["id"])
	for _, path := range []string{apitest.WorkspacePath(w), apitest.WorkspacePath(w) + "/explain", apitest.WorkspacePath(w) + "/history", "/api/v1/workspaces"} {
		if got := ann.Do("GET", path, nil); strings.Contains(string(got.Text), "10.0.0.5") {
			t.Errorf("%s tells the owner what the engine said: %s", path, got.Text)
		}
	}
	got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t)
	if got["error_message"] != "Its image could not be pulled. Choose another image, or start the workspace again to try once more. If this lasts, tell an administrator." || got["error_help"].(map[string]any)["ko"] == "" {
		t.Errorf("the owner is told %v", got)
	}
	if got := admin.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["error_message"] != "dial tcp 10.0.0.5:22: connection refused" {
		t.Errorf("an administrator is told %v", got)
	}
	got = ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"image_ref": "code"}).Object(t)
	if got["error_reason"] != nil || got["desired_state"] != "RUNNING" || in.recovery(w).Choice != workspace.RecoverRetry {
		t.Errorf("after another image: %v", got)
	}
}

func TestTheNumberOfWorkspacesNamesItself(t *testing.T) {
	in := newHarness(t, withImages)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	ann.Do("DELETE", apitest.WorkspacePath(w), nil)
	for range 3 {
		ann.Create("more")
	}
	if got := ann.Do("GET", "/api/v1/limits", nil).Object(t); got["max_running_per_user"] != 100.0 || got["max_workspaces_per_user"] != 3.0 {
		t.Errorf("the limits are %v", got)
	}
	for _, refused := range []apitest.Reply{
		ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "x"}), ann.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil),
	} {
		if p := refused.Problem(t, 429, "too-many-workspaces"); p["limit"] != 3.0 || !strings.Contains(p["detail"].(string), "at most 3") {
			t.Errorf("got %v", p)
		}
	}
}
