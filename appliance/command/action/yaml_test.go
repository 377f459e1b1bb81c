package action

import (
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestDecode_wrongKinds(t *testing.T) {
	var list []*models.HostStaticNetworkConfig
	var body Object
	for name, tt := range map[string]struct {
		text string
		into any
		says string
	}{
		"a table":      {"name;MAC", &list, "f is a text; expected a list"},
		"a list":       {"- name: east", &body, "f is a list; expected an object with fields"},
		"a field":      {"- network_yaml: [a]", &list, "f: the field network_yaml is a list; expected a text"},
		"no YAML":      {"a: [", &body, "f can't be read: yaml: line 1: did not find expected node content"},
		"another name": {"- network: x", &list, `f can't be read: json: unknown field "network"`},
	} {
		t.Run(name, func(t *testing.T) { require.EqualError(t, Decode("f", []byte(tt.text), tt.into), tt.says) })
	}
}
