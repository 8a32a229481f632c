package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Usage is the program's third task: it counts what the folders that follow hold, and asks
// how full the file system at [UsageDiskPath] is. It changes nothing.
const Usage = "usage"

const (
	// UsageDiskPath is a folder of the file system that the volumes are on.
	UsageDiskPath = "/disk"
	// UsageHomesPath is where homes are mounted, each under a name that the caller chooses.
	UsageHomesPath = "/homes"
	// EnvUsageSeconds is for how long the program counts at most, in whole seconds.
	EnvUsageSeconds = "CODEHUB_USAGE_SECONDS"
)

// UsageResult is the last line that the program prints.
type UsageResult struct {
	// Error says what failed; empty means that nothing did.
	Error string `json:"error,omitempty"`
	// Homes are the folders by their names. One that could not be read is missing.
	Homes map[string]HomeUsage `json:"homes,omitempty"`
	Disk  DiskUsage            `json:"disk"`
}

// HomeUsage is what a folder holds.
type HomeUsage struct {
	// Bytes is the sum of the regular files, of sparse ones what is stored, and of files
	// with several names once. Files counts everything below the folder.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// AtLeast says that not everything was counted: the time was up, or something could
	// not be read.
	AtLeast bool `json:"at_least,omitempty"`
}

// DiskUsage is how full a file system is.
type DiskUsage struct {
	// Total and Free are in bytes. What only root may use counts as neither.
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	// ID is that of the mounted file system, as statfs reports it: the same for all processes
	// on one machine.
	ID string `json:"id"`
}

// ParseUsageResult reads the last line of the program's output.
func ParseUsageResult(output []byte) (UsageResult, error) {
	var r UsageResult
	if err := json.Unmarshal(LastLine(output), &r); err != nil {
		return r, fmt.Errorf("the program printed no result, but %.300q; is the image the storage job's of this "+
			"release?", bytes.TrimSpace(output))
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}
