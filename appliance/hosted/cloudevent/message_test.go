package cloudevent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/cloudevent"
)

// read reads a message that the SDK made.
func read(t testing.TB, name string) cloudevent.Message {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var file struct {
		ContentType string            `json:"content_type"`
		Properties  map[string]string `json:"properties"`
		Payload     string            `json:"payload"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	m := cloudevent.Message{ContentType: file.ContentType, Payload: []byte(file.Payload)}
	for key, value := range file.Properties {
		m.Properties = append(m.Properties, cloudevent.Property{Key: key, Value: value})
	}
	return m
}

func names(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

func TestParse_goldenMessages(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)
	for _, name := range names(t) {
		event, err := cloudevent.Parse(read(t, name))
		require.NoError(t, err, name)
		require.Equal(t, at, event.Time)
		require.Equal(t, "mc1", event.Consumer)
	}
	status, err := cloudevent.Parse(read(t, "status-update.json"))
	require.NoError(t, err)
	require.Equal(t, cloudevent.Status, status.SubResource)
	require.Equal(t, cloudevent.Update, status.Action)
	require.Equal(t, "mc1-work-agent", status.Source)
	require.Equal(t, "maestro", status.OriginalSource)
	require.Equal(t, "0bd1f8a4-6d6b-4f30-9b5c-52e1a2f0b001", status.ResourceID)
	require.EqualValues(t, 3, status.ResourceVersion)
	require.Equal(t, "2029134012345678848", status.SequenceID)
	require.Len(t, status.StatusHash, 64)
	require.Contains(t, string(status.Metadata), `"landfall.io/epoch":"e1"`)
	structured, err := cloudevent.Parse(read(t, "structured.json"))
	require.NoError(t, err)
	require.JSONEq(t, string(status.Data), string(structured.Data))
	structured.Data, status.Data = nil, nil
	require.Equal(t, status, structured, "both modes have the same meaning")

	deletion, err := cloudevent.Parse(read(t, "spec-delete.json"))
	require.NoError(t, err)
	require.Equal(t, at.Truncate(time.Second), deletion.Deleted)
	require.Nil(t, deletion.Data)
	resync, err := cloudevent.Parse(read(t, "spec-resync-request.json"))
	require.NoError(t, err)
	var held cloudevent.HeldList
	require.NoError(t, json.Unmarshal(resync.Data, &held))
	require.Equal(t, []cloudevent.Held{{ID: "b1", Version: 3}}, held.Versions)
}

func TestMessage_sameAsGolden(t *testing.T) {
	for _, name := range names(t) {
		golden := read(t, name)
		if len(golden.Properties) == 0 {
			continue // the structured mode is only read
		}
		event, err := cloudevent.Parse(golden)
		require.NoError(t, err)
		made := event.Message()
		want := map[string]string{}
		for _, property := range golden.Properties {
			want[property.Key] = property.Value
		}
		delete(want, "ce-logtracing") // of the agent's log
		got := map[string]string{}
		for _, property := range made.Properties {
			got[property.Key] = property.Value
		}
		require.Equal(t, want, got, name)
		require.Equal(t, string(golden.Payload), string(made.Payload), name)
	}
}

func TestParse_badMessages(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cloudevent.Message)
		says   string
	}{
		"no properties": {func(m *cloudevent.Message) { m.Properties = nil }, "specversion"},
		"other version": {set("ce-specversion", "0.3"), `"0.3"`},
		"no source":     {set("ce-source", ""), "source"},
		"other data":    {set("ce-type", "io.open-cluster-management.addons.v1.status.update_request"), "about bundles"},
		"no action":     {set("ce-type", "io.open-cluster-management.works.v1alpha1.manifestbundles.status"), "about bundles"},
		"other action": {set("ce-type", "io.open-cluster-management.works.v1alpha1.manifestbundles.status.x"),
			"unknown"},
		"version no number":   {set("ce-resourceversion", "x"), "resourceversion"},
		"version negative":    {set("ce-resourceversion", "-1"), "resourceversion"},
		"version of 64 bits":  {set("ce-resourceversion", "2147483648"), "resourceversion"},
		"time":                {set("ce-time", "yesterday"), "time"},
		"deletion time":       {set("ce-deletiontimestamp", "1"), "deletiontimestamp"},
		"metadata no object":  {set("ce-metadata", "[]"), "metadata"},
		"data no JSON":        {func(m *cloudevent.Message) { m.Payload = []byte(`{"conditions":`) }, "data"},
		"data a list":         {func(m *cloudevent.Message) { m.Payload = []byte(`[]`) }, "data"},
		"attribute twice":     {twice, "twice"},
		"structured no JSON":  {structured(`{"specversion":`), "JSON object"},
		"structured base64":   {structured(`{"specversion":"1.0","data_base64":"!"}`), "data_base64"},
		"structured no event": {structured(`{}`), "specversion"},
	} {
		m := read(t, "status-update.json")
		test.change(&m)
		_, err := cloudevent.Parse(m)
		require.ErrorContains(t, err, test.says, name)
	}
}

func twice(m *cloudevent.Message) { m.Properties = append(m.Properties, m.Properties...) }

func set(key, value string) func(*cloudevent.Message) {
	return func(m *cloudevent.Message) {
		for i := range m.Properties {
			if m.Properties[i].Key == key {
				m.Properties[i].Value = value
				return
			}
		}
		m.Properties = append(m.Properties, cloudevent.Property{Key: key, Value: value})
	}
}

func structured(payload string) func(*cloudevent.Message) {
	return func(m *cloudevent.Message) {
		*m = cloudevent.Message{ContentType: "application/cloudevents+json; charset=utf-8", Payload: []byte(payload)}
	}
}

// FuzzParse checks that an event that was read is written and read again without a change.
func FuzzParse(f *testing.F) {
	for _, name := range names(f) {
		m := read(f, name)
		var properties strings.Builder
		for _, property := range m.Properties {
			properties.WriteString(property.Key + "\x00" + property.Value + "\x00")
		}
		f.Add(m.ContentType, properties.String(), m.Payload)
	}
	f.Fuzz(func(t *testing.T, contentType, properties string, payload []byte) {
		m := cloudevent.Message{ContentType: contentType, Payload: payload}
		parts := strings.Split(properties, "\x00")
		for i := 0; i+1 < len(parts); i += 2 {
			m.Properties = append(m.Properties, cloudevent.Property{Key: parts[i], Value: parts[i+1]})
		}
		event, err := cloudevent.Parse(m)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		if event.ResourceID == "" {
			event.ResourceVersion = 0 // a version of no bundle
		}
		if event.Time.IsZero() {
			event.Time = time.Unix(0, 0).UTC()
		}
		again, err := cloudevent.Parse(event.Message())
		require.NoError(t, err)
		require.Equal(t, event, again)
	})
}
