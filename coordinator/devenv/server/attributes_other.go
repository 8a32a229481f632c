//go:build !linux

package server

import "syscall"

// attributes gives the program its user. Only Linux can end it with a killed supervisor.
func attributes(p Program) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: p.Group, Credential: p.Credential}
}
