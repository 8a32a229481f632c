package planner

import (
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMessages(t *testing.T) {
	for want, p := range map[string]workspace.Pull{
		"waiting for other images to be pulled before a:1": {Image: "a:1", Queued: true},
		"pulling image a:1":       {Image: "a:1"},
		"pulling 12.3MB so far":   {Image: "a:1", Done: 12_345_678},
		"pulling 120 of 540 MB":   {Image: "a:1", Done: 120e6, Total: 540e6},
		"pulling 900 of 3000 kB":  {Image: "a:1", Done: 900e3, Total: 3e6},
		"pulling 3000 of 3000 kB": {Image: "a:1", Done: 3e6, Total: 3e6},
	} {
		if got := pullMessage(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, d := range map[string]workspace.FullDisk{
		"the disk of the homes is 96% full": {Percent: 96},
		"the disk of the homes is 96% full; 1 sleeping workspace is being archived to make room":   {Percent: 96, Leaving: 1},
		"the disk of the homes is 96% full; 3 sleeping workspaces are being archived to make room": {Percent: 96, Leaving: 3},
	} {
		if got := fullDiskMessage(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
