package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// TestWhatIsWaitedFor covers the errors that the client reports when no session begins.
func TestWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	served := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				serve(c)
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	refuses := func(code, message string) string {
		return served(func(c net.Conn) {
			session := pgproto3.NewBackend(c, c)
			if _, err := session.ReceiveStartupMessage(); err == nil {
				session.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message})
				_ = session.Flush()
			}
		})
	}
	for name, c := range map[string]struct {
		address string
		waits   bool
	}{
		"nothing listens":              {closed, true},
		"an unknown name":              {"nobody.invalid:5432", true},
		"it hangs up":                  {served(func(net.Conn) {}), true},
		"the system is starting up":    {refuses("57P03", "the database system is starting up"), true},
		"too many connections":         {refuses("53300", "sorry, too many clients already"), true},
		"a pooler without its server":  {refuses(protocolViolation, "pgbouncer cannot connect to server"), true},
		"a wrong password":             {refuses("28P01", "password authentication failed"), false},
		"no such database":             {refuses("3D000", "database does not exist"), false},
		"a pooler refuses the setting": {refuses(protocolViolation, unsupportedSettings+": codehub.schema"), false},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open("postgres://somebody@"+c.address+"/nothing?sslmode=disable&connect_timeout=10", Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err = db.Ping(t.Context()); err == nil || IsUnreachable(err) != c.waits {
				t.Errorf("waits: %v for %v", !c.waits, err)
			}
		})
	}
	for name, c := range map[string]struct {
		cause error
		waits bool
	}{
		"no answer in time":         {context.DeadlineExceeded, true},
		"a socket of somebody else": {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", os.ErrPermission)}, false},
		"a certificate":             {&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false},
		"the server's alert":        {&net.OpError{Op: remoteAlert, Err: errors.New("tls: bad certificate")}, false},
	} {
		if got := IsUnreachable(errors.Join(new(pgconn.ConnectError), c.cause)); got != c.waits {
			t.Errorf("%s: waits %v", name, got)
		}
	}
	if IsUnreachable(context.DeadlineExceeded) || IsUnreachable(nil) {
		t.Error("a statement that failed on its own is none of a connection")
	}
}
