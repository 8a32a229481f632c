package codehub

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/settings"
)

const referenceFile = "docs/settings.md"

// referenceIntroduction contains a tilde wherever the guide has a backtick.
const referenceIntroduction = `# Settings

Every setting of CodeHub, [all guides](../../README.md#what-next). This file is made from the settings' tables and
the documentation of their fields: ~go test ./caddymodule -run TestSettingsReference -update~.

- Each section is a block of the Caddyfile. All blocks are in the global option ~codehub~, except the last one.
- The environment variable is the one that [Caddyfile.example](../../Caddyfile.example) and ~make run~ read. Your own
  Caddyfile may read any.
- Durations are like ~15s~, ~10m~, ~2h~ or ~1d~; a bare number is seconds. Sizes are like ~512MiB~ or ~20GiB~; Kubernetes' notation, ~20Gi~, means the same.
- On Kubernetes the chart's values have them under the same names, in ~codehub~, ~kubernetes~ and ~gateway~.

The example also reads three variables for Caddy itself: ~CODEHUB_HTTP_PORT~ (default ~8080~) and ~CODEHUB_BIND~
(~127.0.0.1~), where it listens, and ~CODEHUB_ADMIN_ADDRESS~ (~localhost:2019~), its own administration endpoint.
`

// TestSettingsReference compares docs/settings.md with the settings. It takes a setting's text from
// the documentation of its field, the default from its table, and the variable from the example.
func TestSettingsReference(t *testing.T) {
	want := strings.ReplaceAll(referenceIntroduction, "~", "`") + strings.Join(referenceSections(t), "")
	if *updateGolden {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the settings say (%v): go test ./caddymodule -run TestSettingsReference -update",
			referenceFile, err)
	}
	for variable := range exampleVariables(t) {
		if !strings.Contains(want, "`"+variable+"`") {
			t.Errorf("the reference does not have %s, which the example reads", variable)
		}
	}
}

// referenceSections returns the sections, one for each block.
func referenceSections(t *testing.T) []string {
	t.Helper()
	app, api, gateway := new(App), new(API), new(Gateway)
	docs := fieldComments(t)
	fields := make(map[*settings.Value]string) // as keys of docs
	for _, module := range []any{&app.App, api, gateway} {
		valuesOf(reflect.ValueOf(module).Elem(), fields)
	}
	example := exampleOptions(t)
	rows, order := make(map[string][]string), []string{}
	add := func(block, name string, s settings.Setting, variable, doc string) {
		if doc == "" {
			t.Errorf("the field of %q has no documentation", s.Name)
		}
		meaning, def := meaningAndDefault(t, s, doc)
		if variable != "" {
			variable = "`" + variable + "`"
		}
		if rows[block] == nil {
			order = append(order, block)
		}
		meaning = strings.ReplaceAll(strings.ReplaceAll(meaning, "  ", " "), "|", "\\|")
		rows[block] = append(rows[block], fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, variable, def, meaning))
	}
	for _, s := range app.Table(new(settings.Resolved)) {
		block, name, found := strings.Cut(s.Name, " ")
		if !found {
			block, name = "codehub", s.Name
		}
		add(block, name, s, example["app "+s.Name].variable, docs[fields[s.Text]])
	}
	withoutTable := func(block string, kind reflect.Type) {
		for f := range kind.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && !f.Anonymous && name != "name" && name != "proxy" {
				add(block, name, settings.Setting{Name: name}, "", docs[kind.Name()+"."+f.Name])
			}
		}
	}
	withoutTable("images", reflect.TypeFor[settings.Image]())
	withoutTable("directive", reflect.TypeFor[Gateway]())

	shown := withKubernetes(t)
	place := func(block string) int {
		if at := regexp.MustCompile(`(?m)^\t+(# |backend )?` + block + ` \{`).FindStringIndex(shown); at != nil {
			return at[0]
		}
		return len(shown)
	}
	slices.SortStableFunc(order, func(a, b string) int { return place(a) - place(b) })
	var sections []string
	for _, block := range order {
		title, text := "`"+block+"`", docs[kindOfBlock(block)]
		switch block {
		case "codehub":
			text = "These settings are in the global option itself."
		case "kubernetes":
			title = "`backend kubernetes`"
			text += " Use it instead of `docker`; an installation has one backend."
		case "images":
			text = "Each image is a block in `images`, by its name. Users choose among them; " +
				"the first one is the default. Without this block there is one named `default`, " +
				"with the backend's `workspace_image`."
		case "directive":
			title = "The directive `codehub` of a site"
			text = "It also takes the options of Caddy's `reverse_proxy`, and with `codehub_api` the addresses " +
				"`domain`, `main_host` and `workspace_url`, if a site has others than the app."
		}
		sections = append(sections, fmt.Sprintf("\n## %s\n\n%s\n\n"+
			"| setting | environment variable | default | meaning |\n|---|---|---|---|\n%s",
			title, strings.TrimSpace(text), strings.Join(rows[block], "")))
	}
	return sections
}

