// Package description makes the API's description, an OpenAPI 3.0 document, of the table of its
// operations and of the models that it is spoken in. What a model requires and which values it
// takes is found by asking its own Validate method, so the document can't say something else than
// what is accepted.
package description

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Operation is one operation that is served.
type Operation struct {
	ID     string
	Method string
	Path   string // echo's form: /v2/clusters/:cluster_id
	Added  bool   // it is not the Assisted Installer's
}

type object = map[string]any

// Of returns the description of operations that lie below a base path. An operation that the table
// does not describe is an error.
func Of(version, basePath string, operations []Operation) (map[string]any, error) {
	models := &schemas{defined: object{}}
	table := table()
	paths := object{}
	for _, operation := range operations {
		what, ok := table[operation.ID]
		if operation.Added {
			what, ok = additions()[operation.ID]
		}
		if !ok {
			return nil, fmt.Errorf("describe the API: nothing is known of the operation %s", operation.ID)
		}
		path := pathParameter.ReplaceAllString(operation.Path, "{$1}")
		methods, _ := paths[path].(object)
		if methods == nil {
			methods = object{}
			paths[path] = methods
		}
		methods[strings.ToLower(operation.Method)] = what.operation(operation, models)
	}
	models.define("Error", errorModel{})
	models.define("InfraError", infraErrorModel{})
	models.define("SchemaError", schemaErrorModel{})
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": "The Assisted Installer's REST API v2, as Landfall serves it", "version": version,
			"description": "Operations marked with x-landfall-addition are Landfall's own. A body that does not fit " +
				"its schema is answered with 422, an unknown field with 400.",
		},
		"servers":    []object{{"url": basePath}},
		"paths":      paths,
		"components": object{"schemas": models.defined},
	}, nil
}

// additions are operations that the Assisted Installer does not have.
func additions() map[string]described {
	return map[string]described{
		"v2GetOpenAPI": {say: "Show this description", status: http.StatusOK, answers: anything{},
			errors: []int{http.StatusMethodNotAllowed}},
	}
}

var pathParameter = regexp.MustCompile(`:(\w+)`)

func (d described) operation(operation Operation, models *schemas) object {
	said := object{"operationId": operation.ID, "summary": d.say, "responses": d.responses(models)}
	if operation.Added {
		said["x-landfall-addition"] = true
	}
	var parameters []object
	for _, match := range pathParameter.FindAllStringSubmatch(operation.Path, -1) {
		schema := object{"type": "string"}
		if strings.HasSuffix(match[1], "_id") && match[1] != "validation_id" {
			schema["format"] = "uuid"
		}
		parameters = append(parameters, object{"name": match[1], "in": "path", "required": true, "schema": schema})
	}
	for _, p := range d.parameters {
		parameters = append(parameters, p.said())
	}
	if parameters != nil {
		said["parameters"] = parameters
	}
	switch d.takes.(type) {
	case nil:
	case upload:
		said["requestBody"] = object{"required": true, "content": object{"multipart/form-data": object{"schema": object{
			"type": "object", "required": []string{"upfile"}, "properties": object{"upfile": object{"type": "string",
				"format": "binary"}},
		}}}}
	default:
		said["requestBody"] = object{"required": true,
			"content": object{"application/json": object{"schema": models.of(d.takes)}}}
	}
	return said
}

func (d described) responses(models *schemas) object {
	success := object{"description": http.StatusText(d.status)}
	switch d.answers.(type) {
	case nil:
	case file:
		success["content"] = object{"application/octet-stream": object{"schema": object{"type": "string",
			"format": "binary"}}}
	default:
		success["content"] = object{"application/json": object{"schema": models.of(d.answers)}}
	}
	said := object{strconv.Itoa(d.status): success}
	if d.also != 0 {
		said[strconv.Itoa(d.also)] = object{"description": http.StatusText(d.also)}
	}
	for _, status := range append([]int{http.StatusUnprocessableEntity}, d.errors...) {
		name := "Error"
		switch status {
		case http.StatusUnauthorized, http.StatusForbidden:
			name = "InfraError"
		case http.StatusUnprocessableEntity:
			name = "SchemaError"
		}
		said[strconv.Itoa(status)] = object{
			"description": http.StatusText(status),
			"content":     object{"application/json": object{"schema": object{"$ref": reference + name}}},
		}
	}
	return said
}

func (p parameter) said() object {
	schema := object{"type": "string"}
	if p.kind == identity || p.kind == identities {
		schema["format"] = "uuid"
	}
	if p.values != nil {
		schema["enum"] = p.values
	}
	said := object{"name": p.name, "in": "query", "required": p.required}
	if p.in != "" {
		said["in"] = p.in
	}
	switch p.kind {
	case flag:
		schema = object{"type": "boolean"}
	case number:
		schema = object{"type": "integer"}
	case texts, identities:
		schema = object{"type": "array", "items": schema}
		said["style"], said["explode"] = "form", false // values separated by commas
	}
	said["schema"] = schema
	return said
}
