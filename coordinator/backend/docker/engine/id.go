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

// dataIDLength is how many of an id's 64 digits are used to distinguish data folders.
const dataIDLength = 12

// asker asks engines for their ids. Its zero value is ready to use; package peer asks on one connection at a time.
type asker struct {
	none string // the id of the network "none" on the engine that answered last
	id   string // the id of that engine
}

// ask asks for the engine's id on a new connection.
//
// The id has two parts. The engine's own id identifies the machine rather than the data. On machines that have ever had
// a version before 23, it comes from /etc/docker/key.json, and so stays the same when the data folder is not mounted.
// The network "none" is part of the data folder, gets its id when the folder is created, and cannot be removed. Its id
// is unique, so an engine whose network has a known id is not asked for the other part. That would be expensive: for
// /info, Docker starts three programs, some of them to find out their versions.
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
	if none.ID == "" { // another implementation of Docker's API may lack this network
		return info.ID, nil
	}
	a.none, a.id = none.ID, info.ID+"/"+none.ID[:min(len(none.ID), dataIDLength)]
	return a.id, nil
}

// get makes a request on a connection, and decodes the answer into v. found is false if the engine has nothing at the
// path.
func get(c net.Conn, path string, v any) (found bool, err error) {
	// The path has no version, because none is negotiated yet.
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
