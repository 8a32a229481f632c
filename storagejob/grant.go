package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/object"
)

// How long, and how often, a job looks for its grant. Two processes that start the same job may both write the grant,
// the second one while the job is already starting.
const (
	grantLimit = 10 * time.Second
	grantEvery = 50 * time.Millisecond
)

// openArchive returns the archive that s names, and adds the keys to s. It removes the grant after reading it, where
// possible, so that it cannot be found in the scratch folder later.
func openArchive(ctx context.Context, s *settings) (*object.Archive, error) {
	o := object.Options{URL: s.url, PathStyle: s.pathStyle, Scratch: s.scratch}
	if s.granted {
		var err error
		if o.Grant, err = takeGrant(ctx, filepath.Join(s.scratch, contract.GrantName), grantLimit); err != nil {
			return nil, err
		}
	}
	if err := s.keys.add(o.Grant); err != nil {
		return nil, err
	}
	return object.Open(ctx, o)
}

// takeGrant reads the grant file and removes it, unless it is a mount. It waits while the file is missing or
// incomplete.
func takeGrant(ctx context.Context, name string, limit time.Duration) (*contract.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		g, err := readGrant(name)
		if err == nil {
			err := os.Remove(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !mounted(err) {
				return nil, fmt.Errorf("removing the job's grant: %w", err)
			}
			return g, nil
		}
		select {
		case <-time.After(grantEvery):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// mounted reports whether a file could not be removed because it is a mount, such as a Secret of Kubernetes. It
// disappears with the job.
func mounted(err error) bool { return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EROFS) }

func readGrant(name string) (*contract.Grant, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the job's grant, which %s announces: %w", contract.EnvGrant, err)
	}
	var g contract.Grant
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, fmt.Errorf("the job's grant in %s is not complete", name) // err would repeat a part of it
	}
	return &g, nil
}
