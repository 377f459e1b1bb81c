package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func FuzzAPlainReplyIsReadAsEncodingJSONReadsIt(f *testing.F) {
	for _, text := range []string{
		`{"step_id":"inventory-1","step_type":"inventory","exit_code":0,"output":"{\"a\":\"\\u00e9 \\ud83d\\ude00 \\n <&>\"}"}`,
		` { "output" : "\ud800 alone" , "error" : "\u2028\u0000\u007f\b\f\n\r\t\/" } `, `{"exit_code":-12,"output":"äöü and sixteen plain ones"}`,
		`{"OUTPUT":"case","exit_code":1e2}`, `{"exit_code":1.5}`, `{"exit_code":99999999999999999999}`, `{"exit_code":"1"}`, `{"exit_code":-0}`,
		`{"exit_code":01}`, `{"exit_code":-}`, "{\"output\":\"\xff\xfe\"}", "{\"output\":\"a\x1f\"}", `{"output":"cut`, `{"output":"cut\`, `{"output":"\u12`, `{}`, `{"output":null}`,
		`{"error":"a","error":"b"}`, `{"error":"a",}`, `{"error":"a"} {}`, `{"error":1}`, `{"step_id":"\ude00"}`, `{"output":"` + strings.Repeat(`\"x\\`, 30) + `"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reply, ok := plainReply(text)
		if !ok {
			return
		}
		var want models.StepReply
		require.NoError(t, json.Unmarshal(text, &want))
		require.Equal(t, &want, reply)
	})
}

func TestWhatAgentsSendIsAPlainReply(t *testing.T) {
	sent := models.StepReply{ExitCode: -1, Output: "{\"model\":\"\\\"é\\\" <&>\u2028\",\n\t\"size\":1}", StepID: "inventory-1", StepType: models.StepTypeInventory}
	text, err := json.Marshal(&sent)
	require.NoError(t, err)
	reply, ok := plainReply(text)
	require.True(t, ok)
	require.Equal(t, &sent, reply)
	for _, other := range []string{`{"output":null}`, `{"new":"field"}`, `{"exit_code":1.0}`, `[]`, ``} {
		_, ok := plainReply([]byte(other))
		require.False(t, ok, other)
	}
}

// TestADamagedReplyIsNoOther puts other bytes at each place of a reply: it is then read as encoding/json reads it, or not at all.
func TestADamagedReplyIsNoOther(t *testing.T) {
	text := `{"step_id":"i","exit_code":-10,"output":"{\"a\":\"\\u00e9 \u12ab\n <é>\"} and more","step_type":"t"} `
	taken := 0
	for at := range text {
		for _, other := range []string{"", `"`, `\`, "/", "{", "}", ":", ",", "-", ".", "0", "9", "e", "u", "n", " ", "\n", "\x00", "\x1f", "\x7f", "\x80", "\xc3", "\xed", "\xff"} {
			for _, damaged := range []string{text[:at] + other, text[:at] + other + text[at:], text[:at] + other + text[at+1:]} {
				reply, ok := plainReply([]byte(damaged))
				if !ok {
					continue
				}
				var want models.StepReply
				require.NoError(t, json.Unmarshal([]byte(damaged), &want), damaged)
				require.Equal(t, &want, reply, damaged)
				taken++
			}
		}
	}
	require.NotZero(t, taken)
}
