package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Operation is an operation of the document for which requests can be generated.
type Operation struct {
	ID, Method, Path string
	d                *description
	raw              map[string]any
}

// Sample is a request to an operation. The field What describes its peculiarity.
type Sample struct {
	What   string
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Operations returns all operations, by path and method.
func Operations() (all []Operation, err error) {
	d, err := load()
	if err != nil {
		return nil, err
	}
	paths := d.raw["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			raw := methods[method].(map[string]any)
			all = append(all, Operation{raw["operationId"].(string), strings.ToUpper(method), path, d, raw})
		}
	}
	return all, nil
}

// Refusal returns why the document does not allow a request with this query, header and body. It returns nil if the
// request is allowed.
func (o Operation) Refusal(s Sample) error {
	r := &http.Request{URL: &url.URL{RawQuery: s.Query.Encode()}, Header: s.Header}
	return o.d.request(o.raw, Exchange{Request: r, Sent: s.Body}, "paths", o.Path, strings.ToLower(o.Method))
}

// body returns the schema of the operation's body, nil if it has none.
func (o Operation) body() map[string]any {
	s, _ := at(o.raw, "requestBody", "content", "application/json", "schema").(map[string]any)
	return s
}

// parameter is a parameter of the query or the header.
type parameter struct {
	in, name string
	schema   map[string]any
}

func (o Operation) parameters() (all []parameter) {
	given, _ := o.raw["parameters"].([]any)
	for _, p := range given {
		p := p.(map[string]any)
		if in := p["in"].(string); in != "path" {
			all = append(all, parameter{in, p["name"].(string), p["schema"].(map[string]any)})
		}
	}
	return all
}

// with returns the sample with the parameter's text. It omits a header that the HTTP client would refuse to send.
func (s Sample) with(p parameter, text string) Sample {
	if p.in == "query" {
		s.Query.Set(p.name, text)
	} else if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		s.Header.Set(p.name, strings.Trim(text, " ")) // as it arrives
	}
	return s
}

// Valid is the number of valid samples of an operation.
const Valid = 4

// Samples returns requests whose values are chosen at random. The first [Valid] requests are allowed by the document.
// Each of the other requests has one unusual feature, which is usually an error: a value of another type or size, null,
// invisible characters, an unknown field, or a missing field.
func (o Operation) Samples(random *rand.Rand) (all []Sample) {
	m := maker{random}
	sample := func(what string) (s Sample) {
		// The maker does not know the rules that relate several fields to one another, so a request may have to be made
		// again.
		for range 100 {
			s = Sample{What: what, Query: url.Values{}, Header: http.Header{}}
			for _, p := range o.parameters() {
				if m.IntN(3) == 0 {
					s = s.with(p, fmt.Sprint(m.valid(p.schema)))
				}
			}
			if schema := o.body(); schema != nil {
				s.Body, _ = json.Marshal(m.valid(schema))
			}
			if o.Refusal(s) == nil {
				break
			}
		}
		return s
	}
	for range Valid {
		all = append(all, sample("valid"))
	}
	for _, p := range o.parameters() {
		for _, v := range m.variants(p.schema) {
			if v.value != nil {
				all = append(all, sample(p.name+": "+v.what).with(p, fmt.Sprint(v.value)))
			}
		}
	}
	if o.body() == nil {
		return all
	}
	body := func(what string, text []byte) {
		s := sample(what)
		s.Body = text
		all = append(all, s)
	}
	for _, v := range m.variants(o.body()) {
		text, _ := json.Marshal(v.value)
		body("the body"+v.what, text)
	}
	body("no body", nil)
	body("broken JSON", all[0].Body[:len(all[0].Body)-1])
	body("JSON twice", slices.Concat(all[0].Body, all[0].Body))
	body("every field twice", []byte(strings.Replace(string(all[0].Body), "{", string(all[0].Body[:len(all[0].Body)-1])+",", 1)))
	body("half a surrogate pair", bytes.Replace(all[0].Body, []byte(`:"`), []byte(`:"a\udc00`), 1))
	body("invalid UTF-8", bytes.Replace(all[0].Body, []byte(`:"`), []byte(":\"a\xff"), 1))
	return all
}

// maker generates values for schemas.
type maker struct{ *rand.Rand }

// pick chooses one.
func pick[T any](m maker, of ...T) T { return of[m.IntN(len(of))] }

// typeOf returns the type of a schema, or the first type if there are several.
func typeOf(schema map[string]any) string {
	if several, ok := schema["type"].([]any); ok {
		return several[0].(string)
	}
	t, _ := schema["type"].(string)
	return t
}

// bound returns a bound of the schema, or the value otherwise.
func bound(schema map[string]any, name string, otherwise int) int {
	if n, ok := schema[name].(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return int(i)
		}
	}
	return otherwise
}

// valid returns a value that the schema allows.
func (m maker) valid(schema map[string]any) any {
	if values, ok := schema["enum"].([]any); ok {
		return pick(m, values...)
	}
	if examples, ok := schema["examples"].([]any); ok {
		return pick(m, examples...)
	}
	switch typeOf(schema) {
	case "string":
		least := bound(schema, "minLength", 0)
		return m.letters(least + m.IntN(min(20, bound(schema, "maxLength", 20)-least)+1))
	case "integer", "number":
		least := bound(schema, "minimum", 0)
		return least + m.IntN(min(1000, bound(schema, "maximum", 1000)-least)+1)
	case "boolean":
		return m.IntN(2) == 0
	case "array":
		list := []any{}
		for range max(bound(schema, "minItems", 0), m.IntN(3)) {
			list = append(list, m.valid(schema["items"].(map[string]any)))
		}
		return list
	}
	return m.object(schema)
}

