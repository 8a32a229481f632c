package store

import (
	"context"
	"fmt"
)

// Holds reports whether f's epoch is still the newest of its lock. Destructive
// actions are preceded by this check (SPEC 5); writes contain the fence themselves.
func (s *Store) Holds(ctx context.Context, f Fence) (bool, error) {
	var held bool
	err := s.Pool().QueryRow(ctx,
		`SELECT EXISTS (SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2)`, f.Lock, f.Epoch).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("checking the fence of %s: %w", f.Lock, err)
	}
	return held, nil
}
