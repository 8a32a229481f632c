package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/workspace"
)

// The channels of the schema's triggers (SPEC 4).
const (
	// ChannelSSE: a column that users see has changed.
	ChannelSSE = "ws_sse"
	// ChannelWake: the desired state has changed, or an error was cleared.
	ChannelWake = "ws_wake"
	// ChannelDeleted: the owner has deleted a workspace.
	ChannelDeleted = "ws_deleted"
	// ChannelRevoked: a session ended before it expired.
	ChannelRevoked = "session_revoked"
)

const listenSQL = `LISTEN ws_sse; LISTEN ws_wake; LISTEN ws_deleted; LISTEN session_revoked`

// Notification reports that a row changed. It is a hint: the receiver reads the row.
type Notification struct {
	// Channel is one of the Channel constants.
	Channel string
	// WorkspaceID is set on all but ChannelRevoked.
	WorkspaceID workspace.ID
	// OwnerID is the user who owns the workspace or session.
	OwnerID string
	// SessionID is set on ChannelRevoked.
	SessionID string
}

// Listen passes every notification to on, one after the other, until ctx ends or the connection is lost. It also ends
// when the server stops answering without closing the connection. It always returns an error. It calls onConnected when
// it begins to receive notifications. Later changes are reported; earlier ones must be read from the tables.
func (db *DB) Listen(ctx context.Context, onConnected func(), on func(Notification)) error {
	cfg := db.ConnConfig()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connecting to listen: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.livenessTimeout)
		defer cancel()
		conn.Close(closing)
	}()
	if err := db.showSession(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if onConnected != nil {
		onConnected()
	}
	for {
		n, err := db.next(ctx, conn)
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

// next waits for a notification. After livenessInterval without one it pings the server and returns nil.
func (db *DB) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, db.livenessInterval)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil {
		return n, nil
	}
	if ctx.Err() != nil || waiting.Err() == nil || conn.IsClosed() {
		return nil, err
	}
	pinging, cancel := context.WithTimeout(ctx, db.livenessTimeout)
	defer cancel()
	if err := conn.Ping(pinging); err != nil {
		return nil, fmt.Errorf("pinging the silent server: %w", err)
	}
	return nil, nil
}

// decode parses a payload of the schema's triggers. Every database user can NOTIFY, so other payloads are
// ignored.
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
