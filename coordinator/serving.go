package coordinator

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// servingInterval is how often a process asks whether the schema still serves its release, and how long it waits for
// the answer. A newer process may raise the required release at any time. Then the columns that this process writes may
// have another meaning.
const servingInterval = 5 * time.Second

// Refused returns why this process must not serve requests any more, or nil (SPEC 12.14). It performs no I/O.
// Once it has returned an error, it always does. If the requirement is lowered again, for example because the database
// was restored, the process notices this only at its next start.
func (c *Coordinator) Refused() *postgres.OlderError { return c.refused.Load() }

// watchServing polls the requirement, and ends all components if the schema does not serve this process any
// more.
func (c *Coordinator) watchServing(ctx context.Context) error {
	periodic.New("asking which releases the schema serves", servingInterval, c.checkServing, c.log.Named("serving")).Run(ctx)
	return nil
}

// checkServing asks once. An outage says nothing about the schema.
func (c *Coordinator) checkServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, servingInterval)
	defer cancel()
	r, err := c.store.Release(ctx)
	if err != nil {
		return err
	}
	var older *postgres.OlderError
	if errors.As(r.MayServe(), &older) {
		c.refuse(older)
	}
	return nil
}

// refuse ends the work of a process that is too old. Requests see why before anything that they
// wait for ends.
func (c *Coordinator) refuse(older *postgres.OlderError) {
	c.refused.Store(older)
	c.log.Error("this process is too old for the schema of the database: it leads nothing any more, "+
		"and answers every request with 503 until it is replaced",
		zap.Error(older))
	c.Auth.Refuse(older)
	c.cancel()
}
