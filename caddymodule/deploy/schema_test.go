package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	module "github.com/codehub/gateway/caddymodule"
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/coordinator/launch"
)

// schema is a part of a JSON schema.
type schema = map[string]any

const schemaFile = "chart/values.schema.json"

// placeholder matches a placeholder, which replaces a secret in a setting.
const placeholder = `\{(env|file)\.[^{}]+\}`

// kinds are the kinds of values, each with a valid and an invalid value. The setting's own parser must agree with the
// schema about both.
var kinds = map[string]struct {
	schema       schema
	right, wrong string
}{
	"true|false":       {text(`true|false`, "boolean"), "false", "maybe"},
	"<duration>":       {text(`[0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+`, "number"), "36h", "soon"},
	"<short duration>": {text(`[0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m))+`, "number"), "1m", "36h"},
	"<size>":           {text(`[0-9]+(\.[0-9]+)? ?([kKmMgGtTpP][iI]?[bB]?|[bB])?`, "number"), "64GiB", "large"},
	"<fraction>":       {text(`0?\.[0-9]+|[01](\.0*)?`, "number"), "0.5", "half"},
	"<percentage>|off": {text(`off|[0-9]+(\.[0-9]+)?%`), "97%", "full"},
	"<integer>":        {text(`[0-9]+`, "integer"), "20", "0.5"},
	"<processors>":     {text(`[0-9]+(\.[0-9]+)?`, "number"), "0.5", "half"},
	"<port>":           {schema{"type": []any{"integer", "string", "null"}, "pattern": whole(`[0-9]+`), "minimum": 1.0, "maximum": 65535.0}, "8443", "http"},
	"<url>":            {text(`[a-z][-+.a-z0-9]*://[^@\s]+`), "https://a.example.com", ""},
	"<secret>":         {schema{"type": []any{"string", "null"}, "pattern": "^" + placeholder + "$", "description": "A placeholder, such as {env.NAME}: these values are kept in a ConfigMap"}, "", ""},
	"<several>":        {schema{"type": []any{"string", "array", "null"}, "items": schema{"type": "string"}}, "", ""},
	"<text>":           {schema{"type": []any{"string", "null"}}, "", ""},
}

// text returns the schema of a value that is either a text that matches the pattern, or a value of one of the given
// types.
func text(pattern string, types ...any) schema {
	return schema{"type": append([]any{"string", "null"}, types...), "pattern": whole(pattern)}
}

func whole(pattern string) string { return "^(" + placeholder + "|" + pattern + ")$" }

// notInValues are settings that the chart generates from other values.
var notInValues = []string{"database", "redis", "admin_password", "installation", "public_url", "domain", "images", "docker", "backend",
	"coordinator node_id", "coordinator shards", "kubernetes namespace"}

// proxyOptions are the options of reverse_proxy that the directive `codehub` accepts.
var proxyOptions = []string{"lb_retries", "lb_try_duration", "lb_try_interval", "flush_interval", "request_buffers", "response_buffers",
	"stream_timeout", "stream_close_delay", "stream_buffer_size", "trusted_proxies", "header_up", "header_down", "transport"}

// written contains the kinds of those settings whose parser does not reveal them: settings that accept only a few
// words, secrets and URLs.
var written = map[string]string{
	"workspace_url": "host|path", "activity": "presence|traffic", "s3 verify": "full|checksum",
	"egress enforce": "auto|require|open", "kubernetes access_mode": "ReadWriteOnce|ReadWriteOncePod",
	"s3 access_key": "<secret>", "s3 secret_key": "<secret>", "oidc client_secret": "<secret>",
	"s3 endpoint": "<url>", "s3 job_endpoint": "<url>", "oidc issuer": "<url>", "identity sign_out": "<url>",
}

// isSecret matches the names of settings that are secrets. isWord matches the errors of parsers that accept only a few
// words. Both need a kind in written.
var isSecret, isWord = regexp.MustCompile(`(password|secret|_key|token)$`), regexp.MustCompile(`is not known: write `)

