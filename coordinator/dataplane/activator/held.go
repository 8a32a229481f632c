package activator

import "sync"

// holds counts the requests that wait, in all and of each user. One user's workspace that does
// not come up must not take the places of all users (SPEC 8).
type holds struct {
	mu             sync.Mutex // guards what follows
	total          int64
	byUser         map[string]int64 // without users of whom no request waits
	limit, perUser int64
}

// Held is the answer of [Activator.Hold].
type Held uint8

const (
	// Granted: the request may wait until [Activator.Release].
	Granted Held = iota
	// Full: as many requests wait as may wait at all.
	Full
	// ShareFull: as many requests of this user wait as may wait of one user.
	ShareFull
)

// SetMaxHeld changes how many requests may be held at a time, in all and of one user.
// perUser 0 means one in [DefaultShare] of all, at least one.
func (a *Activator) SetMaxHeld(limit, perUser int64) {
	if perUser == 0 {
		perUser = max(limit/DefaultShare, 1)
	}
	a.held.mu.Lock()
	defer a.held.mu.Unlock()
	a.held.limit, a.held.perUser = limit, perUser
}

// Hold counts a request of a user that waits for a workspace. Unless it returns [Granted],
// nothing is counted.
func (a *Activator) Hold(user string) Held {
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

// Release ends what a granted [Activator.Hold] of the user began.
func (a *Activator) Release(user string) {
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
