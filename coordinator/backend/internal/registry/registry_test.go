package registry

import (
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

// The messages are those of Docker 20.10 to 28 and of kubelets with containerd and CRI-O.
func TestJudge(t *testing.T) {
	for message, want := range map[string]struct {
		verdict Verdict
		cause   string
	}{
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example on 127.0.0.11:53: no such host`:        {Temporary, workspace.CauseUnreachable},
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example: Temporary failure in name resolution`: {Temporary, workspace.CauseUnreachable},
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.2:53: server misbehaving`:    {Temporary, workspace.CauseUnreachable},
		`Get "http://127.0.0.1:9/v2/": dial tcp 127.0.0.1:9: connect: connection refused`:                             {Temporary, workspace.CauseUnreachable},
		`Get "https://10.9.9.9/v2/": dial tcp 10.9.9.9:443: connect: no route to host`:                                {Temporary, workspace.CauseUnreachable},
		`read tcp 10.0.0.5:41344->10.0.0.9:443: read: connection reset by peer`:                                       {Temporary, workspace.CauseUnreachable},
		`Get "https://registry.example/v2/": EOF`:                                                                     {Temporary, workspace.CauseUnreachable},
		`unexpected EOF`: {Temporary, workspace.CauseUnreachable},
		`Get "https://registry-1.docker.io/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`: {Temporary, workspace.CauseTimeout},
		`Get "https://registry.example/v2/": net/http: TLS handshake timeout`:                                                                              {Temporary, workspace.CauseTimeout},
		`Get "https://registry.example/v2/": dial tcp 10.9.9.9:443: i/o timeout`:                                                                           {Temporary, workspace.CauseTimeout},
		`Get "https://registry.example/v2/": context deadline exceeded`:                                                                                    {Temporary, workspace.CauseTimeout},
		`it got no further for 10m0s`: {Temporary, workspace.CauseTimeout},
		`toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit`:                                                     {Temporary, workspace.CauseRateLimit},
		`error parsing HTTP 429 response body: invalid character 'T' looking for beginning of value: "Too Many Requests (HAP429).\n"`:                                            {Temporary, workspace.CauseRateLimit},
		`failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://auth.example/token: 429 Too Many Requests: authentication required`: {Temporary, workspace.CauseRateLimit},
		`Error response from daemon: toomanyrequests`:                                                                        {Temporary, workspace.CauseRateLimit},
		`pull access denied for x, repository does not exist: toomanyrequests: retry later`:                                  {Temporary, workspace.CauseRateLimit},
		`received unexpected HTTP status: 503 Service Unavailable`:                                                           {Temporary, workspace.CauseServerError},
		`received unexpected HTTP status: 500 Internal Server Error`:                                                         {Temporary, workspace.CauseServerError},
		`error parsing HTTP 502 response body: invalid character '<' looking for beginning of value: "<html>"`:               {Temporary, workspace.CauseServerError},
		`unexpected status from HEAD request to https://registry.example/v2/x/manifests/1: 504 Gateway Timeout`:              {Temporary, workspace.CauseServerError},
		`failed to authorize: failed to fetch oauth token: unexpected status: 503 Service Unavailable: authorization failed`: {Temporary, workspace.CauseServerError},
		`received unexpected HTTP status: 521`:                                                                               {Temporary, workspace.CauseServerError},
		`filesystem layer verification failed for digest sha256:0`:                                                           {Temporary, workspace.CauseUnknown},
		`x509: certificate signed by unknown authority`:                                                                      {Temporary, workspace.CauseUnknown},
		`something that nobody has said yet about 127.0.0.1:5000/not-found/denied/unauthorized/404/429:503`:                  {Temporary, workspace.CauseUnknown},
		"": {Temporary, workspace.CauseUnknown},

		`manifest for 127.0.0.1:5000/w:2 not found: manifest unknown: manifest unknown`:                                                                 {verdict: Absent},
		`manifest for registry.example/w:2 not found`:                                                                                                   {verdict: Absent},
		`name unknown: repository name not known to registry`:                                                                                           {verdict: Absent},
		`failed to resolve reference "docker.io/library/none:1": docker.io/library/none:1: not found`:                                                   {verdict: Absent},
		`rpc error: code = NotFound desc = failed to pull and unpack image`:                                                                             {verdict: Absent},
		`error parsing HTTP 404 response body: invalid character 'p' after top-level value: "404 page not found\n"`:                                     {verdict: Absent},
		`no matching manifest for linux/arm64/v8 in the manifest list entries`:                                                                          {verdict: Absent},
		`no match for platform in manifest: not found`:                                                                                                  {verdict: Absent},
		`image with reference x:1 was found but does not match the specified platform: wanted linux/arm64, actual: linux/amd64`:                         {verdict: Absent},
		`image operating system "windows" cannot be used on this platform`:                                                                              {verdict: Absent},
		`pull access denied for none/none, repository does not exist or may require 'docker login': denied: requested access to the resource is denied`: {verdict: Denied},
		`Error response from daemon: denied`:                                                                                                            {verdict: Denied},
		`Error response from daemon: unauthorized`:                                                                                                      {verdict: Denied},
		`Error response from daemon: name unknown`:                                                                                                      {verdict: Absent},
		`unauthorized: authentication required`:                                                                                                         {verdict: Denied},
		"errors:\ndenied: requested access to the resource is denied\nunauthorized: authentication required\n":                                          {verdict: Denied},
		`Head "https://registry.example/v2/x/manifests/1": no basic auth credentials`:                                                                   {verdict: Denied},
		`unexpected status from HEAD request to https://registry.example/v2/x/manifests/1: 403 Forbidden`:                                               {verdict: Denied},
		`error parsing HTTP 403 response body: no error details found in HTTP response body`:                                                            {verdict: Denied},
		`pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`:          {verdict: Denied},
		`invalid reference format: repository name must be lowercase`:                                                                                   {verdict: Invalid},
		`invalid reference format`: {verdict: Invalid},
	} {
		got := Judge(message)
		if got != want.verdict {
			t.Errorf("%s: %d, want %d", message, got, want.verdict)
		}
		if cause := Cause(message); got == Temporary && cause != want.cause {
			t.Errorf("%s: %q, want %q", message, cause, want.cause)
		}
	}
}
