//go:build pins

package caddybuild

// No program contains these packages. Tests of modules that Caddy contains import them, and xcaddy tidies its module.
// If no requirement fixes their version, it takes the newest one of that day, with all its requirements. An import
// here keeps a requirement in go.mod. TestBuildSaysNothingOfThisMachine names missing ones.
import (
	_ "github.com/moby/sys/sequential"
)
