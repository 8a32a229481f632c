//go:build !linux

package server

import "syscall"

// attributes sets the user that the program runs as. Only Linux can end a program when its supervisor is killed.
func attributes(p Program) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: p.Group, Credential: p.Credential}
}
