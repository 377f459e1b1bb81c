package mirror

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
)

func TestRegistriesConf_rejectedInput(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no TOML": {"[[registry]]\nlocation = quay.io", "registries.conf: line 2, column 12"},
		"a value of the wrong type": {"[[registry]]\nlocation = \"quay.io\"\nblocked = \"yes\"",
			"registries.conf: line 3, column 11, key blocked: is a string where a boolean (true or false) is expected"},
		"an unknown key": {"[[registry]]\nlocation = \"quay.io\"\nmirror_by_digest_only = true",
			"registries.conf: line 3: registry.mirror_by_digest_only is not a key of registries.conf"},
		"version 1": {"[registries.search]\nregistries = [\"quay.io\"]",
			"registries.conf: [registries]: version 1 of the format has no mirrors"},
		"a table without prefix, location": {"[[registry]]\nblocked = true",
			"[[registry]] 1: neither location nor prefix is set"},
		"a prefix without location": {"[[registry]]\nprefix = \"quay.io/a\"",
			"[[registry]] 1: location is missing; only a wildcard prefix such as *.example.com needs none"},
		"a location with a scheme": {"[[registry]]\nlocation = \"https://quay.io\"",
			`prefix "https://quay.io" begins with https://; remove the scheme`},
		"a location without a host": {"[[registry]]\nlocation = \"openshift\"",
			`must begin with a registry's host`},
		"a star in the middle": {"[[registry]]\nprefix = \"quay.*.io\"\nlocation = \"a.io\"",
			"has a * that is not a whole first label"},
		"a wildcard with a path": {"[[registry]]\nprefix = \"*.io/x\"", "must have the form *.example.com"},
		"a mirror without location": {"[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\ninsecure = " +
			"true", `[[registry]] 1 (quay.io), mirror 1: location is missing`},
		"a mirror with a tag": {"[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = " +
			"\"a.io/x:1\"", `mirror 1: location "a.io/x:1" must look like host[:port][/path], without a tag or digest`},
		"an unknown pull-from-mirror": {"[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = " +
			"\"a.io\"\npull-from-mirror = \"never\"",
			`pull-from-mirror is "never"; it must be all, digest-only or tag-only`},
		"two settings for digest only": {"[[registry]]\nlocation = \"quay.io\"\nmirror-by-digest-only = " +
			"true\n[[registry.mirror]]\nlocation = \"a.io\"\npull-from-mirror = \"all\"",
			"exclude each other; keep one of them"},
		"pull-from-mirror of the source": {"[[registry]]\nlocation = \"quay.io\"\npull-from-mirror = \"all\"",
			"belongs in a [[registry.mirror]] table"},
		"two tables for one prefix": {"[[registry]]\nlocation = \"quay.io\"\n[[registry]]\nlocation = " +
			"\"quay.io\"", `[[registry]] 2: the prefix "quay.io" already has a table`},
		"one location with two settings": {"[[registry]]\nlocation = \"quay.io\"\n[[registry]]\nprefix = " +
			"\"a.io\"\nlocation = \"quay.io\"\ninsecure = true",
			`[[registry]] 2: the location "quay.io" occurs twice with different values of insecure or blocked`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Sources{RegistriesConf: []Document{{"registries.conf", []byte(tc.text)}}})
			require.ErrorContains(t, err, tc.want)
			var input *InputError
			require.ErrorAs(t, err, &input)
		})
	}
}

func TestRegistriesConf_dropInReplacesATable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "registries.conf")
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(path, "[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = "+
		"\"one.example\"\n[[registry]]\nlocation = \"ghcr.io\"\nblocked = true\n")
	write(filepath.Join(path+".d", "20-b.conf"),
		"[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"three.example\"\n")
	write(filepath.Join(path+".d", "10-a.conf"),
		"[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"two.example\"\n")
	write(filepath.Join(path+".d", "00-shortnames.conf"), "[aliases]\n\"ubi\" = \"registry.access.redhat.com/ubi\"\n")
	write(filepath.Join(path+".d", "README"), "no TOML")
	r, err := Load(Files{RegistriesConf: path})
	require.NoError(t, err)
	require.Equal(t, []string{"three.example/a:1", "quay.io/a:1"}, endpoints(t, r, "quay.io/a:1"))
	require.Empty(t, endpoints(t, r, "ghcr.io/a/b:1"))
	require.Contains(t, string(r.RegistriesConf()), "ubi")
}

