package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

// Swap makes the volume equal to what [Volume.Commit] recorded: it removes everything else, moves the unpacked files in
// and sets the root's attributes. When Swap returns nil, all of that is on disk. After an interruption it must be
// called again: until then the volume is incomplete, but nothing is lost.
func (v *Volume) Swap(ctx context.Context, sum string) (err error) {
	defer func() { err = refused(err) }()
	verified, cleared := v.staged(stageVerified+sum), v.staged(stageCleared+sum)
	if _, err := v.root.Lstat(verified); err == nil {
		if err := v.each(ctx, ".", func(name string) error {
			if name == v.staging {
				return nil
			}
			if err := v.about("remove " + name); err != nil {
				return err
			}
			return v.root.RemoveAll(name)
		}); err != nil {
			return fmt.Errorf("emptying the volume: %w", err)
		}
		if err := v.rename(verified, cleared); err != nil {
			return err
		}
	}
	if err := v.each(ctx, cleared,
		func(name string) error { return v.rename(path.Join(cleared, name), name) }); err != nil {
		return fmt.Errorf("moving the files in: %w", err)
	}
	return v.finish(sum)
}

// finish sets the root's attributes, leaves the mark and removes the staging folder. If it is killed before the mark,
// the next run repeats everything; for a kill after it, see [Volume.Restored].
func (v *Volume) finish(sum string) error {
	if err := v.about("set root attributes"); err != nil {
		return err
	}
	mtime := v.mtime
	switch f, err := v.root.Open(v.staged(stageRoot)); {
	case err == nil:
		defer f.Close()
		root, err := attrs.Of(int(f.Fd()))
		if err != nil {
			return fmt.Errorf("reading the root's attributes: %w", err)
		}
		if _, err := root.Apply(v.fd()); err != nil {
			return fmt.Errorf("setting the root's attributes: %w", err)
		}
		mtime = root.ModTime
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("reading the root's attributes: %w", err)
	}
	if v.operation == "" {
		return v.leave(mtime)
	}
	marked, err := v.mark(mark{Sum: sum, ModTime: mtime})
	if err != nil {
		return err
	}
	if !marked {
		return v.keepStaging(sum, mtime)
	}
	return v.close(mark{Sum: sum, ModTime: mtime})
}

// leave removes the staging folder and sets the root's modification time. When it returns nil, the whole volume is on
// disk.
func (v *Volume) leave(mtime time.Time) error {
	if err := v.about("remove staging"); err != nil {
		return err
	}
	if err := v.root.RemoveAll(v.staging); err != nil {
		return fmt.Errorf("removing the staging folder: %w", err)
	}
	if err := v.about("set root time"); err != nil {
		return err
	}
	if err := attrs.SetModTime(v.fd(), mtime); err != nil {
		return err
	}
	return v.sync()
}
