package codehub

import (
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// reloadableCore is a log core whose target changes in a reload. The coordinator needs it, because it outlives the
// configuration with whose log it was created.
type reloadableCore struct {
	target *atomic.Pointer[zapcore.Core]
	fields []zapcore.Field
}

func newReloadableCore(core zapcore.Core) *reloadableCore {
	c := &reloadableCore{target: new(atomic.Pointer[zapcore.Core])}
	c.use(core)
	return c
}

func (c *reloadableCore) use(core zapcore.Core) { c.target.Store(&core) }

// Enabled asks the current target.
func (c *reloadableCore) Enabled(level zapcore.Level) bool { return (*c.target.Load()).Enabled(level) }

// With returns a core that adds fields to the current target.
func (c *reloadableCore) With(fields []zapcore.Field) zapcore.Core {
	return &reloadableCore{c.target, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check adds this core, not the target, to the entry.
func (c *reloadableCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write lets the target decide once more, because it may sample.
func (c *reloadableCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if ce := (*c.target.Load()).Check(e, nil); ce != nil {
		ce.Write(append(c.fields[:len(c.fields):len(c.fields)], fields...)...)
	}
	return nil
}

// Sync flushes the current target.
func (c *reloadableCore) Sync() error { return (*c.target.Load()).Sync() }
