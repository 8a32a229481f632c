package faulty

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// The faults of a connection pooler. PgBouncer has both. It refuses unknown settings in the startup message, and drops
// those that are listed in ignore_startup_parameters.
const (
	RefusesSetting Fault = "refuses a setting"
	DropsSetting   Fault = "drops a setting"
)

// Pooler puts a connection pooler in front of PostgreSQL at dsn, and returns its DSN. The pooler shows the given fault
// when a session's startup message contains the given setting.
func Pooler(t testing.TB, dsn, setting string, fault Fault) string {
	t.Helper()
	d, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the database's address cannot be read") // it may hold a password
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	socket := filepath.Join(d.Query().Get("host"), ".s.PGSQL.5432")
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			go pool(client, socket, setting, fault)
		}
	}()
	return "postgres://" + d.Query().Get("user") + "@" + l.Addr().String() + d.Path + "?sslmode=disable"
}

// pool begins one session, and passes everything on until one side ends.
func pool(client net.Conn, socket, setting string, fault Fault) {
	defer client.Close()
	front := pgproto3.NewBackend(client, client)
	first, err := front.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if startup, ok := first.(*pgproto3.StartupMessage); ok {
		if _, asked := startup.Parameters[setting]; asked && fault == RefusesSetting {
			front.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01",
				Message: "unsupported startup parameter: " + setting})
			_ = front.Flush()
			return
		}
		delete(startup.Parameters, setting)
	}
	message, err := first.Encode(nil)
	if err != nil {
		return
	}
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := server.Write(message); err != nil {
		return
	}
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, client)
	}()
	_, _ = io.Copy(client, server)
}
