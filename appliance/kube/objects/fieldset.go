package objects

import (
	"bytes"
	"slices"
	"strings"
)

// unmanaged are the fields of the metadata that no field manager owns.
var unmanaged = []string{"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
	"managedFields", "resourceVersion"}

// fieldSet returns the text of the set of an object's fields (FieldsV1), without the status. It is
// the same text that structured-merge-diff writes for the fields of a new object, in a small part
// of its time. ok is false if the object has a name that needs escapes, which only
// structured-merge-diff handles.
func fieldSet(text []byte) (set []byte, ok bool) {
	root := slices.DeleteFunc(members(text), func(m member) bool {
		return m.name == "apiVersion" || m.name == "kind" || m.name == "status"
	})
	return appendFields(make([]byte, 0, 1024), root, "", false)
}

// appendFields appends the set of the members of a map. It begins with the map itself if that is a
// field with an owner.
func appendFields(set []byte, list []member, path string, self bool) (_ []byte, ok bool) {
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	set = append(set, '{')
	if self {
		set = append(set, `".":{}`...)
	}
	for i, m := range list {
		if strings.Contains(m.name, `\`) || i > 0 && list[i-1].name == m.name {
			return nil, false
		}
		at, under := path+"."+m.name, []member(nil)
		if at == ".metadata" {
			under = slices.DeleteFunc(members(m.value),
				func(m member) bool { return slices.Contains(unmanaged, m.name) })
			if len(under) == 0 {
				continue
			}
		}
		if set[len(set)-1] != '{' {
			set = append(set, ',')
		}
		set = append(set, `"f:`...)
		set = append(set, m.name...)
		set = append(set, `":`...)
		switch at {
		case ".metadata":
			set, ok = appendFields(set, under, at, false)
		case ".metadata.finalizers":
			set, ok = appendItems(set, m.value, func(item []byte) ([]byte, bool) { return item, isPlain(item) },
				"v:", "")
		case ".metadata.ownerReferences":
			set, ok = appendItems(set, m.value, func(item []byte) ([]byte, bool) {
				uid := field(item, "uid")
				return uid, isPlain(uid)
			}, `k:{\"uid\":`, "}")
		default:
			if under = members(m.value); len(under) > 0 {
				set, ok = appendFields(set, under, at, true)
			} else {
				set, ok = append(set, "{}"...), true
			}
		}
		if !ok {
			return nil, false
		}
	}
	return append(set, '}'), true
}

// appendItems appends the set of the items of a list. key returns the quoted text that identifies
// an item.
func appendItems(set, list []byte, key func(item []byte) ([]byte, bool), before, after string) (_ []byte, ok bool) {
	items := elements(list)
	if len(items) == 0 {
		return append(set, "{}"...), true
	}
	keys := make([]string, len(items))
	for i, item := range items {
		quoted, ok := key(item)
		if !ok {
			return nil, false
		}
		keys[i] = string(bytes.Trim(quoted, `"`))
	}
	slices.Sort(keys)
	if len(slices.Compact(slices.Clone(keys))) < len(keys) {
		return nil, false
	}
	set = append(set, `{".":{}`...)
	for _, key := range keys {
		set = append(set, `,"`...)
		set = append(set, before...)
		set = append(set, `\"`...)
		set = append(set, key...)
		set = append(set, `\"`...)
		set = append(set, after...)
		set = append(set, `":{}`...)
	}
	return append(set, '}'), true
}

// isPlain reports whether a value is a string without escapes.
func isPlain(value []byte) bool {
	return len(value) >= 2 && value[0] == '"' && !bytes.ContainsRune(value, '\\')
}
