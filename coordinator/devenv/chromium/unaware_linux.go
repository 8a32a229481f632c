package chromium

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"
)

// mark in the environment makes a program the browser.
const mark = "CODEHUB_TEST_CHROMIUM=1"

// unaware returns the options for a browser that does not learn of address changes.
func unaware() []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath("/proc/self/exe"), chromedp.Env(mark)}
}

func init() {
	if slices.Contains(os.Environ(), mark) {
		fmt.Fprintln(os.Stderr, become())
		os.Exit(1)
	}
}

// become turns this process into the browser, without the right to open netlink sockets, from which the browser would
// hear about addresses. It returns only if that fails.
func become() error {
	runtime.LockOSThread() // the filter is this thread's, and so is the new program
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	// Offsets in the kernel's struct seccomp_data.
	const number, family = 0, 16
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: family},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_NETLINK, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("filtering system calls: %w", errno)
	}
	env := slices.DeleteFunc(os.Environ(), func(setting string) bool { return strings.HasPrefix(setting, mark) })
	err := syscall.Exec(path, append([]string{path}, os.Args[1:]...), env)
	return fmt.Errorf("starting %s: %w", path, err)
}
