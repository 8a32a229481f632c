package processtest

import "go.uber.org/zap/zapcore"

// actionCore reports the actions that the controller carries out; the controller logs each at debug level.
type actionCore struct {
	report func(format string, args ...any)
}

// Enabled implements [zapcore.Core].
func (actionCore) Enabled(l zapcore.Level) bool { return l == zapcore.DebugLevel }

// With implements [zapcore.Core]. An action has none of the logger's own fields.
func (a actionCore) With([]zapcore.Field) zapcore.Core { return a }

// Check implements [zapcore.Core].
func (a actionCore) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if a.Enabled(e.Level) {
		return c.AddCore(e, a)
	}
	return c
}

// Write implements [zapcore.Core].
func (a actionCore) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if f.Key == "action" {
			a.report("action %s", f.String)
		}
	}
	return nil
}

// Sync implements [zapcore.Core].
func (actionCore) Sync() error { return nil }
