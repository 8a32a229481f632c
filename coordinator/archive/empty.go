package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/coordinator/workspace"
)

// CreateEmpty makes the archive of an empty home under key: the archive, then its
// commit marker. An archive that is already complete is left as it is, whatever
// it holds.
func (s *Store) CreateEmpty(ctx context.Context, key string) error {
	_, err := s.Stat(ctx, key)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := empty()
	if err != nil {
		return err
	}
	if err := s.put(ctx, key, content); err != nil {
		return fmt.Errorf("writing empty archive %s: %w", key, err)
	}
	sum := sha256.Sum256(content)
	if err := s.put(ctx, key+workspace.MetaSuffix, []byte(checksumForm+hex.EncodeToString(sum[:]))); err != nil {
		return fmt.Errorf("writing the commit marker of empty archive %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key string, content []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key),
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
	})
	return err
}

// empty is a compressed tar file without entries, the same bytes every time.
var empty = sync.OnceValues(func() ([]byte, error) {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		return nil, fmt.Errorf("compressing an empty archive: %w", err)
	}
	if err := errors.Join(tar.NewWriter(z).Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("compressing an empty archive: %w", err)
	}
	return out.Bytes(), nil
})
