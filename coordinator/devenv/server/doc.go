// Package server starts private PostgreSQL, Redis and S3 servers and a private Docker
// engine, for `make run` and for tests.
//
// Servers run as the present user, listen on Unix sockets or on loopback only, and keep
// their files in one folder each ([Storage]). Each server is one [Process]. A supervisor starts it, so that it never
// outlives its owner, however the owner ends.
//
// The package must not decide which servers are needed, nor install anything: its callers do. It supports Linux. On
// other systems it compiles, but starting a server that needs Linux returns an error.
package server
