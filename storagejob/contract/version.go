package contract

import (
	"fmt"
	"strconv"
)

// Version is the version of what this package says. It grows with every change that lets a
// program of the one version misunderstand one of the other. Such are another argument, another
// name in the environment that must be obeyed, and another form of an archive. A field that may
// be ignored is none.
const Version = 1

// LabelVersion is the label of the storage job's image that holds its [Version]. Images of
// releases before do not have it.
const LabelVersion = "codehub.contract"

// Release is the release that this source is of, or will be: the version of every program, image
// and package that is made of it.
const Release = "0.1.0"

// DefaultImage is the storage job's image of this release. It never floats: the program and the
// coordinator must agree on this package.
const DefaultImage = "codehub/storagejob:" + Release

// VersionError says that an image is not the storage job's of this release, and what to do.
type VersionError struct {
	// Image is the reference, empty if it is not known.
	Image string
	// Version is that of the image; 0 if it says none.
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

// CheckLabels returns a [*VersionError] unless an image with these labels is the storage job's of
// this release.
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
