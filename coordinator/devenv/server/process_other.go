//go:build !linux

package server

import "syscall"

// setParentDeathSignal does nothing: only Linux has such a signal. The guard's
// pipe still ends the server with its owner; only a killed guard leaves one.
func setParentDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

// unrootAttr changes nothing: elsewhere nobody works as root.
func unrootAttr() (*syscall.SysProcAttr, error) { return &syscall.SysProcAttr{}, nil }

func unrootOwner() (uid, gid int, ok bool, err error) { return 0, 0, false, nil }

// detachMounts has nothing to do: only an engine of ours mounts anything.
func detachMounts(string) {}
