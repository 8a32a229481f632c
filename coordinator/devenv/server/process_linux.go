package server

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// setParentDeathSignal has the kernel send sig to the child when its parent dies.
func setParentDeathSignal(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// namespaces tells, once, whether this process may make user namespaces: inside
// most containers it may not.
var namespaces = sync.OnceValue(func() bool {
	cmd := exec.Command("/proc/self/exe")
	cmd.Path = "/bin/true"
	cmd.SysProcAttr = namespaceAttr()
	return cmd.Run() == nil
})

// namespaceAttr runs a child in a user namespace in which the present user is
// nobody. Files keep their owner, because outside the two are the same.
func namespaceAttr() *syscall.SysProcAttr {
	const nobody = 65534
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}},
	}
}

// unrootAttr makes a child not be root: in a user namespace, or, where those are
// forbidden, as the user postgres with the right to pass root's folders.
func unrootAttr() (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	if namespaces() {
		return namespaceAttr(), nil
	}
	uid, gid, err := postgresUser()
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uid, Gid: gid},
		AmbientCaps: []uintptr{unix.CAP_DAC_READ_SEARCH},
	}, nil
}

// unrootOwner is who must own the files of a server that is started with
// [unrootAttr]; ok is false when the present owner is right.
func unrootOwner() (uid, gid int, ok bool, err error) {
	if os.Getuid() != 0 || namespaces() {
		return 0, 0, false, nil
	}
	u, g, err := postgresUser()
	return int(u), int(g), true, err
}

// postgresUser is the user that Debian's package makes for its own clusters.
func postgresUser() (uid, gid uint32, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL refuses to run as root, user namespaces are not allowed here, "+
			"and there is no user postgres to run it as: %w", err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("user postgres has the id %q: %w", u.Uid, err)
	}
	m, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("user postgres has the group id %q: %w", u.Gid, err)
	}
	return uint32(n), uint32(m), nil
}

// detachMounts detaches what is mounted at dir and below: a Docker engine whose end was cut
// short leaves a network namespace mounted.
func detachMounts(dir string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return // then removing dir says what is wrong
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4]+"/", dir+"/") {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH)
		}
	}
}
