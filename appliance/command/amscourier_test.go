package command

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams"
	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/command/outcome"
	"landfall/appliance/sitekey"
)

// exportFile writes a courier file of a site with one cluster. It returns the site's fingerprint.
func exportFile(t *testing.T, path, apiURL string) (fingerprint string) {
	t.Helper()
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	fingerprint = key.Public().Fingerprint()
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, ams.WriteCourier(file, key, ams.CourierFile{
		Header: ams.CourierHeader{Kind: ams.Export, Export: "1", Site: fingerprint, APIURL: apiURL},
		Entries: []ams.CourierEntry{{ClusterID: uuid.NewString(), Desired: outbox.Desired{Generation: 1,
			Phase: outbox.Reserved, Fields: outbox.Fields{DisplayName: "one"}, CreatedAt: time.Now()}}},
	}))
	require.NoError(t, file.Close())
	return fingerprint
}

func TestAMSPush_asksAboutUnknownSites(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	standIn := amstest.New(clockwork.NewRealClock())
	server := httptest.NewServer(standIn)
	defer server.Close()
	token := filepath.Join(dir, "token")
	secret := standIn.AddAccount(amstest.Account{ID: "1", Username: "site", Organization: "2"})
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	file := filepath.Join(dir, "site.lfc")
	site := exportFile(t, file, server.URL)
	push := func(more ...string) result {
		return landfall(t, append([]string{"ams", "push", file, "--token-file", token, "--token-url",
			server.URL + amstest.TokenPath}, more...)...)
	}
	for name, rejected := range map[string]struct {
		arguments []string
		says      string
	}{
		"unknown URL":  {[]string{"--site", site}, "name it with --url"},
		"unknown key":  {[]string{"--url", server.URL}, "push with --site " + site},
		"another key":  {[]string{"--url", server.URL, "--site", "SHA256:other"}, "not SHA256:other"},
		"plain tokens": {[]string{"--token-url", "http://sso.example.com"}, "over https only"},
	} {
		t.Run(name, func(t *testing.T) {
			got := push(rejected.arguments...)
			require.Equal(t, outcome.Failure, got.code, got.errOut)
			require.Contains(t, got.errOut, rejected.says)
			require.Empty(t, standIn.Requests(), "no credentials were sent")
		})
	}
	got := push("--url", server.URL, "--site", site)
	require.Zero(t, got.code, got.errOut)
	require.Len(t, standIn.Rows(), 1)
	got = push("--url", server.URL)
	require.Zero(t, got.code, "the site is known now: %s", got.errOut)
}
