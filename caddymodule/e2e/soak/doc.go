// Package soak judges a long run under load, by its measurements, by what it leaves behind, and by the files that its
// users wrote. It does no input or output, so that its own tests can give it measurements with the faults that it must
// find.
//
// It owns the rules of that judgement and the page that shows them. The tests in package e2e generate the load and take
// the measurements. Programs must not import it.
package soak
