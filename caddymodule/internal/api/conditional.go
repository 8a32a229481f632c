package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/words"
)

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

// idempotencyKey returns the header Idempotency-Key, "" without one.
func (c *call) idempotencyKey() (string, error) {
	const name = "Idempotency-Key"
	values := c.r.Header.Values(name)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	isHidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(values) > 1 || key == "" || len(key) > maxKey || strings.ContainsFunc(key, isHidden) {
		return "", problem.InvalidField(name, "problem.idempotency_key", words.Values{"Max": maxKey})
	}
	return key, nil
}

// entityTag returns a workspace's revision as an entity tag.
func entityTag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// checkTagless refuses a change with If-Match unless it is a change of a workspace, because nothing else has an entity
// tag.
func (c *call) checkTagless() error {
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead ||
		strings.Contains(c.r.Pattern, workspacePath) || c.ifMatch() == nil {
		return nil
	}
	return problem.NoEntityTag.With("problem.no_entity_tag", nil)
}

// ifMatch returns the revisions that the header If-Match allows, or nil if it allows every revision. Text that is not
// one of our entity tags matches no revision.
func (c *call) ifMatch() []int64 {
	values := c.r.Header.Values("If-Match")
	if len(values) == 0 {
		return nil
	}
	allowed := []int64{}
	for tag := range strings.SplitSeq(strings.Join(values, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			return nil
		}
		revision, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
		if err == nil && tag == entityTag(revision) {
			allowed = append(allowed, revision)
		}
	}
	return allowed
}
