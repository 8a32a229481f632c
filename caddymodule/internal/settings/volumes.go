package settings

import (
	"fmt"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/control/scarcity"
)

// DiskPressure sets what happens as the disk of the homes fills up.
type DiskPressure struct {
	// ArchiveAt is how full the disk is, such as `85%`, when the workspaces that have slept longest
	// are archived early, a few at a time, until it is 5 % lower; `off` disables this. No running
	// workspace is put to sleep for it. Default: 85%.
	ArchiveAt Value `json:"archive_at,omitempty"`
	// StopAt is how full the disk is when new workspaces and restores wait for space; workspaces
	// whose files are on the disk still wake up. `off` disables this. Default: 95%.
	StopAt Value `json:"stop_at,omitempty"`
}

// volumeTable lists the settings about the sizes of homes, their disk and memory; see [App.Table].
func (a *App) volumeTable(r *Resolved) []Setting {
	live := &r.Live
	share := func(n float64) string { return fmt.Sprintf("%g%%", n*100) }
	return []Setting{
		{"home_warn", &a.HomeWarn, "0", "", parse.Size(&live.HomeWarn)},
		{"disk_pressure archive_at", &a.DiskPressure.ArchiveAt, share(pressure.DefaultArchiveAt), "",
			parse.Percent(&live.Pressure.ArchiveAt)},
		{"disk_pressure stop_at", &a.DiskPressure.StopAt, share(pressure.DefaultStopAt), "",
			parse.Percent(&live.Pressure.StopAt)},
		{"memory_pressure", &a.MemoryPressure, share(scarcity.DefaultAt), "", parse.Percent(&live.Scarcity.At)},
	}
}
