package activity

import "github.com/codehub/gateway/coordinator/setting"

// Mode is what the gateways of an installation count as use (SPEC 6).
type Mode string

const (
	// Presence counts what people do in pages that report it, and ignores traffic that such pages send automatically.
	Presence Mode = "presence"
	// Traffic counts all traffic.
	Traffic Mode = "traffic"
)

// DefaultMode is the default of [Settings].
const DefaultMode = Presence

// Validate reports an unknown mode, under the option's name. The empty mode is the default.
func (m Mode) Validate() error {
	if m == "" || m == Presence || m == Traffic {
		return nil
	}
	return setting.Errorf("activity", "%q is unknown; write %s or %s", m, Presence, Traffic)
}

// Presence reports whether the mode is [Presence]. The gateway calls it for every message, because a connection may
// stay open while the setting changes.
func (b *Buffer) Presence() bool { return b.presence.Load() }

// Now returns the clock of the hot path, in Unix milliseconds. It advances in steps.
func (b *Buffer) Now() int64 { return b.clock.Load() }
