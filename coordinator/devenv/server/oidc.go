package server

import "context"

// BuildOIDC returns the path of the identity provider's program, which the go command builds
// into the cache the first time.
func BuildOIDC(ctx context.Context) (string, error) { return buildModule(ctx, "oidcprovider") }
