package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/codehub/gateway/coordinator/backend/internal/peer"
)

// dataIDLength is how much of an id of 64 digits tells data folders apart.
const dataIDLength = 12

// asker asks engines for their ids. Its zero value is ready; package peer asks on one connection at a time.
type asker struct {
	none string // the id of the network "none" of the last engine that told
	id   string // the id of that engine
}

// ask asks for the engine's id on a new connection.
//
// The id has two parts. What the engine calls its id names the machine rather than the data.
// Before version 23, and on a machine that was updated since, it comes from
// /etc/docker/key.json. It stays the same when the data folder is not mounted. The network
// "none" is in the data folder, gets its id when that is made, and cannot be removed. No two have the same, so
// an engine with one that is known is not asked for the rest: for /info Docker starts three programs, to
// tell their versions, too.
func (a *asker) ask(_ context.Context, c net.Conn) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("asking the engine for its id: %w", err)
		}
	}()
	var none struct{ ID string }
	if _, err := get(c, "/networks/none", &none); err != nil {
		return "", err
	}
	if none.ID != "" && none.ID == a.none {
		return a.id, nil
	}
	var info struct{ ID string }
	if found, err := get(c, "/info", &info); err != nil {
		return "", err
	} else if !found || info.ID == "" {
		return "", errors.New("GET /info: the engine has no id")
	}
	if none.ID == "" { // another program with Docker's API may have no such network
		return info.ID, nil
	}
	a.none, a.id = none.ID, info.ID+"/"+none.ID[:min(len(none.ID), dataIDLength)]
	return a.id, nil
}

// get makes a request on a connection, and decodes the answer into v. It reports whether
// the engine has something at the path.
func get(c net.Conn, path string, v any) (found bool, err error) {
	// Without a version in the path, which is not negotiated yet.
	req, err := http.NewRequest(http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return false, err
	}
	resp, err := peer.RoundTrip(c, req)
	if err != nil {
		return false, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound:
		return false, fmt.Errorf("GET %s: %s: %.200s; the engine, or a proxy before it, must allow this request", path,
			resp.Status, body)
	case resp.Close:
		return false, fmt.Errorf("GET %s: the connection cannot be used for more than one request", path)
	case resp.StatusCode == http.StatusNotFound:
		return false, nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return false, fmt.Errorf("GET %s: %w", path, err)
	}
	return true, nil
}
