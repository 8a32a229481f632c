package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// state is what a run keeps for the next one. It is in .codehub.
type state struct {
	// Installation labels this installation's containers and volumes.
	Installation string `json:"installation"`
	// S3AccessKey and S3SecretKey are the private S3 server's credentials.
	S3AccessKey string `json:"s3_access_key"`
	S3SecretKey string `json:"s3_secret_key"`
	// Engine is the Docker engine of the last run; its volumes hold the users' files.
	Engine string `json:"engine,omitempty"`
}

// loadState reads the state in dir, and creates it the first time.
func loadState(dir string) (state, error) {
	var s state
	path := filepath.Join(dir, "state.json")
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("reading the last run's state, %s: %w", path, err)
	}
	if s.Installation == "" {
		s.Installation = "run-" + strings.ToLower(rand.Text()[:12])
	}
	if s.S3AccessKey == "" || s.S3SecretKey == "" {
		s.S3AccessKey, s.S3SecretKey = "codehub", rand.Text()
	}
	return s, s.save(dir)
}

// save writes the state.
func (s state) save(dir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing this run's state: %w", err)
	}
	return writeFile(filepath.Join(dir, "state.json"), append(b, '\n'))
}

// writeFile writes a private file, whole or not at all.
func writeFile(path string, b []byte) error {
	err := os.WriteFile(path+".new", b, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// password chooses the administrator's password: told is the password that Caddy gets, and shown is the text that the
// user sees. An empty told leaves the password unchanged.
type password struct {
	told, shown string
}

// passwordFile keeps the generated password for a user who forgets it. It is written before the administrator is
// made, so that an interrupted run loses nothing.
const passwordFile = "admin-password"

// choosePassword returns the wanted password if there is one, nothing if an administrator exists already, and a
// generated password otherwise.
func choosePassword(dir, wanted string, exists bool) (password, error) {
	path := filepath.Join(dir, passwordFile)
	if wanted != "" {
		// A generated one, if any, is no longer valid.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return password{}, fmt.Errorf("forgetting the generated password: %w", err)
		}
		return password{told: wanted, shown: "the value of CODEHUB_ADMIN_PASSWORD"}, nil
	}
	b, err := os.ReadFile(path)
	generated := strings.TrimSpace(string(b))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return password{}, fmt.Errorf("reading the generated password: %w", err)
	}
	switch {
	case exists && generated != "":
		return password{shown: "as before (it is in .codehub/" + passwordFile + ")"}, nil
	case exists:
		return password{shown: "as before (CODEHUB_ADMIN_PASSWORD sets another one)"}, nil
	case generated == "":
		generated = strings.ToLower(rand.Text()[:16])
		if err := writeFile(path, []byte(generated+"\n")); err != nil {
			return password{}, err
		}
	}
	return password{told: generated, shown: generated}, nil
}

// adminExists asks the database whether there is an administrator who can sign in.
func adminExists(ctx context.Context, dsn string) (bool, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return false, fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM users WHERE lower(username) = 'admin' AND password_hash "+
		"IS NOT NULL)").Scan(&exists)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" { // no such table: before the first migration
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the administrator: %w", err)
	}
	return exists, nil
}
