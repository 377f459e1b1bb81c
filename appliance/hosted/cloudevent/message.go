package cloudevent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// prefix is the prefix of user properties with attributes (CloudEvents, MQTT protocol binding,
	// section 3.1, has none; the SDK adds it).
	prefix = "ce-"

	specVersion = "1.0"

	jsonType       = "application/json"
	structuredType = "application/cloudevents+json"
)

// MaxVersion is the largest version of a bundle. Agents read versions as integers of 32 bits.
const MaxVersion = math.MaxInt32

// Property is a user property of an MQTT 5 message.
type Property struct{ Key, Value string }

// Message is an MQTT 5 message without its topic.
type Message struct {
	ContentType string
	Properties  []Property
	Payload     []byte
}

// Message encodes an event in the binary mode. An event about a bundle has a version of at most
// MaxVersion.
func (e *Event) Message() Message {
	m := Message{ContentType: jsonType, Payload: e.Data}
	add := func(key, value string) { m.Properties = append(m.Properties, Property{prefix + key, value}) }
	add("specversion", specVersion)
	add("id", e.ID)
	add("source", e.Source)
	add("type", e.Type())
	add("time", e.Time.UTC().Format(time.RFC3339Nano))
	add("clustername", e.Consumer)
	add("originalsource", e.OriginalSource)
	if e.ResourceID != "" {
		add("resourceid", e.ResourceID)
		add("resourceversion", strconv.FormatInt(e.ResourceVersion, 10))
	}
	for _, optional := range []Property{{"sequenceid", e.SequenceID}, {"statushash", e.StatusHash},
		{"metadata", string(e.Metadata)}} {
		if optional.Value != "" {
			add(optional.Key, optional.Value)
		}
	}
	if !e.Deleted.IsZero() {
		add("deletiontimestamp", e.Deleted.UTC().Format(time.RFC3339Nano))
	}
	return m
}

// Parse decodes an event. Its error says which part is missing or wrong.
func Parse(m Message) (*Event, error) {
	contentType, _, _ := strings.Cut(m.ContentType, ";")
	attributes := map[string]string{}
	data := m.Payload
	if strings.EqualFold(strings.TrimSpace(contentType), structuredType) {
		var err error
		if attributes, data, err = structured(m.Payload); err != nil {
			return nil, err
		}
	} else {
		for _, property := range m.Properties {
			key, ok := strings.CutPrefix(strings.ToLower(property.Key), prefix)
			if !ok {
				continue
			}
			if _, twice := attributes[key]; twice {
				return nil, fmt.Errorf("the event has the attribute %s twice", key)
			}
			attributes[key] = property.Value
		}
	}
	return fromAttributes(attributes, data)
}

func fromAttributes(attributes map[string]string, data []byte) (*Event, error) {
	if version := attributes["specversion"]; version != specVersion {
		return nil, fmt.Errorf("the event has the specversion %q instead of %q", version, specVersion)
	}
	e := &Event{
		ID: attributes["id"], Source: attributes["source"], Consumer: attributes["clustername"],
		OriginalSource: attributes["originalsource"], ResourceID: attributes["resourceid"],
		SequenceID: attributes["sequenceid"], StatusHash: attributes["statushash"],
	}
	for key, value := range map[string]string{"id": e.ID, "source": e.Source, "clustername": e.Consumer} {
		if value == "" {
			return nil, fmt.Errorf("the event lacks the attribute %s", key)
		}
	}
	if err := e.setType(attributes["type"]); err != nil {
		return nil, err
	}
	if text := attributes["resourceversion"]; text != "" {
		version, err := strconv.ParseInt(text, 10, 64)
		if err != nil || version < 0 || version > MaxVersion {
			return nil, fmt.Errorf("the resourceversion %q is not a number from 0 to %d", text, MaxVersion)
		}
		e.ResourceVersion = version
	}
	var err error
	if e.Time, err = parseTime("time", attributes["time"]); err != nil {
		return nil, err
	}
	if e.Deleted, err = parseTime("deletiontimestamp", attributes["deletiontimestamp"]); err != nil {
		return nil, err
	}
	if text := attributes["metadata"]; text != "" {
		if !isObject([]byte(text)) {
			return nil, errors.New("the metadata is not a JSON object")
		}
		e.Metadata = json.RawMessage(text)
	}
	if len(data) > 0 {
		if !isObject(data) {
			return nil, errors.New("the data is not a JSON object")
		}
		e.Data = data
	}
	return e, nil
}

func parseTime(key, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("the attribute %s is not a time: %q", key, text)
	}
	return at.UTC(), nil
}

// isObject reports whether a text is a JSON object.
func isObject(text []byte) bool {
	trimmed := strings.TrimLeft(string(text[:min(len(text), 64)]), " \t\r\n")
	return strings.HasPrefix(trimmed, "{") && json.Valid(text)
}

// structured reads an event in the structured mode.
func structured(payload []byte) (attributes map[string]string, data []byte, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, nil, fmt.Errorf("the event is not a JSON object: %w", err)
	}
	attributes = map[string]string{}
	for key, value := range members {
		switch key {
		case "data":
			data = value
		case "data_base64":
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				return nil, nil, errors.New("data_base64 is not text")
			}
			if data, err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, nil, fmt.Errorf("data_base64 is not valid: %w", err)
			}
		default:
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value) // a number or a boolean
			}
			attributes[key] = text
		}
	}
	return attributes, data, nil
}
