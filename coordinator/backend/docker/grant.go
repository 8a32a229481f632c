package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/storagejob/contract"
)

// deliver puts the job's grant into its scratch volume before the job starts. The engine shows the settings of a
// container to its clients, but not the content of a volume. The volume disappears together with the container. A
// second grant replaces the first.
func (d *Docker) deliver(ctx context.Context, containerID string, grant []byte) error {
	if len(grant) == 0 {
		return nil
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path.Base(contract.GrantPath), Size: int64(len(grant)), Mode: 0o400,
	})
	if err == nil {
		_, err = w.Write(grant)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("packing the storage job's grant: %w", err)
	}
	err = d.api.CopyToContainer(ctx, containerID, path.Dir(contract.GrantPath), &packed,
		container.CopyToContainerOptions{})
	if engine.NoContainer.Is(err) || engine.ContainerRemoved.Is(err) {
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return engine.Wrap("giving the storage job its grant", err)
}
