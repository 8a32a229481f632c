// Package openapitest checks the requests and answers that occur in tests against the description of the REST API.
//
// It decides how strict these checks are. An answer must not have an undescribed field, although clients are told to
// expect additional fields. It must not know an operation by name.
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
)

const base = "/api/v1"

// elsewhere holds the statuses that are allowed although the description leaves them out. They answer an unknown path
// or method, or a request that is refused before its path is considered.
var elsewhere = []int{403, 404, 405, 421, 503}

// description is the document, together with an index of its operations and its compiled schemas.
type description struct {
	paths    *http.ServeMux
	raw      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by their JSON pointer
}

// load parses the document, once per process.
var load = sync.OnceValues(func() (*description, error) {
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON))
	if err != nil {
		return nil, fmt.Errorf("reading the description of the API: %w", err)
	}
	d := &description{
		paths: http.NewServeMux(), raw: read.(map[string]any), compiler: jsonschema.NewCompiler(),
		schemas: make(map[string]*jsonschema.Schema),
	}
	for path := range d.raw["paths"].(map[string]any) {
		d.paths.Handle(base+path, http.NotFoundHandler())
	}
	strict(d.raw)
	d.compiler.AssertFormat()
	d.compiler.RegisterFormat(&jsonschema.Format{Name: "int64", Validate: isInt64})
	d.compiler.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		return regexp.Compile(escaped.ReplaceAllString(pattern, `\x{$1}`))
	})
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	return d, d.compiler.AddResource("openapi.json", d.raw)
})

// escaped matches a character in the notation \uXXXX. Patterns use it because other languages understand it; Go does
// not.
var escaped = regexp.MustCompile(`\\u([0-9a-f]{4})`)

func isInt64(v any) error {
	if n, ok := v.(json.Number); ok {
		_, err := n.Int64()
		return err
	}
	return nil
}

// strict forbids fields that are not in an object's schema.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, open := v["additionalProperties"]; v["type"] == "object" && !open {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			strict(inner)
		}
	case []any:
		for _, inner := range v {
			strict(inner)
		}
	}
}

// pointer is a JSON pointer to a value of the document.
func pointer(names ...string) string {
	var p strings.Builder
	for _, n := range names {
		p.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(n))
	}
	return p.String()
}

// at returns the value below names, or nil.
func at(v any, names ...string) any {
	for _, n := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[n]
	}
	return v
}

// valid validates a value with the schema at the pointer.
func (d *description) valid(at string, value any) error {
	d.mu.Lock()
	s := d.schemas[at]
	if s == nil {
		var err error
		if s, err = d.compiler.Compile("openapi.json#" + (&url.URL{Path: at}).EscapedPath()); err != nil {
			d.mu.Unlock()
			return fmt.Errorf("the schema at %s: %w", at, err)
		}
		d.schemas[at] = s
	}
	d.mu.Unlock()
	return s.Validate(value)
}

// CheckAll compiles every schema of the document: each must be valid, and refer only to schemas that exist.
func CheckAll() error {
	d, err := load()
	if err != nil {
		return err
	}
	var errs []error
	var walk func(v any, path []string)
	walk = func(v any, path []string) {
		if m, ok := v.(map[string]any); ok {
			for name, inner := range m {
				if name == "schema" {
					if err := d.compile(pointer(append(path, name)...)); err != nil {
						errs = append(errs, err)
					}
				}
				walk(inner, append(path[:len(path):len(path)], name))
			}
		}
		if list, ok := v.([]any); ok {
			for i, inner := range list {
				walk(inner, append(path[:len(path):len(path)], strconv.Itoa(i)))
			}
		}
	}
	walk(d.raw["paths"], []string{"paths"})
	walk(at(d.raw, "components", "responses"), []string{"components", "responses"})
	return errors.Join(errs...)
}

func (d *description) compile(at string) error {
	_, err := d.compiler.Compile("openapi.json#" + (&url.URL{Path: at}).EscapedPath())
	return err
}

// Exchange is a request to the API and its answer.
type Exchange struct {
	Request *http.Request
	Sent    []byte // the request's body
	Answer  *http.Response
	Body    []byte // the answer's, as far as it was read
}

// Check returns how the exchange violates the description. It always checks the answer, and the request
// only if it was served. An undescribed path must be answered with 404, and an undescribed method of a described path
// with 405.
func Check(e Exchange) error {
	d, err := load()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(e.Request.URL.Path, base+"/") {
		return nil
	}
	method := strings.ToLower(e.Request.Method)
	if method == "head" {
		method = "get"
	}
	_, path := d.paths.Handler(e.Request)
	path = strings.TrimPrefix(path, base)
	operation, known := at(d.raw, "paths", path, method).(map[string]any)
	if !known {
		if slices.Contains(elsewhere, e.Answer.StatusCode) {
			return nil
		}
		return fmt.Errorf("%s %s is answered with %d, and the description does not have it", e.Request.Method, e.Request.URL.Path, e.Answer.StatusCode)
	}
	err = d.answer(operation, e, "paths", path, method)
	if err == nil && e.Answer.StatusCode < 300 {
		err = d.request(operation, e, "paths", path, method)
	}
	if err != nil {
		err = fmt.Errorf("the description of %s %s: %w", strings.ToUpper(method), path, err)
	}
	return err
}

