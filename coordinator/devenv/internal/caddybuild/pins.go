//go:build pins

package caddybuild

// No program contains these packages. However, tests of modules that Caddy contains import them, and xcaddy runs go mod
// tidy, which follows these imports. If no requirement fixes their version, go mod tidy takes the newest version of
// that day, with all its requirements. An import here keeps a requirement in go.mod. TestBuildSaysNothingOfThisMachine
// names missing ones.
import (
	_ "github.com/moby/sys/sequential"
)