// kindOfBlock returns the name of the type that holds a block's settings.
func kindOfBlock(block string) string {
	for f := range reflect.TypeFor[settings.App]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == block {
			return f.Type.Name()
		}
	}
	return ""
}

// valuesOf adds the texts of a struct's settings, with the types and names of their fields.
func valuesOf(v reflect.Value, to map[*settings.Value]string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case !f.IsExported():
		case f.Type == reflect.TypeFor[settings.Value]():
			to[v.Field(i).Addr().Interface().(*settings.Value)] = v.Type().Name() + "." + f.Name
		case f.Type.Kind() == reflect.Struct:
			valuesOf(v.Field(i), to)
		}
	}
}

// fieldComments returns the documentation of the modules' types, and of their fields as "Type.Field",
// each on one line and without the name at its beginning.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	docs := make(map[string]string)
	for _, pattern := range []string{"*.go", "internal/settings/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				d, ok := n.(*ast.GenDecl)
				if !ok || d.Tok != token.TYPE {
					return true
				}
				kind := d.Specs[0].(*ast.TypeSpec)
				docs[kind.Name.Name] = sentence(kind.Name.Name, d.Doc.Text())
				if s, ok := kind.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							docs[kind.Name.Name+"."+name.Name] = sentence(name.Name, f.Doc.Text())
						}
					}
				}
				return true
			})
		}
	}
	return docs
}

// sentence turns a comment that begins with a name into a text for users.
func sentence(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		for _, verb := range []string{"is ", "are "} {
			rest = strings.TrimPrefix(rest, verb)
		}
		text = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return text
}

// meaningAndDefault splits the documentation of a setting. The default in the documentation must be the one in the
// settings table.
func meaningAndDefault(t *testing.T, s settings.Setting, doc string) (meaning, def string) {
	t.Helper()
	meaning, def, _ = strings.Cut(doc, "Default: ")
	meaning = strings.TrimSpace(strings.Replace(meaning, "Required.", "", 1))
	// The text after the sentence with the default belongs to the meaning.
	if end := strings.Index(def, ". "); end > 0 {
		meaning, def = meaning+" "+def[end+2:], def[:end]
	}
	def = strings.TrimSuffix(def, ".")
	value := strings.Trim(regexp.MustCompile(`^[^ ,;]*`).FindString(def), "`")
	switch {
	case s.Default == "" && s.Remedy != "" || s.Name == "reference":
		def = "required"
	case s.Default == "":
	case def == "":
		def = "`" + s.Default + "`"
	case !sameValue(value, s.Default):
		t.Errorf("%s: the documentation of the field says that the default is %q; it is %q", s.Name, def, s.Default)
	case value == def:
		def = "`" + value + "`"
	}
	return meaning, def
}