// revealed contains the kinds that a parser reveals by what it accepts. kindOf tries them in this order.
var revealed = []string{"true|false", "<percentage>|off", "<size>", "<duration>", "<short duration>", "<fraction>", "<integer>", "<processors>"}

// directive contains the kinds of the settings of the directive `codehub`.
var directive = map[string]string{
	"identity": "<text>", "domain": "<text>", "main_host": "<text>", "workspace_url": "host|path", "wake_timeout": "<duration>",
	"page_wait": "<duration>", "page_status": "502|503|200", "strip_authorization": "true|false",
}

// kindOf returns the kind of a setting's values. If written has no kind for the setting, it is the first kind whose
// valid value the parser accepts and whose invalid value the parser refuses.
func kindOf(t *testing.T, s settings.Setting) string {
	t.Helper()
	if kind := written[s.Name]; kind != "" {
		return kind
	}
	if err := s.Parse("?"); err == nil && isSecret.MatchString(s.Name) || err != nil && isWord.MatchString(err.Error()) {
		t.Errorf("%s takes a secret, or a few words: add its kind to written", s.Name)
	}
	if takesSeveral(s.Name) {
		return "<several>"
	}
	takes := func(text string) bool { return s.Parse(text) == nil }
	for _, kind := range revealed {
		switch k := kinds[kind]; {
		case !takes(k.right) || takes(k.wrong):
		case kind == "<fraction>" && takes("2"): // a number of processors
		case kind == "<integer>" && takes("8443") && !takes("70000"):
			return "<port>"
		default:
			return kind
		}
	}
	return "<text>"
}

// takesSeveral reports whether the line of a setting in a Caddyfile may contain several values.
func takesSeveral(name string) bool {
	section, option, nested := strings.Cut(name, " ")
	text := name + " {env.A} {env.B}"
	if nested {
		text = section + " {\n" + option + " {env.A} {env.B}\n}"
	}
	d := caddyfile.NewTestDispenser("codehub {\n" + text + "\n}")
	return settings.NewOptionParser(d, "codehub", new(settings.App).Table(new(settings.Resolved))).Read() == nil
}

// valueSchema returns the schema of one setting.
func valueSchema(kind string) schema {
	if kinds[kind].schema != nil {
		return schema{"$ref": "#/$defs/" + defName(kind)}
	}
	if strings.Trim(kind, "0123456789|") == "" {
		return text(kind, "integer") // YAML parses these words as numbers
	}
	return text(kind) // words
}

func defName(kind string) string {
	return strings.NewReplacer("<", "", ">", "", " ", "_", "|", "_or_").Replace(kind)
}

