package backend

import (
	"sync"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Memo is a cache of facts about the containers of workspaces, by the id of that incarnation. Its zero value is empty,
// and it is safe for concurrent use. The caller bounds it by calling Retain after each listing: before a workspace
// disappears, a listing shows it without containers.
type Memo[T any] struct {
	mu     sync.Mutex
	values map[workspace.ID]map[string]T
}

// Get returns the value for a container of a workspace, if it is known.
func (m *Memo[T]) Get(of workspace.ID, id string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[of][id]
	return v, ok
}

// Put sets the value for a container.
func (m *Memo[T]) Put(of workspace.ID, id string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[workspace.ID]map[string]T{}
	}
	if m.values[of] == nil {
		m.values[of] = map[string]T{}
	}
	m.values[of][id] = v
}

// Drop removes the value for a container that runs again.
func (m *Memo[T]) Drop(of workspace.ID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(of, id)
}

// drop is Drop with the lock held.
func (m *Memo[T]) drop(of workspace.ID, id string) {
	if delete(m.values[of], id); len(m.values[of]) == 0 {
		delete(m.values, of)
	}
}

// Retain drops the values of containers that are not in seen. seen are the containers of the latest listing, and of are
// the workspaces that were listed; if of is empty, all workspaces were.
func (m *Memo[T]) Retain(of []workspace.ID, seen map[string]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	retain := func(of workspace.ID) {
		for id := range m.values[of] {
			if _, ok := seen[id]; !ok {
				m.drop(of, id)
			}
		}
	}
	for _, id := range of {
		retain(id)
	}
	if len(of) == 0 {
		for id := range m.values {
			retain(id)
		}
	}
}
