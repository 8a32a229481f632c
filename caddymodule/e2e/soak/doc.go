// Package soak judges a long run under load: what was measured while it ran, what is left
// afterwards, and what users wrote. It is pure, so that its own tests can plant what it must find.
//
// It owns the rules of that judgement and the page that shows them. How the load is made and how
// it is measured is the business of the tests in package e2e. Programs must not import it.
package soak