// object returns the schema of a block that accepts only the options in properties.
func object(properties schema) schema {
	return schema{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
}

// put adds the schema of an option, whose name may be preceded by a section.
func put(properties schema, name string, s schema) {
	if section, option, ok := strings.Cut(name, " "); ok {
		if properties[section] == nil {
			properties[section] = object(schema{})
		}
		properties[section].(schema)["properties"].(schema)[option] = s
		return
	}
	properties[name] = s
}

// TestTheSchemaHasEverySetting checks that the schema has every setting, with the kind of value that its parser
// accepts. With the schema, Helm rejects a misspelt setting, a value with which no gateway would start, and a secret.
func TestTheSchemaHasEverySetting(t *testing.T) {
	var app settings.App
	codehub, kubernetes := schema{}, schema{}
	for _, s := range app.Table(new(settings.Resolved)) {
		section, name, _ := strings.Cut(s.Name, " ")
		if slices.Contains(notInValues, s.Name) || slices.Contains(notInValues, section) {
			continue
		}
		kind := kindOf(t, s)
		takes := func(text string) bool { return s.Parse(text) == nil }
		if k := kinds[kind]; k.right != "" && !takes(k.right) || k.wrong != "" && takes(k.wrong) {
			t.Errorf("%q is not a %s: it takes %q: %t, and %q: %t", s.Name, kind, k.right, takes(k.right), k.wrong, takes(k.wrong))
		}
		value := valueSchema(kind)
		switch {
		case kind != "<integer>" && kind != "<processors>" || takes("-1"):
		case takes("0"):
			value["minimum"] = 0.0
		case kind == "<integer>":
			value["minimum"] = 1.0
		}
		if section == "kubernetes" {
			put(kubernetes, name, value)
		} else {
			put(codehub, s.Name, value)
		}
	}
	for name, warning := range settings.Removed() {
		put(codehub, name, schema{"deprecated": true, "description": warning})
	}
	gateway := schema{}
	for name, kind := range directive {
		put(gateway, name, valueSchema(kind))
	}
	for field := range reflect.TypeFor[module.Gateway]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && !field.Anonymous && name != "proxy" && gateway[name] == nil {
			t.Errorf("add the kind of %q to directive", name)
		}
	}
	for _, name := range proxyOptions {
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":80 {\n codehub {\n  "+name+" 1\n }\n}\n"), nil)
		if err != nil && strings.Contains(err.Error(), "unrecognized") {
			t.Errorf("reverse_proxy has no option %s: %v", name, err)
		}
		put(gateway, name, schema{})
	}

	before, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var all schema
	if err := json.Unmarshal(before, &all); err != nil {
		t.Fatal(err)
	}
	defs := schema{}
	for kind, k := range kinds {
		defs[defName(kind)] = k.schema
	}
	all["$defs"] = defs
	properties := all["properties"].(schema)
	for name, p := range map[string]schema{"codehub": codehub, "kubernetes": kubernetes, "gateway": gateway} {
		properties[name] = object(p)
	}
	for name, typ := range kubernetesValues {
		put(properties, name, kubernetesSchema(typ, defs))
	}
	image := properties["images"].(schema)["items"].(schema)["properties"].(schema)
	image["icon"] = schema{"enum": launch.Icons()}
	image["title"].(schema)["maxLength"] = launch.MaxTitle
	for field := range reflect.TypeFor[settings.Image]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); image[name] == nil {
			t.Errorf("images in %s have no %q", schemaFile, name)
		}
	}
	var after bytes.Buffer
	e := json.NewEncoder(&after)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, schemaFile, after.String())
	} else if after.String() != string(before) {
		t.Errorf("%s is not that of the settings; run this test with -update, and look at the difference", schemaFile)
	}
}

// TestTheSchemasKinds checks that the schema accepts what a setting's parser accepts.
func TestTheSchemasKinds(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[kind]
		pattern, ok := k.schema["pattern"].(string)
		if !ok {
			continue
		}
		if k.right != "" && !matches(t, pattern, k.right) {
			t.Errorf("%s: %q is refused", kind, k.right)
		}
		if k.wrong != "" && matches(t, pattern, k.wrong) {
			t.Errorf("%s: %q is taken", kind, k.wrong)
		}
		if !matches(t, pattern, "{env.SETTING}") {
			t.Errorf("%s: a placeholder is refused", kind)
		}
		for _, secret := range []string{"swordfish", "https://user:swordfish@a.example.com"} {
			if (kind == "<secret>" || kind == "<url>") && matches(t, pattern, secret) {
				t.Errorf("%s: %q is taken, and would be in a ConfigMap", kind, secret)
			}
		}
	}
}

// TestSizesInTheSchema checks that the schema accepts the same sizes as the settings' parser, including those in
// Kubernetes' notation.
func TestSizesInTheSchema(t *testing.T) {
	pattern := kinds["<size>"].schema["pattern"].(string)
	for _, size := range []string{
		"2Gi", "512Mi", "64Ki", "1Ti", "1Pi", "2gi", "20 Gi", "1.5Gi", "2GiB", "2GB", "2G", "2g", "20b", "1024",
		"", "Gi", "2i", "2Bi", "2Gii", "2GiBi", "2Gi B", "2Gb i", "-1Gi", "large",
	} {
		var n int64
		if taken := parse.Size(&n)(size) == nil; matches(t, pattern, size) != taken {
			t.Errorf("%q: the parser takes it: %t, the schema does not agree", size, taken)
		}
	}
}

func matches(t *testing.T, pattern, text string) bool {
	t.Helper()
	matched, err := regexp.MatchString(pattern, text)
	if err != nil {
		t.Fatal(err)
	}
	return matched
}
