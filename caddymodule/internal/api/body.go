package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/words"
)

// maxBody bounds the body of a request, in bytes. The largest thing in one is a memo.
const maxBody = 64 << 10

// textField is a text in a request's body that may be missing, null or given. Null
// means the empty text.
type textField struct {
	given bool
	text  string
}

// UnmarshalJSON is called when the field is present, also when it is null.
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

// decode reads the request's body, one JSON object, into v. Unknown fields are
// refused: a misspelt one would otherwise be ignored silently.
func (c *call) decode(v any) error {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return problem.MediaType.With("problem.content_type", nil)
	}
	dec := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	dec.DisallowUnknownFields()
	err = dec.Decode(v)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("json: more data follows the object")
			var tooLarge *http.MaxBytesError
			if errors.As(more, &tooLarge) {
				err = more
			}
		}
	}
	return bodyProblem(err)
}

// bodyProblem turns an error of decoding into a problem that names the field, where
// one is to blame.
func bodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return problem.TooLarge.With("problem.body_too_large", words.Values{"Max": tooLarge.Limit})
	case errors.As(err, &wrongType):
		if wrongType.Field == "" {
			return problem.BadRequest.With("problem.body_not_object", words.Values{"Given": wrongType.Value})
		}
		return problem.InvalidField(wrongType.Field, "problem.wrong_type", words.Values{
			"Wanted": jsonName(wrongType.Type.Kind().String()), "Given": wrongType.Value,
		})
	case errors.Is(err, io.EOF):
		return problem.BadRequest.With("problem.body_empty", nil)
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return problem.InvalidField(strings.Trim(quoted, `"`), "problem.unknown_field", nil)
	}
	return problem.BadRequest.With("problem.body_not_json", words.Values{
		"Error": strings.TrimPrefix(err.Error(), "json: "),
	})
}

// jsonName returns what JSON calls a kind of Go value.
func jsonName(kind string) string {
	switch kind {
	case "struct", "map":
		return "object"
	default:
		return kind
	}
}

// sendJSON sends v. It returns an error, and has sent nothing, when v cannot be
// encoded.
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
	_, _ = w.Write(append(body, '\n')) // fails only when the client has gone
	return nil
}
