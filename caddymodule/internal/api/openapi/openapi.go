// Package openapi holds the description of the REST API in two forms: as an OpenAPI 3.1 document for programs, and as a
// Go value for the page that people read.
//
// The document is openapi.json. A test generates the document from the table of operations (operations_test.go), and
// from the types of the answers and their comments, so it cannot differ from them:
//
//	go test ./caddymodule/internal/api/openapi -update
//
// Package openapitest checks every answer of the tests against it.
package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// JSON is the document.
//
//go:embed openapi.json
var JSON []byte

// Document is the part of the description that the page shows.
type Document struct {
	Info struct {
		Title, Description, Version string
	}
	Tags  []Tag
	Paths map[string]map[string]Operation
	// Components holds the schemas and responses to which others refer.
	Components struct {
		Schemas   map[string]*Schema
		Responses map[string]Response
	}
	// Problems are all types of problems.
	Problems []Problem `json:"x-problems"`
}

// Tag is a group of operations.
type Tag struct{ Name, Description string }

// Problem is a type of problem and its status. A type never changes.
type Problem struct {
	Type   string
	Title  string
	Status int
}

// Operation is a method of a path.
type Operation struct {
	// ID names the operation; Method and Path locate it.
	ID           string `json:"operationId"`
	Method, Path string `json:"-"`
	Tags         []string
	Summary      string
	Description  string
	// Scope is the scope that an access token needs; if it is empty, no token can call the
	// operation.
	Scope       string `json:"x-scope"`
	Parameters  []Parameter
	RequestBody *Content
	// Responses maps statuses to answers, with references to components resolved.
	Responses map[string]Response
}

// Parameter is a part of the path, the query or the header.
type Parameter struct {
	Name, In, Description string
	Required              bool
	Schema                *Schema
}

// Content maps media types to bodies.
type Content struct {
	Required bool
	Content  map[string]struct{ Schema *Schema }
}

// Response is an answer.
type Response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]struct{ Schema *Schema }
}

// Schema describes a value.
type Schema struct {
	Ref         string `json:"$ref"`
	Type        Types
	Format      string
	Description string
	Enum        []string
	Items       *Schema
	Properties  map[string]*Schema
	Required    []string
	AnyOf       []*Schema
	Minimum     *float64
	Maximum     *float64
}

// Part is a piece of the text that a page shows about a schema. It is either plain text, or the name of a schema that
// the page links.
type Part struct{ Text, Link string }

// Parts describes a value of the schema: "string", "list of Workspace", "integer or null".
func (s *Schema) Parts() (parts []Part) {
	text := func(t string) { parts = append(parts, Part{Text: t}) }
	switch {
	case s.Ref != "":
		return []Part{{Link: strings.TrimPrefix(s.Ref, "#/components/schemas/")}}
	case len(s.AnyOf) > 0:
		for i, one := range s.AnyOf {
			if i > 0 {
				text("or")
			}
			parts = append(parts, one.Parts()...)
		}
		return parts
	case s.Items != nil:
		text("list of")
		return append(parts, s.Items.Parts()...)
	}
	text(strings.Join(s.Type, " or "))
	if s.Format != "" {
		text("(" + s.Format + ")")
	}
	if values := slices.DeleteFunc(slices.Clone(s.Enum), func(v string) bool { return v == "" }); len(values) > 0 {
		text(strings.Join(values, ", "))
	}
	if s.Minimum != nil && s.Maximum != nil {
		text(fmt.Sprintf("%v to %v", *s.Minimum, *s.Maximum))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		text("· " + name + ":")
		parts = append(parts, s.Properties[name].Parts()...)
	}
	return parts
}

// Requires reports whether an object must have the field.
func (s *Schema) Requires(field string) bool { return slices.Contains(s.Required, field) }

// Types are the possible types of a value.
type Types []string

// UnmarshalJSON accepts a list of types, or a single type.
func (t *Types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = Types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// Parse returns the document as a value. It is parsed once per process.
var Parse = sync.OnceValues(func() (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(JSON, d); err != nil {
		return nil, fmt.Errorf("reading the description of the API: %w", err)
	}
	for path, methods := range d.Paths {
		for method, o := range methods {
			o.Path, o.Method = path, strings.ToUpper(method)
			for status, r := range o.Responses {
				if r.Ref != "" {
					o.Responses[status] = d.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
				}
			}
			methods[method] = o
		}
	}
	return d, nil
})

// OperationsOf returns the operations of a tag, by path and method.
func (d *Document) OperationsOf(tag string) (all []Operation) {
	for _, methods := range d.Paths {
		for _, o := range methods {
			if slices.Contains(o.Tags, tag) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return all
}
