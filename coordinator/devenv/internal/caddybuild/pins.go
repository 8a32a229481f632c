//go:build pins

package caddybuild

// No program is made of these packages. Tests of modules that Caddy is made of import them, and xcaddy tidies its
// module. What no requirement fixes there, it takes in the newest version of that day, with all that this asks
// for. An import here keeps a requirement in go.mod. TestBuildSaysNothingOfThisMachine says what is missing.
import (
	_ "github.com/moby/sys/sequential"
)
