//go:build !unix

package workspaces

import "os"

// resized returns nothing: this system does not tell when a terminal gets another size.
func resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
