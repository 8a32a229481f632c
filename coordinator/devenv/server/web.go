package server

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Loopback is the address of this machine that only it reaches.
const Loopback = "127.0.0.1"

// Web is a server of HTTP.
type Web struct {
	Name string
	// Host is the address of this machine on which it listens, and Port the port; 0 means a free one.
	Host string
	Port int
	// Health is a path that answers 200 when the server is ready. If empty, any answer will do.
	Health string
}

// StartWeb starts a server of HTTP, and returns it with its URL and port. serve sets the program's command, which then
// serves at the given address.
func StartWeb(storage Storage, w Web,
	serve func(p *Program, address string)) (process *Process, url string, port int, err error) {
	// A free port is chosen before the server takes it: another process may be quicker.
	for range 3 {
		if port = w.Port; port == 0 {
			if port, err = FreePort(); err != nil {
				return nil, "", 0, err
			}
		}
		var p Program
		if p, err = storage.Program(w.Name); err != nil {
			return nil, "", 0, err
		}
		address := net.JoinHostPort(w.Host, strconv.Itoa(port))
		serve(&p, address)
		p.Ready = func() error { return answers("http://"+address+w.Health, w.Health != "") }
		if process, err = Start(p); err == nil {
			return process, "http://" + address, port, nil
		}
	}
	return nil, "", 0, err
}

// answers returns nil if a URL answers; if well is set, only if the answer is 200.
func answers(url string, well bool) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if well && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}
