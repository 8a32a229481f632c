package openapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

var update = flag.Bool("update", false, "write openapi.json")

// TestTheDocumentIsOfThisSource compares openapi.json with the document made from the table and the
// types.
func TestTheDocumentIsOfThisSource(t *testing.T) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(out.Bytes(), openapi.JSON) {
		t.Error("openapi.json is not what the source says: run go test ./caddymodule/internal/api/openapi -update, and look at the difference")
	}
}

// newProblem matches the definition of a type of problem in the source of package problem.
var newProblem = regexp.MustCompile(`= New\("([a-z-]+)", http\.Status([A-Za-z]+)\)`)

// kinds returns the types of problems of the API, read from the source so that none can be forgotten.
func kinds(t *testing.T) (all []problem.Problem) {
	t.Helper()
	source, err := os.ReadFile("../../problem/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{} // by the name of their constant
	for status := 400; status < 600; status++ {
		statuses[strings.ReplaceAll(http.StatusText(status), " ", "")] = status
	}
	for _, m := range newProblem.FindAllStringSubmatch(string(source), -1) {
		all = append(all, problem.New(m[1], statuses[m[2]]))
	}
	if len(all) < 20 {
		t.Fatalf("%d types of problems were found: is this test still reading the source?", len(all))
	}
	slices.SortFunc(all, func(a, b problem.Problem) int { return strings.Compare(a.Type, b.Type) })
	return all
}

// generator makes the schemas of the document.
type generator struct {
	t        *testing.T
	schemas  object
	refusals object // the answers with a problem, by name
	kinds    map[string]problem.Problem
	comments map[string]string // by "package.Type" and "package.Type.Field"
	enums    map[reflect.Type][]string
}

func document(t *testing.T) object {
	g := &generator{t: t, schemas: object{}, refusals: object{}, kinds: map[string]problem.Problem{}, comments: map[string]string{}, enums: map[reflect.Type][]string{}}
	for _, dir := range []string{"../v1", "../../problem", "../../../../coordinator/dataplane/explain", "../../../../coordinator/workspace", "."} {
		g.read(dir)
	}
	const rows = "../../../../coordinator/workspace"
	g.enums[reflect.TypeFor[workspace.Phase]()] = workspacetest.Constants[string](t, rows, "Phase", "")
	g.enums[reflect.TypeFor[workspace.Operation]()] = workspacetest.Constants[string](t, rows, "Operation", "")
	g.enums[reflect.TypeFor[workspace.DesiredState]()] = workspacetest.Constants[string](t, rows, "DesiredState", "")
	g.enums[reflect.TypeFor[store.TransitionKind]()] = workspacetest.Constants[string](t, "../../../../coordinator/store", "TransitionKind", "")
	for _, a := range audit.Actions() {
		g.enums[reflect.TypeFor[audit.Action]()] = append(g.enums[reflect.TypeFor[audit.Action]()], string(a))
	}
	g.enums[reflect.TypeFor[audit.Kind]()] = workspacetest.Constants[string](t, "../../../../coordinator/audit", "Kind", "")
	for _, through := range []audit.Through{audit.CommandLine, audit.Page, audit.Token} { // the others are not in the audit
		g.enums[reflect.TypeFor[audit.Through]()] = append(g.enums[reflect.TypeFor[audit.Through]()], string(through))
	}
	g.enums[reflect.TypeFor[auth.Scope]()] = strings.Fields(strings.Trim(fmt.Sprint(auth.Scopes()), "[]"))

	g.schema(reflect.TypeFor[problem.Problem]())
	problems := []object{}
	for _, p := range kinds(t) {
		g.kinds[strings.TrimPrefix(p.Type, "urn:codehub:problem:")] = p
		problems = append(problems, object{"type": p.Type, "title": p.Title, "status": p.Status})
	}
	g.schemas["WorkspaceOfAnyone"] = g.structure(reflect.TypeFor[v1.OwnedWorkspace]())
	paths := object{}
	described := map[string]operation{}
	for _, o := range operations {
		described[o.id] = o
	}
	for _, route := range api.Routes() {
		o, ok := described[route.Operation]
		if delete(described, route.Operation); !ok {
			t.Errorf("%s: operations_test.go does not describe %q", route.Pattern, route.Operation)
		}
		o.Route = route
		method, path := o.methodAndPath()
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = g.operation(o)
	}
	for id := range described {
		t.Errorf("no route has the operation %q", id)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "CodeHub Gateway", "version": "1",
			"description": "Workspaces in the browser, for programs. Errors are application/problem+json; a problem's type never changes. Answers can get further fields. " +
				"The body of a request is one JSON object in UTF-8, in which no field is there twice and every surrogate has its pair.",
			"contact": object{"name": "CodeHub Gateway", "url": "https://github.com/codehub/gateway"},
			"license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "/api/v1"}},
		"security": []object{{"token": []string{}}, {"session": []string{}}},
		"tags":     tags,
		"paths":    paths,
		"components": object{
			"schemas":   g.schemas,
			"responses": g.refusals,
			"securitySchemes": object{
				"token":   object{"type": "http", "scheme": "bearer", "description": "A personal access token."},
				"session": object{"type": "apiKey", "in": "cookie", "name": "session", "description": "The cookie of a sign-in."},
			},
		},
		"x-problems": problems,
	}
}

var pathParam = regexp.MustCompile(`\{([a-z]+)\}`)

func (g *generator) operation(o operation) object {
	method, path := o.methodAndPath()
	params := []object{}
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		schema := object{"type": "string"}
		if strings.HasPrefix(path, "/workspaces/") {
			schema["format"] = "uuid"
		}
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": schema})
	}
	if method != http.MethodGet && strings.HasPrefix(path, "/workspaces/{id}") {
		o.params = append(slices.Clone(o.params), ifMatch)
	}
	for _, p := range o.params {
		params = append(params, object{"name": p.name, "in": p.in, "description": p.about, "schema": p.schema})
	}
	answer := object{"description": http.StatusText(o.status)}
	if o.answer != nil {
		media := o.media
		if media == "" {
			media = "application/json"
		}
		content := object{media: object{"schema": g.answer(o)}}
		if o.lines {
			content["application/x-ndjson"] = object{"schema": text}
		}
		answer["content"] = content
	}
	if o.status == http.StatusCreated || o.answer != nil && reflect.TypeOf(o.answer) == reflect.TypeFor[v1.Workspace]() {
		headers := object{"ETag": object{"description": "The revision, for If-Match.", "schema": text}}
		if _, workspace := o.answer.(v1.Workspace); !workspace {
			headers = object{}
		}
		if o.status == http.StatusCreated {
			headers["Location"] = object{"description": "Where it can be read.", "schema": text}
		}
		answer["headers"] = headers
	}
	responses := object{
		fmt.Sprint(o.status): answer,
		"default":            g.anyProblem(),
	}
	if o.also != 0 {
		other := maps.Clone(answer)
		other["description"] = http.StatusText(o.also)
		responses[fmt.Sprint(o.also)] = other
	}
	if o.id == "signOut" {
		responses["204"] = object{"description": "No Content"}
	}
	if o.id == "getDescription" {
		responses["304"] = object{"description": "Not Modified"}
	}
	byStatus := map[int][]string{}
	for _, slug := range append(o.common(), o.problems...) {
		status := g.problem(slug).Status
		byStatus[status] = append(byStatus[status], slug)
	}
	for status, slugs := range byStatus {
		responses[fmt.Sprint(status)] = g.refusal(slugs)
	}
	out := object{
		"operationId": o.id, "tags": []string{o.tag}, "summary": o.summary, "parameters": params, "responses": responses,
		"x-scope": string(o.Scope),
	}
	if o.about != "" {
		out["description"] = o.about
	}
	if o.body != nil {
		out["requestBody"] = object{"required": !o.optional, "content": object{"application/json": object{"schema": o.body}}}
	}
	if o.Open() {
		out["security"] = []object{}
	}
	return out
}

