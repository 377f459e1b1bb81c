package fastjson_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/store/fastjson"
)

// wire has the structure into which the inventory package decodes inventories: a struct that embeds
// a model.
type wire struct {
	models.Inventory
	Truncation *struct {
		Type string `json:"type"`
	} `json:"truncation,omitempty"`
}

func requireSame[T any](t *testing.T, text []byte) {
	t.Helper()
	var want, got T
	wantErr := json.Unmarshal(text, &want)
	err := fastjson.Unmarshal(text, &got)
	require.Equal(t, wantErr, err)
	require.Equal(t, want, got)
	if err != nil {
		return
	}
	wantText, wantErr := json.Marshal(&want)
	gotText, err := fastjson.Marshal(&got)
	require.Equal(t, wantErr, err)
	require.Equal(t, string(wantText), string(gotText))

	var gotAgain T
	require.NoError(t, fastjson.UnmarshalText(string(text), &gotAgain))
	require.Equal(t, want, gotAgain)
	textAgain, err := fastjson.MarshalText(&gotAgain)
	require.NoError(t, err)
	require.Equal(t, string(wantText), textAgain)
}

func FuzzUnmarshal_matchesEncodingJSON(f *testing.F) {
	for _, text := range []string{
		`{"step_id":"inventory-1","step_type":"inventory","exit_code":0,"output":"{\"a\":\"\\u00e9 \\ud83d\\ude00 \\n <&>\"}"}`,
		`{"output":"\ud800 alone","error":"\u2028\u0000\u007f"}`,
		`{"OUTPUT":"case","exit_code":1e2,"unknown":[1,{"a":null}]}`,
		`{"exit_code":1.5}`, `{"exit_code":99999999999999999999}`, `{"exit_code":"1"}`, `{"exit_code":-0}`,
		"{\"output\":\"\xff\xfe\"}", `{"output":"cut`, `[]`, `null`, ` {} `, `{} {}`, `"text"`, `{"output":null}`,
		`{"cpu":{"count":4,"frequency":2900.5,"flags":["a","b"],"model_name":"x"},"memory":{"physical_bytes":68719476736,"usable_bytes":1},"hostname":"h"}`,
		`{"disks":[{"size_bytes":3840000000000,"installation_eligibility":{"eligible":true,"not_eligible_reasons":[]},"holders":"sda1"},null]}`,
		`{"interfaces":[{"ipv4_addresses":["10.0.0.1/24"],"mac_address":"52:54:00:00:00:01","mtu":1500,"has_carrier":true}],"routes":[],"gpus":null}`,
		`{"boot":{"current_boot_mode":"uefi","pxe_interface":"eno1","secure_boot_state":"Disabled"},"system_vendor":{"virtual":true},"tpm_version":"2.0"}`,
		`{"truncation":{"type":"partial"},"timestamp":17}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		requireSame[models.StepReply](t, text)
		requireSame[wire](t, text)
	})
}

// requireAlike requires that the fast decoder accepts the same input as encoding/json and returns
// the same value.
func requireAlike[T any](t *testing.T, text []byte) {
	var want, got T
	wantErr, err := json.Unmarshal(text, &want), fastjson.UnmarshalOwn(text, &got)
	if (wantErr == nil) != (err == nil) || err == nil && !reflect.DeepEqual(want, got) {
		t.Fatalf("%q is read as\n%+v (%v)\ninstead of\n%+v (%v)", text, got, err, want, wantErr)
	}
}

// TestUnmarshalOwn_damagedTextMatchesEncodingJSON damages texts at each position: it removes one or
// more bytes, replaces a byte, or inserts a byte.
func TestUnmarshalOwn_damagedTextMatchesEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`{"step_id":"i-1","exit_code":-10,"output":"{\"a\":\"\\u00e9 \ud83d\ude00 \n <&>é\"}","error":"\b\t\/\\","x":[1.5e+10,true,null,{"a":"\u12ab"},[],{}] }`,
		`{"disks":[{"size_bytes":3840,"installation_eligibility":{"eligible":true,"not_eligible_reasons":["a"]}},null],"cpu":{"frequency":2900.5},"truncation":{"type":"p"},"no":[-0.5E-3,0,false]}`,
	} {
		try := func(parts ...string) {
			damaged := []byte(strings.Join(parts, ""))
			requireAlike[models.StepReply](t, damaged)
			requireAlike[wire](t, damaged)
		}
		for at := range len(text) {
			try(text[:at])
			for end := at + 1; end < min(at+8, len(text)); end++ {
				try(text[:at], text[end:])
			}
			for _, other := range []string{
				`"`, `\`, "/", "[", "]", "{", "}", ":", ",", "+", "-", ".", "0", "9", "e", "E", "u", "t", "n",
				" ", "\n", "\x00", "\x1f", "\x7f", "\x80", "\xc3", "\xed", "\xff",
			} {
				try(text[:at], other, text[at:])
				try(text[:at], other, text[at+1:])
			}
		}
	}
	for _, depth := range []int{10, 9_999, 10_000, 10_001, 100_000} {
		requireAlike[models.StepReply](t, []byte(`{"x":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}`))
		requireAlike[any](t, []byte(strings.Repeat(`{"x":`, depth)+"1"+strings.Repeat("}", depth)))
	}
}
