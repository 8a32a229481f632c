package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The channels of the schema's triggers (SPEC 4).
const (
	// ChannelSSE: what a user sees of a workspace has changed.
	ChannelSSE = "ws_sse"
	// ChannelWake: something was wished for.
	ChannelWake = "ws_wake"
	// ChannelDeleted: a workspace was deleted by its owner.
	ChannelDeleted = "ws_deleted"
	// ChannelRevoked: a session ended before its time.
	ChannelRevoked = "session_revoked"
)

const listenSQL = `LISTEN ws_sse; LISTEN ws_wake; LISTEN ws_deleted; LISTEN session_revoked`

// Notification tells that a row changed. It is a hint: look at the row.
type Notification struct {
	// Channel is one of the Channel constants.
	Channel string
	// WorkspaceID is set on all but ChannelRevoked.
	WorkspaceID workspace.ID
	// OwnerID is the user whose workspace or session it is.
	OwnerID string
	// SessionID is set on ChannelRevoked.
	SessionID string
}

// Listen calls on for every notification, one after the other, until ctx ends or
// the connection is lost, which it notices also when the server went away without
// a word; it always returns an error. onConnected is called once everything that
// changes from then on will be told: whoever missed something reads it then.
func (s *Store) Listen(ctx context.Context, onConnected func(), on func(Notification)) error {
	cfg := s.ConnConfig()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connecting to listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.livenessTimeout)
		defer cancel()
		conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if onConnected != nil {
		onConnected()
	}
	for {
		n, err := s.next(ctx, conn)
		if err != nil {
			return fmt.Errorf("waiting for notifications: %w", err)
		}
		if n == nil {
			continue
		}
		if v, ok := decode(n); ok {
			on(v)
		}
	}
}

// next waits for a notification; after livenessInterval without one it asks the
// server for an answer and returns nil.
func (s *Store) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, s.livenessInterval)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil {
		return n, nil
	}
	if ctx.Err() != nil || waiting.Err() == nil || conn.IsClosed() {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, s.livenessTimeout)
	defer cancel()
	if err := conn.Ping(asking); err != nil {
		return nil, fmt.Errorf("asking the silent server for an answer: %w", err)
	}
	return nil, nil
}

// decode reads a payload of the schema's triggers. Anybody who may connect may
// also NOTIFY, so what is not one is passed over.
func decode(n *pgconn.Notification) (Notification, bool) {
	var p struct {
		ID      string `json:"id"`
		Owner   string `json:"owner"`
		Session string `json:"session"`
	}
	if json.Unmarshal([]byte(n.Payload), &p) != nil {
		return Notification{}, false
	}
	out := Notification{Channel: n.Channel, OwnerID: p.Owner, SessionID: p.Session}
	if n.Channel == ChannelRevoked {
		return out, p.Session != ""
	}
	id, err := workspace.ParseID(p.ID)
	out.WorkspaceID = id
	return out, err == nil
}
