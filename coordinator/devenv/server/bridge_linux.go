package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// addBridge makes the network interface name, a bridge, and gives it an address in
// a private network that this machine does not use yet.
//
// An engine of ours has a bridge of its own, because two engines on one bridge would
// give the same addresses to their containers, and because Docker's default bridge
// stays behind when the engine ends.
func addBridge(name string) error {
	if err := removeBridge(name); err != nil { // left from a killed engine
		return err
	}
	network, err := freeNetwork()
	if err != nil {
		return err
	}
	return withControlSocket(func(fd int) error {
		if err := unix.IoctlSetString(fd, unix.SIOCBRADDBR, name); err != nil {
			return fmt.Errorf("making the bridge %s: %w", name, err)
		}
		address := network.Addr().Next().As4()
		if err := setAddress(fd, name, unix.SIOCSIFADDR, address[:]); err != nil {
			return fmt.Errorf("giving the bridge %s an address: %w", name, err)
		}
		if err := setAddress(fd, name, unix.SIOCSIFNETMASK, net.CIDRMask(network.Bits(), 32)); err != nil {
			return fmt.Errorf("giving the bridge %s a network: %w", name, err)
		}
		if err := setUp(fd, name, true); err != nil {
			return fmt.Errorf("bringing the bridge %s up: %w", name, err)
		}
		return nil
	})
}

// removeBridge removes a bridge. None of that name: nothing.
func removeBridge(name string) error {
	return withControlSocket(func(fd int) error {
		if err := setUp(fd, name, false); errors.Is(err, unix.ENODEV) {
			return nil
		} else if err != nil {
			return fmt.Errorf("taking the bridge %s down: %w", name, err)
		}
		if err := unix.IoctlSetString(fd, unix.SIOCBRDELBR, name); err != nil {
			return fmt.Errorf("removing the bridge %s: %w", name, err)
		}
		return nil
	})
}

// freeNetwork returns a network of 4,094 addresses that none of this machine's
// addresses is in.
func freeNetwork() (netip.Prefix, error) {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("listing this machine's addresses: %w", err)
	}
	for third := 0; third < 256; third += 16 {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(third), 0}), 20)
		free := true
		for _, a := range used {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(candidate) {
				free = false
			}
		}
		if free {
			return candidate, nil
		}
	}
	return netip.Prefix{}, errors.New("no private network is free for containers: 10.213.0.0/16 is all in use")
}

func withControlSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket to configure the network: %w", err)
	}
	defer unix.Close(fd)
	return do(fd)
}

func setAddress(fd int, name string, request uint, address []byte) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(address); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, request, ifr)
}

func setUp(fd int, name string, up bool) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	flags := ifr.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	ifr.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
