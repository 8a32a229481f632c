package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
)

// witness remembers the secrets in requests to this container. Tests read them to find out whether a request reached
// the wrong container.
type witness struct {
	mu   sync.Mutex
	seen map[string]bool
}

// watch records the secrets of all requests to next.
func (s *witness) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secrets := slices.Clone(r.Header.Values("Secret"))
		for _, c := range r.CookiesNamed("secret") {
			secrets = append(secrets, c.Value)
		}
		s.add(secrets)
		next.ServeHTTP(w, r)
	})
}

func (s *witness) add(secrets []string) {
	if len(secrets) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if s.seen == nil {
			s.seen = make(map[string]bool)
		}
		s.seen[secret] = true
	}
}

// ServeHTTP answers with a line for the workspace and one for each secret.
func (s *witness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, os.Getenv("CODEHUB_WORKSPACE_ID"))
	for _, secret := range slices.Sorted(maps.Keys(s.seen)) {
		fmt.Fprintln(w, secret)
	}
}
