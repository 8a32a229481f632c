package service

import (
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/workspace"
)

// SetImages changes the images that users choose from. What exists keeps the name of its
// image, and whatever runs keeps running.
func (s *Service) SetImages(c launch.Catalog) { s.images.Store(&c) }

// Images returns the images that users choose from, the default first.
func (s *Service) Images() launch.Catalog { return *s.images.Load() }

// ofImage are the reasons for ERROR that a wrong image has. It could not be pulled, or its
// container ends or is not ready in time. An owner who chooses another image may try again;
// nothing is decided about the files.
var ofImage = map[workspace.ErrorReason]bool{
	workspace.ReasonImagePullFailed: true, workspace.ReasonRetryExceeded: true, workspace.ReasonTimeout: true,
}
