//go:build unix

package workspaces

import (
	"os"
	"os/signal"
	"syscall"
)

// resized returns a channel that gets a signal when the terminal's size changes, until stop is called.
func resized() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
