package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// MinDisk is the smallest limit, in bytes, that leaves a program room for its temporary
// files.
const MinDisk = 16 << 20

// limitingDrivers are the engine's storage drivers that enforce a container's limit, or refuse to create the container.
// Others, such as those of containerd's image store, silently ignore the limit.
var limitingDrivers = []string{"overlay2", "btrfs", "zfs", "vfs", "fuse-overlayfs"}

// ErrCannotLimit is in the errors of [Options.CheckDriver], [CannotLimitDisk] and [CannotLimitHome].
var ErrCannotLimit = errors.New("the engine cannot")

// The remedies if there are no limits.
const (
	diskRemedy = "put the engine's data folder on xfs mounted with the option pquota and use the storage driver " +
		"overlay2, or set it to 0 for no limit"
	homeRemedy = "put the engine's data folder on xfs mounted with the option pquota, or set it to 0 for no limit"
)

func (o Options) validateDisk() error {
	var errs []error
	for name, n := range map[string]int64{"disk": o.DiskBytes, "home": o.HomeBytes} {
		if n != 0 && n < MinDisk {
			errs = append(errs, fmt.Errorf("docker %s: %d bytes must be 0 for no limit, or at least %d",
				name, n, MinDisk))
		}
	}
	return errors.Join(errs...)
}

// SizeOption returns a limit in bytes as an option of a container or a volume.
func SizeOption(n int64) map[string]string {
	if n == 0 {
		return nil
	}
	return map[string]string{"size": strconv.FormatInt(n, 10)}
}

// CheckDriver fails if an engine with that storage driver would ignore the limit of a container.
func (o Options) CheckDriver(driver string) error {
	if o.DiskBytes == 0 || slices.Contains(limitingDrivers, driver) {
		return nil
	}
	return fmt.Errorf("the setting \"docker disk\" limits the disk of workspaces, and %w with its storage "+
		"driver %s: %s",
		ErrCannotLimit, driver, diskRemedy)
}

// CannotLimitDisk says what to do when the engine refuses a container because of its limit.
func CannotLimitDisk(err error) error {
	return fmt.Errorf("the setting \"docker disk\" limits the disk of workspaces, and %w: %s: %w", ErrCannotLimit,
		diskRemedy, err)
}

// CannotLimitHome says what to do when the engine refuses a volume because of its limit.
func CannotLimitHome(err error) error {
	return fmt.Errorf("the setting \"docker home\" limits the homes of workspaces, and %w: %s: %w", ErrCannotLimit,
		homeRemedy, err)
}
