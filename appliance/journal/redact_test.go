package journal

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	var secrets Secrets
	secrets.AddPullSecret(fmt.Sprintf(`{"auths": {"quay.io": {"auth": %q, "email": "a@b.example"}}}`,
		base64.StdEncoding.EncodeToString([]byte("robot:the-robots-password"))))
	secrets.Add(`with "quotes"` + "\nand lines")
	r := secrets.Redactor()
	for name, c := range map[string]struct{ text, want string }{
		"text without secrets": {"Host node-1 is known; see https://quay.io/x?y=z", ""},
		"password in a URL": {"proxy http://user:pa55@proxy:3128 fails",
			"proxy http://[redacted]@proxy:3128 fails"},
		"password in a URL in JSON": {`{"a":"https://u:p@h/"}`, `{"a":"https://[redacted]@h/"}`},
		"a collected password":      {"login robot with the-robots-password", "login robot with [redacted]"},
		"base64 of the credentials": {"cm9ib3Q6dGhlLXJvYm90cy1wYXNzd29yZA==", "[redacted]"},
		"text in JSON":              {`{"x":"with \"quotes\"\nand lines"}`, `{"x":"[redacted]"}`},
		"text in JSON in JSON": {`{"x":"{\"y\":\"with \\\"quotes\\\"\\nand lines\"}"}`,
			`{"x":"{\"y\":\"[redacted]\"}"}`},
		"a private key": {"a\n-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\nb",
			"a\n[redacted]\nb"},
		"truncated private key":           {"-----BEGIN PRIVATE KEY-----\nMHcC", "[redacted]"},
		"certificate, which is no secret": {"-----BEGIN CERTIFICATE-----\nMHcC\n-----END CERTIFICATE-----", ""},
		"a JWT":                           {"got eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl back", "got [redacted] back"},
		"password hash": {"core:$6$rounds=5000$usesomesillystri$D4IrlXatmP7rx3P3InaxBeoomnAihCKRVQAr:1",
			"core:[redacted]:1"},
		"header":                 {"Authorization: Bearer abcdefghijklmnopqrst", "Authorization: Bearer [redacted]"},
		"a named password":       {`password: hunter2, user: me`, `password: [redacted], user: me`},
		"named password in YAML": {"802-1x:\n  password: 'hunter2'\n", "802-1x:\n  password: '[redacted]'\n"},
		"named password in JSON": {`{"bmc":{"username":"root","password":"calvin"}}`,
			`{"bmc":{"username":"root","password":"[redacted]"}}`},
		"a parameter": {"GET /x?api_key=abc123&y=2 and signature=Zm9v",
			"GET /x?api_key=[redacted]&y=2 and signature=[redacted]"},
		"words about secrets": {"The pull secret has no entry for the mirror", ""},
		"client-key-data":     {"    client-key-data: LS0tLS1CRUdJTiBSU0E=", "    client-key-data: [redacted]"},
		"word basic":          {"the basic configuration stays", ""},
		"passphrase":          {"passphrase=abc", "passphrase=[redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			want := c.want
			if want == "" {
				want = c.text
			}
			require.Equal(t, want, r.Text(c.text))
		})
	}
}

func TestRedactor_object(t *testing.T) {
	text := `{"pull_secret":"{\"auths\":{}}","pull_secret_set":true,"api":{"name":"demo","ssh_public_key":"ssh-ed25519 AAAA","http_proxy":"http://u:proxypw@p:1",
		"install_config_overrides":"{\"platform\":{\"bmc\":{\"password\":\"bmcpw1\"}},\"fips\":true}","ignition_config_overrides":"{\"passwd\":{}}","tang_servers":""},
		"ignition_endpoint_headers":{"X-Auth":"header-value"},"code":{"code":"abcdefgh","given":true},"token":"tokentoken","Password":"","ui_settings":"{\"anything\":1}","n":12345678901234567890}`
	var secrets Secrets
	require.NoError(t, secrets.AddFrom([]byte(text)))
	value, err := secrets.Redactor().read([]byte(text))
	require.NoError(t, err)
	got, err := canonical(value)
	require.NoError(t, err)
	require.Equal(t,
		`{"Password":"","api":{"http_proxy":"http://[redacted]@p:1","ignition_config_overrides":"[redacted]",`+
			`"install_config_overrides":"{\"fips\":true,\"platform\":{\"bmc\":{\"password\":\"[redacted]\"}}}","name":"demo","ssh_public_key":"ssh-ed25519 AAAA","tang_servers":""},`+
			`"code":{"code":"[redacted]","given":true},"ignition_endpoint_headers":{"X-Auth":"[redacted]"},"n":12345678901234567890,"pull_secret":"[redacted]","pull_secret_set":true,"token":"[redacted]","ui_settings":"[redacted]"}`, string(got))
	require.Equal(t, "said proxy [redacted], bmc [redacted], [redacted], [redacted]",
		secrets.Redactor().Text("said proxy proxypw, bmc bmcpw1, header-value, abcdefgh"))
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755}))
	for name, text := range files {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)),
			Format: tar.FormatPAX}))
		_, err := archive.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	return out.Bytes()
}

