package contract

// An archive is sent in parts of one size, as some stores require (Cloudflare R2). That size is chosen
// before the first part is sent, by what the home holds. The parts of a small home are small, so that it
// takes little memory and is under way soon. Those of a large one are large, so that few parts hold it: a
// [Grant] has a signature for each part, and stays small.
const (
	// FirstPart is the size of the smallest parts in bytes, and LargestPart that of the largest ones.
	// Stores take from 5 MiB to 5 GiB.
	FirstPart   = 16 << 20
	LargestPart = 4 << 30
	// MaxParts is how many parts an archive may have. Stores take 10,000.
	MaxParts = 820
	// equalParts is how many of them have one size. They hold twice what the home was measured to
	// hold. The others are as large as parts can be, in case the measure was too low: some file systems
	// count the blocks of a new file late.
	equalParts = 720
	margin     = 2
	// partStep is what the size of a part is a multiple of, in bytes.
	partStep = 1 << 20
)

// Parts are the sizes of the parts of one archive.
type Parts struct{ size int64 }

// PartsFor returns those for a home of so many bytes.
func PartsFor(home int64) Parts {
	size := home / equalParts * margin
	return Parts{min(max((size/partStep+1)*partStep, FirstPart), LargestPart)}
}

// Size is the size in bytes of the part with that number, from 1 to [MaxParts]. The last
// part of an archive may be smaller.
func (p Parts) Size(number int) int64 {
	if number > equalParts {
		return LargestPart
	}
	return p.size
}

// Equal is the size in bytes of the largest archive whose parts have one size.
func (p Parts) Equal() int64 { return equalParts * p.size }

// Max is the size in bytes of the largest archive: what all parts hold.
func (p Parts) Max() int64 { return p.Equal() + (MaxParts-equalParts)*LargestPart }
