package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// term is one leadership of one shard by this process.
type term struct {
	Term
	ctx    context.Context
	cancel context.CancelCauseFunc
	err    error // of the work; valid once the term was sent to session.ended
}

// revoke ends a term: its lease immediately, its work soon. Only the first cause counts.
func (s *session) revoke(t *term, cause error) {
	t.cancel(cause)
	s.leads(t.Shard, false)
}

// begin writes the epoch of a shard whose lock this session holds, and starts its work.
func (s *session) begin(ctx context.Context, shard int) error {
	asked := clock.Now()
	epoch, err := s.nextEpoch(ctx, shard)
	if err != nil {
		return err
	}
	s.heard.beat(asked)
	leading, cancel := context.WithCancelCause(s.work)
	t := &term{ctx: leading, cancel: cancel, Term: Term{
		Fence: postgres.Fence{Lock: s.opts.lockName(shard), Epoch: epoch}, Shard: shard, Shards: s.opts.Shards,
		Lease: func() bool { return leading.Err() == nil && s.heard.within(s.opts.LeaseDuration) },
	}}
	s.terms[shard] = t
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.leads(shard, true)
	s.log.Info("this process is the leader now", zap.Int(logkey.Shard, shard), zap.Int(logkey.Shards, s.opts.Shards),
		zap.Int64(logkey.Epoch, epoch))
	go func() {
		t.err = guard.Call(guard.Component, func() error { return s.lead(leading, t.Term) })
		s.ended <- t
		s.bell.ring()
	}()
	return nil
}

// nextEpoch creates the epoch of a term, on the connection that holds the lock. Both statements are one transaction.
// If the number of shards has changed, the first statement ends the epochs of all terms with the former number. This is
// necessary because a suspended leader of such a term may still exist, and its shard overlaps several of the present
// shards.
func (s *session) nextEpoch(ctx context.Context, shard int) (epoch int64, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE system_locks SET epoch = epoch + 1, shards = $2 WHERE shards <> $2 AND (lock_name = $1
		OR starts_with(lock_name, $1 || '/') AND substr(lock_name, length($1) + 2) ~ '^[0-9]+$')`,
		s.opts.Lock, s.opts.Shards)
	batch.Queue(`
		INSERT INTO system_locks AS l (lock_name, holder_id, epoch, shards, acquired_at)
		VALUES ($1, $2, 1, $3, now())
		ON CONFLICT (lock_name) DO UPDATE
		SET holder_id = excluded.holder_id, epoch = l.epoch + 1, shards = excluded.shards, acquired_at = now()
		RETURNING epoch`, s.opts.lockName(shard), s.opts.Node, s.opts.Shards).
		QueryRow(func(row pgx.Row) error { return row.Scan(&epoch) })
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return 0, fmt.Errorf("beginning the leader's epoch: %w", err)
	}
	return epoch, nil
}

// confirm asks the server whether the epochs of all terms are still this process's own.
func (s *session) confirm(ctx context.Context) error {
	names := make([]string, 0, len(s.terms))
	for _, t := range s.terms {
		names = append(names, t.Fence.Lock)
	}
	rows, err := s.conn.Query(ctx, "SELECT lock_name, epoch FROM system_locks WHERE lock_name = ANY ($1)", names)
	if err != nil {
		return fmt.Errorf("the server does not confirm the leader's lock: %w", err)
	}
	epochs := make(map[string]int64, len(names))
	var name string
	var epoch int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &epoch}, func() error {
		epochs[name] = epoch
		return nil
	}); err != nil {
		return fmt.Errorf("the server does not confirm the leader's lock: %w", err)
	}
	for _, t := range slices.SortedFunc(maps.Values(s.terms), func(a, b *term) int { return a.Shard - b.Shard }) {
		if now := epochs[t.Fence.Lock]; now != t.Fence.Epoch {
			return fmt.Errorf("epoch %d has begun while epoch %d held the lock of %q: the schema was upgraded and "+
				"asks for another election, or two lock ids are in use", now, t.Fence.Epoch, t.Fence.Lock)
		}
	}
	return nil
}

// giveBack releases the lock of a term whose work has ended, so that the next leader need not wait until PostgreSQL
// notices that the connection is closed.
func (s *session) giveBack(t *term) error {
	delete(s.terms, t.Shard)
	ctx, cancel := context.WithDeadline(context.Background(), s.heard.deadline(s.opts.LeaseDuration))
	defer cancel()
	if s.opts.Shards > 1 {
		s.log.Info("this process is no longer the leader of a shard", zap.Int(logkey.Shard, t.Shard),
			zap.Error(context.Cause(t.ctx)))
		if err := s.unlock(ctx, t.Shard); err != nil {
			return err
		}
		return s.leave(ctx)
	}
	if _, err := s.conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", s.opts.LockID); err != nil {
		return fmt.Errorf("giving up the leader's lock: %w", err)
	}
	return nil
}
