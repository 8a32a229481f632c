//go:build unix

package workspaces

import (
	"os"
	"os/signal"
	"syscall"
)

// resized returns what is sent when the terminal gets another size, until stop is called.
func resized() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
