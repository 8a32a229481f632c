package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestImages covers images for users and administrators. The administrator configures images while the program runs. A
// user chooses an image in the dashboard and works in it. If a workspace cannot start, its user chooses another image.
func TestImages(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_WORKSPACE_URL=path", "CODEHUB_PUBLIC_URL=http://code.example.com")
	admin, ann := in.admin(t), in.addUser(t, "ann")
	before := ann.create(t, "before").ID
	ann.awaitPhase(t, before, "RUNNING")

	in.reloadWith(t, `images {
		terminal {
			reference {env.CODEHUB_WORKSPACE_IMAGE}
			description "A small terminal"
		}
		notebook {
			reference `+devenv.TerminalImage(t)+`
			description "Serves below its path, like Jupyter"
			port 9090
			keep_prefix
			git
			command --bind-addr=0.0.0.0:9090 --base-path=$(CODEHUB_WORKSPACE_BASE_PATH)
		}
	}`)
	if w := ann.workspace(t, before); w.Phase != "RUNNING" {
		t.Fatalf("the reload has stopped it: %+v", w)
	}
	for ref, status := range map[string]int{"127.0.0.1:22/x:1": http.StatusBadRequest, "ubuntu": http.StatusBadRequest} {
		ann.call(t, "POST", "/api/v1/workspaces", map[string]string{"name": "free", "image_ref": ref}, status, nil)
	}

	b := openTab(t)
	b.do("opening it", chromedp.EmulateViewport(390, 844), chromedp.Navigate(in.url("/")))
	b.signIn("ann", userPassword)
	b.click("a new one", `#new`)
	b.says(`#create-image`, "terminal (default)", "terminal (기본)")
	b.says(`#create-image [data-image=default]`, "A small terminal", "A small terminal")
	b.click("choosing an image", `#create-image [data-image=notebook] input`)
	b.says(`#create-image [data-image]:has(:checked)`, "like Jupyter", "like Jupyter")
	b.fill("a name", `#create-name`, "작업 Notes")
	const repository = "https://git.example/$(HOME)/notes.git"
	b.fill("a repository", `#create-git`, repository)
	b.click("creating it", `#create`)
	b.do("it runs", chromedp.WaitVisible(chromedp.CSS(`article[data-name="작업 Notes"][data-phase=RUNNING]`)))
	id := read(b, "its id", chromedp.Evaluate[string](`document.querySelector('article[data-name="작업 Notes"]').dataset.workspace`))
	base := in.url("/w/" + id + "/")
	wait.For(t, "it serves below its path", func() error { return ann.showsTerminal(t, base) })
	told := ann.run(t, base, `echo "$CODEHUB_WORKSPACE_ID|$CODEHUB_WORKSPACE_NAME|$CODEHUB_WORKSPACE_URL|$CODEHUB_WORKSPACE_BASE_PATH|$(hostname)|$CODEHUB_GIT_URL"`)
	if want := id + "|작업 Notes|http://code.example.com/w/" + id + "/|/w/" + id + "/|jakeop-notes.ws-" + id[:8] + "|" + repository; told != want {
		t.Errorf("it is told %q, want %q", told, want)
	}

	// An image that cannot be pulled for now, because the registry is overloaded. Its owner is told so, and tries
	// again.
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer registry.Close()
	image := registry.Listener.Addr().String() + "/nothing:1"
	ann.setDesiredState(t, before, "STANDBY")
	ann.awaitPhase(t, before, "STANDBY")
	admin.call(t, "PATCH", "/api/v1/workspaces/"+before, map[string]string{"image_ref": image}, http.StatusOK, nil)
	ann.setDesiredState(t, before, "RUNNING")
	card := `article[data-name="before"]`
	b.do("it waits", chromedp.WaitVisible(chromedp.CSS(card+`[data-phase=STANDBY] [data-action=retry]`)))
	b.says(card+` .waiting`, "failed with an error of its own", "레지스트리 자체에서 오류")
	if text := read(b, "the card", chromedp.Evaluate[string](`document.querySelector('article[data-name="before"]').innerText`)); strings.Contains(text, "127.0.0.1") {
		t.Errorf("the owner is told %q", text)
	}
	// If the registry does not have an image, the workspace gets into ERROR. Its owner can try again in this case, too.
	status.Store(http.StatusNotFound)
	b.click("trying again", card+` [data-action=retry]`)
	if w := ann.awaitPhase(t, before, "ERROR"); w.ErrorReason != "ImagePullFailed" || strings.Contains(w.ErrorMessage, "127.0.0.1") {
		t.Fatalf("the owner is told %+v", w)
	}
	if w := admin.workspace(t, before); !strings.Contains(w.ErrorMessage, image) {
		t.Errorf("an administrator is told %+v", w)
	}
	b.says(card+` .failure`, "Choose another image", "다른 이미지를 고르")
	status.Store(http.StatusServiceUnavailable)
	b.click("trying again", card+` [data-action=retry]`)
	b.do("it waits again", chromedp.WaitVisible(chromedp.CSS(card+`[data-phase=STANDBY] .waiting`)))
	status.Store(http.StatusNotFound)
	b.click("trying again", card+` [data-action=retry]`)
	ann.awaitPhase(t, before, "ERROR")
	b.click("edit", card+` [data-action=edit]`)
	b.do("the dialog", chromedp.WaitVisible(chromedp.CSS(`#edit[open] .cards`)))
	b.says(`#edit-note`, "tries to start again", "다시 시작해")
	b.click("choosing an image", `#edit-image [data-image=default] input`)
	b.fill("another name", `#edit-name`, "before and after")
	b.click("save", `#edit[open] button[value=ok]`)
	b.do("it runs again", chromedp.WaitVisible(chromedp.CSS(`article[data-name="before and after"][data-phase=RUNNING]`)))
	wait.For(t, "it serves", func() error { return ann.showsTerminal(t, in.url("/w/"+before+"/")) })
}

// reloadWith adds a block to the global option of the configuration, while the program
// runs.
func (in *installation) reloadWith(t *testing.T, block string) {
	t.Helper()
	config, err := os.ReadFile(in.config)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "\tcodehub {\n\t\t# PostgreSQL"
	if !strings.Contains(string(config), begin) {
		t.Fatal("the configuration begins in another way")
	}
	in.config = filepath.Join(t.TempDir(), "Caddyfile")
	with := strings.Replace(string(config), begin, "\tcodehub {\n"+block+"\n\t\t# PostgreSQL", 1)
	if err := os.WriteFile(in.config, []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	reload := exec.Command(caddyProgram(t), "reload", "--config", in.config, "--adapter", "caddyfile", "--address", "unix/"+in.adminSocket)
	reload.Env = in.env
	if out, err := reload.CombinedOutput(); err != nil {
		t.Fatalf("reloading: %v\n%s", err, out)
	}
}
