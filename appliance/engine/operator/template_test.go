package operator

import (
	"bytes"
	"testing"
	"text/template/parse"

	"github.com/stretchr/testify/require"
)

func TestTemplates(t *testing.T) {
	data := values{
		"Name": "one", "Disks": 3, "Yes": true, "No": false,
		"Has": func(name string) bool { return name == "odf" },
	}
	for name, c := range map[string]struct{ text, want, err string }{
		"field":            {text: `{{.Name}} {{.Disks}}`, want: "one 3"},
		"condition":        {text: `{{if .No}}a{{else if .Yes}}b{{else}}c{{end}}`, want: "b"},
		"else":             {text: `{{if .No}}a{{else}}c{{end}}`, want: "c"},
		"function":         {text: `{{if and .Yes (.Has "odf")}}a{{end}}{{if not (.Has "cnv")}}b{{end}}`, want: "ab"},
		"template":         {text: `{{template "t" dict "x" .Name}}{{define "t"}}[{{.x}}]{{end}}`, want: "[one]"},
		"dot":              {text: `{{template "t" "x"}}{{define "t"}}{{.}}{{end}}`, want: "x"},
		"unknown field":    {text: `{{.Other}}`, err: ".Other is not a value of the template"},
		"unknown template": {text: `{{template "u" .}}`, err: `template "u" does not exist`},
		"unknown action":   {text: `{{range .Name}}{{end}}`, err: "unsupported template action"},
		"wrong argument":   {text: `{{if .Has .Disks}}{{end}}`, err: "the argument of .Has is not a string"},
	} {
		t.Run(name, func(t *testing.T) {
			trees, err := parse.Parse("main", c.text, "", "", templateFunctions)
			require.NoError(t, err)
			var out bytes.Buffer
			err = templates(trees).execute(&out, trees["main"].Root, data)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, out.String())
		})
	}
}
