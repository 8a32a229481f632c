package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/runtime/docker"
	"github.com/codehub/gateway/coordinator/service"
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
}

// prepare returns the coordinator of this release with the settings of the tests.
func prepare(_ context.Context, c config, log *zap.Logger) (*coordinator.Coordinator, error) {
	core, err := coordinator.New(coordinator.Options{
		Database: c.Database, Redis: c.Redis, Archive: c.Archive, Docker: c.Docker, NodeID: c.Node,
	}, log)
	if err != nil {
		return nil, err
	}
	s := coordinator.DefaultSettings()
	s.RetryInterval, s.Reconcile.IdleInterval = 200*time.Millisecond, time.Second
	s.StandbyTTL, s.ArchiveTTL = 24*time.Hour, 24*time.Hour
	s.Limits.PerUser, s.Limits.Global = 100, 100
	s.GCDelay, s.GCInterval = c.GCDelay, c.GCInterval
	core.Apply(s)
	return core, nil
}
