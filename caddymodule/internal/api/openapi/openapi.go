// Package openapi has the description of the REST API, an OpenAPI 3.1 document, for programs and, as a
// value, for the page that people read.
//
// The document is openapi.json. A test makes it from the table of operations (operations_test.go) and from
// the types of the answers with their comments, so it cannot differ from them:
//
//	go test ./caddymodule/internal/api/openapi -update
//
// Package openapitest holds every answer of the tests against it.
package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// JSON is the document.
//
//go:embed openapi.json
var JSON []byte

// Document is what the page shows of the description.
type Document struct {
	Info struct {
		Title, Description, Version string
	}
	Tags  []Tag
	Paths map[string]map[string]Operation
	// Components have the schemas that others refer to.
	Components struct {
		Schemas map[string]*Schema
	}
	// Problems are all types of problems.
	Problems []Problem `json:"x-problems"`
}

// Tag is a group of operations.
type Tag struct{ Name, Description string }

// Problem is a type of problem, which never changes, and the status with which it comes.
type Problem struct {
	Type   string
	Title  string
	Status int
}

// Operation is a method of a path.
type Operation struct {
	// ID names the operation, Method and Path are where it is.
	ID           string `json:"operationId"`
	Method, Path string `json:"-"`
	Tags         []string
	Summary      string
	Description  string
	// Scope is what an access token needs; empty means that only people can do it.
	Scope       string `json:"x-scope"`
	Parameters  []Parameter
	RequestBody *Content
	Responses   map[string]Response
}

// Parameter is a part of the path, the query or the header.
type Parameter struct {
	Name, In, Description string
	Required              bool
	Schema                *Schema
}

// Content is a body by its media type.
type Content struct {
	Required bool
	Content  map[string]struct{ Schema *Schema }
}

// Response is an answer.
type Response struct {
	Description string
	Content     map[string]struct{ Schema *Schema }
}

// Schema is what a value is.
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

// Types are the types of which a value has one.
type Types []string

// UnmarshalJSON takes one type, too.
func (t *Types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = Types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// Name is the name of the schema that this one refers to, or empty.
func (s *Schema) Name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// Parse returns the document as a value. It is read once per process.
var Parse = sync.OnceValues(func() (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(JSON, d); err != nil {
		return nil, fmt.Errorf("reading the description of the API: %w", err)
	}
	for path, methods := range d.Paths {
		for method, o := range methods {
			o.Path, o.Method = path, strings.ToUpper(method)
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
