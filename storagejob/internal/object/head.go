package object

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Stored is what the store says about the archive, whether it is committed or not.
type Stored struct {
	// Size is in bytes.
	Size int64
	// CRC32 and CRC64NVME are checksums of the whole archive in base64; empty where the
	// store keeps none.
	CRC32, CRC64NVME string
}

// Stored asks the store about the archive. The error is ErrMissing when it does not exist.
func (a *Archive) Stored(ctx context.Context) (Stored, error) {
	head, err := a.client.HeadObject(ctx,
		&s3.HeadObjectInput{Bucket: &a.bucket, Key: &a.key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return Stored{}, a.explain("checking the upload", err)
	}
	s := Stored{Size: aws.ToInt64(head.ContentLength)}
	// The checksum of an upload in parts may be one of the parts' checksums instead.
	if head.ChecksumType == types.ChecksumTypeFullObject {
		s.CRC32, s.CRC64NVME = aws.ToString(head.ChecksumCRC32), aws.ToString(head.ChecksumCRC64NVME)
	}
	return s, nil
}
