package settings

import (
	"fmt"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Work sets which activity keeps an unused workspace awake.
type Work struct {
	// Cap is how long after its last use a workspace may be kept awake by work. Default: 12h.
	Cap Value `json:"cap,omitempty"`
	// KeepAwakeCommands are the names of programs, separated by commas, that count as work whenever
	// they are in the foreground of a terminal; `none` for none. By default they are the usual
	// coding agents, which may wait hours for an answer.
	KeepAwakeCommands Value `json:"keep_awake_commands,omitempty"`
}

// noCommands is the value with which no command counts by its name.
const noCommands = "none"

// workTable lists the settings about work.
func (a *App) workTable(r *Resolved) []Setting {
	live := &r.Live
	work := &live.TTL.Work
	text := func(v any) string { return fmt.Sprint(v) }
	return []Setting{
		{"ttl keep_awake_max", &a.TTL.KeepAwakeMax, text(live.MaxKeepAwake), "",
			parse.Duration(&live.MaxKeepAwake, 0)},
		{"work cap", &a.Work.Cap, text(work.Cap), "", parse.Duration(&work.Cap, 0)},
		{"work keep_awake_commands", &a.Work.KeepAwakeCommands, strings.Join(work.Commands, ","), "",
			func(text string) error {
				work.Commands = nil
				if text != noCommands {
					work.Commands = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
				}
				return nil
			}},
	}
}