// answer is the schema of an answer. If an operation lists workspaces, the answer may contain the workspaces of all
// users.
func (g *generator) answer(o operation) object {
	if o.id == "getDescription" {
		return object{"type": "object", "additionalProperties": true}
	}
	s := g.schema(reflect.TypeOf(o.answer))
	if o.id == "listWorkspaces" {
		items := s["properties"].(object)["items"].(object)
		items["items"] = object{"anyOf": []object{items["items"].(object), {"$ref": "#/components/schemas/WorkspaceOfAnyone"}}}
	}
	return s
}

func (g *generator) problem(slug string) problem.Problem {
	p, ok := g.kinds[slug]
	if !ok {
		g.t.Fatalf("there is no problem %q", slug)
	}
	return p
}

// refusal returns the description of an answer with one of these problems.
func (g *generator) refusal(slugs []string) object {
	var names, titles []string
	for _, slug := range slugs {
		name := ""
		for word := range strings.SplitSeq(slug, "-") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		names, titles = append(names, name), append(titles, slug+" ("+g.problem(slug).Title+")")
	}
	return g.answered(strings.Join(names, "Or"), strings.Join(titles, ", "))
}

// anyProblem returns the description of an answer with a problem that every operation can cause.
func (g *generator) anyProblem() object {
	return g.answered("Error", "An error: the type of the problem says which.")
}

