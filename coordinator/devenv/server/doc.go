// Package server starts private PostgreSQL, Redis and S3 servers and a private Docker
// engine, for `make run` and for tests.
//
// Servers run as the present user, listen on Unix sockets or on loopback only, and keep
// their files in one folder each ([Storage]). Each is one [Process], started through a
// supervisor, and so never outlives its owner, however the owner ends.
//
// The package must not decide which servers are needed, nor install anything: its callers do. It supports Linux;
// elsewhere it compiles, and servers that need Linux say so.
package server
