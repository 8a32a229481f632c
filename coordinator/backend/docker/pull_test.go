package docker_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWhyAnImageCannotBePulled: a failed pull is an error only if another attempt cannot help. Everything else waits,
// with its cause.
func TestWhyAnImageCannotBePulled(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	said := func(code, message string) string {
		return fmt.Sprintf(`{"errors":[{"code":%q,"message":%q}]}`, code, message)
	}
	for name, c := range map[string]struct {
		image, cause string
	}{
		"no such host":       {"registry.invalid/codehub/x:1", workspace.CauseUnreachable},
		"nobody listens":     {"127.0.0.1:9/codehub/x:1", workspace.CauseUnreachable},
		"too many requests":  {registryThat(t, http.StatusTooManyRequests, said("TOOMANYREQUESTS", "You have reached your pull rate limit")), workspace.CauseRateLimit},
		"the same, as text":  {registryThat(t, http.StatusTooManyRequests, "slow down"), workspace.CauseRateLimit},
		"overloaded":         {registryThat(t, http.StatusServiceUnavailable, said("UNAVAILABLE", "later")), ""},
		"a broken proxy":     {registryThat(t, http.StatusBadGateway, "<html>"), workspace.CauseServerError},
		"an internal error":  {registryThat(t, http.StatusInternalServerError, ""), workspace.CauseServerError},
		"not found":          {e.MissingImage(t), "never"},
		"no such repository": {registryThat(t, http.StatusNotFound, said("NAME_UNKNOWN", "repository name not known to registry")), "never"},
		"unauthorized":       {registryThat(t, http.StatusUnauthorized, said("UNAUTHORIZED", "authentication required")), "never"},
		"forbidden":          {registryThat(t, http.StatusForbidden, said("DENIED", "requested access to the resource is denied")), "never"},
		"another platform": {registryThat(t, http.StatusOK, `{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.list.v2+json",
			"manifests":[{"mediaType":"application/vnd.docker.distribution.manifest.v2+json","size":1,"digest":"sha256:`+strings.Repeat("0", 64)+`","platform":{"architecture":"s390x","os":"linux"}}]}`), "never"},
		"no name of an image": {"Not A Reference", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.Images.Pull(t.Context(), c.image, func(int64, int64) {})
			var pending *workspace.PendingError
			waits := errors.As(err, &pending) && pending.Pending.Reason == workspace.WaitPullingImage && pending.Pending.Failure == "" &&
				strings.Contains(pending.Pending.Message, "pulling image")
			switch {
			case c.cause == "never" && workspace.ReasonOf(err) != workspace.ReasonImagePullFailed,
				c.cause != "never" && (!waits || c.cause != "" && pending.Pending.Cause != c.cause):
				t.Errorf("%+v, %v; want %s", pending, err, c.cause)
			}
		})
	}
}
