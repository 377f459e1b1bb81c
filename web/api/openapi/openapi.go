// Package openapi generates the OpenAPI 3.0 document of the API from the table of its operations
// and from the Go types of their bodies. It finds the required fields and the permitted values of a
// type with the type's Validate method. The document therefore agrees with the validation of
// requests.
package openapi

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"landfall/web/operation"
)

type object = map[string]any

// Document returns the OpenAPI document of the Assisted Installer's operations below a base path.
func Document(version, basePath string, operations []operation.Operation) map[string]any {
	return Describe("The Assisted Installer's REST API v2, as Landfall serves it", version, basePath, operations)
}

// Describe returns the OpenAPI document of an API with a title. The paths of the operations are
// below the base path.
func Describe(title, version, basePath string, operations []operation.Operation) map[string]any {
	models := &schemas{defined: object{}}
	paths := object{}
	for _, o := range operations {
		path := pathParameter.ReplaceAllString(o.Path, "{$1}")
		methods, _ := paths[path].(object)
		if methods == nil {
			methods = object{}
			paths[path] = methods
		}
		methods[strings.ToLower(o.Method)] = describe(o, models)
	}
	models.define("Error", errorModel{})
	models.define("InfraError", infraErrorModel{})
	models.define("SchemaError", schemaErrorModel{})
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": title, "version": version,
			"description": "Operations marked with x-landfall-addition are additions of Landfall. A body that " +
				"violates " +
				"its schema is rejected with 422, an unknown field with 400.",
		},
		"servers":    []object{{"url": basePath}},
		"paths":      paths,
		"components": object{"schemas": models.defined},
	}
}

var pathParameter = regexp.MustCompile(`:(\w+)`)

func describe(o operation.Operation, models *schemas) object {
	described := object{"operationId": o.ID, "summary": o.Summary, "responses": responses(o, models)}
	if o.Addition {
		described["x-landfall-addition"] = true
	}
	var parameters []object
	for _, match := range pathParameter.FindAllStringSubmatch(o.Path, -1) {
		schema := object{"type": "string"}
		if strings.HasSuffix(match[1], "_id") && match[1] != "validation_id" {
			schema["format"] = "uuid"
		}
		parameters = append(parameters, object{"name": match[1], "in": "path", "required": true, "schema": schema})
	}
	for _, p := range o.Parameters {
		parameters = append(parameters, describeParameter(p))
	}
	if parameters != nil {
		described["parameters"] = parameters
	}
	switch o.Body.(type) {
	case nil:
	case operation.Upload:
		described["requestBody"] = object{"required": true,
			"content": object{"multipart/form-data": object{"schema": object{
				"type": "object", "required": []string{"upfile"},
				"properties": object{"upfile": object{"type": "string",
					"format": "binary"}},
			}}}}
	default:
		described["requestBody"] = object{"required": true,
			"content": object{"application/json": object{"schema": models.of(o.Body)}}}
	}
	return described
}

func responses(o operation.Operation, models *schemas) object {
	success := object{"description": http.StatusText(o.Status)}
	switch o.Answer.(type) {
	case nil:
	case operation.File:
		success["content"] = object{"application/octet-stream": object{"schema": object{"type": "string",
			"format": "binary"}}}
	default:
		success["content"] = object{"application/json": object{"schema": models.of(o.Answer)}}
	}
	described := object{strconv.Itoa(o.Status): success}
	if o.NoContent {
		described["204"] = object{"description": http.StatusText(http.StatusNoContent)}
	}
	for _, status := range append([]int{http.StatusUnprocessableEntity}, o.Errors...) {
		name := "Error"
		switch status {
		case http.StatusUnauthorized, http.StatusForbidden:
			name = "InfraError"
		case http.StatusUnprocessableEntity:
			name = "SchemaError"
		}
		described[strconv.Itoa(status)] = object{
			"description": http.StatusText(status),
			"content":     object{"application/json": object{"schema": object{"$ref": reference + name}}},
		}
	}
	return described
}

func describeParameter(p operation.Parameter) object {
	schema := object{"type": "string"}
	if p.Type == operation.UUID || p.Type == operation.UUIDList {
		schema["format"] = "uuid"
	}
	if p.Values != nil {
		schema["enum"] = p.Values
	}
	described := object{"name": p.Name, "in": "query", "required": p.Required}
	if p.In != "" {
		described["in"] = p.In
	}
	switch p.Type {
	case operation.Flag:
		schema = object{"type": "boolean"}
	case operation.Number:
		schema = object{"type": "integer"}
	case operation.TextList, operation.UUIDList:
		schema = object{"type": "array", "items": schema}
		described["style"], described["explode"] = "form", false // values are separated by commas
	}
	described["schema"] = schema
	return described
}
