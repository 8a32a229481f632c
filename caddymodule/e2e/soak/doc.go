// Package soak judges a long run under load: its measurements, its leftovers, and the files that users wrote. It is
// pure, so that its own tests can plant the faults that it must find.
//
// It owns the rules of that judgement and the page that shows them. The tests in package e2e make the load and
// measure. Programs must not import it.
package soak
