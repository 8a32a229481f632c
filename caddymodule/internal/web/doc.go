// Package web is what the gateway and the API share about HTTP: the addresses of
// an installation ([Site]), the names of its cookies, the cross-origin rule,
// problems (application/problem+json), redirects and the sending of pages.
//
// It knows neither Caddy nor what a request is for, and keeps no state. Whatever
// only one of its users needs belongs to that user.
package web
