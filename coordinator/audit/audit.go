// Package audit says who asks for a change, and writes that into the statement that makes it (SPEC 13).
// It owns the actions, what is known of an actor, and the text of the INSERT. It must not run a
// statement: the packages that change something do, and package auditlog reads.
package audit

import "context"

// Kind is what kind of actor asks.
type Kind string

// The kinds of actors.
const (
	// User is a person who is signed in, or a program with that person's access token.
	User Kind = "user"
	// Provider is an identity provider, or another authentication that names users.
	Provider Kind = "provider"
	// Operator is a user of the operating system, at the command line.
	Operator Kind = "operator"
	// System is this program itself.
	System Kind = "system"
	// Anonymous is a client of which it is not known who it is.
	Anonymous Kind = "anonymous"
)

// Through is the way on which an actor asks.
type Through string

// The ways.
const (
	Page        Through = "page"
	Token       Through = "token"
	CommandLine Through = "command line"
)

// Actor is who asks for a change, and from where. It MUST hold no secret. The statement that writes it adds the
// names of the user and of the token.
type Actor struct {
	Kind Kind `json:"kind"`
	// ID is that of a user. Name is for the others: a provider, or a user of the operating system.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// TokenID is the access token with which the user asks, if one is used.
	TokenID string  `json:"token_id,omitempty"`
	Through Through `json:"through,omitempty"`
	// Address is the client's IP address, Host the machine of a command line.
	Address string `json:"address,omitempty"`
	Host    string `json:"host,omitempty"`
	// Request is the id of the HTTP request.
	Request string `json:"request,omitempty"`
}

// As is the same client, of which it is known now that it is this user.
func (a Actor) As(userID string) Actor {
	a.Kind, a.ID, a.Name = User, userID, ""
	return a
}

// By is the same client, for which an identity provider speaks.
func (a Actor) By(provider string) Actor {
	a.Kind, a.ID, a.Name = Provider, "", provider
	return a
}

// Asker returns an actor when it is needed. Its method may be called from any goroutine.
type Asker interface{ Actor() Actor }

// Actor implements [Asker].
func (a Actor) Actor() Actor { return a }

// key is that of the actor in a context.
type key struct{}

// With returns a context in which what is changed is asked for by the actor.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, key{}, a) }

// WithLater is [With] for an actor that is only looked for when something is changed: most requests change nothing.
func WithLater(ctx context.Context, a func() Actor) context.Context {
	return context.WithValue(ctx, key{}, a)
}

// Of returns the actor of a context. Without one it is the system itself.
func Of(ctx context.Context) Actor {
	switch a := ctx.Value(key{}).(type) {
	case Actor:
		return a
	case func() Actor:
		return a()
	}
	return Actor{Kind: System}
}
