package contract

// An archive is sent in parts of equal size, because some stores require that (Cloudflare R2). The size is chosen
// before the first part is sent, according to the size of the home. A small home has small parts, so that the upload
// needs little memory and starts soon. A large home has large parts, so that there are few of them: a [Grant] has a
// signature for each part, and stays small.
const (
	// FirstPart and LargestPart are the smallest and the largest size of a part in bytes. Stores accept 5 MiB to 5 GiB.
	FirstPart   = 16 << 20
	LargestPart = 4 << 30
	// MaxParts is the largest number of parts of an archive. Stores accept 10,000.
	MaxParts = 820
	// equalParts is how many parts have the same size. Together they hold margin times the measured size of the home.
	// The rest are as large as parts can be, in case the measured size was too low: some file systems count the blocks
	// of a new file late.
	equalParts = 720
	margin     = 2
	// The size of a part is a multiple of partStep, in bytes.
	partStep = 1 << 20
)

// Parts are the sizes of the parts of one archive.
type Parts struct{ size int64 }

// PartsFor returns the sizes of the parts for a home whose size is given in bytes.
func PartsFor(home int64) Parts {
	size := home / equalParts * margin
	return Parts{min(max((size/partStep+1)*partStep, FirstPart), LargestPart)}
}

// Size returns the size in bytes of the part with that number, from 1 to [MaxParts]. The last part of an archive may be
// smaller.
func (p Parts) Size(number int) int64 {
	if number > equalParts {
		return LargestPart
	}
	return p.size
}

// Equal returns the size in bytes of the largest archive whose parts all have the same size.
func (p Parts) Equal() int64 { return equalParts * p.size }

// Max returns the size in bytes of the largest archive: the sum of all parts.
func (p Parts) Max() int64 { return p.Equal() + (MaxParts-equalParts)*LargestPart }