// letters returns this many letters, some of which take several bytes.
func (m maker) letters(n int) string {
	var text strings.Builder
	for range n {
		text.WriteRune(pick(m, 'a', 'b', 'Z', '7', '한', '글'))
	}
	return text.String()
}

// object returns an object with all required fields and some others.
func (m maker) object(schema map[string]any) map[string]any {
	o := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || m.IntN(2) == 0 {
			o[name] = m.valid(properties[name].(map[string]any))
		}
	}
	return o
}

// variant is a value with one unusual feature.
type variant struct {
	what  string
	value any
}

// unusual holds characters that are invisible, replace others, or reverse the text around them.
var unusual = []string{
	"\x00", "\x01", "\t", "\n", "\r", "\x1b", " ", "\x7f", "\u0085", "\u00a0", "\u0301", "\u200b", "\u200c", "\u200d", "\u202e",
	"\u2028", "\u2066", "\u2800", "\u3000", "\u3164", "\ufe0f", "\ufeff", "\ufffd", "\U000e0041", "😀", "é", "%", "_", `\`, "/",
}

// variants returns unusual values for the schema.
func (m maker) variants(schema map[string]any) (all []variant) {
	add := func(what string, value any) { all = append(all, variant{what, value}) }
	add(" is null", nil)
	for kind, value := range map[string]any{
		"string": "text", "number": 1.5, "boolean": true, "array": []any{"a"}, "object": map[string]any{"a": 1},
	} {
		if kind != typeOf(schema) {
			add(" is of the type "+kind, value)
		}
	}
	slices.SortFunc(all, func(a, b variant) int { return strings.Compare(a.what, b.what) })
	if values, ok := schema["enum"].([]any); ok {
		for _, v := range values {
			add(" is one of those", v)
		}
		one := fmt.Sprint(pick(m, values...))
		add(" is in other letters", strings.ToLower(one))
		add(" has a space", one+" ")
	}
	switch typeOf(schema) {
	case "string":
		m.texts(schema, add)
	case "integer", "number":
		for _, n := range []int{-1, 0, 1, bound(schema, "minimum", 0) - 1, bound(schema, "minimum", 0),
			bound(schema, "maximum", 0), bound(schema, "maximum", 0) + 1} {
			add(" is a number at a bound", n)
		}
		add(" is huge", json.Number("99999999999999999999"))
		add(" is huge", json.Number("1e400"))
	case "boolean":
		add(" is false", false)
	case "array":
		m.lists(schema, add)
	case "object":
		m.objects(schema, add)
	}
	return all
}

func (m maker) texts(schema map[string]any, add func(string, any)) {
	least, most := bound(schema, "minLength", 0), bound(schema, "maxLength", 3000)
	add(" is empty", "")
	add(" is false UTF-8", "a\xff")
	for _, n := range []int{least - 1, least, 100, 101, 255, 256, most, most + 1} { // some are those of patterns
		add(fmt.Sprintf(" has %d characters", n), m.letters(max(n, 0)))
		add(fmt.Sprintf(" has %d characters of one byte", n), strings.Repeat("a", max(n, 0)))
	}
	add(" has spaces around", " "+strings.Repeat(" ", most)+fmt.Sprint(m.valid(schema)))
	for range 8 {
		c := pick(m, unusual...)
		valid := fmt.Sprint(m.valid(schema))
		text := pick(m, c, valid+c, c+valid, "ab"+c+"cd")
		add(fmt.Sprintf(" is %+q", text), text)
	}
}

func (m maker) lists(schema map[string]any, add func(string, any)) {
	items := schema["items"].(map[string]any)
	list := func(n int) []any {
		all := make([]any, max(n, 0))
		for i := range all {
			all[i] = m.valid(items)
		}
		return all
	}
	for _, n := range []int{bound(schema, "minItems", 0) - 1, bound(schema, "maxItems", 10), bound(schema, "maxItems", 10) + 1} {
		add(fmt.Sprintf(" has %d items", n), list(n))
	}
	for _, v := range m.variants(items) {
		add(": an item"+v.what, slices.Insert(list(1+m.IntN(2)), m.IntN(2), v.value))
	}
}

func (m maker) objects(schema map[string]any, add func(string, any)) {
	add(" has an unknown field", with(m.object(schema), "unknown", 1))
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		valid := m.object(schema)
		value := m.valid(properties[name].(map[string]any))
		delete(valid, name)
		add(" without "+name, valid)
		add(" with "+name+" in other letters", with(valid, strings.ToUpper(name), value))
		for _, v := range m.variants(properties[name].(map[string]any)) {
			add(": "+name+v.what, with(m.object(schema), name, v.value))
		}
	}
}

// with returns a copy with another field.
func with(of map[string]any, name string, value any) map[string]any {
	of = maps.Clone(of)
	of[name] = value
	return of
}