func TestLoad_missingFile(t *testing.T) {
	for _, files := range []Files{{RegistriesConf: "/no/registries.conf"}, {MirrorSets: []string{"/no/idms.yaml"}},
		{CABundle: "/no/ca.pem"}} {
		_, err := Load(files)
		require.ErrorContains(t, err, "/no/")
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestLoad_fileWithoutRules(t *testing.T) {
	directory := t.TempDir()
	for name, content := range map[string]string{
		"empty.yaml":     "",
		"configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"imageset.yaml":  "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n",
		"nolist.yaml": "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: a}\n" +
			"spec: {imageDigestMirrors: []}\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(directory, name)
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			_, err := Load(Files{MirrorSets: []string{path}})
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "contains no mirror rules; expected an ImageDigestMirrorSet")
		})
	}
	t.Run("a directory of other objects", func(t *testing.T) {
		_, err := Load(Files{MirrorSets: []string{directory}})
		require.ErrorContains(t, err, "contains no mirror rules")
	})
	t.Run("a catalog only", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "catalog.yaml")
		require.NoError(t, os.WriteFile(path, []byte("apiVersion: operators.coreos.com/v1alpha1\n"+
			"kind: CatalogSource\nmetadata: {name: a, namespace: openshift-marketplace}\n"+
			"spec: {image: r.example/c:1}\n"), 0o600))
		_, err := Load(Files{MirrorSets: []string{path}})
		require.NoError(t, err)
	})
}

const mirrorSetsYAML = `---
# oc-mirror writes several documents
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  name: idms-release-0
spec:
  imageDigestMirrors:
  - source: quay.io/openshift-release-dev/ocp-release
    mirrors: [mirror.site.example:5000/openshift/release-images]
    mirrorSourcePolicy: NeverContactSource
  - source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
    mirrors: [mirror.site.example:5000/openshift/release]
status: {}
---
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index}
---
apiVersion: v1
kind: List
items:
- apiVersion: config.openshift.io/v1
  kind: ImageTagMirrorSet
  metadata: {name: itms-generic-0}
  spec:
    imageTagMirrors:
    - source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
      mirrors: [mirror.site.example:5000/tagged]
- apiVersion: operator.openshift.io/v1alpha1
  kind: ImageContentSourcePolicy
  metadata: {name: old}
  spec:
    repositoryDigestMirrors:
    - source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
      mirrors: [second.site.example/release]
---
imageDigestSources:
- source: registry.redhat.io/ubi9
  mirrors: [mirror.site.example:5000/ubi9]
`

func TestMirrorSets_tablesBySource(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "idms-oc-mirror.yaml"), []byte(mirrorSetsYAML), 0o600))
	r, err := Load(Files{MirrorSets: []string{dir}})
	require.NoError(t, err)
	for ref, want := range map[string][]string{
		"quay.io/openshift-release-dev/ocp-release@" + digest: {"mirror.site.example:5000/openshift/release-images@" +
			digest},
		"quay.io/openshift-release-dev/ocp-release:4.20": nil,
		"quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest: {"mirror.site.example:5000/openshift/release@" +
			digest,
			"second.site.example/release@" + digest, "quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest},
		"quay.io/openshift-release-dev/ocp-v4.0-art-dev:x": {"mirror.site.example:5000/tagged:x",
			"quay.io/openshift-release-dev/ocp-v4.0-art-dev:x"},
		"registry.redhat.io/ubi9/ubi@" + digest: {"mirror.site.example:5000/ubi9/ubi@" + digest,
			"registry.redhat.io/ubi9/ubi@" + digest},
	} {
		require.Equal(t, want, endpoints(t, r, ref), ref)
		require.Equal(t, want, endpoints(t, conf(t, string(r.RegistriesConf())), ref), "written and read again: %s",
			ref)
	}
	require.Equal(t, []ImageDigestSource{{Source: "quay.io/openshift-release-dev/ocp-release",
		NeverContactSource: true},
		{Source: "quay.io/openshift-release-dev/ocp-v4.0-art-dev",
			Mirrors: []string{"mirror.site.example:5000/tagged"}}}, r.ImageTagSources())
}

