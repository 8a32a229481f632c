package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/storagejob/contract"
)

// CreateEmpty creates the archive of an empty home under key: the archive, then its
// commit marker. It never replaces a complete archive, or one whose commit marker
// is malformed: that is an error.
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
	if err := s.put(ctx, key, content.packed, nil); err != nil {
		return explain("writing empty archive "+key, err)
	}
	sum := sha256.Sum256(content.packed)
	if err := s.put(ctx, key+contract.MetaSuffix, []byte(contract.FormatMeta(hex.EncodeToString(sum[:]))), map[string]string{
		contract.MetaArchiveSize: strconv.Itoa(len(content.packed)),
		contract.MetaContentSize: strconv.Itoa(content.size),
	}); err != nil {
		return explain("writing the commit marker of empty archive "+key, err)
	}
	return nil
}

// put writes a small object.
func (s *Store) put(ctx context.Context, key string, content []byte, metadata map[string]string) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key),
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))), Metadata: metadata,
	})
	return err
}

// emptyArchive is a compressed tar file without entries.
type emptyArchive struct {
	packed []byte
	size   int // of the tar file, in bytes
}

// empty makes it once. The bytes are the same every time.
var empty = sync.OnceValues(func() (emptyArchive, error) {
	var plain, packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		return emptyArchive{}, fmt.Errorf("compressing an empty archive: %w", err)
	}
	if err := errors.Join(tar.NewWriter(io.MultiWriter(&plain, z)).Close(), z.Close()); err != nil {
		return emptyArchive{}, fmt.Errorf("compressing an empty archive: %w", err)
	}
	return emptyArchive{packed.Bytes(), plain.Len()}, nil
})
