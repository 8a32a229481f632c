package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"time"
)

// Redis is a running private Redis server on a Unix socket.
type Redis struct {
	*Process
	socket string
}

// URL returns the server's address in the form that redis.ParseURL reads.
func (r *Redis) URL() string { return "unix://" + r.socket + "?db=0" }

// StartRedis starts a server. Unless s is a scratch folder, its data is kept: in an
// append-only file, synced every second.
func StartRedis(s Storage) (*Redis, error) {
	bin, err := find("redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	p, err := s.Program("Redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{socket: filepath.Join(s.Sockets, "redis.sock")}
	p.Argv = []string{bin, "--port", "0", "--unixsocket", r.socket, "--unixsocketperm", "700", "--dir", s.Dir, "--save",
		"", "--daemonize", "no"}
	p.Stale = []string{r.socket}
	if s.scratch == "" {
		p.Argv = append(p.Argv, "--appendonly", "yes", "--appendfsync", "everysec")
	} else {
		// There is nothing to save, and an orderly end waits for the next 100 ms tick.
		p.Stop = syscall.SIGKILL
	}
	p.Ready = r.ping
	if r.Process, err = Start(p); err != nil {
		return nil, err
	}
	return r, nil
}

// ping asks the server whether it serves. A server does not serve while it is still loading an append-only file.
func (r *Redis) ping() error {
	conn, err := net.DialTimeout("unix", r.socket, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "+PONG\r\n" {
		return fmt.Errorf("the server answers %q: %w", answer, err)
	}
	return nil
}
