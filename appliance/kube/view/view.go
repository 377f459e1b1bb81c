// Package view describes kinds of the Kubernetes API whose objects are computed from other rows of
// the store when they are read. Clients can't write them. Package web/kube serves them.
package view

import "landfall/store"

// Kind is a kind of namespaced objects that are computed from rows. Each object has a key.
type Kind struct {
	Group, Version   string
	Kind             string
	Plural, Singular string
	Short            []string
	Columns          []Column // of kubectl, after the name
	// Instead says what to use instead of a request that writes.
	Instead string
	// Prefixes are the prefixes of the rows in the store. The rest of a row's key is the object's
	// key.
	Prefixes []string
	// Keys calls fn with the keys of all objects.
	Keys func(tx *store.Tx, fn func(key string) error) error
	// Find returns the key of the object with a name. There may be no such object.
	Find func(tx *store.Tx, namespace, name string) (key string, err error)
	// Object returns an object without apiVersion, kind and resourceVersion, and the revision at
	// which it last changed. It is nil if there is none.
	Object func(tx *store.Tx, key string) (object map[string]any, revision uint64, err error)
}

// Column is a column of the table that kubectl prints.
type Column struct {
	Name, Type, Path string // Type is that of OpenAPI; Path is a JSONPath
	Wide             bool   // only with -o wide
}

// Name returns the name of the kind's resource with its group.
func (k Kind) Name() string { return k.Plural + "." + k.Group }
