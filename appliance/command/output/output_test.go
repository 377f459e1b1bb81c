package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

type machine struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Bytes  int64  `json:"bytes"`
}

func machines() *Kind[machine] {
	return &Kind[machine]{
		Name: "machine", Empty: "No machines.", NameOf: func(m *machine) string { return m.Name },
		Columns: []Column[machine]{
			{Title: "NAME", Value: func(m *machine) string { return m.Name }},
			{Title: "STATUS", State: true, Value: func(m *machine) string { return m.Status }},
			{Title: "SIZE", Wide: true, Value: func(m *machine) string { return Size(m.Bytes) }},
		},
	}
}

const two = `[{"id":"1","name":"east","status":"ready","bytes":9007199254740993},{"id":"2","name":"w","status":"","bytes":12}]`

func TestList_formats(t *testing.T) {
	for format, want := range map[string]string{
		"table":                  "NAME  STATUS\neast  ready\nw     -\n",
		"wide":                   "NAME  STATUS  SIZE\neast  ready   8192.0 TiB\nw     -       12 bytes\n",
		"name":                   "machine/east\nmachine/w\n",
		"jsonpath={[*].name}":    "east w\n",
		"jsonpath=[0].bytes":     "9007199254740993\n",
		"jsonpath={[0].missing}": "",
		"yaml": "- bytes: 9007199254740993\n  id: \"1\"\n  name: east\n  status: ready\n" +
			"- bytes: 12\n  id: \"2\"\n  name: w\n  status: \"\"\n",
	} {
		t.Run(format, func(t *testing.T) {
			var f Format
			require.NoError(t, f.Set(format))
			var out bytes.Buffer
			require.NoError(t, machines().List(&out, &f, json.RawMessage(two)))
			require.Equal(t, want, out.String())
		})
	}
	f := Format{name: asJSON}
	var out bytes.Buffer
	require.NoError(t, machines().List(&out, &f, json.RawMessage(two)))
	require.JSONEq(t, two, out.String())
	require.Less(t, strings.Index(out.String(), `"id"`), strings.Index(out.String(), `"bytes"`), "order of the API")
}

func TestList_empty(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, machines().List(&out, new(Format), json.RawMessage(`[]`)))
	require.Equal(t, "No machines.\n", out.String())
	out.Reset()
	require.NoError(t, machines().List(&out, &Format{name: asJSON}, json.RawMessage(`[]`)))
	require.Equal(t, "[]\n", out.String())
}

func TestFormat_rejects(t *testing.T) {
	for _, format := range []string{"", "xml", "jsonpath", "jsonpath=", "jsonpath={.a"} {
		require.Error(t, new(Format).Set(format), format)
	}
}

func TestWatch_writesChangesOnly(t *testing.T) {
	lists := []string{two, two, strings.Replace(two, "ready", "error", 1)}
	var out bytes.Buffer
	require.NoError(t, machines().Watch(&out, new(Format), func() (json.RawMessage, error) {
		list := lists[0]
		lists = lists[1:]
		return json.RawMessage(list), nil
	}, func() error {
		if len(lists) == 0 {
			return errors.New("interrupted")
		}
		return nil
	}))
	require.Equal(t, "NAME  STATUS\neast  ready\nw     -\neast  error\n", out.String())
}

func TestGrid_fitsTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		width int
		want  string
	}{
		"no terminal": {0, "A  INFORMATION\nb  " + strings.Repeat("word ", 8) + "end\n"},
		"wide enough": {60, "A  INFORMATION\nb  " + strings.Repeat("word ", 8) + "end\n"},
		"narrow":      {20, "A  INFORMATION\n" + "b  word word word\n   word word word\n   word word end\n"},
		"tiny": {5, "A  INFORMATION\nb  word word\n   word word\n   word word\n   word word\n" +
			"   end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &grid{width: c.width, headers: true, titles: []string{"A", "INFORMATION"}, states: make([]bool, 2),
				rows: [][]string{{"b", strings.Repeat("word ", 8) + "end"}}}
			var out bytes.Buffer
			require.NoError(t, g.write(&out))
			require.Equal(t, c.want, out.String())
		})
	}
}

func TestGrid_shortensOtherColumnsAndSplitsLongWords(t *testing.T) {
	g := &grid{width: 18, titles: []string{"A", "B"}, states: make([]bool, 2),
		rows: [][]string{{"a long name", "0123456789abc end"}}}
	var out bytes.Buffer
	require.NoError(t, g.write(&out))
	require.Equal(t, "a long…  01234567\n         89abc\n         end\n", out.String())
}

