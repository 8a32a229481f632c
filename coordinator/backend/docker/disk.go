package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// minDisk is the smallest limit, in bytes, that leaves a program room for its temporary
// files.
const minDisk = 16 << 20

// limitingDrivers are the engine's storage drivers that enforce a limit on a container, or
// refuse to create it. Others, such as those of containerd's image store, ignore the limit
// without a word.
var limitingDrivers = []string{"overlay2", "btrfs", "zfs", "vfs", "fuse-overlayfs"}

// What to do where there are no limits.
const (
	diskRemedy = "put the engine's data folder on xfs mounted with the option pquota and use the storage driver overlay2, or set it to 0 for no limit"
	homeRemedy = "put the engine's data folder on xfs mounted with the option pquota, or set it to 0 for no limit"
)

func (o Options) validateDisk() error {
	var errs []error
	for name, n := range map[string]int64{"disk": o.DiskBytes, "home": o.HomeBytes} {
		if n != 0 && n < minDisk {
			errs = append(errs, fmt.Errorf("docker %s: %d bytes must be 0 for no limit, or at least %d", name, n, minDisk))
		}
	}
	return errors.Join(errs...)
}

// sizeOption is a limit as the engine takes it, for a container and for a volume alike.
func sizeOption(n int64) map[string]string {
	if n == 0 {
		return nil
	}
	return map[string]string{"size": strconv.FormatInt(n, 10)}
}

// checkDiskDriver fails if the engine would ignore the limit of a container.
func (d *Docker) checkDiskDriver(ctx context.Context) error {
	if d.opts.DiskBytes == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	info, err := d.api.Info(ctx)
	if err != nil {
		return engine.Wrap("asking the engine for its storage driver", err)
	}
	if !slices.Contains(limitingDrivers, info.Driver) {
		return fmt.Errorf("the setting \"docker disk\" limits the disk of workspaces, and the engine's storage driver %s cannot: %s", info.Driver, diskRemedy)
	}
	return nil
}

// diskRefused says what to do if the engine refuses a limited container.
func diskRefused(limit map[string]string, err error) error {
	if len(limit) == 0 || !strings.Contains(err.Error(), "storage-opt") && !strings.Contains(err.Error(), "quota") {
		return err
	}
	return fmt.Errorf("the setting \"docker disk\" limits the disk of workspaces, and the engine cannot: %s: %w", diskRemedy, err)
}

// homeRefused says what to do if the engine refuses a limited volume.
func homeRefused(limit int64, err error) error {
	if limit == 0 || !strings.Contains(err.Error(), "quota") && !strings.Contains(err.Error(), "invalid option") {
		return err
	}
	return fmt.Errorf("the setting \"docker home\" limits the homes of workspaces, and the engine cannot: %s: %w", homeRemedy, err)
}
