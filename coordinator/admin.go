package coordinator

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store"
)

// Overview shows administrators the state of all workspaces and of the systems that they run on.
type Overview struct {
	store.Overview
	// Disk is the disk of the homes; nil if unknown.
	Disk *backend.Disk
	// Archives is the health of the current archives, and Scrub counts the archives to read back.
	Archives store.ArchiveHealth
	Scrub    store.Scrub
}

// Overview reads it from the database and the backend. Its cost grows with the number of workspaces.
func (c *Coordinator) Overview(ctx context.Context) (o Overview, err error) {
	if o.Overview, err = c.store.Overview(ctx); err != nil {
		return o, err
	}
	if o.Archives, err = c.store.ArchiveHealth(ctx); err != nil {
		return o, err
	}
	if o.Scrub, err = c.store.Scrub(ctx); err != nil {
		return o, err
	}
	// The backend may not answer: the rest is returned anyway.
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if disk, err := c.homeDisk(asking); err == nil {
		o.Disk = &disk
	}
	return o, nil
}

// Collect runs a garbage collection now, or, if dry is set, only shows what a collection would do with the archives
// (SPEC 7). It calls each once per archive and tells it what becomes of that archive. It returns what [gc.Collect]
// returns.
func (c *Coordinator) Collect(ctx context.Context, dry bool, each func(gc.Judgement) error) (gc.Report, error) {
	return c.gc.Now(ctx, dry, each)
}

// Scrub counts the archives to read back. Unless dry is set, it first asks the leader to read all of them now (SPEC 7).
// The leader begins within a minute, and its successor continues.
func (c *Coordinator) Scrub(ctx context.Context, dry bool) (store.Scrub, error) {
	if !dry {
		if err := c.store.RequestScrub(ctx); err != nil {
			return store.Scrub{}, err
		}
		c.scrub.Wake()
	}
	return c.store.Scrub(ctx)
}