func TestStyle_colorsStates(t *testing.T) {
	colored := style{colored: true}
	require.Equal(t, "\x1b[31merror\x1b[0m", colored.state("error"))
	require.Equal(t, "\x1b[32minstalled\x1b[0m", colored.state("installed"))
	require.Equal(t, "\x1b[33mpending-for-input\x1b[0m", colored.state("pending-for-input"))
	require.Equal(t, "\x1b[33mnot ready\x1b[0m", colored.state("not ready"))
	require.Equal(t, "unknown", colored.state("unknown"), "not green, although it contains known")
	require.Equal(t, "installing-in-progress", style{}.state("installing-in-progress"))
	require.Equal(t, "error", newStyle(new(bytes.Buffer)).state("error"), "no terminal")
}

func TestOpenFile_writesTargetOfSymbolicLink(t *testing.T) {
	target, link := t.TempDir()+"/target", t.TempDir()+"/link"
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, link))
	w, finish, err := OpenFile(link, Private, nil)
	require.NoError(t, err)
	_, err = w.Write([]byte("new"))
	require.NoError(t, finish(err))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	_, err = os.Readlink(link)
	require.NoError(t, err, "the link stays")
}

func TestOpenFile_onlyItsOwnerReads(t *testing.T) {
	name := t.TempDir() + "/kubeconfig"
	for _, text := range []string{"new", "over a file that everybody reads"} {
		w, finish, err := OpenFile(name, Private, nil)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, finish(err))
		written, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, text, string(written))
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		require.NoError(t, os.Chmod(name, 0o644))
	}
	_, finish, err := OpenFile(name, Private, nil)
	require.NoError(t, err)
	require.ErrorContains(t, finish(errors.New("no answer")), "no answer")
	files, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, files, 1, "no temporary file remains")
}

func TestChoices_missingFlag(t *testing.T) {
	cmd := &cobra.Command{Use: "paint", RunE: func(*cobra.Command, []string) error { return nil }}
	cmd.SetArgs(nil)
	Choices(cmd, "color", "red")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	require.ErrorContains(t, cmd.Execute(), "prepare the completion of --color: ")
	cmd = &cobra.Command{Use: "paint", RunE: func(*cobra.Command, []string) error { return nil }}
	cmd.SetArgs(nil)
	cmd.Flags().String("color", "", "")
	Choices(cmd, "color", "red")
	require.NoError(t, cmd.Execute())
}

// TestSize_asOnThePage has the sizes of web/ui/test/quantities.test.ts.
func TestSize_asOnThePage(t *testing.T) {
	for bytes, text := range map[int64]string{0: "0 bytes", 1_023: "1023 bytes", 1_024: "1.0 KiB",
		6_840_320: "6.5 MiB", 1_288_490_189: "1.2 GiB", 3 << 50: "3072.0 TiB"} {
		require.Equal(t, text, Size(bytes))
	}
}

func TestText_controlCharacters(t *testing.T) {
	hostile := "h\x1b]0;t\a\r\nready\u009b31m\u202e"
	text, err := json.Marshal([]machine{{Name: hostile, Status: hostile}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, machines().List(&out, new(Format), text))
	require.Contains(t, out.String(), `h\x1b]0;t\a ready\u009b31m\u202e  h\x1b]0;t\a ready\u009b31m\u202e`+"\n")

	out.Reset()
	require.NoError(t, machines().One(&out, new(Format), text[1:len(text)-1], func(d *Description, m *machine) {
		d.Add("Name", "%s", m.Name)
		d.State("Status", m.Status)
	}))
	require.Equal(t, "Name    h\\x1b]0;t\\a\\r\n        ready\\u009b31m\\u202e\n"+
		"Status  h\\x1b]0;t\\a\\r\n        ready\\u009b31m\\u202e\n", out.String())

	out.Reset()
	require.NoError(t, machines().List(&out, &Format{name: names}, text))
	require.Equal(t, `machine/h\x1b]0;t\a ready\u009b31m\u202e`+"\n", out.String(), "one line for each object")

	for _, format := range []string{asJSON, asYAML} {
		out.Reset()
		require.NoError(t, machines().List(&out, &Format{name: format}, text))
		require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f-\x{9f}]`, out.String())
		var got []machine
		require.NoError(t, yaml.Unmarshal(out.Bytes(), &got))
		require.Equal(t, hostile, got[0].Name)
	}

	out.Reset()
	Printf(&out, "%s: %v (%d)\n", hostile, errors.New("a\nb\x1b"), 7)
	require.Equal(t, "h\\x1b]0;t\\a\\r\n    ready\\u009b31m\\u202e: a\n    b\\x1b (7)\n", out.String())
}
