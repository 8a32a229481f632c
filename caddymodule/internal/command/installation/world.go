package installation

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/identity"
)

// World is what a command needs of the container engine and the object store. A command
// believes them by the same rules as the process that leads.
type World struct {
	Backend  backend.Backend
	Archives *archive.Store
	Identity *identity.Guard
}

// WithWorld calls do with the clients. None of them has been asked anything yet.
func (s Servers) WithWorld(do func(World) error) error {
	engine, err := s.Options.NewBackend()
	if err != nil {
		return fmt.Errorf("the settings of %s: %w", s.Options.BackendName(), err)
	}
	defer engine.Close()
	archives, err := archive.New(s.Options.Archive)
	if err != nil {
		return fmt.Errorf("the settings of s3: %w", err)
	}
	return do(World{engine, archives, identity.New(s.Store, engine, archives, s.Options.Installation(), zap.NewNop())})
}
