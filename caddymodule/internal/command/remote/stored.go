package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The environment variables take precedence over the stored login.
const (
	serverVariable = "CODEHUB_URL"
	tokenVariable  = "CODEHUB_TOKEN"
)

// login is the stored login.
type login struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// loginFile returns the file of the stored login, in the user's configuration folder.
func loginFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("looking for your configuration: %w", err)
	}
	return filepath.Join(dir, "codehub", "login.json"), nil
}

// readLogin returns the stored login, which is empty if there is none.
func readLogin() (l login, err error) {
	file, err := loginFile()
	if err != nil {
		return l, nil // no home: only the environment says where
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return l, fmt.Errorf("reading your login from %s: %w", file, err)
	}
	return l, nil
}

// writeLogin stores a login, readable by this operating-system user only.
func writeLogin(l login) (file string, err error) {
	if file, err = loginFile(); err != nil {
		return "", err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", fmt.Errorf("storing your login: %w", err)
	}
	// A new file, because an existing one would keep its mode.
	next, err := os.CreateTemp(filepath.Dir(file), "login") // mode 0600
	if err != nil {
		return "", fmt.Errorf("storing your login: %w", err)
	}
	defer os.Remove(next.Name())
	_, err = next.Write(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return "", fmt.Errorf("storing your login: %w", err)
	}
	return file, nil
}

// errNoLogin means that the person is signed in nowhere.
var errNoLogin = errors.New("you are not logged in at a server: run caddy codehub login, " +
	"or set " + serverVariable + " and " + tokenVariable)

// current returns a client for the server where the person is signed in, or [errNoLogin]. A stored token is used for
// its own server only.
func current(ctx context.Context) (*Client, error) {
	at, token := os.Getenv(serverVariable), os.Getenv(tokenVariable)
	if at == "" || token == "" {
		stored, err := readLogin()
		if err != nil {
			return nil, err
		}
		switch {
		case stored == login{} && at == "" && token == "":
			return nil, errNoLogin
		case at == "":
			at = stored.URL
		}
		if u, err := parseServer(ctx, at); token == "" && err == nil && u.String() == stored.URL {
			at, token = stored.URL, stored.Token
		}
	}
	if at == "" || token == "" {
		return nil, errNoLogin
	}
	server, err := parseServer(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serverVariable, err)
	}
	return newClient(server, token), nil
}