// answer checks the status, the media type and the body of an answer.
func (d *description) answer(operation map[string]any, e Exchange, where ...string) error {
	status := strconv.Itoa(e.Answer.StatusCode)
	if at(operation, "responses", status) == nil {
		if e.Answer.StatusCode < 500 {
			return fmt.Errorf("no status %s", status)
		}
		status = "default"
	}
	where = append(where, "responses", status)
	if ref, _ := at(operation, "responses", status, "$ref").(string); ref != "" {
		where = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	content, _ := at(d.raw, append(slices.Clone(where), "content")...).(map[string]any)
	if e.Request.Method == http.MethodHead {
		return nil
	}
	if content == nil {
		if len(e.Body) > 0 {
			return fmt.Errorf("%s has a body: %s", status, e.Body)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(e.Answer.Header.Get("Content-Type"))
	if err != nil || content[media] == nil {
		return fmt.Errorf("%s has the media type %q", status, e.Answer.Header.Get("Content-Type"))
	}
	if !strings.HasSuffix(media, "json") || media == "application/x-ndjson" {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("%s is no JSON: %w", status, err)
	}
	if e.Answer.StatusCode >= 400 {
		if err := d.problem(value, e.Answer.StatusCode); err != nil {
			return err
		}
	}
	return d.valid(pointer(append(where, "content", media, "schema")...), value)
}

// problem checks that a problem has one of the types, with the status of the type.
func (d *description) problem(value any, answered int) error {
	status := fmt.Sprint(at(value, "status"))
	for _, p := range d.raw["x-problems"].([]any) {
		if at(p, "type") == at(value, "type") && fmt.Sprint(at(p, "status")) == status && status == strconv.Itoa(answered) {
			return nil
		}
	}
	return fmt.Errorf("no problem has the type %v and the status %v", at(value, "type"), at(value, "status"))
}

// request checks the query, the header and the body of a request.
func (d *description) request(operation map[string]any, e Exchange, where ...string) error {
	known := map[string]bool{}
	parameters, _ := operation["parameters"].([]any)
	for i, p := range parameters {
		p := p.(map[string]any)
		name := p["name"].(string)
		var given []string
		switch p["in"] {
		case "query":
			known[name] = true
			given = e.Request.URL.Query()[name]
		case "header":
			given = e.Request.Header.Values(name)
		}
		for _, text := range given {
			if text == "" && p["in"] == "query" { // as if the parameter were missing
				continue
			}
			err := d.valid(pointer(append(where, "parameters", strconv.Itoa(i), "schema")...), scalar(p["schema"], text))
			if err != nil {
				return fmt.Errorf("the parameter %s=%s: %w", name, text, err)
			}
		}
	}
	for name := range e.Request.URL.Query() {
		if !known[name] {
			return fmt.Errorf("no parameter %s", name)
		}
	}
	body, _ := operation["requestBody"].(map[string]any)
	if body == nil || len(e.Sent) == 0 && body["required"] == false {
		return nil
	}
	if !jsontext.Value(e.Sent).IsValid() { // no duplicate field, and valid Unicode, as the description demands
		return errors.New("the request is no JSON")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Sent))
	if err != nil {
		return fmt.Errorf("the request is no JSON: %w", err)
	}
	if err := d.valid(pointer(append(where, "requestBody", "content", "application/json", "schema")...), value); err != nil {
		return fmt.Errorf("the request %s: %w", e.Sent, err)
	}
	return nil
}

// integer matches a whole number in a parameter.
var integer = regexp.MustCompile(`^-?[0-9]+$`)

// scalar converts a parameter's text to a value for its schema. Text that cannot be converted is returned unchanged:
// the schema then refuses it, because it has the wrong type.
func scalar(schema any, text string) any {
	switch t := at(schema, "type"); {
	case !utf8.ValidString(text):
		return nil // no text either
	case t == "integer" && integer.MatchString(text):
		return json.Number(text)
	case t == "boolean" && (text == "true" || text == "false"):
		return text == "true"
	}
	return text
}

// transport checks all exchanges that pass through it.
type transport struct {
	next   http.RoundTripper
	report func(error)
}

// Transport returns a transport that reports every exchange that the description does not allow. It
// does not check event streams and other endless answers.
func Transport(next http.RoundTripper, report func(error)) http.RoundTripper {
	return transport{next, report}
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil && strings.HasPrefix(r.URL.Path, base+"/") {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := t.next.RoundTrip(r)
	if err != nil || !strings.HasPrefix(r.URL.Path, base+"/") || res.StatusCode == http.StatusSwitchingProtocols {
		return res, err
	}
	var body []byte
	if strings.HasSuffix(res.Header.Get("Content-Type"), "json") && res.Header.Get("Content-Type") != "application/x-ndjson" {
		if body, err = io.ReadAll(res.Body); err != nil {
			return nil, err
		}
		res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := Check(Exchange{r, sent, res, body}); err != nil {
		t.report(err)
	}
	return res, nil
}
