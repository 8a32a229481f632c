package auditlog

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// How many refusals a process writes: RefusalsAtOnce in a burst, and then one per interval. Anyone can cause refusals,
// and they must not fill the table. The next entry says how many were left out.
const (
	RefusalsAtOnce  = 100
	refusalInterval = 10 * time.Second
)

// refusals limits the rate of the entries.
type refusals struct {
	outage *outage.Reporter
	mu     sync.Mutex
	rate   *rate.Limiter
	// leftOut counts the entries omitted since the last written one.
	leftOut int
}

// New returns the audit in a database. It performs no I/O. It logs refusals that cannot be written.
func New(db *postgres.DB, log *zap.Logger) *Log {
	return &Log{db, &refusals{
		outage: outage.New(log, zap.WarnLevel, "refusals cannot be written to the audit",
			"refusals can be written to the audit again"),
		rate: rate.NewLimiter(rate.Every(refusalInterval), RefusalsAtOnce),
	}}
}

// Refusal is a refused request.
type Refusal struct {
	Action audit.Action
	// Why is the type of the problem.
	Why string
	// UserID and Username are the user concerned, empty if there is none here. An unknown name MUST NOT be
	// given: people type passwords there.
	UserID, Username string
	Details          map[string]any
}

// Refused writes an entry of the context's actor. As nothing has changed, a failure to write is only logged,
// and the client's answer stays the same.
func (l *Log) Refused(ctx context.Context, r Refusal) {
	leftOut, ok := l.refusals.take()
	if !ok {
		return
	}
	if leftOut > 0 {
		details := map[string]any{"left_out": leftOut}
		for name, value := range r.Details {
			details[name] = value
		}
		r.Details = details
	}
	_, err := l.db.Pool().Exec(ctx, `
		INSERT INTO audit_log (actor, action, outcome, user_id, user_name, details)
		VALUES (audit_actor(@by::jsonb), @action, @why, @user, @name, @details)`, postgres.Args{
		"by": audit.Of(ctx), "action": string(r.Action), "why": r.Why, "user": postgres.NullText(r.UserID),
		"name": postgres.NullText(r.Username), "details": r.Details,
	})
	l.refusals.outage.Report(ctx, err)
}

// take reports whether one more refusal may be written, and how many were left out since the last one that was written.
func (r *refusals) take() (leftOut int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rate.Allow() {
		r.leftOut++
		return 0, false
	}
	leftOut, r.leftOut = r.leftOut, 0
	return leftOut, true
}
