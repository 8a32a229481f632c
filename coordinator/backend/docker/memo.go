package docker

import "sync"

// memo is a cache with one value per container id. Its zero value is empty, and it is
// safe for concurrent use. The caller bounds it by calling retain.
type memo[T any] struct {
	mu     sync.Mutex
	values map[string]T
}

// get returns the value for a container, if it is known.
func (m *memo[T]) get(id string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[id]
	return v, ok
}

// put sets the value for a container.
func (m *memo[T]) put(id string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]T{}
	}
	m.values[id] = v
}

// drop removes the value for a container that runs again.
func (m *memo[T]) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, id)
}

// retain drops the values of all containers but those that a full listing has seen.
func (m *memo[T]) retain(seen map[string]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.values {
		if _, ok := seen[id]; !ok {
			delete(m.values, id)
		}
	}
}
