package object

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"os"

	"github.com/codehub/gateway/storagejob/contract"
)

// part is a piece of the archive that is kept until the store has it, so that it can be sent again. It is in memory or,
// if it is too large for that, in a file.
type part struct {
	number int
	limit  int64 // in bytes
	size   int64
	buffer []byte
	file   *os.File // nil for a part in memory
}

// newPart returns an empty part of the given size. It uses the buffer, which may be nil, or creates a file in the
// scratch folder. It removes the file's name immediately, so that the space is freed however the job ends.
func newPart(number int, limit int64, buffer []byte, scratch string) (*part, error) {
	p := &part{number: number, limit: limit}
	if p.limit <= contract.FirstPart {
		if p.buffer = buffer[:0]; buffer == nil {
			p.buffer = make([]byte, 0, contract.FirstPart)
		}
		return p, nil
	}
	file, err := os.CreateTemp(scratch, "part-")
	if err != nil {
		return nil, inScratch(p.limit, err)
	}
	p.file = file
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, inScratch(p.limit, err)
	}
	return p, nil
}

// inScratch explains in an error why a part needs the scratch folder.
func inScratch(size int64, err error) error {
	return fmt.Errorf("a part of the archive, up to %d MiB, is kept in the job's scratch folder until it is sent; "+
		"up to %d of them at a time need room on the disk of the engine, besides the volume: %w", size>>20,
		senders+1, err)
}

// room returns how many more bytes the part can hold.
func (p *part) room() int64 { return p.limit - p.size }

// Write implements io.Writer. The caller must not write more than room.
func (p *part) Write(b []byte) (int, error) {
	if p.file == nil {
		p.buffer = append(p.buffer, b...)
		p.size += int64(len(b))
		return len(b), nil
	}
	n, err := p.file.Write(b)
	p.size += int64(n)
	if err != nil {
		return n, inScratch(p.limit, err)
	}
	return n, nil
}

// content reads the part from the beginning.
func (p *part) content() io.ReadSeeker {
	if p.file != nil {
		return io.NewSectionReader(p.file, 0, p.size)
	}
	return bytes.NewReader(p.buffer)
}

// release frees the part's disk space, and returns its buffer for another part.
func (p *part) release() []byte {
	if p.file != nil {
		p.file.Close()
	}
	return p.buffer
}

// md5 returns the checksum with which the store notices damage in transit. With a grant the client sends no checksum
// itself, because that would be an unsigned header.
func (a *Archive) md5(p *part) (*string, error) {
	if a.grant == nil {
		return nil, nil
	}
	hash := md5.New()
	if _, err := io.Copy(hash, p.content()); err != nil {
		return nil, fmt.Errorf("reading a part of the archive: %w", err)
	}
	sum := base64.StdEncoding.EncodeToString(hash.Sum(nil))
	return &sum, nil
}
