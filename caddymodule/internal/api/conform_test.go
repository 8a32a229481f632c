package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/api/openapi/openapitest"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/workspace"
)

// samplesPerOperation is the number of samples per operation and seed.
const samplesPerOperation = 20

// TestTheServerIsAsStrictAsTheDescription sends requests that the description allows, and requests that it does not
// allow. Only the requests that it does not allow must be refused as invalid. The client checks every answer against
// the description.
func TestTheServerIsAsStrictAsTheDescription(t *testing.T) {
	t.Parallel()
	operations, err := openapitest.Operations()
	if err != nil {
		t.Fatal(err)
	}
	seed.Each(t, func(t *testing.T, random *rand.Rand) {
		s := newSender(t, random)
		for _, o := range operations {
			if o.ID == "streamEvents" || o.ID == "signOut" { // it never ends, or ends what the others need
				continue
			}
			samples := o.Samples(random)
			slices.Reverse(samples) // the first ones are valid
			random.Shuffle(len(samples)-openapitest.Valid, func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
			for _, sample := range samples[max(0, len(samples)-samplesPerOperation):] {
				s.send(o, sample)
			}
		}
	})
}

// sender is an administrator who sends samples to one workspace and one user, or to nonexistent ones.
type sender struct {
	*apitest.Client
	random          *rand.Rand
	workspace, user string
}

func newSender(t *testing.T, random *rand.Rand) *sender {
	engine := memory.NewEngine()
	t.Cleanup(engine.Close)
	in := newSerialHarness(t, func(o *api.Options) {
		o.Service.(*service.Service).SetLimits(service.Limits{PerUser: 10_000, Global: 10_000})
		o.Service.(*service.Service).SetMaxKeepAwake(8760 * time.Hour)
		o.Containers = executes{
			&containers{Backend: engine.Backend("test")},
			func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) { return 0, nil },
		}
		o.Administration = administration{
			o.Administration.(administration).store,
			func(context.Context, bool, func(gc.Judgement) error) (gc.Report, error) { return gc.Report{}, nil },
		}
		// Each request gets an address of its own, because failed sign-ins are counted per address.
		o.ClientAddress = func(*http.Request) string { return netip.AddrFrom16(uuid.New()).String() }
	})
	user, err := in.auth.AddUser(t.Context(), "ann", testPassword, auth.RoleUser)
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{Client: in.signedIn("admin"), random: random, user: user.ID}
	s.create()
	return s
}

func (s *sender) create() {
	r := s.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one", "desired_state": "STANDBY"})
	s.workspace = r.Object(s.T)["id"].(string)
}

// path returns the path of an operation, usually with ids that exist.
func (s *sender) path(o openapitest.Operation) string {
	id := s.workspace
	if strings.HasPrefix(o.Path, "/users") {
		id = s.user
	}
	if others := []string{uuid.NewString(), "%00", "x%FF", "%E2%80%AE", strings.Repeat("x", 5000)}; s.random.IntN(10) == 0 {
		id = others[s.random.IntN(len(others))]
	}
	return "/api/v1" + strings.ReplaceAll(o.Path, "{id}", id)
}

func (s *sender) send(o openapitest.Operation, sample openapitest.Sample) {
	s.T.Helper()
	path, header, body := s.path(o), []string(nil), any(nil)
	if len(sample.Query) > 0 {
		path += "?" + sample.Query.Encode()
	}
	for name := range sample.Header {
		header = append(header, name+": "+sample.Header.Get(name))
	}
	if sample.Body != nil {
		body = string(sample.Body)
	}
	reply := s.Do(o.Method, path, body, header...)
	said := fmt.Sprintf("%s, %s: %s %.200s %q %.300q is answered with %d %s", o.ID, sample.What, o.Method, path, header, sample.Body,
		reply.StatusCode, reply.Text)
	var p problem.Problem
	if reply.StatusCode >= 400 {
		if err := json.Unmarshal(reply.Text, &p); err != nil {
			s.T.Errorf("%s: %v", said, err)
		}
	}
	switch refusal := o.Refusal(sample); {
	case reply.StatusCode >= 500:
		s.T.Error(said)
	case refusal != nil && reply.StatusCode < 400:
		s.T.Errorf("%s, and the description refuses it: %v", said, refusal)
	case refusal == nil && p.Status == 400 && !unstated(o.ID, p.Field, sample):
		s.T.Errorf("%s, and the description allows it", said)
	case reply.StatusCode == http.StatusAccepted && o.ID == "deleteWorkspace":
		s.create()
	}
}

// unstated reports whether the server may refuse a field as invalid although the description allows it. It may do so
// because of a rule that the description cannot state.
func unstated(operation, field string, s openapitest.Sample) bool {
	var body map[string]any
	_ = json.Unmarshal(s.Body, &body)
	text, _ := body[field].(string)
	switch operation + " " + field {
	case "createWorkspace name", "changeWorkspace name":
		isSeen := func(r rune) bool {
			return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !strings.ContainsRune("\u3164\u2800", r)
		}
		return !strings.ContainsFunc(text, isSeen) // nothing of it
	case "createToken name":
		return strings.ContainsRune(text, '\U000e0041') // patterns cover characters up to U+FFFF
	case "listWorkspaces cursor", "listUsers cursor", "readAudit cursor", "readOwnAudit cursor":
		return true // it must come from a page
	case "listWorkspaces owner":
		return s.Query.Get("all") != "true"
	case "listWorkspaces sort":
		return strings.HasSuffix(s.Query.Get("sort"), "deleted_at") && s.Query.Get("deleted") != "true"
	case "createWorkspace image_ref", "changeWorkspace image_ref":
		return true // the images are a setting
	case "createWorkspace git_url":
		return true // which images clone a repository is a setting
	case "createUser username":
		return strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f }) // letters of a single script
	case "createUser password", "changeUser password", "changePassword password":
		return len(text) > auth.MaxPassword // which are bytes
	case "changePassword present":
		return true // it is not the password
	}
	return false
}
