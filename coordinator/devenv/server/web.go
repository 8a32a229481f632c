package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Loopback is the address of this machine that only it reaches.
const Loopback = "127.0.0.1"

// web is a server of HTTP.
type web struct {
	name string
	// host is the address of this machine on which it listens, and port the port; 0 is a free one.
	host string
	port int
	// health is a path that answers 200 when it serves. Without one, every answer will do.
	health string
}

// startWeb starts a server of HTTP, and returns it with its URL and port. The function adds to
// the program what serves at an address.
func startWeb(storage Storage, w web,
	serve func(p *Program, address string)) (process *Process, url string, port int, err error) {
	// A free port is chosen before the server takes it: another process may be quicker.
	for range 3 {
		if port = w.port; port == 0 {
			if port, err = FreePort(); err != nil {
				return nil, "", 0, err
			}
		}
		var p Program
		if p, err = storage.Program(w.name); err != nil {
			return nil, "", 0, err
		}
		address := net.JoinHostPort(w.host, strconv.Itoa(port))
		serve(&p, address)
		p.Ready = func() error { return answers("http://"+address+w.health, w.health != "") }
		if process, err = Start(p); err == nil {
			return process, "http://" + address, port, nil
		}
	}
	return nil, "", 0, err
}

// answers returns nil if a URL answers, and with 200 if it must be well.
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

// StartOIDC starts an OpenID Connect provider on loopback, and returns it with its address. It
// has one client, codehub, and knows the users of the file; it sends browsers back to redirect only.
func StartOIDC(ctx context.Context, storage Storage, usersFile, redirect,
	clientSecret string) (*Process, string, error) {
	bin, err := buildOIDC(ctx)
	if err != nil {
		return nil, "", err
	}
	process, issuer, _, err := startWeb(storage,
		web{name: "OIDC", host: Loopback, health: "/.well-known/openid-configuration"},
		func(p *Program, address string) {
			p.Argv = []string{bin}
			p.Env = append(p.Env, "ADDRESS="+address, "USERS_FILE="+usersFile, "REDIRECT_URI="+redirect,
				"CLIENT_SECRET="+clientSecret)
		})
	return process, issuer, err
}
