// Package web is how the gateway and the API send pages: the layout that they share, the
// messages in it, and the languages.
//
// It must not know what a request is for, and keeps no state. What only one of its users
// needs belongs to that user.
package web
