package observation

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

// hung is a backend that accepts requests but does not answer.
type hung struct{ backend.Sensors }

func (hung) Containers(ctx context.Context, _ ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) Volumes(ctx context.Context, _ ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) Jobs(ctx context.Context, _ ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestABackendThatHangsIsLogged: if a sensor does not answer within the time for an observation, that is logged as an
// outage of the sensor. If it does not answer because the term ends, nothing is logged.
func TestABackendThatHangsIsLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	log := NewOutages(zap.New(core), nil)
	for range 2 {
		bounded, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if snap := Read(t.Context(), bounded, hung{}, nil, log, nil); snap.Unseen != workspace.AllSensors {
			t.Errorf("unseen: %v", snap.Unseen)
		}
		cancel()
	}
	if logs.Len() != 3 { // containers, volumes, jobs
		t.Errorf("logged: %v", logs.All())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	Read(ended, ended, hung{}, nil, NewOutages(zap.New(core), nil), nil)
	if logs.Len() != 3 {
		t.Errorf("the end of a term is logged: %v", logs.All())
	}
}
