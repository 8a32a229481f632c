package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/setting"
)

// MinDisk is the smallest limit, in bytes, that leaves a program room for its temporary
// files.
const MinDisk = 16 << 20

// limitingDrivers are the engine's storage drivers that enforce a container's limit, or refuse to create the container.
// Others, such as those of containerd's image store, silently ignore the limit.
var limitingDrivers = []string{"overlay2", "btrfs", "zfs", "vfs", "fuse-overlayfs"}

// ErrCannotLimit is in the errors of [Options.CheckDriver], [DiskRefused] and [HomeRefused].
var ErrCannotLimit = errors.New("the engine cannot")

// These are the remedies if the engine cannot enforce a limit.
const (
	diskRemedy = "put the engine's data folder on xfs mounted with the option pquota and use the storage driver " +
		"overlay2, or set it to 0 for no limit"
	homeRemedy = "put the engine's data folder on xfs mounted with the option pquota, or set it to 0 for no limit"
)

func (o Options) validateDisk() error {
	var errs []error
	for name, n := range map[string]int64{"disk": o.DiskBytes, "home": o.HomeBytes} {
		if n != 0 && n < MinDisk {
			errs = append(errs, setting.Errorf("docker "+name, "%d bytes must be 0 for no limit, or at least %d", n, MinDisk))
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

// DiskRefused adds to err what to do, if the engine has refused to create a container because of that limit. It returns
// any other error unchanged.
func DiskRefused(limit map[string]string, err error) error {
	if len(limit) == 0 || !engine.NoDiskLimit.Is(err) {
		return err
	}
	return fmt.Errorf("the setting \"docker disk\" limits the disk of workspaces, and %w: %s: %w", ErrCannotLimit,
		diskRemedy, err)
}

// HomeRefused does the same as [DiskRefused], for a volume. limit is in bytes, 0 for none.
func HomeRefused(limit int64, err error) error {
	if limit == 0 || !engine.NoVolumeLimit.Is(err) {
		return err
	}
	return fmt.Errorf("the setting \"docker home\" limits the homes of workspaces, and %w: %s: %w", ErrCannotLimit,
		homeRemedy, err)
}
