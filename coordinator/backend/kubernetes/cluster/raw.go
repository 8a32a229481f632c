package cluster

import "context"

// Raw makes a request for what has no [Resource], in JSON, for people's commands. path is
// absolute. Errors are those of the API, for [Wrap].
func (c *Client) Raw(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	const json = "application/json"
	q := c.core.Verb(method).AbsPath(path).SetHeader("Accept", json)
	if body != nil {
		q = q.SetHeader("Content-Type", json).Body(body)
	}
	answer, err := q.Do(ctx).Raw()
	return answer, c.explain(err)
}
