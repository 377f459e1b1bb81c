package bmc

import (
	"encoding/json"
	"strconv"
	"strings"
)

// object is a resource as the BMC returned it. Its accessors are lenient, because BMCs return
// numbers as strings and strings as numbers, and null or no value for required properties. A value
// of an unexpected type is treated as absent.
type object map[string]any

// resource is an object with its path and its ETag.
type resource struct {
	object
	path string
	etag string
}

func (o object) at(path ...string) any {
	var value any = map[string]any(o)
	for _, name := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[name]
	}
	return value
}

func (o object) text(path ...string) string {
	switch value := o.at(path...).(type) {
	case string:
		return strings.TrimSpace(value)
	case json.Number:
		return value.String()
	}
	return ""
}

func (o object) flag(path ...string) bool {
	switch value := o.at(path...).(type) {
	case bool:
		return value
	case string:
		return strings.EqualFold(value, "true")
	case json.Number:
		return value.String() != "0"
	}
	return false
}

func (o object) number(path ...string) float64 {
	number, err := strconv.ParseFloat(o.text(path...), 64)
	if err != nil {
		return 0
	}
	return number
}

func (o object) has(path ...string) bool { return o.at(path...) != nil }

// texts returns a list of strings. A single string becomes a list of one.
func (o object) texts(path ...string) []string {
	var texts []string
	switch value := o.at(path...).(type) {
	case string:
		texts = append(texts, value)
	case []any:
		for _, item := range value {
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// link returns the target of a reference, or "".
func (o object) link(path ...string) string {
	if text, ok := o.at(path...).(string); ok && strings.HasPrefix(text, "/") {
		return text
	}
	return o.text(append(path, "@odata.id")...)
}

// links returns the targets of a list of references.
func (o object) links(path ...string) []string {
	var links []string
	items, ok := o.at(path...).([]any)
	if !ok {
		return nil
	}
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			if link := object(fields).link(); link != "" {
				links = append(links, link)
			}
		}
	}
	return links
}

// target returns the path of an action, or "" if the resource does not have the action.
func (o object) target(action string) string { return o.text("Actions", action, "target") }

func decodeObject(body []byte) (object, error) {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	fields := object{}
	return fields, decoder.Decode(&fields)
}