func (g *generator) answered(name, about string) object {
	g.refusals[name] = object{"description": about, "content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}}
	return object{"$ref": "#/components/responses/" + name}
}

// schema returns the schema of a type's JSON. Structs become components, and generic ones are written
// out.
func (g *generator) schema(t reflect.Type) object {
	if values := g.enums[t]; values != nil {
		return object{"type": "string", "enum": values}
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[words.Text]():
		return object{"type": "object", "additionalProperties": object{"type": "string"}, "description": "By the code of the language."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := g.schema(t.Elem())
		if s["$ref"] != nil {
			return object{"anyOf": []object{s, {"type": "null"}}}
		}
		if values, ok := s["enum"].([]string); ok {
			return object{"type": []string{"string", "null"}, "enum": append(slices.Collect(anys(values)), nil)}
		}
		return nullable(s)
	case reflect.Struct:
		if strings.Contains(t.Name(), "[") {
			return g.structure(t)
		}
		if g.schemas[t.Name()] == nil {
			g.schemas[t.Name()] = object{} // it may refer to itself
			g.schemas[t.Name()] = g.structure(t)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	case reflect.Slice:
		return object{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Interface:
		return object{}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	g.t.Fatalf("no schema for %s", t)
	return nil
}

func anys(values []string) func(func(any) bool) {
	return func(yield func(any) bool) {
		for _, v := range values {
			if !yield(v) {
				return
			}
		}
	}
}

// structure returns the schema of an object with the fields of a struct, including the fields of embedded structs.
func (g *generator) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag, given := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !given || name == "-" || f.Anonymous {
			continue
		}
		s := g.schema(f.Type)
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
			if owner.Kind() == reflect.Pointer {
				owner = owner.Elem()
			}
		}
		if about := g.comments[owner.PkgPath()+"."+owner.Name()+"."+f.Name]; about != "" {
			if s["$ref"] != nil { // a description beside it is allowed in 3.1
				s = maps.Clone(s)
			}
			s["description"] = about
		}
		properties[name] = s
		embedded := len(f.Index) > 1 && t.Field(f.Index[0]).Type.Kind() == reflect.Pointer
		if !strings.Contains(options, "omit") && !embedded {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = sorted(required)
	}
	if about := g.comments[t.PkgPath()+"."+t.Name()]; about != "" {
		s["description"] = about
	}
	return s
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// spec matches a reference to the specification. Such references are removed, because readers of the document do not
// have the specification.
var spec = regexp.MustCompile(` \((SPEC|RFC) [^)]*\)`)

// read reads the comments of the types of a package.
func (g *generator) read(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		g.t.Fatal(err)
	}
	root, err := filepath.Abs("../../../..")
	if err != nil {
		g.t.Fatal(err)
	}
	at, err := filepath.Abs(dir)
	if err != nil {
		g.t.Fatal(err)
	}
	pkg := strings.Replace(at, root, "github.com/codehub/gateway", 1)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			g.t.Fatal(err)
		}
		pkg := pkg
		if strings.HasSuffix(file.Name.Name, "_test") {
			pkg += "_test"
		}
		for _, d := range file.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, s := range d.Specs {
				s := s.(*ast.TypeSpec)
				key := pkg + "." + s.Name.Name
				g.comment(key, d.Doc)
				if fields, ok := s.Type.(*ast.StructType); ok {
					for _, f := range fields.Fields.List {
						for _, n := range f.Names {
							g.comment(key+"."+n.Name, f.Doc)
						}
					}
				}
			}
		}
	}
}

func (g *generator) comment(key string, c *ast.CommentGroup) {
	text := strings.Join(strings.Fields(c.Text()), " ")
	text = strings.NewReplacer("[", "", "]", "").Replace(spec.ReplaceAllString(text, ""))
	if text != "" {
		g.comments[key] = text
	}
}
