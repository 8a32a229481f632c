package workspace

import "time"

// Readiness is what the controller's own probe has found out about the application in a container.
type Readiness struct {
	// Answered reports that the application has answered at the container's endpoint.
	Answered bool
	// Instead is the port at which the application has answered instead of at the endpoint's port. No other port
	// listens, and the image declares this one. 0 means none.
	Instead int
	// Silence describes what listens while nothing answers; nil until nothing has answered for a while.
	Silence *Silence
}

// Silence describes a container whose application does not answer.
type Silence struct {
	// Port is the endpoint's port, at which the answer is expected.
	Port int
	// Ports are the ports that listen on addresses that others can reach. Local are the ports that listen only on the
	// container's own loopback address. In both, the lowest come first. Both are nil if it is not known what listens.
	Ports, Local []int
}

// FoundPort is the port at which the application answers instead of the configured one.
type FoundPort struct {
	// Port is where the application has answered in the container that was started at the time Started, by the engine's
	// clock.
	Port    int       `json:"port"`
	Started time.Time `json:"started"`
	// Image and Configured are what that container was started with. In the next container that is started with the
	// same image and port, the found port is tried immediately.
	Image      string `json:"image,omitempty"`
	Configured int    `json:"configured,omitempty"`
}

// In reports whether the port was found in that container.
func (f FoundPort) In(c Container) bool {
	return f.Port != 0 && !c.StartedAt.IsZero() && c.StartedAt.Equal(f.Started)
}

// Known is the port to try in a container with that image and configured port while the configured port does not
// answer; 0 if there is none.
func (f FoundPort) Known(c Container, image string, configured int) int {
	if f.In(c) || f.Image == image && f.Configured == configured {
		return f.Port
	}
	return 0
}
