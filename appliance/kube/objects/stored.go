package objects

import (
	"encoding/json"
	"errors"
	"fmt"

	"landfall/store"
	"landfall/store/fastjson"
)

// texts holds the objects like rows, but keeps no decoded forms in memory.
var texts = store.NewBucket[json.RawMessage]("kubernetes", 1)

// EachStored calls fn with all objects of a kind. It decodes their JSON into T, which may have only
// a part of the fields, and keeps nothing in memory. It cannot read Secrets.
func EachStored[T any](tx *store.Tx, kind Kind, fn func(*T) error) error {
	return texts.Each(tx, kind.prefix(""), func(key string, text *json.RawMessage) error {
		object, err := decodeStored[T](key, *text)
		if err != nil {
			return err
		}
		return fn(object)
	})
}

// FindStored returns one object like EachStored; nil if it does not exist.
func FindStored[T any](tx *store.Tx, kind Kind, namespace, name string) (*T, error) {
	key := kind.Key(namespace, name)
	text, err := texts.Get(tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeStored[T](key, *text)
}

func decodeStored[T any](key string, text []byte) (*T, error) {
	object := new(T)
	if err := fastjson.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return object, nil
}
