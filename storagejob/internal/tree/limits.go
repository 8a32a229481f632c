package tree

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Limits bound the output of [Volume.Unpack], regardless of the stream's claims. An archive may be damaged, or made
// to fill the disk.
type Limits struct {
	// Bytes limits both the size of the stream and the total size of all files, including holes. For a stream that Pack
	// wrote, it is the size of the stream plus its Counter.Holes. Exceeding it is ErrCorrupt.
	Bytes int64
	// KeepFree is the share of the volume's file system that stays free, both of its bytes (at most 1 GiB) and of its
	// inodes. Other volumes may share the file system. Unpack fails with ENOSPC rather than use the reserve. 0 allows
	// filling the file system.
	KeepFree float64
}

// maxReserve is the largest reserve, in bytes. On large disks a share would reserve more than necessary.
const maxReserve = 1 << 30

// tooLarge returns the error for an archive that exceeds [Limits.Bytes].
func tooLarge(limit int64) error {
	return fmt.Errorf("it unpacks to more than the allowed %d bytes", limit)
}

// boundedReader reads at most limit bytes and fails if there are more. Unlike [io.LimitReader] it does not hide that
// the stream continues.
type boundedReader struct {
	r           io.Reader
	limit, left int64
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, err
	}
	// The stream may end exactly at the limit.
	var more [1]byte
	n, err := b.r.Read(more[:])
	if n > 0 {
		return 0, tooLarge(b.limit)
	}
	return 0, err
}

// How often the free space is checked.
const (
	// roomStep is how many bytes are written between two checks. So that the next writes fit, each check requires
	// roomStep free bytes beyond the reserve, plus the bytes that the writers have not written yet.
	roomStep = 1 << 20
	// entryRoom is how many bytes an entry counts for besides its content. That is more than an inode and a name take,
	// so that inodes are checked often enough.
	entryRoom = 16 << 10
)

// room stops unpacking before it fills the file system. It asks the kernel, because
// other programs write to the same file system at the same time.
type room struct {
	fd    int // of the volume
	share float64
	taken int64 // since the last check
}

// take must be called before that many bytes are written. It fails with ENOSPC if they would use the reserve.
func (r *room) take(bytes int64) error {
	if r.taken += bytes; r.taken < roomStep || r.share == 0 {
		return nil
	}
	r.taken = 0
	var st unix.Statfs_t
	if err := unix.Fstatfs(r.fd, &st); err != nil {
		return fmt.Errorf("reading the free space of the volume: %w", err)
	}
	block := uint64(st.Frsize)
	kept := min(uint64(r.share*float64(st.Blocks*block)), maxReserve)
	if free := st.Bavail * block; free < kept+roomStep+batchCount*batchBytes {
		return fmt.Errorf("the volume's file system has %d bytes free, and %d must stay free: %w", free, kept,
			unix.ENOSPC)
	}
	// A file system that does not count inodes reports 0.
	if kept := uint64(r.share * float64(st.Files)); st.Files > 0 &&
		st.Ffree < kept+roomStep/entryRoom+batchCount*batchFiles {
		return fmt.Errorf("the volume's file system has %d inodes free, and %d must stay free: %w", st.Ffree, kept,
			unix.ENOSPC)
	}
	return nil
}
