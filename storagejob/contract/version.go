package contract

import (
	"fmt"
	"strconv"
)

// Version is the version of this package's contract. It grows with every change that could make programs of two
// versions misunderstand each other, such as a new argument, a new environment variable that must be obeyed, or a new
// form of an archive. A new field that may be ignored does not count.
const Version = 1

// LabelVersion is the label of the storage job's image that holds its [Version]. Images of earlier releases do not have
// it.
const LabelVersion = "codehub.contract"

// Release is the current or next release of this source: the version of every program, image and package built from it.
const Release = "0.1.0"

// DefaultImage is the storage job's image of this release. It has a fixed tag: the program and the coordinator must
// agree on this package.
const DefaultImage = "codehub/storagejob:" + Release

// VersionError reports that an image is not the storage job's image of this release, and says what to do.
type VersionError struct {
	// Image is the reference, or empty if it is unknown.
	Image string
	// Version is the image's version, or 0 if it states none.
	Version int
}

// Error implements error.
func (e *VersionError) Error() string {
	has := fmt.Sprintf("has contract %d", e.Version)
	if e.Version == 0 {
		has = "does not say its contract (it is of an earlier release, or another program's)"
	}
	return fmt.Sprintf(
		"job image %s %s, this release needs contract %d: set job_image to %s, or build it by make image", e.Image, has,
		Version, DefaultImage)
}

// CheckLabels returns a [*VersionError] unless these labels are those of the storage job's image of this release.
func CheckLabels(image string, labels map[string]string) error {
	version, err := strconv.Atoi(labels[LabelVersion])
	if err != nil || version < 0 {
		version = 0
	}
	if version != Version {
		return &VersionError{image, version}
	}
	return nil
}
