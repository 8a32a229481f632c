package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Usage is the program's usage task: it counts the content of the folders given as further arguments, and reads how
// full the file system at [UsageDiskPath] is. It changes nothing.
const Usage = "usage"

const (
	// UsageDiskPath is a folder in the volumes' file system.
	UsageDiskPath = "/disk"
	// UsageHomesPath is where homes are mounted, each under a name chosen by the caller.
	UsageHomesPath = "/homes"
	// EnvUsageSeconds limits how long the program counts, in whole seconds.
	EnvUsageSeconds = "CODEHUB_USAGE_SECONDS"
)

// UsageResult is the last line that the program prints.
type UsageResult struct {
	// Error says what failed; it is empty on success.
	Error string `json:"error,omitempty"`
	// Homes are the folders by name, without those that could not be read.
	Homes map[string]HomeUsage `json:"homes,omitempty"`
	Disk  DiskUsage            `json:"disk"`
}

// HomeUsage describes the content of a folder.
type HomeUsage struct {
	// Bytes is the sum of the regular files. Of a sparse file, only the stored data counts. A file with several names
	// counts once. Files counts everything below the folder.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// AtLeast reports that not everything was counted: the time was up, or something could not be read.
	AtLeast bool `json:"at_least,omitempty"`
}

// DiskUsage describes how full a file system is.
type DiskUsage struct {
	// Total and Free are in bytes. Neither includes the space reserved for root.
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	// ID identifies the mounted file system, as statfs reports it: it is the same for all processes on one machine.
	ID string `json:"id"`
}

// ParseUsageResult reads the last line of the program's output.
func ParseUsageResult(output []byte) (UsageResult, error) {
	var r UsageResult
	if err := json.Unmarshal(LastLine(output), &r); err != nil {
		return r, fmt.Errorf("the program printed no result, but %.300q; is the image that of this release's "+
			"storage job?", bytes.TrimSpace(output))
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}
