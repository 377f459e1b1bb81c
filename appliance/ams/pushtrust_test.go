package ams

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

// A key that signed an export of its own names another site in the header.
func TestCourier_headerNamesAnotherSite(t *testing.T) {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	other, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	var packed bytes.Buffer
	require.NoError(t, WriteCourier(&packed, key, CourierFile{Header: CourierHeader{Kind: Export, Export: "1",
		Site: other.Public().Fingerprint()}}))
	_, err = ReadCourier(&packed, Export, nil)
	require.ErrorIs(t, err, ErrCourier)
	require.ErrorContains(t, err, "but the key "+key.Public().Fingerprint()+" signed it")
}

func TestPush_sendsCredentialsToKnownURLsOnly(t *testing.T) {
	for name, c := range map[string]struct{ inFile, named, says string }{
		"production":            {"https://api.openshift.com", "", ""},
		"stage":                 {"https://api.stage.openshift.com/", "", ""},
		"upper case":            {"https://API.OpenShift.com", "", ""},
		"unknown":               {"https://ams.example.com", "", "name it with --url"},
		"similar":               {"https://api.openshift.com.example.com", "", "name it with --url"},
		"another port":          {"https://api.openshift.com:8443", "", "name it with --url"},
		"plain":                 {"http://api.openshift.com", "", "over https only"},
		"plain and named":       {"http://ams.example.com", "http://ams.example.com", "over https only"},
		"plain on this machine": {"http://127.0.0.1:8000", "", "name it with --url"},
		"named on this machine": {"http://127.0.0.1:8000", "http://127.0.0.1:8000", ""},
		"named":                 {"https://ams.example.com", "https://ams.example.com/", ""},
		"another named":         {"https://ams.example.com", "https://api.openshift.com", "not for https://api"},
		"user information":      {"https://api.openshift.com@ams.example.com", "", "expected a URL"},
		"no URL":                {"", "", "expected a URL"},
		"name is no URL":        {"https://api.openshift.com", "ams", "--url is"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPushURL(c.inFile, c.named)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
	require.NoError(t, CheckTokenURL("https://sso.redhat.com/auth"))
	require.ErrorContains(t, CheckTokenURL("http://sso.redhat.com/auth"), "over https only")
}

func TestKnownSites_keepsSites(t *testing.T) {
	known := NewKnownSites(t.TempDir())
	for _, fingerprint := range []string{"SHA256:one", "SHA256:two", "SHA256:one"} {
		require.NoError(t, known.Add(fingerprint))
	}
	text, err := os.ReadFile(known.path)
	require.NoError(t, err)
	require.Equal(t, "SHA256:one\nSHA256:two\n", string(text))
	isKnown, err := known.Contains("SHA256:two")
	require.NoError(t, err)
	require.True(t, isKnown)
	isKnown, err = known.Contains("SHA256:")
	require.NoError(t, err)
	require.False(t, isKnown)
}
