package codehub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// maxBody bounds the body of a request. The largest thing in one is a memo.
const maxBody = 64 << 10

// textField is a text in a request's body that may be missing, null or given. Null
// is the empty text.
type textField struct {
	given bool
	text  string
}

// UnmarshalJSON is called when the field is there, also for null.
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
		return problemMediaType.with("Send Content-Type: application/json.")
	}
	dec := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	dec.DisallowUnknownFields()
	err = dec.Decode(v)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("json: something follows the object")
			var tooLarge *http.MaxBytesError
			if errors.As(more, &tooLarge) {
				err = more
			}
		}
	}
	return bodyProblem(err)
}

func bodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return problemTooLarge.with("The body may have at most %d bytes.", tooLarge.Limit)
	case errors.As(err, &wrongType):
		if wrongType.Field == "" {
			return problemBadRequest.with("The body must be a JSON object, not a %s.", wrongType.Value)
		}
		p := problemInvalid.with("%s must be a %s, not a %s.", wrongType.Field, jsonName(wrongType.Type.Kind().String()), wrongType.Value)
		p.Field = wrongType.Field
		return p
	case errors.Is(err, io.EOF):
		return problemBadRequest.with("The body is empty; send a JSON object.")
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field := strings.Trim(quoted, `"`)
		p := problemInvalid.with("%s is not a field of this request.", field)
		p.Field = field
		return p
	}
	return problemBadRequest.with("The body is not valid JSON: %s.", strings.TrimPrefix(err.Error(), "json: "))
}

func jsonName(kind string) string {
	switch kind {
	case "struct", "map":
		return "object"
	default:
		return kind
	}
}

// respond sends v as JSON.
func (c *call) respond(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		p := problemInternal.with("The answer cannot be written.")
		p.cause = fmt.Errorf("encoding the answer: %w", err)
		return p
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(body, '\n')) // the client has gone
	return nil
}

// workspaceBody is a workspace as the API shows it: every column of section 4 of
// the specification that is not internal, under its own name, and its address.
type workspaceBody struct {
	ID              workspace.ID           `json:"id"`
	OwnerID         string                 `json:"owner_user_id"`
	Name            string                 `json:"name"`
	Description     *string                `json:"description"`
	Memo            *string                `json:"memo"`
	ImageRef        *string                `json:"image_ref"`
	InstanceBackend string                 `json:"instance_backend"`
	StorageBackend  string                 `json:"storage_backend"`
	Conditions      workspace.Conditions   `json:"conditions"`
	ObservedAt      *time.Time             `json:"observed_at"`
	Phase           workspace.Phase        `json:"phase"`
	PhaseChangedAt  *time.Time             `json:"phase_changed_at"`
	Operation       workspace.Operation    `json:"operation"`
	OpStartedAt     *time.Time             `json:"op_started_at"`
	ArchiveOpID     *string                `json:"archive_op_id"`
	ArchiveKey      *string                `json:"archive_key"`
	ErrorReason     *workspace.ErrorReason `json:"error_reason"`
	ErrorMessage    *string                `json:"error_message"`
	ErrorCount      int                    `json:"error_count"`
	DesiredState    workspace.DesiredState `json:"desired_state"`
	LastAccessAt    *time.Time             `json:"last_access_at"`
	CreatedAt       *time.Time             `json:"created_at"`
	UpdatedAt       *time.Time             `json:"updated_at"`
	DeletedAt       *time.Time             `json:"deleted_at"`
	URL             string                 `json:"url"`
}

// body returns how the API shows w to the client of this call.
func (c *call) body(w workspace.Workspace) workspaceBody {
	conditions := w.Conditions
	if conditions == nil {
		conditions = workspace.Conditions{}
	}
	return workspaceBody{
		ID: w.ID, OwnerID: w.OwnerID, Name: w.Name,
		Description: orNull(w.Description), Memo: orNull(w.Memo), ImageRef: orNull(w.ImageRef),
		InstanceBackend: w.InstanceBackend, StorageBackend: w.StorageBackend,
		Conditions: conditions, ObservedAt: timeOrNull(w.ObservedAt),
		Phase: w.Phase, PhaseChangedAt: timeOrNull(w.PhaseChangedAt),
		Operation: w.Operation, OpStartedAt: timeOrNull(w.OpStartedAt),
		ArchiveOpID: orNull(w.ArchiveOpID), ArchiveKey: orNull(w.ArchiveKey),
		ErrorReason: orNull(w.ErrorReason), ErrorMessage: orNull(w.ErrorMessage), ErrorCount: w.ErrorCount,
		DesiredState: w.DesiredState, LastAccessAt: timeOrNull(w.LastAccessAt),
		CreatedAt: timeOrNull(w.CreatedAt), UpdatedAt: timeOrNull(w.UpdatedAt), DeletedAt: timeOrNull(w.DeletedAt),
		URL: c.workspaceURL(c.r, w.ID),
	}
}

func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
