package kube

import (
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitions returns the OpenAPI schemas of the built-in kinds. The libraries contain the schemas
// of metadata and of custom resource definitions. The other schemas are derived from the Go types
// and their documentation.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := apiextensions.GetOpenAPIDefinitions(ref)
	r := reader{ref, all}
	for _, group := range builtIn() {
		for _, object := range group.types {
			r.define(reflect.TypeOf(object).Elem())
		}
	}
	return all
}

// named is a Go type with a name in OpenAPI.
type named interface{ OpenAPIModelName() string }

// documented is a Go type with the documentation of its fields.
type documented interface{ SwaggerDoc() map[string]string }

type reader struct {
	ref common.ReferenceCallback
	all map[string]common.OpenAPIDefinition
}

// modelName returns the OpenAPI name of a type; "" if the type is written inline.
func modelName(t reflect.Type) string {
	if model, ok := reflect.Zero(t).Interface().(named); ok {
		return model.OpenAPIModelName()
	}
	return ""
}

// define adds a type and the types of its fields.
func (r reader) define(t reflect.Type) {
	name := modelName(t)
	if _, known := r.all[name]; name == "" || known {
		return
	}
	r.all[name] = common.OpenAPIDefinition{} // ends the recursion
	schema := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
	var docs map[string]string
	if d, ok := reflect.Zero(t).Interface().(documented); ok {
		docs = d.SwaggerDoc()
	}
	schema.Description = docs[""]
	var needs []string
	r.fields(t, docs, &schema, &needs)
	r.all[name] = common.OpenAPIDefinition{Schema: schema, Dependencies: needs}
}

func (r reader) fields(t reflect.Type, docs map[string]string, schema *spec.Schema, needs *[]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
				docs := metav1.TypeMeta{}.SwaggerDoc()
				for _, key := range []string{"kind", "apiVersion"} {
					schema.Properties[key] = spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"},
						Description: docs[key]}}
				}
				continue
			}
			r.fields(field.Type, docs, schema, needs)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		property := r.property(field.Type, needs)
		property.Description = docs[name]
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			property.AddExtension("x-kubernetes-patch-strategy", strategy)
			if key := field.Tag.Get("patchMergeKey"); key != "" {
				property.AddExtension("x-kubernetes-patch-merge-key", key)
				property.AddExtension("x-kubernetes-list-type", "map")
				property.AddExtension("x-kubernetes-list-map-keys", []any{key})
			}
		}
		schema.Properties[name] = property
	}
}

func (r reader) property(t reflect.Type, needs *[]string) spec.Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	simple := func(kind, format string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{kind}, Format: format}}
	}
	if name := modelName(t); name != "" {
		if typed, ok := reflect.Zero(t).Interface().(interface {
			OpenAPISchemaType() []string
			OpenAPISchemaFormat() string
		}); ok && t.Kind() == reflect.Struct {
			if _, known := r.all[name]; !known {
				return spec.Schema{SchemaProps: spec.SchemaProps{Type: typed.OpenAPISchemaType(),
					Format: typed.OpenAPISchemaFormat()}}
			}
		}
		if t.Kind() == reflect.Struct {
			r.define(t)
			*needs = append(*needs, name)
			return spec.Schema{SchemaProps: spec.SchemaProps{Ref: r.ref(name), Default: nil}}
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		return simple("boolean", "")
	case reflect.Int, reflect.Int32, reflect.Uint32, reflect.Int16, reflect.Uint16:
		return simple("integer", "int32")
	case reflect.Int64, reflect.Uint64:
		return simple("integer", "int64")
	case reflect.Float32, reflect.Float64:
		return simple("number", "double")
	case reflect.String:
		return simple("string", "")
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return simple("string", "byte")
		}
		items := r.property(t.Elem(), needs)
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"},
			Items: &spec.SchemaOrArray{Schema: &items}}}
	case reflect.Map:
		values := r.property(t.Elem(), needs)
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"},
			AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &values}}}
	}
	return simple("object", "")
}
