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
	// Disk is that of the homes; nil where it is not known.
	Disk *backend.Disk
	// Archives is how well the current archives are, and Scrub what there is to read back.
	Archives store.ArchiveHealth
	Scrub    store.Scrub
}

// Overview reads it from the database and the backend. It costs as much as there are workspaces.
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
	// The backend may not answer: the rest is known all the same.
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if disk, err := c.homeDisk(asking); err == nil {
		o.Disk = &disk
	}
	return o, nil
}

// Collect shows what a garbage collection would do with the archives, if dry is set, or does one now
// (SPEC 7). It calls each with what becomes of an archive, and returns what [gc.Collect] returns.
func (c *Coordinator) Collect(ctx context.Context, dry bool, each func(gc.Judgement) error) (gc.Report, error) {
	return c.gc.Now(ctx, dry, each)
}

// Scrub says what there is to read back. Unless dry is set, it first asks the process that leads to
// read all of it now (SPEC 7). That one begins within a minute, and its successor goes on.
func (c *Coordinator) Scrub(ctx context.Context, dry bool) (store.Scrub, error) {
	if !dry {
		if err := c.store.RequestScrub(ctx); err != nil {
			return store.Scrub{}, err
		}
		c.scrub.Wake()
	}
	return c.store.Scrub(ctx)
}
