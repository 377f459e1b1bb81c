package openapi

// SchemasOf returns the schemas of models, and of the models that they contain, by their names.
func SchemasOf(models ...any) map[string]any {
	s := &schemas{defined: object{}}
	for _, model := range models {
		s.of(model)
	}
	return s.defined
}

// TextSchema returns the schema of a string type.
func TextSchema(text any) map[string]any { return (&schemas{defined: object{}}).of(text) }
