package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestStoreRules(t *testing.T) {
	lookup := func(_ context.Context, _, host string) (found []netip.Addr, err error) {
		for _, text := range strings.Fields(map[string]string{
			"store": "10.0.0.7 10.0.0.5", "s3.example.com": "93.184.216.34 2606:2800::1", "both.example.com": "::ffff:10.0.0.5 93.184.216.34", "vpn": "100.64.0.9",
		}[host]) {
			found = append(found, netip.MustParseAddr(text))
		}
		if found == nil {
			err = errors.New("no such host")
		}
		return found, err
	}
	for store, want := range map[string]string{
		"":                            "[] 443", // no name server is asked
		"http://store:9000":           "[{10.0.0.5/32 9000} {10.0.0.7/32 9000}] 0",
		"http://vpn":                  "[{100.64.0.9/32 80}] 0",
		"https://s3.example.com":      "[] 443",
		"https://s3.example.com:8443": "[] 8443",
		"https://both.example.com":    "[{10.0.0.5/32 443}] 443",
		"https://203.0.113.1:9000":    "[{203.0.113.1/32 9000}] 0",
		"http://[fd00::5]:9000":       "[{fd00::5/128 9000}] 0",
		"https://unknown":             "",
		"https://store:99999":         "",
	} {
		r, err := storeRules(t.Context(), store, lookup)
		got := fmt.Sprint(r.Store, r.PublicPort)
		if want == "" {
			if err == nil {
				t.Errorf("%q: %s", store, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", store, got, err, want)
		}
	}
}
