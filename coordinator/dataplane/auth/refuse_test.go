package auth

import (
	"errors"
	"sync"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// TestRefuseEndsWhatIsOpenAndLetsNothingIn: Refuse ends everything that is open in this process, and no further request
// is admitted. It makes no difference whether a request's session is in memory, is being read at that moment, or does
// not exist.
func TestRefuseEndsWhatIsOpenAndLetsNothingIn(t *testing.T) {
	const sessions = 8 // twice as many as are read at the same time
	cause := errors.New("too old")
	for range 5 {
		if t.Failed() {
			return // each request that stays open takes a while
		}
		dsn := devenv.PostgreSQL(t)
		a, elsewhere := openAt(t, dsn, Options{}), openAt(t, dsn, Options{})
		addUser(t, a, "ann")
		inMemory := login(t, a, "ann")
		grant, err := a.Grant(t.Context(), inMemory)
		cached := attach(t, grant, err)
		vouched := attach(t, a.Vouched("somebody"), nil)
		var reading sync.WaitGroup
		var late [sessions]*opened
		for i := range late {
			token := login(t, a, "ann")
			reading.Go(func() {
				grant, err := a.Grant(t.Context(), token)
				o := &opened{ended: make(chan struct{})}
				switch {
				case err == nil && grant.Attach(&o.stream, o):
					late[i] = o
				case err != nil && !errors.Is(err, cause):
					t.Errorf("a session that is being read: %v", err)
				}
			})
		}
		a.Refuse(cause)
		reading.Wait()
		cached.wait(t, "a session in memory")
		vouched.wait(t, "without a session")
		for _, o := range late {
			if o != nil && !t.Failed() {
				o.wait(t, "a session that was being read")
			}
			if o != nil {
				o.stream.Detach()
			}
		}
		wantSession(t, a, "in memory", inMemory, cause)
		if grant := a.Vouched("somebody"); grant.Attach(new(Stream), nil) {
			t.Error("a user without a session is let in")
		}
		wantSession(t, elsewhere, "in another process", inMemory, nil)
	}
}
