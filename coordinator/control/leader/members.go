package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/logkey"
)

// channel carries the hint that shards have become free or that a process has joined. With the hint, the other
// processes look immediately instead of at their next poll.
const channel = "codehub_leader"

// viewSQL reads the locks of an installation: the pairs, and the one-shard locks of processes that lead or wait to
// lead. The argument types of the oids need the casts.
const viewSQL = `SELECT pid, objid, objsubid = 1 FROM pg_locks
	WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND (objsubid = 2 AND classid = $1::oid AND granted
		OR objsubid = 1 AND classid = $2::oid AND objid = $3::oid AND mode = 'ExclusiveLock')`

// join makes this session a member.
func (s *session) join(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue("LISTEN " + channel)
	batch.Queue("SELECT pg_advisory_lock_shared($1, $2)", s.space, int32(memberKey(s.opts.Shards)))
	batch.Queue("SELECT pg_notify($1, '')", channel)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("joining the processes that share the shards: %w", err)
	}
	return nil
}

// part tells the others that this member has gone. Closing the connection would tell them, too, but a little later.
func (s *session) part() {
	if s.opts.Shards == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_advisory_unlock_all()")
	batch.Queue("SELECT pg_notify($1, '')", channel)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		s.log.Debug("the other processes were not told that this one ends; they find out", zap.Error(err))
	}
}

// look reads the members and the shards that each of them leads.
func (s *session) look(ctx context.Context) (view, error) {
	v := view{members: make(map[uint32]int), holders: make(map[key]uint32)}
	rows, err := s.conn.Query(ctx, viewSQL, uint32(s.space), uint32(s.opts.LockID>>32), uint32(s.opts.LockID))
	if err != nil {
		return view{}, fmt.Errorf("reading who leads the shards: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int32
		var object uint32
		var single bool
		if err := rows.Scan(&pid, &object, &single); err != nil {
			return view{}, fmt.Errorf("reading who leads the shards: %w", err)
		}
		switch k := key(object); {
		case single:
			v.single = true
		case k.kind() == kindMember:
			v.members[uint32(pid)] = k.shards()
		case k.kind() == kindShard:
			v.holders[k] = uint32(pid)
		}
	}
	if err := rows.Err(); err != nil {
		return view{}, fmt.Errorf("reading who leads the shards: %w", err)
	}
	return v, nil
}

// share reads the members. It takes the shards that this process should lead, and ends its terms for shards that other
// processes should lead.
func (s *session) share(ctx context.Context) error {
	asked := clock.Now()
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.heard.beat(asked)
	s.outage.Recovered()
	d := v.balance(s.conn.PgConn().PID(), s.opts.Shards)
	s.report(d.yield)
	// A process gives up shards only after it has seen the surplus twice, so that no shard moves because of a process
	// that joins and dies.
	give := len(d.give) > 0
	if give && (s.surplus || d.yield > 0) {
		for _, shard := range d.give {
			if t := s.terms[shard]; t != nil {
				s.revoke(t, errShared)
			}
		}
	}
	s.surplus = give
	for _, shard := range d.take {
		taken, err := s.take(ctx, shard)
		if err != nil {
			return err
		}
		if !taken {
			break // the next look shows more
		}
	}
	return s.leave(ctx)
}

// report logs once why this process leads nothing.
func (s *session) report(yield int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yielding == yield {
		return
	}
	s.yielding = yield
	if yield > 0 {
		s.log.Warn("other processes use another number of shards; this one waits until they have ended, or "+
			"have its number",
			zap.Int(logkey.Shards, s.opts.Shards), zap.Int(logkey.OtherShards, yield))
		return
	}
	s.log.Info("all processes use this number of shards now", zap.Int(logkey.Shards, s.opts.Shards))
}

// take begins a term of the shard if the shard's lock is free and no process with another number of shards leads.
func (s *session) take(ctx context.Context, shard int) (bool, error) {
	if !s.several {
		// A process that is configured with one shard, and leads or waits to lead, takes precedence.
		if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock_shared($1)", s.opts.LockID).Scan(
			&s.several); err != nil {
			return false, fmt.Errorf("excluding processes with one shard: %w", err)
		}
		if !s.several {
			return false, nil
		}
	}
	k := shardKey(s.opts.Shards, shard)
	var held bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", s.space, int32(k)).Scan(&held); err != nil {
		return false, fmt.Errorf("taking shard %d: %w", shard, err)
	}
	if !held {
		return false, nil
	}
	// Each process first takes the lock and then looks at the others. So of two processes with different numbers of
	// shards, at least one sees the other.
	v, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	for other := range v.holders {
		if other.shards() != s.opts.Shards {
			return false, s.unlock(ctx, shard)
		}
	}
	return true, s.begin(ctx, shard)
}

// unlock releases the lock of a shard and tells the others.
func (s *session) unlock(ctx context.Context, shard int) error {
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_advisory_unlock($1, $2)", s.space, int32(shardKey(s.opts.Shards, shard)))
	batch.Queue("SELECT pg_notify($1, '')", channel)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("giving up shard %d: %w", shard, err)
	}
	return nil
}

// leave lets processes that are configured with one shard lead, if this process leads no shard.
func (s *session) leave(ctx context.Context) error {
	if !s.several || len(s.terms) > 0 {
		return nil
	}
	s.several = false
	if _, err := s.conn.Exec(ctx, "SELECT pg_advisory_unlock_shared($1)", s.opts.LockID); err != nil {
		return fmt.Errorf("letting processes with one shard lead: %w", err)
	}
	return nil
}
