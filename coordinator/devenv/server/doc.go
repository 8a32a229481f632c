// Package server starts private PostgreSQL, Redis and S3 servers and a private
// Docker engine, for `make run` and for tests.
//
// Nothing of the machine is used or changed: servers run as the present user,
// listen on Unix sockets or on loopback only, and keep their files in one folder
// each. What is started never outlives its owner, however the owner ends: see
// [Guard], the one mechanism behind all of them.
package server
