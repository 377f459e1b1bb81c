package action

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
	"landfall/web"
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
		"count=x":  "the field count cannot be a text; expected a number",
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

func TestSend_dryRunIsChecked(t *testing.T) {
	const would = "Nothing was changed. The request would be:\nPOST /clusters\nname: east\npull_secret: (not shown)\n"
	for name, c := range map[string]struct {
		status  int
		answer  string
		later   bool
		printed string
		err     string
	}{
		"accepted": {http.StatusOK, `{"dry_run": true}`, false, would + "The appliance would accept this request.\n", ""},
		"refused": {http.StatusConflict, `{"reason": "A cluster with this name exists."}`, false, would,
			"A cluster with this name exists."},
		"operation without a dry run": {http.StatusNotImplemented, `{"reason": "This operation has no dry run."}`, false,
			would + "The appliance has no dry run of this request, and did not check it.\n", ""},
		"older appliance": {http.StatusMethodNotAllowed, `{"reason": "` + web.DryRunPath +
			`/clusters does not support the method POST, only GET"}`, false,
			would + "The appliance has no dry run of this request, and did not check it.\n", ""},
		"object that does not exist yet": {http.StatusNotFound, "", true, would, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []string
			appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				requests = append(requests, r.Method+" "+r.URL.Path+" "+string(body))
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer)) // the client sees a missing answer
			}))
			defer appliance.Close()
			t.Setenv("LANDFALL_URL", appliance.URL)
			var out bytes.Buffer
			cmd := new(cobra.Command)
			cmd.SetOut(&out)
			cmd.SetContext(t.Context())
			a := New()
			a.Changing(cmd)
			a.DryRun, a.Later = true, c.later
			answer, err := a.Send(cmd, http.MethodPost, "/clusters", Object{"name": "east", "pull_secret": "SECRET"})
			require.Nil(t, answer)
			require.Equal(t, c.printed, out.String())
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
			if !c.later {
				require.Equal(t, []string{"POST " + web.DryRunPath + `/clusters {"name":"east","pull_secret":"SECRET"}`},
					requests, "nothing else is sent")
			}
		})
	}
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
