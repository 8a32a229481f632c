package workspace

// Origin is the request that last asked for something: a desired state, a deletion, a recovery, an older archive. Logs
// and traces of all processes name it until the desired state is reached.
type Origin struct {
	// Request is the request's id in the access log of the process that has received it.
	Request string `json:"request,omitempty"`
	// Trace is the W3C trace context (traceparent) within which the change was made.
	Trace string `json:"trace,omitempty"`
}
