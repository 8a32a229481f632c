package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/words"
)

// maxBody bounds the body of a request, in bytes. The largest field is a memo.
const maxBody = 64 << 10

// textField is a text in a request's body that may be missing, null or present. Null means the empty text.
type textField struct {
	given bool
	text  string
}

// UnmarshalJSON is called when the field is present, even if it is null.
func (f *textField) UnmarshalJSON(b []byte) error {
	f.given = true
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &f.text)
}

// pointer returns nil when the field is missing.
func (f textField) pointer() *string {
	if !f.given {
		return nil
	}
	return &f.text
}

// decode reads the request's body, one JSON object, into v. Unknown fields are refused, because a
// misspelt one would otherwise be silently ignored.
func (c *call) decode(v any) error {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return problem.MediaType.With("problem.content_type", nil)
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err == nil {
		err = unmarshal(body, v)
	}
	return bodyProblem(err)
}

// unmarshal is [json.Unmarshal] for an object. It refuses an object that has fields that v does not have. Names must
// match exactly, whereas encoding/json ignores case.
func unmarshal(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return problem.BadRequest.With("problem.body_empty", nil)
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(body, &fields)
	switch {
	case err != nil:
		return err
	case fields == nil:
		return &json.UnmarshalTypeError{Value: "null"}
	}
	if err := unambiguous(body); err != nil {
		return err
	}
	if name := unknownField(fields, reflect.TypeOf(v).Elem()); name != "" {
		return problem.InvalidField(name, "problem.unknown_field", nil)
	}
	return json.Unmarshal(body, v)
}

// unambiguous refuses JSON that not all parsers read in the same way: a duplicate field, invalid UTF-8, or half a
// surrogate pair (RFC 8259, sections 4 and 8). Of duplicate fields, encoding/json silently takes the last one. It
// replaces invalid UTF-8 and half a surrogate pair by U+FFFD.
func unambiguous(body []byte) error {
	_, err := jsontext.NewDecoder(bytes.NewReader(body)).ReadValue()
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	// The path of names, in the form of unknownField.
	field := strings.Join(slices.Collect(syntax.JSONPointer.Tokens()), ".")
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem.InvalidField(field, "problem.duplicate_field", nil)
	case field == "": // the error is in a name
		return problem.BadRequest.With("problem.body_not_unicode", nil)
	}
	return problem.InvalidField(field, "problem.field_not_unicode", nil)
}

// unknownField returns the name of the first field in fields that the struct does not have. It also looks into nested
// structs.
func unknownField(fields map[string]json.RawMessage, t reflect.Type) string {
	if t.Kind() == reflect.Pointer { // it may be left out
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct { // its type is wrong
		return ""
	}
	known := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		known[f.Tag.Get("json")] = f.Type
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		inner := known[name]
		if inner == nil {
			return name
		}
		var values map[string]json.RawMessage
		if json.Unmarshal(fields[name], &values) == nil && len(values) > 0 {
			if unknown := unknownField(values, inner); unknown != "" {
				return name + "." + unknown
			}
		}
	}
	return ""
}

// bodyProblem turns a decoding error into a problem that names the invalid field, if there is one.
func bodyProblem(err error) error {
	var known *problem.Problem
	var tooLarge *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &tooLarge):
		return problem.TooLarge.With("problem.body_too_large", words.Values{"Max": tooLarge.Limit})
	case errors.As(err, &wrongType):
		if wrongType.Field == "" {
			return problem.BadRequest.With("problem.body_not_object", words.Values{"Given": wrongType.Value})
		}
		return problem.InvalidField(wrongType.Field, "problem.wrong_type", words.Values{
			"Wanted": jsonName(wrongType.Type.Kind().String()), "Given": wrongType.Value,
		})
	}
	return problem.BadRequest.With("problem.body_not_json", words.Values{
		"Error": strings.TrimPrefix(err.Error(), "json: "),
	})
}

// jsonName returns the JSON name for a kind of Go value.
func jsonName(kind string) string {
	switch kind {
	case "struct", "map":
		return "object"
	default:
		return kind
	}
}

// sendJSON sends v. If v cannot be encoded, it sends nothing and returns an error.
func sendJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		p := problem.Internal.With("problem.answer_not_written", nil)
		p.Cause = fmt.Errorf("encoding the answer: %w", err)
		return p
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only when the client has disconnected
	return nil
}

// sendNothing answers with a status alone.
func (c *call) sendNothing(status int) error {
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	return nil
}
