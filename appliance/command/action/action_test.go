package action

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
)

type fields struct {
	Name    *string `json:"name,omitempty"`
	Count   *int64  `json:"count,omitempty"`
	Servers []struct {
		IP string `json:"ip"`
	} `json:"servers"`
}

func TestFields(t *testing.T) {
	body := Object{}
	require.NoError(t, Fields[fields](body, []string{"name=7", "count=3", "servers=[{ip: 192.0.2.1}]"}))
	require.Equal(t, "7", body["name"], "a text stays a text")
	require.EqualValues(t, 3, body["count"])
	for argument, sentence := range map[string]string{
		"name":     "is not of the form FIELD=VALUE; the fields are count, name, servers",
		"size=3":   `the field "size" does not exist; the fields are count, name, servers`,
		"count=x":  "the field count cannot be a string; expected int64",
		"servers=": "",
	} {
		err := Fields[fields](Object{}, []string{argument})
		if sentence == "" {
			require.NoError(t, err, argument)
			continue
		}
		require.ErrorContains(t, err, sentence)
		code, _ := outcome.Of(err)
		require.Equal(t, outcome.Usage, code)
	}
}

func TestSend_dryRunShowsNoSecret(t *testing.T) {
	var out bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetOut(&out)
	a := New()
	a.DryRun = true
	answer, err := a.Send(cmd, http.MethodPost, "/clusters", Object{"name": "east", "pull_secret": "SECRET"})
	require.NoError(t, err)
	require.Nil(t, answer)
	require.Contains(t, out.String(), "POST /clusters\nname: east\npull_secret: (not shown)\n")
}

func TestConfirm_wantsName(t *testing.T) {
	for answer, confirmed := range map[string]bool{"east\n": true, "east": true, "yes\n": false, "": false} {
		cmd := new(cobra.Command)
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(new(bytes.Buffer))
		err := New().Confirm(cmd, "east", "It is removed.")
		require.Equal(t, confirmed, err == nil, "%q: %v", answer, err)
	}
}
