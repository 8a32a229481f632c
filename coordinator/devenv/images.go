package devenv

import (
	"context"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
)

// TerminalImage returns the reference of a small workspace image on the engine of
// [Docker], built if it is not there. It listens on port 8080 and serves a terminal
// page at /, its WebSocket at /ws, /echo and /healthz: see package webterm.
func TerminalImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, (*image.Builder).Terminal)
}

// StorageJobImage returns the reference of the storage job's image on the engine of
// [Docker], built from this source if it is not there.
func StorageJobImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, (*image.Builder).StorageJob)
}

func builtImage(t testing.TB, build func(*image.Builder, context.Context) (image.Built, error)) string {
	t.Helper()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := image.NewBuilder(t.Context(), Docker(t), root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	built, err := build(b, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return built.Ref
}
