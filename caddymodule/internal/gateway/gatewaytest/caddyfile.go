package gatewaytest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Server is the part of an HTTP server's configuration that changes what browsers and applications see, outside of the
// handlers of this product.
type Server struct {
	MaxHeaderBytes int             `json:"max_header_bytes"`
	Encode         json.RawMessage // the route with Caddy's encode handler
}

// AdaptedServer returns that part of the first server of a Caddyfile that has an encode handler.
func AdaptedServer(t testing.TB, caddyfile []byte) Server {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(caddyfile, nil)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Server
					Routes []json.RawMessage `json:"routes"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	for _, server := range config.Apps.HTTP.Servers {
		for _, route := range server.Routes {
			if server.Encode = encodeRoute(t, route); server.Encode != nil {
				return server.Server
			}
		}
	}
	t.Fatal("the Caddyfile has no encode")
	return Server{}
}

// encodeRoute returns the route within route that has the encode handler, or nil.
func encodeRoute(t testing.TB, route json.RawMessage) json.RawMessage {
	t.Helper()
	var r struct {
		Handle []struct {
			Handler string            `json:"handler"`
			Routes  []json.RawMessage `json:"routes"`
		} `json:"handle"`
	}
	if err := json.Unmarshal(route, &r); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Handle {
		if h.Handler == "encode" {
			return route
		}
		for _, inner := range h.Routes {
			if found := encodeRoute(t, inner); found != nil {
				return slices.Clone(found)
			}
		}
	}
	return nil
}
