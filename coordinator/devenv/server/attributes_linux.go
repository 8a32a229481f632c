package server

import "syscall"

// attributes makes the kernel end the program when its supervisor is killed, and sets the user that the program runs
// as.
func attributes(p Program) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: p.Group, Pdeathsig: p.Stop, Credential: p.Credential, AmbientCaps: p.Caps}
}
