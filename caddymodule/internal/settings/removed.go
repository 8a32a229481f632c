package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// removed lists settings and blocks of earlier releases, and what applies instead. A configuration
// that still has one is accepted, with a warning.
var removed = map[string]string{
	"coordinator gc_max_share":      "it is fixed at 0.5 now",
	"coordinator gc_upload_expiry":  "it is fixed at 24h now",
	"coordinator history_retention": "it is fixed at 720h now",
	"coordinator max_pulls":         "it is fixed at 2 now",
	"coordinator operation_limit":   "it is fixed at 24h now",
	"coordinator prepull_interval":  "it is fixed at 10m now",
	"coordinator stable_after":      "it is fixed at 1m now",
	"coordinator sweep_interval":    "it is fixed at 5m now",
	"coordinator wait_limit":        "it is fixed at 10m now",
	"docker publish_ports":          "write the ports as docker publish now, such as publish 20000-29999",
	"kubernetes gateway_namespace":  "the namespace of the Pod that Caddy runs in holds now, else namespace",
	"kubernetes job_memory":         "it is fixed at 512MiB now",
	"kubernetes job_scratch":        "it is fixed at 20GiB now",
	"limits max_held_per_user":      "one user's requests take at most a tenth of max_held now",
	"timeouts archiving":            "it is fixed at 30m now",
	"timeouts create_empty_archive": "it is fixed at 5m now",
	"timeouts deleting":             "it is fixed at 10m now",
	"timeouts provisioning":         "it is fixed at 5m now",
	"timeouts restoring":            "it is fixed at 30m now",
	"timeouts stopping":             "it is fixed at 5m now",
	"ttl predict":                   "no workspace is started ahead of its owner now",
	"work cpu":                      "it is fixed at 50ms now",
}

// Removed returns the names of the settings and blocks that were removed, each with the
// warning that a configuration with it causes.
func Removed() map[string]string {
	warnings := make(map[string]string)
	for name, now := range removed {
		warnings[name] = warning(name, now)
	}
	return warnings
}

// warning returns the log message about a removed setting.
func warning(name, now string) string {
	return fmt.Sprintf("the setting %q was removed and has no effect: remove it; %s", name, now)
}

// UnmarshalJSON reads the settings and skips removed ones.
func (a *App) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) == nil {
		for name, warning := range Removed() {
			if drop(all, name) {
				a.warnings = append(a.warnings, warning)
			}
		}
		slices.Sort(a.warnings)
	}
	if len(a.warnings) > 0 {
		rest, err := json.Marshal(all)
		if err != nil {
			return err
		}
		b = rest
	}
	type plain App // without this method
	return caddy.StrictUnmarshalJSON(b, (*plain)(a))
}

// drop removes a setting from an object, and reports whether it was there.
func drop(object map[string]json.RawMessage, name string) bool {
	section, option, nested := strings.Cut(name, " ")
	text, ok := object[section]
	if !ok || !nested {
		delete(object, section)
		return ok
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(text, &inner) != nil || !drop(inner, option) {
		return false
	}
	rest, err := json.Marshal(inner)
	object[section] = rest
	return err == nil
}

// Warnings returns what the operator should know about the settings.
func (a *App) Warnings() []string { return a.warnings }
