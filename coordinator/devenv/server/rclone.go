package server

import "context"

// BuildRclone returns the path of rclone's program, which the go command builds into the
// cache the first time. Its version is in rcloneserver/go.mod.txt.
func BuildRclone(ctx context.Context) (string, error) { return buildModule(ctx, "rcloneserver") }
