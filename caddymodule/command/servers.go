package command

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/service"
)

// world is what a command needs of the container engine and the object store. A command
// believes them by the same rules as the process that leads.
type world struct {
	backend  backend.Backend
	archives *archive.Store
	identity *identity.Guard
}

// withWorld calls do with the clients. None of them has been asked anything yet.
func (s servers) withWorld(do func(world) error) error {
	engine, err := s.Options.NewBackend()
	if err != nil {
		return fmt.Errorf("the settings of %s: %w", s.Options.BackendName(), err)
	}
	defer engine.Close()
	archives, err := archive.New(s.Options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	return do(world{engine, archives, identity.New(s.store, engine, archives, s.Options.Installation(), zap.NewNop())})
}

// withService calls do with the rules about workspaces, which look for what exists of one
// that is recovered.
func (s servers) withService(do func(*service.Service) error) error {
	return s.withWorld(func(w world) error {
		return do(service.New(s.store, service.Options{
			Limits: s.Live.Limits, Delays: s.Live.Delays(),
			Inventory: coordinator.Inventory{Backend: w.backend, Archives: w.archives, Identity: w.identity},
		}))
	})
}
