package contract

// An archive is sent in parts that grow. The first ones are small, so that a small home takes
// little memory and is under way soon. The last ones are large, so that few parts hold a large
// home: a [Grant] has a signature for each part, and stays small.
const (
	// FirstPart is the size of the first parts in bytes, and LargestPart that of the last ones.
	// Stores take from 5 MiB to 5 GiB.
	FirstPart   = 16 << 20
	LargestPart = 4 << 30
	// MaxParts is how many parts an archive may have. Stores take 10,000.
	MaxParts = 820
	// partsOfASize is how many parts have one size before it doubles.
	partsOfASize = 80
)

// PartSize is the size in bytes of the part with that number, from 1 to [MaxParts]. The last
// part of an archive may be smaller.
func PartSize(number int) int64 {
	size := int64(FirstPart)
	for n := number - 1; n >= partsOfASize && size < LargestPart; n -= partsOfASize {
		size *= 2
	}
	return size
}

// MaxArchive is the size in bytes of the largest archive: what all parts hold.
func MaxArchive() (size int64) {
	for n := 1; n <= MaxParts; n++ {
		size += PartSize(n)
	}
	return size
}