func TestParse_registriesConfWithMirrorSets(t *testing.T) {
	r, err := Parse(Sources{
		RegistriesConf: []Document{{"registries.conf",
			[]byte("[[registry]]\nlocation = \"quay.io/a\"\n[[registry.mirror]]\nlocation = \"one.example/a\"\n")}},
		MirrorSets: []Document{{"idms.yaml", []byte(`{"apiVersion":"config.openshift.io/v1","kind":"ImageDigestMirrorSet","metadata":{"name":"x"},
			"spec":{"imageDigestMirrors":[{"source":"quay.io/a","mirrors":["two.example/a"],"mirrorSourcePolicy":"NeverContactSource"}]}}`)}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"one.example/a/b@" + digest, "two.example/a/b@" + digest},
		endpoints(t, r, "quay.io/a/b@"+digest))
	ref, err := name.ParseReference("quay.io/a/b@" + digest)
	require.NoError(t, err)
	require.Contains(t, r.Endpoints(ref)[1].Rule, "registries.conf and ImageDigestMirrorSet x")
}

func TestMirrorSets_rejectedInput(t *testing.T) {
	idms := func(entry string) string {
		return "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: x}\nspec:\n  " +
			"imageDigestMirrors:\n  - " + entry + "\n"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":   {"a: [", "idms.yaml: is not YAML: line 1"},
		"no object": {"- a", "idms.yaml: line 1: is not a Kubernetes object"},
		"another version": {"apiVersion: config.openshift.io/v2\nkind: ImageDigestMirrorSet\n",
			`idms.yaml: line 1: apiVersion is "config.openshift.io/v2"; ImageDigestMirrorSet has config.openshift.io/v1`},
		"a set without its list": {"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: " +
			"{name: x}\nspec: {imageDigestMirrors: []}\n", `ImageTagMirrorSet "x" has no spec.imageTagMirrors`},
		"no list": {"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nspec: " +
			"{imageTagMirrors: abc}\n", "line 3: must be a list of entries with source and mirrors"},
		"an entry without source": {idms("mirrors: [a.example]"), "idms.yaml: line 6: source is missing"},
		"an entry of the wrong shape": {idms("{source: quay.io, mirrors: a.example}"),
			"line 6: must be an entry with source (a string) and mirrors (a list of strings)"},
		"a source with a scheme": {idms("source: https://quay.io"),
			`line 6: source "https://quay.io" begins with https://`},
		"a mirror with a digest": {idms("{source: quay.io, mirrors: ['a.example/x@" + digest + "']}"),
			"without a tag or digest"},
		"an unknown policy": {idms("{source: quay.io, mirrorSourcePolicy: Never}"),
			`mirrorSourcePolicy is "Never"; it must be AllowContactingSource or NeverContactSource`},
		"two policies for one source": {idms("{source: quay.io, mirrorSourcePolicy: NeverContactSource}\n  - " +
			"{source: quay.io, mirrorSourcePolicy: AllowContactingSource}"),
			`line 7: ImageDigestMirrorSet x sets AllowContactingSource for "quay.io", but ImageDigestMirrorSet x ` +
				"sets NeverContactSource; use the same policy in both"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Sources{MirrorSets: []Document{{"idms.yaml", []byte(tc.text)}}})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// authority is a CA of the tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign issues a server certificate for 127.0.0.1 with the given expiry.
func (a *authority) sign(t *testing.T, until time.Time) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "mirror"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: until, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestParseCABundle_eachCertificateOnce(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	messy := "# the site's root\n" + string(one.pem) + "\n\nsubject=two\n" + string(two.pem) + string(one.pem) +
		" \n# the end\n\n"
	got, err := ParseCABundle("ca.pem", []byte(messy))
	require.NoError(t, err)
	require.Equal(t, string(one.pem)+string(two.pem), string(got))
	windows, err := ParseCABundle("ca.pem", []byte(strings.ReplaceAll(messy, "\n", "\r\n")))
	require.NoError(t, err)
	require.Equal(t, got, windows)
}

func TestParseCABundle_rejectedInput(t *testing.T) {
	ca := newAuthority(t, "Site Root")
	_, leaf := ca.sign(t, time.Now().Add(time.Hour))
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"no PEM":        {[]byte("hello"), "ca.pem: has no certificate"},
		"an empty file": {nil, "ca.pem: has no certificate"},
		"a truncated certificate": {append(ca.pem[:len(ca.pem):len(ca.pem)], ca.pem[:90]...),
			fmt.Sprintf("ca.pem: line %d: the PEM block is cut off or damaged", strings.Count(string(ca.pem), "\n")+1)},
		"a private key": {pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")}),
			"ca.pem: PEM block 1: has the type EC PRIVATE KEY; a CA bundle may contain only certificates"},
		"garbage in PEM": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
			"PEM block 1: is not a certificate"},
		"a leaf": {append(ca.pem[:len(ca.pem):len(ca.pem)], leaf...),
			`ca.pem: PEM block 2: is the certificate of "CN=mirror", not of a CA; use the certificate of the CA that signed it (CN=Site Root)`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Sources{CABundle: []Document{{"ca.pem", tc.text}}})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestPullSecret_nearestEntry(t *testing.T) {
	s, err := ParsePullSecret(`{"auths":{
		"mirror.site.example:5000":{"auth":"` + b64("m:pass:with:colons") + `","email":"x@example.com"},
		"mirror.site.example:5000/team":{"auth":"` + strings.TrimRight(b64("team:tt"), "=") + `"},
		"https://index.docker.io/v1/":{"username":"hub","password":"h"},
		"helper.example":{}}}`)
	require.NoError(t, err)
	for target, want := range map[string]string{
		"mirror.site.example:5000/openshift/release": "m:pass:with:colons",
		"mirror.site.example:5000/team/app":          "team:tt",
		"mirror.site.example:5000/teamwork/app":      "m:pass:with:colons",
		"docker.io/library/busybox":                  "hub:h",
		"mirror.site.example/openshift/release":      ":",
		"helper.example/a":                           ":",
	} {
		repository, err := name.NewRepository(target)
		require.NoError(t, err)
		auth, err := s.Resolve(repository)
		require.NoError(t, err)
		config, err := authn.Authorization(t.Context(), auth)
		require.NoError(t, err)
		require.Equal(t, want, config.Username+":"+config.Password, target)
	}
	require.True(t, s.Has("mirror.site.example:5000"))
	require.False(t, s.Has("mirror.site.example"))
	require.NoError(t, s.Require("docker.io"))
	require.Equal(t, []string{"docker.io", "mirror.site.example:5000", "mirror.site.example:5000/team"}, s.Registries())
}

func TestPullSecret_requireNamesTheEntries(t *testing.T) {
	s, err := ParsePullSecret(`{"auths":{"quay.io":{"auth":"` + b64("u:secretword") + `"},"helper.example":{}}}`)
	require.NoError(t, err)
	err = s.Require("mirror.site.example:5000")
	require.EqualError(t, err,
		"the pull secret has no entry for mirror.site.example:5000 (it has quay.io): no credentials")
	require.ErrorIs(t, err, ErrNoCredentials)
	require.ErrorContains(t, s.Require("helper.example"), "entry for helper.example is empty")
	require.ErrorContains(t, (*PullSecret)(nil).Require("quay.io"), "it has no entries")
}

func TestPullSecret_printsNoSecrets(t *testing.T) {
	s, err := ParsePullSecret(`{"auths":{"quay.io":{"auth":"` + b64("u:secretword") + `"}}}`)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s), log.String()} {
		require.NotContains(t, text, "secretword")
		require.Contains(t, text, "quay.io")
	}
}

func TestParsePullSecret_rejectedInput(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                {"  ", "the pull secret is empty; it must look like"},
		"no JSON":                {"abc", "the pull secret is not JSON; it must look like"},
		"a list":                 {"[]", "the pull secret has a JSON array"},
		"no auths":               {`{"quay.io":{}}`, `the pull secret has no "auths"`},
		"auths of another shape": {`{"auths":{"quay.io":"secretword"}}`, "the pull secret has a JSON string"},
		"no base64": {`{"auths":{"quay.io":{"auth":"secretword!"}}}`,
			`entry for "quay.io": auth is not base64; it must be the base64 of user:password`},
		"no colon": {`{"auths":{"quay.io":{"auth":"` + b64("secretword") + `"}}}`,
			`entry for "quay.io": auth has no colon once decoded`},
		"an entry for nothing": {`{"auths":{"https://":{"auth":"` + b64("a:b") + `"}}}`,
			`which is not the name of a registry`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePullSecret(tc.text)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secretword")
		})
	}
}

