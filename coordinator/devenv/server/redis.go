package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Redis is a running private Redis server on a Unix socket.
type Redis struct {
	*Guard
	socket string
}

// URL returns the server's address in the form that redis.ParseURL reads.
func (r *Redis) URL() string { return "unix://" + r.socket + "?db=0" }

// StartRedis starts a server that keeps its data in dir (append-only file, synced
// every second). socketDir takes the socket, must be short, and goes with the server.
func StartRedis(dir, socketDir string) (*Redis, error) {
	for _, d := range []string{dir, socketDir} {
		if err := makePrivate(d); err != nil {
			return nil, err
		}
	}
	socket := filepath.Join(socketDir, "redis.sock")
	if err := awaitSilence("Redis", func() error { return pingRedis(socket) }); err != nil {
		return nil, err
	}
	return startRedis(dir, socket, guardSpec{
		Argv:   []string{"--appendonly", "yes", "--appendfsync", "everysec"},
		Stop:   syscall.SIGTERM,
		Remove: []string{socketDir},
		Log:    filepath.Join(dir, "redis.log"),
	})
}

// StartScratchRedis starts a server for tests that keeps nothing and is gone with
// the process that called it.
func StartScratchRedis() (*Redis, error) {
	scratch, err := NewScratch()
	if err != nil {
		return nil, err
	}
	r, err := startRedis(scratch.Dir, filepath.Join(scratch.Dir, "redis.sock"), guardSpec{
		Argv: []string{"--appendonly", "no"},
		// There is nothing to save, and an orderly end waits for the next 100 ms tick.
		Stop:   syscall.SIGKILL,
		Remove: []string{scratch.Dir},
		Log:    filepath.Join(scratch.Dir, "log"),
	}, scratch.lock)
	if err != nil {
		scratch.Remove()
		return nil, err
	}
	scratch.lock.Close() // the guard has its own copy
	return r, nil
}

func startRedis(dir, socket string, spec guardSpec, keep ...*os.File) (*Redis, error) {
	bin, err := redisBin()
	if err != nil {
		return nil, err
	}
	// A socket of a killed server would answer nobody, but be in the way.
	if err := os.RemoveAll(socket); err != nil {
		return nil, err
	}
	spec.Argv = append([]string{bin, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--dir", dir, "--save", "", "--daemonize", "no"}, spec.Argv...)
	guard, err := startGuard(spec, keep...)
	if err != nil {
		return nil, err
	}
	r := &Redis{Guard: guard, socket: socket}
	if err := guard.await("Redis", startLimit, func() error { return pingRedis(socket) }); err != nil {
		return nil, err
	}
	return r, nil
}

// pingRedis asks a server whether it serves, which it does not while it still loads
// an append-only file.
func pingRedis(socket string) error {
	conn, err := net.DialTimeout("unix", socket, 5*time.Second)
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
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "+PONG\r\n" {
		return fmt.Errorf("the server answers %q", answer)
	}
	return nil
}

// RedisInstalled returns a [MissingError] when there is no Redis server program.
func RedisInstalled() error {
	_, err := redisBin()
	return err
}

func redisBin() (string, error) {
	if bin, ok := firstExecutable("redis-server", "valkey-server"); ok {
		return bin, nil
	}
	return "", &MissingError{Program: "Redis", Package: "redis-server"}
}
