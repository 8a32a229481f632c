package codehub

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/explain"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// world is what a command needs of the container engine and the object store: a command
// believes them by the same rules as the process that leads.
type world struct {
	backend  backend.Backend
	archives *archive.Store
	identity *identity.Guard
}

// withWorld calls do with the clients. None of them has been asked anything yet.
func (s servers) withWorld(do func(world) error) error {
	engine, err := docker.New(s.options.Docker)
	if err != nil {
		return fmt.Errorf("the settings of docker: %w", err)
	}
	defer engine.Close()
	archives, err := archive.New(s.options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	return do(world{engine, archives, identity.New(s.store, engine, archives, s.options.Docker.Installation, zap.NewNop())})
}

// withService calls do with the rules about workspaces, which look for what exists of one
// that is recovered.
func (s servers) withService(do func(*service.Service) error) error {
	return s.withWorld(func(w world) error {
		return do(service.New(s.store, service.Options{
			Limits: s.live.Limits, Inventory: w,
			Delays: explain.Delays{
				Standby: s.live.TTL.Standby, Archive: s.live.TTL.Archive, TTLInterval: s.live.TTL.Interval, KeepDeleted: s.live.GC.Delay,
				Timeouts: s.live.Reconcile.Timeouts, MaxRetry: s.live.Reconcile.MaxRetry, WaitLimit: s.live.Reconcile.WaitLimit,
			},
		}))
	})
}

// Inventory implements [service.Inventory]: what exists of a workspace's data, as far as
// engine and store are the recorded ones.
func (w world) Inventory(ctx context.Context, id workspace.ID) (workspace.Inventory, error) {
	volumes, err := w.backend.Volumes(ctx)
	if err == nil {
		err = w.identity.Backend(ctx) // after the listing: it is about what was listed
	}
	if err != nil {
		return workspace.Inventory{}, err
	}
	archives, err := w.archives.Versions(ctx, id)
	if err == nil {
		err = w.identity.Bucket(ctx)
	}
	if err != nil {
		return workspace.Inventory{}, err
	}
	found := workspace.Inventory{Archives: archives}
	if volume, ok := volumes[id]; ok {
		found.Volume = &volume
	}
	return found, nil
}
