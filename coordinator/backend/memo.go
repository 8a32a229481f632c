package backend

import "sync"

// Memo is a cache of what an implementation knows of a container, by its own id of that
// incarnation. Its zero value is empty, and it is safe for concurrent use. The caller
// bounds it by calling Retain.
type Memo[T any] struct {
	mu     sync.Mutex
	values map[string]T
}

// Get returns the value for a container, if it is known.
func (m *Memo[T]) Get(id string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[id]
	return v, ok
}

// Put sets the value for a container.
func (m *Memo[T]) Put(id string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]T{}
	}
	m.values[id] = v
}

// Drop removes the value for a container that runs again.
func (m *Memo[T]) Drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, id)
}

// Retain drops the values of all containers but those that a full listing has seen.
func (m *Memo[T]) Retain(seen map[string]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.values {
		if _, ok := seen[id]; !ok {
			delete(m.values, id)
		}
	}
}
