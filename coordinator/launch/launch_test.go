package launch

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

const id = workspace.ID("0123abcd-0000-4000-8000-00000000000a")

var (
	jupyter = Image{Name: "jupyter", Reference: "test/jupyter:1", Port: 8888, KeepPrefix: true,
		Command: []string{"--NotebookApp.base_url=$(CODEHUB_WORKSPACE_BASE_PATH)", "--name=$(CODEHUB_WORKSPACE_NAME)", "$(OTHER)"}}
	catalog = Catalog{{Name: "code", Reference: "test/code:1"}, jupyter}
	byPath  = Site{PublicURL: "https://code.example.com", Domain: "ws.example.com"}
	byHost  = Site{PublicURL: "http://localhost:8080", Domain: "localhost", PerHost: true}
)

func TestSpec(t *testing.T) {
	for _, c := range []struct {
		name, ref         string
		site              Site
		image, basePath   string
		port              int
		env, command, url string
	}{
		{"the default", "", byPath, "test/code:1", "", 0, "/", "", "https://code.example.com/w/" + string(id) + "/"},
		{"by name", "code", byHost, "test/code:1", "", 0, "/", "", "http://ws-" + string(id) + ".localhost:8080/"},
		{"a kept prefix", "jupyter", byPath, "test/jupyter:1", "/w/" + string(id), 8888, "/w/" + string(id) + "/",
			"--NotebookApp.base_url=/w/" + string(id) + "/ --name=My $(CODEHUB_WORKSPACE_ID) $(OTHER)", "https://code.example.com/w/" + string(id) + "/"},
		{"the same on a host of its own", "jupyter", byHost, "test/jupyter:1", "", 8888, "/",
			"--NotebookApp.base_url=/ --name=My $(CODEHUB_WORKSPACE_ID) $(OTHER)", "http://ws-" + string(id) + ".localhost:8080/"},
		{"a reference", "registry.example/a/b:2", byPath, "registry.example/a/b:2", "", 0, "/", "", "https://code.example.com/w/" + string(id) + "/"},
		{"without an address", "", Site{}, "test/code:1", "", 0, "/", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Spec(catalog, c.site, workspace.Workspace{ID: id, Name: "My $(CODEHUB_WORKSPACE_ID)", ImageRef: c.ref})
			if err != nil {
				t.Fatal(err)
			}
			env := []string{EnvID + "=" + string(id), EnvName + "=My $(CODEHUB_WORKSPACE_ID)"}
			if c.url != "" {
				env = append(env, EnvURL+"="+c.url)
			}
			env = append(env, EnvBasePath+"="+c.env)
			if got.ID != id || got.Image != c.image || got.BasePath != c.basePath || got.Port != c.port ||
				strings.Join(got.Command, " ") != c.command || !reflect.DeepEqual(got.Env, env) || got.Hostname != "my-codehub-workspace-id" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestGitURL: the image finds the address of the repository at every start, in its environment and its command.
func TestGitURL(t *testing.T) {
	clones := Catalog{{Name: "code", Reference: "test/code:1", Git: true, Command: []string{"--clone=$(CODEHUB_GIT_URL)"}}}
	for _, address := range []string{"", "https://git.example/$(CODEHUB_WORKSPACE_ID)"} {
		got, err := Spec(clones, byPath, workspace.Workspace{ID: id, Name: "x", GitURL: address})
		if err != nil || got.Command[0] != "--clone="+address || slices.Contains(got.Env, EnvGitURL+"="+address) != (address != "") ||
			strings.Contains(strings.Join(got.Env, " "), EnvGitURL) != (address != "") {
			t.Errorf("%q: %+v, %v", address, got, err)
		}
	}
}

// TestANameThatIsNotConfigured: a name that was removed from the settings is neither replaced by another image nor
// looked up in a public registry.
func TestANameThatIsNotConfigured(t *testing.T) {
	_, err := Spec(catalog, byPath, workspace.Workspace{ID: id, Name: "x", ImageRef: "ubuntu"})
	if workspace.ReasonOf(err) != workspace.ReasonImagePullFailed || !strings.Contains(err.Error(), "code, jupyter") {
		t.Errorf("%v", err)
	}
	if IsReference("ubuntu") || !IsReference("ubuntu:24.04") || !IsReference("team/ubuntu") {
		t.Error("names and references are not told apart")
	}
}

func TestHostname(t *testing.T) {
	for name, want := range map[string]string{
		"My Project":                   "my-project",
		"Café (2)":                     "cafe-2",
		"cs-path":                      "cs-path",
		"--A__b--":                     "a-b",
		"작업실":                          "jakeopsil",
		"한글 프로젝트 1":                    "hangeul-peurojekteu-1",
		"日本語":                          id.ContainerName(),
		"123":                          id.ContainerName(),
		"Localhost":                    id.ContainerName(),
		"🚀":                            id.ContainerName(),
		strings.Repeat("ab", 40):       strings.Repeat("ab", 40)[:63],
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		if got := hostname(workspace.Workspace{ID: id, Name: name}); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestCatalogValidate(t *testing.T) {
	if err := catalog.Validate(); err != nil {
		t.Error(err)
	}
	err := Catalog{{Name: "A B", Reference: "x:1"}, {Name: "a"}, {Name: "a", Reference: "a:b:c", Title: strings.Repeat("한", 61), Icon: "cat", Port: 70000}}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"images A B: ", "images a reference: is missing", "images a: is given twice", `images a reference: "a:b:c" is not an image`, "images a port: 70000",
		"at most 60 characters", `images a icon: "cat" is not an icon: write one of code, notebook, `} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if only := (Catalog)(nil).Default("x:1", 80); !reflect.DeepEqual(only, Catalog{{Name: DefaultName, Reference: "x:1", Port: 80}}) {
		t.Errorf("%+v", only)
	}
}