func FuzzParsePullSecret(f *testing.F) {
	f.Add(`{"auths":{"quay.io":{"auth":"YTpi"}}}`)
	f.Add(`{"auths":{"https://a/v1/":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParsePullSecret(text); err == nil {
			for _, r := range s.Registries() {
				require.NoError(t, s.Require(r))
			}
		}
	})
}

// FuzzParse checks that accepted rules can be written and read again without a change.
func FuzzParse(f *testing.F) {
	f.Add(siteConf, mirrorSetsYAML)
	f.Add("[[registry]]\nprefix='*.a'\n", "kind: List\nitems: []")
	f.Fuzz(func(t *testing.T, toml, yaml string) {
		r, err := Parse(Sources{RegistriesConf: []Document{{"registries.conf", []byte(toml)}},
			MirrorSets: []Document{{"idms.yaml", []byte(yaml)}}})
		if err != nil {
			return
		}
		again, err := Parse(Sources{RegistriesConf: []Document{{"registries.conf", r.RegistriesConf()}}})
		require.NoError(t, err, "%s", r.RegistriesConf())
		require.Equal(t, string(r.RegistriesConf()), string(again.RegistriesConf()))
		require.Equal(t, r.ImageDigestSources(), again.ImageDigestSources())
	})
}

func FuzzParseCABundle(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := ParseCABundle("ca.pem", data); err == nil {
			again, err := ParseCABundle("ca.pem", out)
			require.NoError(t, err)
			require.Equal(t, out, again)
		}
	})
}
