// Package search reads and evaluates the searches of the lists of hosted control planes: those of
// Clusters Service, and those of Maestro. Both have the language of package appliance/ams/tsl.
// Maestro's also has JSON paths, for example
//
//	payload->'metadata'->'labels'->>'api.openshift.com/id' = '1a2b'
//
// The grammar of Clusters Service is not published; this one accepts what its clients send. That of
// Maestro is in the parsers of github.com/openshift-online/maestro.
package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"landfall/appliance/ams/tsl"
)

// Expression is a parsed search. The zero value is invalid.
type Expression struct{ query *tsl.Query }

// Error says what is wrong with a search, and where.
type Error = tsl.Error

// ParseClusters parses a search of Clusters Service. An empty text matches everything. The fields
// below azure are compared without regard to case: the names are stored in lower case, but people
// take them from resource IDs. The error is of type *Error. The caller rejects unknown fields.
func ParseClusters(text string) (Expression, error) {
	query, err := tsl.Dialect{
		AnyCase: func(name string) bool { return strings.HasPrefix(name, "azure.") },
	}.Parse(text)
	return Expression{query}, err
}

// Columns of Maestro's lists.
var (
	// BundleColumns are the columns of resource bundles. The column payload has a JSON path.
	BundleColumns = []string{"id", "name", "version", "source", "consumer_name", "created_at", "updated_at",
		"deleted_at", payloadColumn}
	// ConsumerColumns are the columns of consumers.
	ConsumerColumns = []string{"id", "name", "created_at", "updated_at"}
)

const payloadColumn = "payload"

// ParseMaestro parses a search of a list of Maestro with the given columns. The error is of type
// *Error.
func ParseMaestro(text string, columns []string) (Expression, error) {
	query, err := tsl.Dialect{Paths: true}.Parse(text)
	if err != nil {
		return Expression{}, err
	}
	for _, name := range query.Names() {
		column, path, _ := strings.Cut(name, "->")
		switch {
		case !slices.Contains(columns, column):
			return Expression{}, &Error{Reason: fmt.Sprintf("the search uses %s, which is not a field of the list; "+
				"its fields are %s", column, strings.Join(columns, ", "))}
		case path != "" && column != payloadColumn:
			return Expression{}, &Error{Reason: fmt.Sprintf("the search has a JSON path in %s; only %s has members",
				column, payloadColumn)}
		}
	}
	return Expression{query}, nil
}

// PayloadLabel returns the name of the field with a label of a resource bundle, for Required.
func PayloadLabel(key string) string {
	return payloadColumn + "->'metadata'->'labels'->>'" + strings.ReplaceAll(key, "'", "''") + "'"
}

// Fields returns the fields that the search uses, each once.
func (e Expression) Fields() []string { return e.query.Names() }

// Match reports whether a row matches. value returns a field's value: text, a bool, a number, a
// time, a value of decoded JSON, or nil. The comparison of a number with text is an error.
func (e Expression) Match(value func(field string) any) (bool, error) {
	return e.MatchPath(func(path []string) any { return value(strings.Join(path, ".")) })
}

// MatchPath does the same as Match. The path has the parts of a dotted name, or the column and the
// members of a JSON path.
func (e Expression) MatchPath(value func(path []string) any) (bool, error) {
	return e.query.MatchRow(func(path []string) []any {
		found := comparable(value(path))
		if found == nil {
			return nil
		}
		return []any{found}
	})
}

// Required returns the values of which each match has one in the field, sorted and each once, so
// that the caller can read the matches from an index. ok is false if the search does not limit the
// field.
func (e Expression) Required(field string) (values []string, ok bool) { return e.query.Among(field) }

// comparable returns a value in the types of decoded JSON. Times have the form of RFC 3339, in UTC.
func comparable(value any) any {
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return nil
		}
		return v.UTC().Format(time.RFC3339Nano)
	case int:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	}
	return value
}
