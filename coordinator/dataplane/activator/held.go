package activator

import "sync"

// holds counts the waiting requests, in total and per user. If a workspace of one user does not start, its requests
// must not take the places of all users (SPEC 8).
type holds struct {
	mu             sync.Mutex // guards the fields below
	total          int64
	byUser         map[string]int64 // only users with waiting requests
	limit, perUser int64
}

// Admission is the answer of [Activator.Admit].
type Admission uint8

const (
	// Granted: the request may wait until [Activator.Leave].
	Granted Admission = iota
	// Full: the limit for all waiting requests is reached.
	Full
	// ShareFull: the limit for this user's waiting requests is reached.
	ShareFull
)

// SetMaxHeld changes how many requests may be held at a time, in total and per user. If perUser is 0, it is one in
// [DefaultShare] of limit, but at least 1.
func (a *Activator) SetMaxHeld(limit, perUser int64) {
	if perUser == 0 {
		perUser = max(limit/DefaultShare, 1)
	}
	a.held.mu.Lock()
	defer a.held.mu.Unlock()
	a.held.limit, a.held.perUser = limit, perUser
}

// Admit counts a user's request that waits for a workspace. Unless it returns [Granted], it counts nothing.
func (a *Activator) Admit(user string) Admission {
	h := &a.held
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.total >= h.limit:
		return Full
	case h.byUser[user] >= h.perUser:
		return ShareFull
	}
	if h.byUser == nil {
		h.byUser = make(map[string]int64)
	}
	h.total++
	h.byUser[user]++
	return Granted
}

// Leave ends a granted [Activator.Admit] of the user.
func (a *Activator) Leave(user string) {
	h := &a.held
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total--
	if h.byUser[user]--; h.byUser[user] == 0 {
		delete(h.byUser, user)
	}
}

// MaxHeld returns how many requests may be held at a time.
func (a *Activator) MaxHeld() int64 {
	a.held.mu.Lock()
	defer a.held.mu.Unlock()
	return a.held.limit
}

// Held returns how many requests are held.
func (a *Activator) Held() int64 {
	a.held.mu.Lock()
	defer a.held.mu.Unlock()
	return a.held.total
}
