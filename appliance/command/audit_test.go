package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/commandtest"
	"landfall/appliance/command/outcome"
)

func TestAudit_listsVerifiesAndExports(t *testing.T) {
	url := commandtest.StartAppliance(t)
	requireDone(t, landfall(t, "audit", "--url", url))
	created := landfall(t, "ams", "token", "--url", url)
	require.Zero(t, created.code, created.errOut)

	listed := requireDone(t, landfall(t, "audit", "--url", url, "--operation", "issueAMSToken"))
	require.Contains(t, listed, "201      issueAMSToken /api/landfall/v1/ams/tokens")
	require.NotContains(t, listed, strings.TrimSpace(created.out), "the token is a secret")
	require.Contains(t, requireDone(t, landfall(t, "audit", "--url", url, "--json")), `"operation":"issueAMSToken"`)
	require.Contains(t, requireDone(t, landfall(t, "audit", "--url", url, "--operation", "issueAMSToken", "-o",
		"jsonpath={[0].operation}")), "issueAMSToken")
	require.Contains(t, requireDone(t, landfall(t, "audit", "--url", url, "-o", "name", "--limit", "1")), "record/")
	followed := landfall(t, "audit", "--url", url, "--follow", "-o", "json")
	require.Equal(t, outcome.Usage, followed.code)
	require.Contains(t, followed.errOut, "use --json with it instead of -o")

	verified := requireDone(t, landfall(t, "audit", "verify", "--url", url))
	require.Contains(t, verified, "signed with SHA256:")
	_, head, _ := strings.Cut(verified, "head ")
	head = strings.TrimSpace(head)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	requireDone(t, landfall(t, "audit", "export", "--url", url, "-o", file))
	offline := requireDone(t, landfall(t, "audit", "verify", file, "--head", head))
	require.Contains(t, offline, "compare the fingerprint")
	require.Contains(t, offline, "no problem was found; see the notes")
	require.NotContains(t, offline, "intact")
	_, key, _ := strings.Cut(offline, "signed with ")
	key, _, _ = strings.Cut(key, "\n")
	const intact = "intact: the trail was neither altered nor shortened"
	require.Contains(t, verified, intact)
	require.Contains(t, requireDone(t, landfall(t, "audit", "verify", file, "--trust", key)), intact)

	content, err := os.ReadFile(file)
	require.NoError(t, err)
	dir := t.TempDir()
	exported := bytes.SplitAfter(content, []byte("\n")) // the last line is the signed head
	records := filepath.Join(dir, "00000000000000000001.jsonl")
	require.NoError(t, os.WriteFile(records, bytes.Join(exported[:len(exported)-2], nil), 0o600))
	_, newest, _ := strings.Cut(offline, "head ")
	newest = strings.TrimSpace(newest)
	for _, path := range []string{records, dir} { // neither has a signed head
		copied := requireDone(t, landfall(t, "audit", "verify", path, "--trust", key))
		require.Contains(t, copied, "has no signed head")
		require.Contains(t, copied, "no problem was found; see the notes")
		require.NotContains(t, copied, intact)
		copied = requireDone(t, landfall(t, "audit", "verify", path, "--trust", key, "--head", newest))
		require.Contains(t, copied, intact)
	}
	require.NoError(t, os.WriteFile(file, bytes.Replace(content, []byte("issueAMS"), []byte("listAMS"), 1), 0o600))
	altered := landfall(t, "audit", "verify", file)
	require.Equal(t, outcome.Failure, altered.code)
	require.Contains(t, altered.out, "problem: ")
	require.Contains(t, altered.errOut, "the audit trail was altered or shortened")
}

func TestAudit_wrongInput(t *testing.T) {
	for arguments, want := range map[string]string{
		"verify --head 1":              "is not the head of an audit trail",
		"verify /does/not/exist":       "read the audit trail",
		"verify " + t.TempDir():        "contains no files of an audit trail",
		"--url http://127.0.0.1:1":     "no appliance listens",
		"export --url ftp://appliance": "is invalid",
	} {
		got := landfall(t, append([]string{"audit"}, strings.Fields(arguments)...)...)
		require.NotZero(t, got.code, arguments)
		require.Contains(t, got.errOut, want, arguments)
	}
}
