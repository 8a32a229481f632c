package codehub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator"
)

// stopTimeout bounds stopping the coordinator: flushing activity, giving up the
// leadership, closing connections.
const stopTimeout = 10 * time.Second

// coordinators holds the running coordinators, one per installation and set of
// servers. Caddy provisions and starts a new configuration before it stops the
// old one, so both share the entry for a while.
var coordinators = caddy.NewUsagePool()

// shared is a coordinator together with the configurations that use it.
type shared struct {
	coordinator *coordinator.Coordinator
	log         *handover

	mu sync.Mutex
	// active are the started configurations, the newest last: its settings hold. A
	// new one that fails to start is taken away again, and the one before it holds.
	active   []*lease
	password string
}

// Destruct stops the coordinator. The pool calls it when nobody holds it.
func (s *shared) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.coordinator.Stop(ctx); err != nil {
		return fmt.Errorf("codehub: stopping the coordinator: %w", err)
	}
	return nil
}

// lease is one configuration's hold on a coordinator.
type lease struct {
	shared   *shared
	key      string
	settings coordinator.Settings
	password string
	log      zapcore.Core
	released atomic.Bool
}

// acquire takes hold of the coordinator that belongs to the options, making it if
// there is none. It performs no I/O.
func acquire(o coordinator.Options, live coordinator.Settings, log *zap.Logger) (*lease, error) {
	l := &lease{key: poolKey(o), settings: live, password: o.AdminPassword, log: log.Core()}
	value, _, err := coordinators.LoadOrNew(l.key, func() (caddy.Destructor, error) {
		h := newHandover(l.log)
		c, err := coordinator.New(o, zap.New(h).Named(log.Name()))
		if err != nil {
			return nil, err
		}
		return &shared{coordinator: c, log: h, password: o.AdminPassword}, nil
	})
	if err != nil {
		return nil, err
	}
	l.shared = value.(*shared)
	return l, nil
}

func (l *lease) c() *coordinator.Coordinator { return l.shared.coordinator }

// enter makes the lease's settings hold and starts the coordinator if it does not
// run yet.
func (l *lease) enter(ctx context.Context) error {
	s := l.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = append(s.active, l)
	s.use(l)
	if err := s.coordinator.Start(ctx); err != nil {
		s.drop(l)
		return fmt.Errorf("starting the coordinator: %w", err)
	}
	if err := s.ensurePassword(ctx, l.password); err != nil {
		s.drop(l)
		return err
	}
	return nil
}

// leave takes the lease's settings away. Those of the newest remaining
// configuration hold again.
func (l *lease) leave() error {
	s := l.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.drop(l)
	if now == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.ensurePassword(ctx, now.password)
}

// release gives the coordinator back, once.
func (l *lease) release() error {
	if l.released.Swap(true) {
		return nil
	}
	_, err := coordinators.Delete(l.key)
	return err
}

func (s *shared) use(l *lease) {
	s.log.use(l.log)
	s.coordinator.Apply(l.settings)
}

// drop removes l and returns the configuration whose settings hold now.
func (s *shared) drop(l *lease) *lease {
	kept := s.active[:0:0]
	for _, other := range s.active {
		if other != l {
			kept = append(kept, other)
		}
	}
	newest := len(s.active) > 0 && s.active[len(s.active)-1] == l
	s.active = kept
	if len(kept) == 0 {
		return nil
	}
	if newest {
		s.use(kept[len(kept)-1])
	}
	return kept[len(kept)-1]
}

// ensurePassword gives the administrator a password that changed in a reload. At
// the first start the coordinator does that itself.
func (s *shared) ensurePassword(ctx context.Context, password string) error {
	if password == "" || password == s.password {
		return nil
	}
	if _, err := s.coordinator.Auth().EnsureUser(ctx, "admin", password, "admin"); err != nil {
		return fmt.Errorf("setting the password of the user admin: %w", err)
	}
	s.password = password
	return nil
}

// poolKey names the coordinator that belongs to the options. The administrator's
// password is left out, because a reload can change it, as are the live settings.
// It is a hash because the options hold secrets.
func poolKey(o coordinator.Options) string {
	o.AdminPassword = ""
	text, err := json.Marshal(o)
	if err != nil { // cannot happen: the options are plain values
		panic(fmt.Sprintf("codehub: hashing the options: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// handover is a log core whose target changes at a reload: the coordinator
// outlives the configuration whose logs it began to write to.
type handover struct {
	target *atomic.Pointer[zapcore.Core]
	fields []zapcore.Field
}

func newHandover(core zapcore.Core) *handover {
	h := &handover{target: new(atomic.Pointer[zapcore.Core])}
	h.use(core)
	return h
}

func (h *handover) use(core zapcore.Core) { h.target.Store(&core) }

// Enabled asks the present target.
func (h *handover) Enabled(level zapcore.Level) bool { return (*h.target.Load()).Enabled(level) }

// With returns a core that adds fields to whatever the target is by then.
func (h *handover) With(fields []zapcore.Field) zapcore.Core {
	return &handover{h.target, append(h.fields[:len(h.fields):len(h.fields)], fields...)}
}

// Check adds this core, not the target, to the entry.
func (h *handover) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if h.Enabled(e.Level) {
		return ce.AddCore(e, h)
	}
	return ce
}

// Write lets the target decide once more, because it may sample.
func (h *handover) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if ce := (*h.target.Load()).Check(e, nil); ce != nil {
		ce.Write(append(h.fields[:len(h.fields):len(h.fields)], fields...)...)
	}
	return nil
}

// Sync flushes the present target.
func (h *handover) Sync() error { return (*h.target.Load()).Sync() }
