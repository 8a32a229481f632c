package cluster

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Raw makes a JSON request for objects without a [Resource], for command-line commands. path is absolute. Errors are
// those of the API, for [Wrap].
func (c *Client) Raw(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	const json = "application/json"
	q := c.core.Verb(method).AbsPath(path).SetHeader("Accept", json)
	if body != nil {
		q = q.SetHeader("Content-Type", json).Body(body)
	}
	answer, err := q.Do(ctx).Raw()
	return answer, c.explain(err)
}

// Now returns the time by the cluster's clock, to the second, from its API server.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	const doing = "asking the cluster for its time"
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.core.Get().AbsPath(whoPath).URL().String(), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", doing, err)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return time.Time{}, Wrap(doing, err)
	}
	defer answer.Body.Close()
	now, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", doing, err)
	}
	return now, nil
}
