// Package audit identifies the actor of a change, and writes the actor within the statement that makes the change (SPEC
// 13). It owns the actions, the description of an actor, and the text of the INSERT. It must not run a statement: the
// packages that change something do, and package auditlog reads.
package audit

import "context"

// Kind is the kind of an actor.
type Kind string

// The kinds of actors.
const (
	// User is a person who is signed in, or a program with that person's access token.
	User Kind = "user"
	// Provider is an identity provider, or other authentication that names users.
	Provider Kind = "provider"
	// Operator is a user of the operating system, at the command line.
	Operator Kind = "operator"
	// System is this program itself.
	System Kind = "system"
	// Anonymous is a client whose identity is unknown.
	Anonymous Kind = "anonymous"
)

// Through tells how a change was made: by which interface an actor made it, or by which part of the system it was made
// automatically.
type Through string

// The values in the audit.
const (
	Page        Through = "page"
	Token       Through = "token"
	CommandLine Through = "command line"
)

// The values in the history, in the log and in the metrics.
const (
	API     Through = "api"
	Gateway Through = "gateway" // a request to the workspace itself
	CLI     Through = "cli"     // an operator's command
	TTL     Through = "ttl"
	Disk    Through = "disk"   // the disk of the homes needs space
	Memory  Through = "memory" // the host needs memory
	// Idle and Busy are the values for TTL in the metrics. Idle: the workspace was unused. Busy: work in the workspace
	// lasted longer than work may keep it awake.
	Idle Through = "idle"
	Busy Through = "busy"
)

// Actor is who made a change, and from where. It MUST NOT contain a secret. The statement that writes the actor adds
// the names of the user and of the token.
type Actor struct {
	Kind Kind `json:"kind"`
	// ID is the id of a user. Name is for other actors: a provider, or a user of the operating system.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// TokenID is the user's access token, if one was used.
	TokenID string  `json:"token_id,omitempty"`
	Through Through `json:"through,omitempty"`
	// Address is the client's IP address. Host is the machine of a command line.
	Address string `json:"address,omitempty"`
	Host    string `json:"host,omitempty"`
	// Request is the id of the HTTP request.
	Request string `json:"request,omitempty"`
}

// As returns the actor for the same client, now that its user is known.
func (a Actor) As(userID string) Actor {
	a.Kind, a.ID, a.Name = User, userID, ""
	return a
}

// By returns the actor for the same client when an identity provider acts for it.
func (a Actor) By(provider string) Actor {
	a.Kind, a.ID, a.Name = Provider, "", provider
	return a
}

// Asker returns an actor on demand. Actor may be called from any goroutine.
type Asker interface{ Actor() Actor }

// Actor implements [Asker].
func (a Actor) Actor() Actor { return a }

// key is the context key of the actor.
type key struct{}

// With returns a context whose changes are those of the actor.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, key{}, a) }

// WithLater is like [With], but asks for the actor only if something changes, because most requests change nothing.
func WithLater(ctx context.Context, a func() Actor) context.Context {
	return context.WithValue(ctx, key{}, a)
}

// Of returns the actor of a context. The default is the system itself.
func Of(ctx context.Context) Actor {
	switch a := ctx.Value(key{}).(type) {
	case Actor:
		return a
	case func() Actor:
		return a()
	}
	return Actor{Kind: System}
}
