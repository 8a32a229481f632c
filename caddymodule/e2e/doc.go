// Package e2e holds the tests of the whole product: the caddy program that
// `make build` made, Caddyfile.example, and real PostgreSQL, Redis, S3, Docker and
// Chromium. There is nothing in it but tests.
package e2e
