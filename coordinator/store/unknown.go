package store

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// changes returns, as a JSON object, the members of next that differ from those of prev. It also returns the names of
// the members that only prev has. Because only these are written, the members that this release does not know are kept,
// both beside known members and inside unchanged ones (SPEC 12.14).
func changes(prev, next any) (set map[string]json.RawMessage, removed []string, err error) {
	was, err := members(prev)
	if err != nil {
		return nil, nil, err
	}
	if set, err = members(next); err != nil {
		return nil, nil, err
	}
	removed = []string{}
	for name, old := range was {
		now, ok := set[name]
		switch {
		case !ok:
			removed = append(removed, name)
		case bytes.Equal(old, now):
			delete(set, name)
		}
	}
	return set, removed, nil
}

// members returns the members of v as a JSON object; none if it is null.
func members(v any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing it as JSON: %w", err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading its members: %w", err)
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	return all, nil
}
