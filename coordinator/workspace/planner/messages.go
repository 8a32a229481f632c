package planner

import (
	"fmt"

	"github.com/docker/go-units"

	"github.com/codehub/gateway/coordinator/workspace"
)

// fullDiskMessage explains why no home is brought to the disk.
func fullDiskMessage(d workspace.FullDisk) string {
	switch {
	case d.Leaving == 1:
		return fmt.Sprintf("the disk of the homes is %d%% full; 1 sleeping workspace is being archived to make room",
			d.Percent)
	case d.Leaving > 1:
		return fmt.Sprintf("the disk of the homes is %d%% full; %d sleeping workspaces are being archived to make room",
			d.Percent, d.Leaving)
	}
	return fmt.Sprintf("the disk of the homes is %d%% full", d.Percent)
}

// pullMessage describes the progress of a pull.
func pullMessage(p workspace.Pull) string {
	switch {
	case p.Queued:
		return "waiting for other images to be pulled before " + p.Image
	case p.Done == 0:
		return "pulling image " + p.Image
	case p.Total < p.Done:
		return fmt.Sprintf("pulling %s so far", units.HumanSizeWithPrecision(float64(p.Done), 3))
	}
	unit, size := "MB", int64(units.MB)
	if p.Total < 10*units.MB {
		unit, size = "kB", units.KB
	}
	return fmt.Sprintf("pulling %d of %d %s", p.Done/size, p.Total/size, unit)
}

// queueMessage names the number of jobs that go first.
func queueMessage(before int) string {
	const why = "as many storage jobs run as may at once"
	switch {
	case before == 0:
		return why + "; it is next"
	case before == 1:
		return why + "; 1 is before it"
	case before > workspace.ExactlyBefore:
		return fmt.Sprintf("%s; at least %d are before it", why, before)
	}
	return fmt.Sprintf("%s; %d are before it", why, before)
}
