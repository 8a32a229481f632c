// Package e2e tests the whole product: the caddy program that `make build` makes, with
// Caddyfile.example, real PostgreSQL, Redis, S3 and Docker, and Chromium.
//
// It contains only tests. They drive the program from outside, as users do, and must not import its
// packages. They check the promises of the specification, not the code that keeps them.
//
// The harness is in four files. harness_test.go starts the program, signs in and waits;
// client_test.go is a signed-in user. inspect_test.go looks into Docker and S3; chromium_test.go is
// a browser tab.
//
// The files power_*_test.go cut the power of a whole host; `make test-power` cuts at random moments. The files
// soak_*_test.go are `make soak`. Package soak below judges their measurements.
package e2e
