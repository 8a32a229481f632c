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
	"net/http"
	"strconv"
	"sync"

	"filippo.io/age"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/storagejob/contract"
)

// CreateEmpty creates the archive of an empty home under key: the archive, encrypted if there are recipients, and then
// its commit marker. It never replaces a complete archive. Nor does it replace an archive whose commit marker is
// malformed; it then returns an error.
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
	packed := content.packed
	if keys := s.settings.Load().Keys; len(keys.Recipients) == 0 {
		err = s.put(ctx, key, packed, nil)
	} else if packed, err = keys.encrypt(packed); err == nil {
		packed, err = s.putEncrypted(ctx, key, packed, keys)
	}
	if err != nil {
		return explain("writing empty archive "+key, err)
	}
	sum := sha256.Sum256(packed)
	if err := s.put(ctx, key+contract.MetaSuffix, []byte(contract.FormatMeta(hex.EncodeToString(sum[:]))),
		map[string]string{
			contract.MetaArchiveSize: strconv.Itoa(len(packed)),
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

// putEncrypted writes an encrypted empty archive, unless the store has one already, and returns the content in the
// store. Each encryption results in different bytes: if two processes wrote theirs and then their markers, the archive
// of one could end up with the marker of the other.
func (s *Store) putEncrypted(ctx context.Context, key string, packed []byte, keys Keys) ([]byte, error) {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key), IfNoneMatch: aws.String("*"),
		Body: bytes.NewReader(packed), ContentLength: aws.Int64(int64(len(packed))),
	})
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() != http.StatusPreconditionFailed &&
		answer.HTTPStatusCode() != http.StatusConflict {
		return packed, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.opts.Bucket, Key: s.object(key)})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	there, err := io.ReadAll(io.LimitReader(out.Body, maxEmpty))
	if err != nil {
		return nil, err
	}
	want, err := empty()
	if err != nil {
		return nil, err
	}
	if opened, err := keys.decrypt(there); err == nil && bytes.Equal(opened, want.packed) {
		return there, nil
	}
	// There is other content under the key. It may be replaced, because without a marker it is not an archive.
	return packed, s.put(ctx, key, packed, nil)
}

// maxEmpty bounds how much is read of an archive that may be an empty one, in bytes.
const maxEmpty = 64 << 10

// encrypt encrypts to the recipients.
func (k Keys) encrypt(content []byte) ([]byte, error) {
	to, err := k.recipients()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(content)
	err = errors.Join(err, w.Close()) // writes the rest
	return out.Bytes(), err
}

// decrypt opens content that is encrypted to one of the identities.
func (k Keys) decrypt(content []byte) ([]byte, error) {
	with, err := k.identities()
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(content), with...)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// emptyArchive is a compressed tar file without entries.
type emptyArchive struct {
	packed []byte
	size   int // of the tar file, in bytes
}

// empty builds this file once. The bytes are the same every time.
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
