package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

type (
	actor       = service.Actor
	createInput = service.CreateInput
	patch       = service.Patch
)

type config struct {
	Node, Database, Redis string
	Archive               archive.Options
	Docker                docker.Options
	GCDelay, GCInterval   time.Duration
	Keep                  int
}

// prepare returns the coordinator of this release with the settings of the tests.
func prepare(ctx context.Context, c config, log *zap.Logger) (*coordinator.Coordinator, error) {
	core, err := coordinator.New(coordinator.Options{
		Database: c.Database, Redis: c.Redis, Archive: c.Archive, Docker: c.Docker, NodeID: c.Node,
	}, log)
	if err != nil {
		return nil, err
	}
	s := coordinator.DefaultSettings()
	s.Pressure = pressure.Settings{Interval: time.Hour}
	s.Leader.RetryInterval = 200 * time.Millisecond
	s.Reconcile.IdleInterval, s.Reconcile.SweepInterval = time.Second, time.Second
	s.TTL.Standby, s.TTL.Archive = 24*time.Hour, 24*time.Hour
	s.Limits.PerUser, s.Limits.Global = 100, 100
	s.GC.Delay, s.GC.Interval, s.GC.UploadExpiry, s.GC.Keep = c.GCDelay, c.GCInterval, c.GCDelay, c.Keep
	return core, core.Apply(ctx, s)
}