func gzipOf(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func copied(t *testing.T, in []byte) string {
	t.Helper()
	var secrets Secrets
	secrets.Add("the-secret")
	var out bytes.Buffer
	require.NoError(t, CopyLog(&out, bytes.NewReader(in), secrets.Redactor()))
	return out.String()
}

func TestCopyLog(t *testing.T) {
	require.Equal(t, "a line with [redacted]\n\n", copied(t, []byte("a line with the-secret\n")))
	key := "before\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nmore\n-----END RSA PRIVATE KEY-----\nafter\n"
	require.Equal(t, "before\n[redacted]\nafter\n\n", copied(t, []byte(key)))
	inner := tarOf(t, map[string]string{"journal.log": "inner the-secret\n"})
	outer := gzipOf(t, tarOf(t, map[string]string{"host/logs.tar.gz": string(gzipOf(t, inner))}))
	require.Equal(t, "==> host/logs.tar.gz/journal.log <==\ninner [redacted]\n\n", copied(t, outer))
	require.Equal(t, "==> core <==\n[Omitted: not a text file.]\n",
		copied(t, tarOf(t, map[string]string{"core": "\x7fELF\x00\x00"})))
	require.Equal(t, "half \uFFFD line\n\n", copied(t, []byte("half \xff line\n")))
}

func TestCopyLog_brokenOrTooLarge(t *testing.T) {
	packed := gzipOf(t, tarOf(t, map[string]string{"a.log": strings.Repeat("line of a log\n", 5000)}))
	require.Contains(t, copied(t, packed[:len(packed)/2]), "can't be read further")
	var out bytes.Buffer
	small := &logCopier{out: &out, left: 1 << 10, redactor: new(Secrets).Redactor()}
	require.NoError(t, small.start(strings.NewReader(strings.Repeat("a line\n", 1000))))
	require.Contains(t, out.String(), "The log is larger than 1 KiB")
	require.Less(t, out.Len(), 1200)
	nest := []byte("deep\n")
	for range 8 {
		nest = gzipOf(t, nest)
	}
	require.Contains(t, copied(t, nest), "too deeply")
}

func TestRedactor_invalidJSON(t *testing.T) {
	var secrets Secrets
	require.Error(t, secrets.AddFrom([]byte("{")))
	_, err := NewBuilder(secrets.Redactor(), map[string][]byte{"/hosts/x": []byte("{")})
	require.ErrorContains(t, err, "read /hosts/x")
	var syntax *json.SyntaxError
	require.NotErrorIs(t, err, syntax)
}

func TestRedactor_networks(t *testing.T) {
	networks, err := json.Marshal([]map[string]string{{"network_yaml": "interfaces:\n- name: eth0\n  802.1x:\n    " +
		"password: \"two words, secret\"\n    private-key-password: >-\n      short\n"}})
	require.NoError(t, err)
	text, err := json.Marshal(map[string]string{"static_network_config": string(networks),
		"message": "rejected: two words, secret"})
	require.NoError(t, err)
	var secrets Secrets
	require.NoError(t, secrets.AddFrom(text))
	value, err := secrets.Redactor().read(text)
	require.NoError(t, err)
	got, err := canonical(value)
	require.NoError(t, err)
	require.NotContains(t, string(got), "words")
	require.NotContains(t, string(got), "short")
	require.Contains(t, string(got), "name: eth0")
	require.Contains(t, string(got), `password: \\\"[redacted]\\\"`)
}
